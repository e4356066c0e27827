"""A recording that cannot be read ends a command by an exit code of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from agents.exits import Exit
from recordings.file import InputError


class Unreadable(click.ClickException):
    """A recording cannot be read."""

    exit_code = Exit.UNREADABLE


@contextmanager
def readable() -> Iterator[None]:
    """Raises Unreadable if a recording that is read within cannot be read."""
    try:
        yield
    except InputError as error:
        raise Unreadable(str(error)) from None
