"""Whether the words that a container is given are those of the command line."""

from __future__ import annotations

from collections.abc import Sequence

import click


def assert_known(words: Sequence[str]) -> None:
    """A command that there is, and none but its options and arguments."""
    from cli.main import main

    command: click.Command = main
    while isinstance(command, click.Group):
        word, *words = words
        found = command.get_command(click.Context(command), word)
        assert found is not None, f"inorder has no command {word}"
        command = found
    known = {option for parameter in command.params for option in parameter.opts}
    options = [word for word in words if word.startswith("-")]
    assert {word.split("=")[0] for word in options} <= known
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    assert len(words) - len(options) <= len(arguments)
