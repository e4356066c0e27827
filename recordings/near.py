"""Name the column or field that was probably meant by a name that a file does not have."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from topology.records.values import count_steps_found, follow_path, lacking
from topology.records.where import Where

MAX_NAMES: Final = 200
"""The maximum number of names of a record that are compared."""


@lru_cache(maxsize=256)
def near_name(name: str, names: tuple[str, ...]) -> str | None:
    """Return the one of the names that was probably meant by `name`, or None."""
    # Most files have all names, so that this import is seldom needed.
    from topology.spelling.problem import find_nearest

    return find_nearest(name, names[:MAX_NAMES])


def suggest_column(missing: Iterable[str], names: Iterable[str]) -> str:
    """Return a remedy for missing columns: what was probably meant, or to name another one."""
    known = tuple(names)
    for name in missing:
        inside = name.partition(".")[0]
        if inside != name and inside in known:
            return f"for a field in `{inside}` write payload.{name}"
        if (near := near_name(name, known)) is not None:
            return f"did you mean `{near}`?"
    return "name one of these"


def describe_missing(value: object, where: Where) -> str:
    """Describe where the path to a missing field breaks off, and what was probably meant.

    It is `topology.records.values.lacking` for rows of files, in which people misspell names.
    """
    text = lacking(value, where)
    path = where.path
    steps = count_steps_found(value, path)
    within, name = follow_path(value, path[:steps]), path[steps]
    if not isinstance(within, dict) or not isinstance(name, str):
        return text
    if "." in name and follow_path(within, tuple(name.split("."))) is not None:
        return f"{text} (write {Where(where.place, path[:steps])}.{name})"
    near = near_name(name, tuple(map(str, within)))
    return text if near is None else f"{text} (did you mean `{near}`?)"
