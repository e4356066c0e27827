"""An unreadable recording ends a command with an exit code of its own."""

from __future__ import annotations

from functools import partial

import click

from agents.exits import Exit
from cli.topology_file import ending
from recordings.file import InputError


class Unreadable(click.ClickException):
    """A recording cannot be read."""

    exit_code = Exit.UNREADABLE


readable = partial(ending, Unreadable, InputError)
"""Ends the command with `Unreadable` if the body cannot read a recording."""
