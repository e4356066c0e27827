"""What a join asks for: `topology.config` reads and checks it.

A join has two or more *sides*; the first is the one to which the others are related. A row holds
one event of each side, all of one key, which belong together:

* interval: each other event lies in [first + low, first + high];
* tumbling, sliding: all lie in one window. A row for each such window.

`outer` decides what becomes of an event that has no partner. INNER: nothing. LEFT: one of the first
side has rows all the same, with null for each side on which it has none. FULL: the same, and one of
another side that has no first is alone.

All bounds are per query and partition:

* `max_events`: events that may still get a partner, or whose rows are not final. At the bound the
  oldest is given up: what it has is emitted as final, and it is counted.
* `max_rows`: new rows that one event may make. Beyond it the rest is not emitted, and an overflow
  reports it: which rows are shown then depends on the order of arrival.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from topology.answer.quality import Answering
from topology.model.one_clock import STEADY, Play

JoinKind = Literal["interval", "tumbling", "sliding"]
Outer = Literal["inner", "left", "full"]

INTERVAL: Final = "interval"

INNER: Final = "inner"
LEFT: Final = "left"
FULL: Final = "full"

IGNORE: Final = "ignore"
EXPECTED: Final = "expected"
BOUNDS: Final = "bounds"


class JoinCondition(NamedTuple):
    """When events belong together. `low_ns` and `high_ns`: how long after the first side's the
    others are; `every_ns` of a tumbling window is its size."""

    kind: JoinKind
    low_ns: int = 0
    high_ns: int = 0
    size_ns: int = 0
    every_ns: int = 0


class JoinedValue(NamedTuple):
    """`path` begins with `payload`."""

    side: str
    path: tuple[str, ...]


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
class JoinConfig(Answering):
    """`low_ns` and `high_ns` are the interval's, `size_ns` and `every_ns` the window's (`every_ns`
    of a tumbling window is its size). `uncertainty`: IGNORE takes reference times for true;
    EXPECTED emits the rows that hold by reference time and whether they are sure; BOUNDS also those
    that are merely possible. `new_source_allowance_ns`: the largest of the streams. `plays`:
    those of the clocks of its streams."""

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
    max_events: int = 1_000_000
    max_rows: int = 1_000
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
