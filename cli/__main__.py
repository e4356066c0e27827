"""`python -m cli` is `inorder`."""

from cli.main import main

main(prog_name="inorder")
