"""What `inorder demo` publishes: a recording, played with trouble on its way."""
