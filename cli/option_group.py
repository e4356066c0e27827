"""Options that several commands take together, and get as one value."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any


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
