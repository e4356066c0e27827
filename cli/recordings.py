"""Ends a command with a separate exit code if a recording cannot be read."""

from __future__ import annotations

from functools import partial

import click

from agents.exits import Exit
from cli.topology_file import end_command
from recordings.file import InputError


class Unreadable(click.ClickException):
    """The error of a recording that cannot be read."""

    exit_code = Exit.UNREADABLE


readable = partial(end_command, Unreadable, InputError)
"""A context that ends the command with `Unreadable` if its body cannot read a recording."""
