"""Where streams meet, for the joins of a stage: one meeting for those that joins bring together.

The chains stay apart; what passes their taps comes here, in the order of `at_ns`, up to the time
up to which all have spoken. Behind the ordered topic that is the order of the log: streams that
meet lie in one partition, and one merge has written them in the order of `at_ns`.

The joins stand at a place of their own behind all chains, so that an event they hold is known
as theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from topology.flow.join_input import Tap
from topology.join.config import Field, JoinConfig, Side
from topology.join.operator import Join
from topology.join.several import SeveralJoins
from topology.model.event import Event
from topology.model.operator import Changes, Figures, State
from topology.model.ramp import is_ramp, side_by_side
from topology.model.result import Finding
from topology.query.quality import quality_of
from topology.window.config import path_of

JOIN_PLACE: Final = 1_000
"""`Event.held_by` of what the joins hold; no chain is so long."""


class Meeting:
    """`taps` by stream, of those that meet here and no others. `keeps_log_order`: the input is an
    ordered topic."""

    def __init__(
        self, joins: Sequence[Join], taps: Mapping[str, Tap], *, keeps_log_order: bool
    ) -> None:
        self._joins = SeveralJoins(joins, JOIN_PLACE)
        self._taps = list(taps.values())
        self.streams = sorted(taps)
        self._keeps_log_order = keeps_log_order

    def pass_on(self) -> list[Finding]:
        """What has come by the taps since this was last called."""
        events, now_ns = self._come()
        found: list[Finding] = []
        if any(map(is_ramp, events)):
            for ramps, between in side_by_side(events):
                if ramps:
                    found += self._joins.climb(ramps)
                if between:
                    found += self._joins.on_batch(between, between[-1].at_ns).results
            events = []
        return found + self._joins.on_batch(events, now_ns).results

    def on_time(self) -> list[Finding]:
        found = self.pass_on()
        return found + self._joins.on_time(self._spoken_ns()).results

    def on_end(self) -> list[Finding]:
        found = self.pass_on()
        return found + self._joins.on_end(self._spoken_ns()).results

    def _come(self) -> tuple[list[Event], int]:
        events: list[Event] = []
        for tap in self._taps:
            events += tap.take()
        if self._keeps_log_order:
            events.sort(key=_offset)
            return events, events[-1].at_ns if events else self._spoken_ns()
        events.sort(key=_at_ns)
        return events, self._spoken_ns()

    def _spoken_ns(self) -> int:
        heard = (tap.now_ns for tap in self._taps)
        return max(heard) if self._keeps_log_order else min(heard)

    def next_deadline_ns(self) -> int | None:
        return self._joins.next_deadline_ns()

    def let_go(self) -> list[Event]:
        return self._joins.let_go()

    def figures(self, stream: str) -> Figures:
        """They are those of all joins, and told once: with the first stream."""
        if stream != self.streams[0]:
            return {}
        return {f"join_{name}": value for name, value in self._joins.figures().items()}

    def explain(self) -> dict[str, Any]:
        return self._joins.explain()

    def snapshot(self) -> State:
        return self._joins.snapshot()

    def changes(self) -> Changes:
        return self._joins.changes()

    def held(self) -> Iterable[Event]:
        return self._joins.held()

    def restore(self, state: Mapping[str, Any], held: Iterable[Event]) -> None:
        self._joins.restore(state, held)


def meetings(topology: Any, taps: Mapping[str, Tap], *, keeps_log_order: bool) -> list[Meeting]:
    """`taps`: of all streams that can occur. Streams that no join brings together meet nowhere."""
    places: dict[str, list[Join]] = {}
    for name, query in topology.queries.items():
        if query.join is None:
            continue
        config = config_of(topology, name, query)
        if {side.stream for side in config.sides} <= taps.keys():
            place = topology.meeting_of(config.sides[0].stream)
            join = Join(config, ordered=topology.joins_read == "ordered")
            places.setdefault(place, []).append(join)
    return [
        Meeting(
            joins,
            {stream: tap for stream, tap in taps.items() if topology.meeting_of(stream) == place},
            keeps_log_order=keeps_log_order,
        )
        for place, joins in places.items()
    ]


def config_of(topology: Any, name: str, query: Any) -> JoinConfig:
    """`query` is a `topology.config.QueryConfig` with a join."""
    only = next(iter(topology.streams))
    sides = tuple(
        Side(alias, side.stream or only, side.type or "", _path(side.key or query.key))
        for alias, side in query.sides.items()
    )
    aliases = list(query.sides)
    values = query.values or {}
    streams = [topology.streams[side.stream] for side in sides]
    return JoinConfig(
        query=name,
        sides=sides,
        fields=tuple(
            Field(value_name, aliases.index(value.side), path_of(value.path))
            for value_name, value in values.items()
        ),
        **query.join._asdict(),
        outer=query.outer or "inner",
        uncertainty=query.uncertainty or "expected",
        finals=query.finals,
        correct_for_ns=topology.corrects_for_ns(query),
        newcomers_ns=max(topology.newcomers_ns(side.stream) for side in sides),
        max_events=query.max_events,
        max_rows=query.max_rows,
        quality=quality_of(query.quality, streams),
    )


def _path(key: str | None) -> tuple[str, ...] | None:
    return None if key is None else path_of(tuple(key.split(".")))


def _at_ns(event: Event) -> int:
    return event.at_ns


def _offset(event: Event) -> int:
    return event.offset
