"""Defines the settings of a join.

A condition is written as `interval 2s` (within 2 s of each other), `interval -1s to 2s` (the time
after the first), `as_of 10s`, `tumbling 10s` or `sliding 10s every 2s`. Sides are names with
sections. Values are paths that begin with a side, like `shot.payload.speed`.

A join has two or more *sides*; the others are related to the first. A row has one event of each
side, all with one key, that belong together:

* interval: each other event is in [first + low, first + high];
* as_of: the other event is the newest one at or before the first, at most the size before it;
* tumbling, sliding: all are in one window. There is a row for each such window.

`outer` decides about events without a partner:

* INNER: they have no row.
* LEFT: an event of the first side still has rows, with null for each side without a partner.
* FULL: the same, and an event of another side without a partner on the first has its own row.

`uncertainty`: IGNORE takes corrected timestamps as exact. EXPECTED, the default, emits the rows
that hold by corrected timestamp, and whether they are certain. BOUNDS also emits rows that are
merely possible.

All bounds are per query and partition:

* `max_events`: events that may still get a partner, or whose rows are not final. At the bound the
  oldest is given up: its rows are emitted as final, and it is counted.
* `max_rows`: new rows that one event may make. Further rows are not emitted, and an overflow
  reports this. Then the order of arrival decides which rows are shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple

from pydantic import BeforeValidator, Field, ValidationInfo

from topology.answer.query.fields import KeyPath, strip_payload
from topology.answer.settings import (
    BOUNDS,
    EXPECTED,
    PLAIN,
    THESIS3,
    Computed,
    Key,
    KeyText,
    StreamName,
    key_path,
)
from topology.base.one_clock import STEADY, Play
from topology.base.paths import Names as Path
from topology.base.paths import guess_path, parse_payload_path
from topology.order.clock.settings import ClockConfig
from topology.spelling.kinds import Kinds
from topology.spelling.problem import Fault, format_value, make_refusal, suggest
from topology.spelling.section import Section, Unspelled
from topology.spelling.values import (
    Count,
    Given,
    Named,
    join_path,
    like,
    one_of,
    or_nothing,
    text,
    text_names,
)

JoinKind = Literal["interval", "as_of", "tumbling", "sliding"]
Outer = Literal["inner", "left", "full"]

INTERVAL: Final = "interval"
AS_OF: Final = "as_of"
TUMBLING: Final = "tumbling"

INNER: Final = "inner"
LEFT: Final = "left"
FULL: Final = "full"

MIN_SIDES: Final = 2
MAX_SIDES: Final = 8
MAX_VALUES: Final = 1_000
SIDES: Final = "sides: {a: {stream: one}, b: {stream: other}}"
VALUE: Final = "{speed: shot.payload.speed}"
_ALIAS: Final = r"[A-Za-z_][A-Za-z0-9_]{0,99}"
_VALUE: Final = re.compile(rf"({_ALIAS})\.(.+)", re.ASCII | re.DOTALL)


class JoinCondition(NamedTuple):
    """A condition under which events belong together.

    `low_ns` and `high_ns` bound the time from the first side's event to the others. The `every_ns`
    of a tumbling window is its size. The `size_ns` of an as-of join is how far back a partner may
    be.
    """

    kind: JoinKind
    low_ns: int = 0
    high_ns: int = 0
    size_ns: int = 0
    every_ns: int = 0

    @property
    def is_by_distance(self) -> bool:
        """Whether the distance of two events decides, and not their windows."""
        return self.kind in (INTERVAL, AS_OF)

    def __str__(self) -> str:
        own_step_ns = self.size_ns if self.kind == TUMBLING else 0
        related = self.kind == INTERVAL or self.low_ns or self.high_ns
        reach = f" {self.low_ns}ns to {self.high_ns}ns" if related else ""
        size = f" {self.size_ns}ns" if self.size_ns or not related else ""
        step = f" every {self.every_ns}ns" if self.every_ns not in (0, own_step_ns) else ""
        return f"{self.kind}{reach}{size}{step}"


class JoinedValue(NamedTuple):
    """A value of a row; its `path` begins with `payload`."""

    side: str
    path: Path

    def __str__(self) -> str:
        return f"{self.side}.{join_path(self.path)}"


class SideConfig(Section):
    """One side of a join.

    `stream` may be left out if there is only one. `type` restricts the side to events of that type.
    `key` is for a key with another path than on the other sides.
    """

    stream: StreamName | None = None
    """The stream of this side. Name it if there are several."""
    type: Annotated[str, text(r".{1,249}", "a type of events", "name a type")] | None = None
    """The type of the events that take part. By default all do."""
    key: Key | None = None
    """The key of this side, if its path differs from that of the other sides."""


EXAMPLES: Final = (
    "interval 2s",
    "interval -1s to 2s",
    "as_of 10s",
    "tumbling 10s",
    "sliding 10s every 2s",
)
CONDITIONS: Final = Kinds(
    JoinCondition,
    "join",
    "a join by {}",
    (
        "interval low_ns to high_ns",
        "as_of size_ns",
        "tumbling size_ns",
        "sliding size_ns every every_ns",
    ),
    EXAMPLES,
)


def _parse_condition(value: Any, info: ValidationInfo) -> JoinCondition:
    match value.split() if isinstance(value, str) else value:
        case ["interval", reach]:
            value = f"interval -{reach} to {reach}"
    found: JoinCondition = CONDITIONS.read(value, info)
    return found._replace(every_ns=found.size_ns) if found.kind == TUMBLING else found


def _sides(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise make_refusal(f"{format_value(value)} is not a mapping", f"write {SIDES}")
    if not MIN_SIDES <= len(value) <= MAX_SIDES:
        message = f"a join has {MIN_SIDES} to {MAX_SIDES} sides, not {len(value)}"
        raise make_refusal(message, f"write {SIDES}")
    for alias in value:
        if not isinstance(alias, str) or re.fullmatch(_ALIAS, alias, re.ASCII) is None:
            remedy = "begin the name with a letter or _, then use letters, digits and _"
            raise make_refusal(f"{format_value(alias)} cannot be the name of a side", remedy)
    return value


def _parse_value(value: Any, _: ValidationInfo) -> JoinedValue:
    spelled = str(value) if isinstance(value, JoinedValue) else value
    found = _VALUE.fullmatch(spelled) if isinstance(spelled, str) else None
    path = None if found is None else parse_payload_path(found[2])
    if found is None or path is None:
        near = f", or {found[1]}.{guess_path(found[2])}" if found else ""
        remedy = f"write it like {VALUE}{near}"
        raise make_refusal(f"{format_value(spelled)} is not a value of a side", remedy)
    return JoinedValue(found[1], path)


Value = Annotated[
    JoinedValue,
    Given(_parse_value, {"type": "string"}, has_text=True, instead=f"write it like {VALUE}"),
]


Side = Annotated[SideConfig, or_nothing(SideConfig)]
Condition = Annotated[JoinCondition, like(_parse_condition, *EXAMPLES)]


class JoinQuery(Computed):
    """A join of streams; `clocks` has the clock settings of its streams."""

    kind: ClassVar = "join"

    join: Condition
    """The condition under which events belong together."""
    sides: Annotated[Mapping[str, Side], BeforeValidator(_sides)]
    """The sides of a join, by name."""
    outer: Annotated[Outer, one_of(Outer)] | None = None
    """Whether events without a partner have a row: none (`inner`), those of the first side
    (`left`), or all (`full`)."""
    values: Annotated[
        Mapping[str, Value], BeforeValidator(text_names), Named(VALUE, MAX_VALUES)
    ] = Field(default_factory=dict)
    """The names of a row's values, and paths that begin with a side."""
    max_events: Annotated[Count, Unspelled()] = 1_000_000
    """The largest number of events that the join buffers."""
    max_rows: Annotated[Count, Unspelled()] = 1_000
    """The largest number of rows that one event of a join may have."""
    clocks: Annotated[tuple[ClockConfig, ...], Unspelled()] = (ClockConfig.make_default(),)
    """How the clocks of its streams are trusted."""

    @property
    def aliases(self) -> list[str]:
        """The names of the sides."""
        return [*self.sides]

    @property
    def is_outer(self) -> bool:
        """Whether an event without a partner has a row."""
        return self.outer not in (None, INNER)

    @property
    def has_owners(self) -> bool:
        """Whether rows belong to an event, by which they are corrected."""
        return self.is_outer or self.join.kind == AS_OF

    @property
    def types(self) -> list[str]:
        """The type of each side's events, "" for all types."""
        return [side.type or "" for side in self.sides.values()]

    @property
    def streams(self) -> list[str]:
        """The stream of each side, "" for the only one."""
        return [side.stream or "" for side in self.sides.values()]

    @property
    def key_paths(self) -> list[KeyPath | None]:
        """The path of each side's key, in its payload."""
        return [key_path(side.key or self.key) for side in self.sides.values()]

    @property
    def fields(self) -> list[tuple[str, int, Path]]:
        """The name of each value, the index of its side, and its path in the payload."""
        aliases = self.aliases
        return [
            (name, aliases.index(value.side), strip_payload(value.path))
            for name, value in self.values.items()
        ]

    @property
    def play(self) -> Play:
        """The largest play of the clocks of the join's streams."""
        return Play(*map(max, zip(STEADY, *(clock.play for clock in self.clocks), strict=True)))

    def fingerprint(self) -> bytes:
        """Return bytes that are equal for joins that make the same rows."""
        sides = [*zip(self.aliases, self.streams, self.types, self.key_paths, strict=True)]
        what = (*self.join, self.outer or INNER)
        whole = (self.name, sides, what, self.fields, self.uncertainty or EXPECTED)
        return repr(whole).encode()

    def faults(self) -> Iterator[Fault]:
        yield from super().faults()
        for name, value in self.values.items():
            if value.side not in self.sides:
                message = f"there is no side `{value.side}`"
                yield Fault(("values", name), message, suggest(value.side, self.aliases))
        keys = {alias: side.key or self.key for alias, side in self.sides.items()}
        unkeyed = [alias for alias, key in keys.items() if not key]
        if unkeyed and len(unkeyed) < len(keys):
            remedy = "write key: payload.x, or one for all sides"
            message = "has no key, but other sides have one"
            yield Fault(("sides", unkeyed[0]), message, remedy)
        if not unkeyed and len(set(map(_parts, keys.values()))) > 1:
            message = "has keys with different numbers of values, which are never equal"
            yield Fault(("sides",), message, "write as many paths for each side")
        if self.join.kind == AS_OF:
            yield from self._as_of_faults()
        if self.uncertainty in (PLAIN, THESIS3):
            message = f"{self.uncertainty} is for aggregates only"
            yield Fault(("uncertainty",), message, "write ignore, expected or bounds")

    def _as_of_faults(self) -> Iterator[Fault]:
        if len(self.sides) > MIN_SIDES:
            message = "an as-of join has two sides: the events, and those that are newest for them"
            yield Fault(("sides",), message, "write a query for each further side")
        if self.outer == FULL:
            message = "full is not for an as-of join, in which an event may be the newest for many"
            yield Fault(("outer",), message, "write inner or left")
        if self.uncertainty == BOUNDS:
            message = "bounds is not for an as-of join, which has one row for each event"
            yield Fault(("uncertainty",), message, "write ignore or expected")


def _parts(key: KeyText | None) -> int:
    """Return the number of values of a key that is a list, and 0 for any other key."""
    return len(key) if isinstance(key, tuple) else 0
