"""What a join says, checked.

A join has two or more *sides*; the first is the one to which the others are related. A row holds
one event of each side, all of one key, which belong together:

* interval: each other event lies in [first + low, first + high];
* tumbling, sliding: all lie in one window. A row for each such window.

`outer` says what becomes of an event that has no partner. INNER: nothing. LEFT: one of the first
side has rows all the same, with null for each side on which it has none. FULL: the same, and one of
another side that has no first is alone.

All bounds are per query and partition:

* `max_events`: events that may still get a partner, or whose rows are not final. At the bound the
  oldest is given up: what it has is emitted as final, and it is counted.
* `max_rows`: new rows that one event may make. Beyond it the rest is not emitted, and an overflow
  says so: which rows are shown then depends on the order of arrival.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from topology.answer.quality import Quality
from topology.model.lengths import MAX_LENGTH_NS, fault_of
from topology.model.one_clock import STEADY, Play

MAX_SIDES: Final = 8
MAX_FIELDS: Final = 1_000

INTERVAL: Final = "interval"
TUMBLING: Final = "tumbling"
SLIDING: Final = "sliding"

INNER: Final = "inner"
LEFT: Final = "left"
FULL: Final = "full"

IGNORE: Final = "ignore"
EXPECTED: Final = "expected"
BOUNDS: Final = "bounds"


class BadJoin(ValueError):
    """The join cannot be run as it is written; the message says what to write instead."""


@dataclass(frozen=True, slots=True)
class Side:
    """`type` is empty where all types of the stream count; `key` leads into the payload."""

    alias: str
    stream: str
    type: str = ""
    key: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Field:
    """A value of the row: what `path` leads to in the payload of the side's event; all of the
    payload where it is empty. Null where nothing is there, or no such event."""

    name: str
    side: int
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JoinConfig:
    """`low_ns` and `high_ns` are the interval's, `size_ns` and `every_ns` the window's (`every_ns`
    of a tumbling window is its size). `uncertainty`: IGNORE takes reference times for true;
    EXPECTED emits the rows that hold by reference time and whether they are sure; BOUNDS also those
    that are merely possible. `quality`: None for no quality target (`topology.answer`).
    `newcomers_ns`: how far behind W a source that was not heard before may begin, on any of the
    streams. `only_final`: no row is emitted before it is final. `plays`: those of the clocks of its
    streams."""

    query: str
    sides: tuple[Side, ...]
    kind: str
    fields: tuple[Field, ...] = ()
    low_ns: int = 0
    high_ns: int = 0
    size_ns: int = 0
    every_ns: int = 0
    outer: str = INNER
    uncertainty: str = EXPECTED
    finals: bool = False
    correct_for_ns: int = 600 * 10**9
    newcomers_ns: int = 600 * 10**9
    only_final: bool = False
    max_events: int = 1_000_000
    max_rows: int = 1_000
    quality: Quality | None = None
    plays: tuple[Play, ...] = ()

    @property
    def play(self) -> Play:
        """The widest of its clocks."""
        return Play(*map(max, zip(STEADY, *self.plays, strict=True)))

    @property
    def heeds_errors(self) -> bool:
        return self.uncertainty != IGNORE

    @property
    def fingerprint(self) -> bytes:
        """Equal for joins whose rows are the same."""
        sides = [(s.alias, s.stream, s.type, s.key) for s in self.sides]
        what = (self.kind, self.low_ns, self.high_ns, self.size_ns, self.every_ns, self.outer)
        fields = [(f.name, f.side, f.path) for f in self.fields]
        return repr((self.query, sides, what, fields, self.uncertainty)).encode()


def check(config: JoinConfig) -> None:
    """Refuse what cannot work; BadJoin names the query and the remedy."""
    fault = _of_sides(config) or _of_lengths(config) or _of_bounds(config)
    if fault:
        raise BadJoin(f"query {config.query!r}: {fault}")


def _of_sides(config: JoinConfig) -> str:
    if not 2 <= len(config.sides) <= MAX_SIDES:
        return f"a join has 2 to {MAX_SIDES} sides, not {len(config.sides)}"
    if len({side.alias for side in config.sides}) < len(config.sides):
        return "two sides have one name; call them differently"
    if len({side.key is None for side in config.sides}) > 1:
        return "some sides have a key and some have none; write one for each or for none"
    if len(config.fields) > MAX_FIELDS:
        return f"{len(config.fields)} values are too many; write at most {MAX_FIELDS}"
    if any(not 0 <= field.side < len(config.sides) for field in config.fields):
        return "a value is of a side that is not there"
    return ""


def _of_lengths(config: JoinConfig) -> str:
    if config.kind == INTERVAL:
        if config.low_ns > config.high_ns:
            return "the interval ends before it begins; write the smaller bound first"
        if max(-config.low_ns, config.high_ns) > MAX_LENGTH_NS:
            return "the interval reaches further than 100 years; write a shorter one"
        return ""
    return fault_of(config.size_ns, config.every_ns)


def _of_bounds(config: JoinConfig) -> str:
    for bound in ("max_events", "max_rows"):
        if getattr(config, bound) < 1:
            return f"{bound} is {getattr(config, bound)}; write at least 1"
    if min(config.correct_for_ns, config.newcomers_ns) < 0:
        return "correct_for and newcomers are not below 0"
    return config.quality.fault() if config.quality is not None else ""
