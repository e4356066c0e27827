from inorder import pure as pure
