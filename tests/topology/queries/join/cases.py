"""Joins in many settings, with the streams that the laws run them on."""

from __future__ import annotations

from typing import Any, Final

from tests.kit.events import copies
from tests.kit.queries import Field, Side, join_query, quality_of
from tests.laws.cases import Case
from tests.laws.streams import MS, numbered
from tests.laws.streams_between import marked, merged
from topology.base.event import WATERMARK, Event, copy_event
from topology.queries.join.operator import Join
from topology.queries.join.queries import JoinQueries
from topology.queries.join.settings import JoinQuery

KEY: Final = ("key",)
EVEN: Final = Side("a", "even", key=KEY)
ODD: Final = Side("b", "odd", key=KEY)
AGAIN: Final = Side("c", "even", key=KEY)

INTERVAL: Final[dict[str, Any]] = {"kind": "interval", "low_ns": -2 * MS, "high_ns": 5 * MS}
AS_OF: Final[dict[str, Any]] = {"kind": "as_of", "size_ns": 6 * MS}
TUMBLING: Final[dict[str, Any]] = {"kind": "tumbling", "size_ns": 8 * MS, "every_ns": 8 * MS}
SLIDING: Final[dict[str, Any]] = {"kind": "sliding", "size_ns": 9 * MS, "every_ns": 4 * MS}
PROMISE: Final[dict[str, Any]] = {"quality": quality_of(700_000, 40 * MS, idle_ns=90 * MS)}


def streams(seed: int) -> list[Event]:
    """Return the sources of `merged` as two streams, each with all watermarks."""
    return _parted(copies(merged(seed)))


def unmerged(seed: int) -> list[Event]:
    return _parted(copies(marked(seed)))


def _parted(events: list[Event]) -> list[Event]:
    parted: list[Event] = []
    for event in events:
        parted.append(event)
        event.stream = "even" if event.source in ("s0", "s2") else "odd"
        if event.kind == WATERMARK:
            parted.append(copy_event(event))
            parted[-1].stream = "even"
    return numbered(parted)


def _config(query: str, *sides: Side, **settings: Any) -> JoinQuery:
    fields = tuple(Field(side.alias, number, ("v",)) for number, side in enumerate(sides))
    correct_for = {"changes_for_ns": 100 * MS, "new_source_allowance_ns": 30 * MS}
    return join_query(query, sides, fields=fields, **{**correct_for, **settings})


def _case(name: str, *configs: JoinQuery, ordered: bool = True, max_held: int = 1 << 62) -> Case:
    return Case(
        f"join, {name}",
        lambda: JoinQueries([Join(config, ordered=ordered) for config in configs]),
        streams if ordered else unmerged,
        replays=False,
        reorders=False,
        max_held=max_held,
    )


def _one(name: str, *sides: Side, ordered: bool = True, **settings: Any) -> Case:
    max_held = settings.get("max_events", 1 << 62)
    return _case(name, _config("q", *sides, **settings), ordered=ordered, max_held=max_held)


JOINS: Final = [
    _one("inner", EVEN, ODD, **INTERVAL),
    _one("left, finals", EVEN, ODD, outer="left", finals=True, **INTERVAL),
    _one("full, errors ignored", ODD, EVEN, outer="full", uncertainty="ignore", **INTERVAL),
    _one("full, bounds", EVEN, ODD, outer="full", uncertainty="bounds", **INTERVAL),
    _one("three sides, inner", EVEN, ODD, AGAIN, **INTERVAL),
    _one("three sides, full", EVEN, ODD, AGAIN, outer="full", finals=True, **INTERVAL),
    _one("tumbling, left", EVEN, ODD, outer="left", **TUMBLING),
    _one("sliding, full, bounds", EVEN, ODD, outer="full", uncertainty="bounds", **SLIDING),
    _one("sliding, three sides", EVEN, ODD, AGAIN, outer="left", finals=True, **SLIDING),
    _one("as of", EVEN, ODD, finals=True, **AS_OF),
    _one("as of, left, unmerged", ODD, EVEN, outer="left", ordered=False, **AS_OF),
    _one("as of, few events", EVEN, ODD, outer="left", max_events=5, **AS_OF),
    _one("few events", EVEN, ODD, outer="full", max_events=4, finals=True, **INTERVAL),
    _one("few events, windows", EVEN, ODD, AGAIN, outer="full", max_events=7, **SLIDING),
    _one("few events, three sides", EVEN, ODD, AGAIN, outer="left", max_events=6, **INTERVAL),
    _one("few rows", EVEN, ODD, AGAIN, outer="full", max_rows=2, **TUMBLING),
    _one("short memory", EVEN, ODD, outer="full", changes_for_ns=2 * MS, **INTERVAL),
    _one("promised", EVEN, ODD, outer="left", finals=True, **INTERVAL, **PROMISE),
    _one("promised, unmerged", EVEN, ODD, outer="full", ordered=False, **TUMBLING, **PROMISE),
    _case(
        "several",
        _config("newest", EVEN, AGAIN, outer="left", finals=True, **AS_OF),
        _config("inner", EVEN, ODD, max_events=5, **INTERVAL),
        _config("full", ODD, AGAIN, outer="full", finals=True, changes_for_ns=MS, **SLIDING),
        _config("self", EVEN, AGAIN, outer="left", uncertainty="ignore", **TUMBLING),
    ),
    _case(
        "several, unmerged",
        _config("short", EVEN, ODD, outer="full", changes_for_ns=0, **INTERVAL, **PROMISE),
        _config("long", ODD, EVEN, outer="full", **SLIDING, **PROMISE),
        ordered=False,
    ),
]
