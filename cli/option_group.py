"""Groups options that several commands share, so that a command gets them as one value."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import field, fields
from typing import Any, Final

import click

OPTION: Final = "option"


def option(*words: str, **how: Any) -> Any:
    """Return a dataclass field whose value comes from a new option (see `click.option`)."""
    return field_given_by(click.option(*words, **how), how.get("default"))


def field_given_by(added: Any, default: Any = None) -> Any:
    """Return a dataclass field whose value comes from the existing option `added`."""
    return field(default=default, metadata={OPTION: added})


def options_of(kind: type[Any]) -> list[Any]:
    """Return the options of a dataclass's fields, in the order of the fields."""
    return [each.metadata[OPTION] for each in fields(kind) if OPTION in each.metadata]


def add_options(options: Sequence[Any]) -> Callable[[Any], Any]:
    """Return a decorator that adds the options to a command, in the given order."""
    return lambda command: functools.reduce(lambda so_far, add: add(so_far), options[::-1], command)


def option_group(
    name: str, kind: Callable[..., Any], options: Sequence[Any]
) -> Callable[[Any], Any]:
    """Return a decorator that adds the options to a command, in the given order.

    The command gets them as one value under `name`: a `kind`, whose parameters have the same names.
    """
    of_group = inspect.signature(kind).parameters

    def with_options(command: Any) -> Any:
        @functools.wraps(command)
        def call(**values: Any) -> Any:
            own = {field: values.pop(field) for field in of_group}
            return command(**{name: kind(**own)}, **values)

        return add_options(options)(call)

    return with_options
