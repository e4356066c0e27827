"""What a decoder of values gives, and what a path finds in it.

A `Decode` makes of bytes dict, list, str, int, Decimal, float, bool, bytes, `Timestamp` or None
(and of None, a tombstone, None), and raises `ValueFault` for what it cannot read; no other
exception comes out of data. Who reads files may hand in what it has made of a row. A `Pick` gives
the values at some paths at once, None where nothing is; a format that can skip the rest of a value
makes a cheaper one (`Picking`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from topology.wire.where import Path, Where

Decode = Callable[[Any], object]
Pick = Callable[[Any], Sequence[object]]
Picking = Callable[[Sequence[Path]], Pick]


class ValueFault(Exception):
    """A value cannot be read. `reason`: a fixed word, as `value_undecodable` or `schema_unknown`;
    `detail`: what is wrong and what to do, without anything of the value itself."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


UNDECODABLE = "value_undecodable"


class Timestamp(NamedTuple):
    """A time that a format marks as one: ns since the epoch, whatever `ts_unit` is. `is_local`:
    of a clock whose time zone is not known, counted as if it were UTC."""

    ns: int
    is_local: bool = False


def walked(value: object, path: Path) -> object:
    """What the path leads to; None if it ends before, or at null."""
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


def lacking(value: object, where: Where) -> str:
    """Say where the way to a missing field ends: "`payload` has no `n`"."""
    path = where.path
    steps = next((n for n in range(len(path) - 1, 0, -1) if walked(value, path[:n]) is not None), 0)
    step = path[steps] if isinstance(path[steps], str) else [path[steps]]  # as it is spelled
    return f"`{Where(where.place, path[:steps])}` has no `{step}`"


def picking(decode: Decode, paths: Sequence[Path]) -> Pick:
    """A `Pick` by decoding the whole value."""

    def pick(value: Any) -> Sequence[object]:
        decoded = decode(value)
        return [walked(decoded, path) for path in paths]

    return pick
