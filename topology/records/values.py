"""Defines the interface of decoders of values, and follows paths into decoded values.

A `Decode` turns bytes into dict, list, str, int, Decimal, float, bool, bytes, `Timestamp` or None.
It returns None for None, which is a tombstone. It raises `ValueFault` for a value that it cannot
decode, and no other exception for any data. Its input may also be a value that a reader of files
has made from a row.

A `Pick` returns the values at several paths at once, and None for a path without a value. A
`Picking` makes a `Pick`, which is cheaper if the format can skip the other parts of a value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from topology.base.paths import Path
from topology.records.where import Where

Decode = Callable[[Any], object]
Pick = Callable[[Any], Sequence[object]]
Picking = Callable[[Sequence[Path]], Pick]


class ValueFault(Exception):
    """The error for a value that cannot be decoded.

    `reason` is a fixed word, such as `value_undecodable` or `schema_unknown`. `detail` describes
    the fault and the remedy, without any part of the value itself.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


UNDECODABLE = "value_undecodable"


class Timestamp(NamedTuple):
    """A value that its format declares to be a time, in ns since the epoch, whatever `ts_unit` is.

    `is_local` means that its time zone is unknown; `ns` is then computed as if it were UTC.
    """

    ns: int
    is_local: bool = False


def follow_path(value: object, path: Path) -> object:
    """Return the value at the path, or None if there is none or it is null."""
    for step in path:
        if isinstance(step, int):
            if not isinstance(value, list) or step >= len(value):
                return None
            value = value[step]
        elif isinstance(value, dict):
            value = value.get(step)
        else:
            return None
    return value


def count_steps_found(value: object, path: Path) -> int:
    """Return how many steps of the path to a missing field lead to a value."""
    return next(
        (n for n in range(len(path) - 1, 0, -1) if follow_path(value, path[:n]) is not None), 0
    )


def lacking(value: object, where: Where) -> str:
    """Describe where the path to a missing field breaks off, like "`payload` has no `n`"."""
    path = where.path
    steps = count_steps_found(value, path)
    within, shown = follow_path(value, path[:steps]), Where(where.place, path[:steps])
    if isinstance(within, list) and isinstance(path[steps], str):
        return f"`{shown}` is a list of {len(within)} values; write each as a record of its own"
    # An index is shown in brackets.
    step = path[steps] if isinstance(path[steps], str) else [path[steps]]
    return f"`{shown}` has no `{step}`"


def picking(decode: Decode, paths: Sequence[Path]) -> Pick:
    """Return a `Pick` that decodes the whole value and then follows each path."""

    def pick(value: Any) -> Sequence[object]:
        decoded = decode(value)
        return [follow_path(decoded, path) for path in paths]

    return pick
