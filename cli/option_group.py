"""Options that several commands take together, and get as one value."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import field, fields
from typing import Any, Final

import click

OPTION: Final = "option"


def option(*words: str, **how: Any) -> Any:
    """Return a field of a dataclass that gets its value from this option (see `click.option`)."""
    return given_by(click.option(*words, **how), how.get("default"))


def given_by(added: Any, default: Any = None) -> Any:
    """Return a field of a dataclass that gets its value from an option that there is."""
    return field(default=default, metadata={OPTION: added})


def options_of(kind: type[Any]) -> list[Any]:
    """Return the options of the fields of a dataclass, in their order."""
    return [each.metadata[OPTION] for each in fields(kind) if OPTION in each.metadata]


def together(options: Sequence[Any]) -> Callable[[Any], Any]:
    """Return what adds the options, in their order, to a command."""
    return lambda command: functools.reduce(lambda so_far, add: add(so_far), options[::-1], command)


def option_group(
    name: str, kind: Callable[..., Any], options: Sequence[Any]
) -> Callable[[Any], Any]:
    """Return what adds the options, in their order, to a command. It gets them as one value under
    `name`: a `kind`, whose parameters are theirs."""
    of_group = inspect.signature(kind).parameters

    def with_options(command: Any) -> Any:
        @functools.wraps(command)
        def called(**values: Any) -> Any:
            own = {field: values.pop(field) for field in of_group}
            return command(**{name: kind(**own)}, **values)

        return together(options)(called)

    return with_options
