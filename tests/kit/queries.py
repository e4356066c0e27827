"""Build queries for windows and joins in one line each, with paths into the payload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from topology.base.one_clock import STEADY, Play
from topology.base.operator import NEVER, State
from topology.config import (
    Aggregate,
    ClockConfig,
    JoinCondition,
    JoinedValue,
    QualityConfig,
    SideConfig,
    Window,
)
from topology.queries.join.operator import JOIN, QUERY
from topology.queries.join.settings import JoinQuery
from topology.queries.window.operator import WINDOWS
from topology.queries.window.settings import WindowQuery

Path = tuple[str, ...]

MINUTES_10_NS = 600 * 10**9
LATENESS = {"changes_for_ns": MINUTES_10_NS, "new_source_allowance_ns": MINUTES_10_NS}


class Output(NamedTuple):
    """An aggregate and its name."""

    name: str
    function: str
    path: Path = ()
    quantile_ppm: int = 0
    by: Path = ()


class Side(NamedTuple):
    """One side of a join."""

    alias: str
    stream: str
    type: str = ""
    key: Path | None = None


class Field(NamedTuple):
    """A value in a join's rows: its name, its side, and its path in the payload."""

    name: str
    side: int
    path: Path = ()


def window_query(
    name: str,
    kind: Any,
    outputs: Sequence[Output],
    size_ns: int = 0,
    every_ns: int = 0,
    *,
    events: int = 0,
    zone: str = "",
    key: Path | None = None,
    clock: Mapping[str, Any] | None = None,
    **settings: Any,
) -> WindowQuery:
    """Return the settings of a window query; `clock` is that of its stream."""
    if kind == "count":
        window = Window(kind, events=events)
    else:
        window = Window(kind, size_ns, every_ns if kind == "sliding" else 0, zone=zone)
    empty = {"empty": settings.pop("empty", None)}  # A file cannot fill that many windows.
    query = WindowQuery(
        name=name,
        window=window,
        aggregate={each.name: aggregate_of(each) for each in outputs},
        key=_spelled(key),
        clock=ClockConfig(**{"max_skew_ppb": 100_000, **(clock or {})}),
        **{**LATENESS, **settings},
    )
    return query.model_copy(update=empty)


def join_query(
    name: str,
    sides: Sequence[Side],
    kind: Any,
    *,
    low_ns: int = 0,
    high_ns: int = 0,
    size_ns: int = 0,
    every_ns: int = 0,
    fields: Sequence[Field] = (),
    plays: Sequence[Play] = (STEADY,),
    **settings: Any,
) -> JoinQuery:
    """Return the settings of a join; `plays` gives its streams' clocks, however bad.

    The bounds of an interval apply only to that kind, and so does the size of windows.
    """
    condition = JoinCondition(kind, size_ns=size_ns, every_ns=every_ns)
    if kind == "interval":
        condition = JoinCondition(kind, low_ns, high_ns)
    clocks = [
        {"max_skew_ppb": play.skew_ppm * 1_000, "granularity_ns": play.granularity_ns}
        for play in plays
    ]
    query = JoinQuery(
        name=name,
        join=condition,
        sides={
            side.alias: SideConfig(
                stream=side.stream, type=side.type or None, key=_spelled(side.key)
            )
            for side in sides
        },
        values={
            each.name: JoinedValue(sides[each.side].alias, ("payload", *each.path))
            for each in fields
        },
        **{**LATENESS, **settings},
    )
    made = tuple(ClockConfig.make_default().model_copy(update=clock) for clock in clocks)
    return query.model_copy(update={"clocks": made})


def aggregate_of(output: Output) -> Aggregate:
    if output.function == "count":
        return Aggregate("count")
    quantile_ppm = output.quantile_ppm if output.function == "quantile" else 0
    by = ("payload", *output.by) if output.by else ()
    return Aggregate(output.function, ("payload", *output.path), quantile_ppm, by)


def _spelled(key: Path | None) -> str | None:
    return None if key is None else ".".join(("payload", *key))


def quality_of(accuracy_ppm: int, max_wait_ns: int, idle_ns: int = NEVER) -> QualityConfig:
    """Return a quality target."""
    return QualityConfig(accuracy_ppm=accuracy_ppm, max_wait_ns=max_wait_ns, idle_ns=idle_ns)


def beginnings_in(state: State, query: str = "") -> list[Any]:
    """Return the starts of windows and joins that started in the middle of their streams."""
    assert WINDOWS.fields[-1] == JOIN.fields[-1] == "beginnings"
    rows = [row for key, row in state.items() if f"\n{key}".endswith(f"{query}\n{QUERY}")]
    return [row[-1] for row in rows if row[-1]]
