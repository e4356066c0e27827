"""All queries of one place as one operator of the stage.

The state of each is kept under its name and what it computes: one that was changed begins anew,
amid the stream (`topology.query.beginning`), and what is kept of one that is no more goes with the
next changes. Results of one instant stand in the order of the queries.

Watermarks of a quiet stream come as ramps (`topology.model.ramp`): each query gets those beats at
which any of them decides something.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, Generic, TypeVar

from topology.model.composite import SEPARATOR, Composite, CompositePart
from topology.model.event import DATA, Event, at_ns
from topology.model.instant import InstantOperator
from topology.model.kept import packed, unpacked
from topology.model.native import mypyc_attr
from topology.model.operator import Changes, Figures, Plain, State
from topology.model.outcome import Step
from topology.model.ramp import climb, pieces, side_by_side
from topology.model.result import Finding
from topology.query.beginning import ALWAYS, QueryBeginning, begin_amid

KNOWN_BY_BYTES: Final = 8

NEWEST: Final = "newest"
"""The key of the newest instant that was passed before MERGE. Keys of queries hold a SEPARATOR."""

WORST: Final[Mapping[str, Any]] = {
    "target_ppm": max,
    "achieved_ppm": min,
    "wait_mean_ns": max,
    "wait_max_ns": max,
    "late_ppm": max,
    "wait_ns": max,
    "wait_share_ppm": max,
    "lead_ns": max,
}
"""Figures that are not added up: of several queries the worst one; of `lead_ns`, which
is 0 where nothing is read ahead, that one which wins most."""


@mypyc_attr(allow_interpreted_subclasses=True)
class QueryOperator(InstantOperator):
    """One query as an operator. `known_by`: its name and what it computes. `beginnings`: since when
    it counts, by stream, where that is heeded; one that is restored without a state of its own
    begins amid the stream. `is_ordered`: its events come behind MERGE."""

    def __init__(self, name: str, fingerprint: bytes) -> None:
        """`fingerprint`: equal for queries whose results are the same."""
        super().__init__()
        self.name = name
        digest = blake2b(fingerprint, digest_size=KNOWN_BY_BYTES).hexdigest()
        self.known_by = f"{digest}@{name}"
        self.beginnings: list[QueryBeginning] = []
        self.is_ordered = True

    def restoring(self, state: Mapping[str, Plain], held: Sequence[Event]) -> Iterator[int]:
        if not self._kept.is_in(state):
            begin_amid(self.beginnings)
        yield from super().restoring(state, held)

    def is_due(self, watermarks: Sequence[Event]) -> bool:
        """Whether these, of one instant, would decide something (`topology.model.ramp`)."""
        raise NotImplementedError


Q = TypeVar("Q", bound=QueryOperator)


@mypyc_attr(allow_interpreted_subclasses=True)
class Queries(Composite, Generic[Q]):
    """`queries` in the order in which their results stand."""

    def __init__(self, queries: Sequence[Q]) -> None:
        super().__init__(
            [CompositePart(query.name, query, f"{query.known_by}{SEPARATOR}") for query in queries]
        )
        self._queries = list(queries)
        self._runners: list[InstantOperator] = [*self._queries]
        """What is run: each query by itself, unless some hang together."""
        self._is_ordered = all(query.is_ordered for query in queries)
        self._newest_ns = ALWAYS
        """Before MERGE: no event that has come may lie after it."""

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        step = Step(now_ns, list(events))
        for piece, until_ns in pieces(events, now_ns, self.is_due):
            step.results += self._found(piece, until_ns)
        if len(self._queries) > 1:  # each emits its own in their order
            step.results.sort(key=at_ns)
        return self._finish(step)

    def _finish(self, step: Step) -> Step:
        """Add what is no result."""
        return step

    def _found(self, events: Sequence[Event], now_ns: int) -> list[Finding]:
        if not self._is_ordered:
            ends = [each.ref_time_ns + each.error_ns for each in events if each.kind == DATA]
            self._newest_ns = max([self._newest_ns, *ends])
        return [found for each in self._runners for found in each.on_batch(events, now_ns).results]

    def is_due(self, watermarks: Sequence[Event]) -> bool:
        return any(query.is_due(watermarks) for query in self._queries)

    def on_time(self, now_ns: int) -> Step:
        found = [finding for each in self._runners for finding in each.on_time(now_ns).results]
        return self._finish(Step(now_ns, results=sorted(found, key=at_ns)))

    def on_end(self, now_ns: int) -> Step:
        step = self.on_time(now_ns)  # of the open instant, each in its turn
        ends = [finding for each in self._runners for finding in each.on_end(now_ns).results]
        step.results += sorted(ends, key=at_ns)
        return self._finish(step)

    def next_deadline_ns(self) -> int | None:
        due = [each.next_deadline_ns() for each in self._runners]
        return min((ns for ns in due if ns is not None), default=None)

    def figures(self) -> Figures:
        """Those of all queries together, or of the worst (`worst`)."""
        return worst(query.figures() for query in self._queries)

    # -- state -------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        return super().snapshot() | self._passed()

    def changes(self) -> Changes:
        return super().changes() | self._passed()

    def _passed(self) -> State:
        return {} if self._newest_ns == ALWAYS else {NEWEST: packed(self._newest_ns)}

    def restoring(self, state: Mapping[str, Plain], held: Sequence[Event]) -> Iterator[int]:
        own = dict(state)
        if not self._is_ordered and NEWEST in own:
            self._newest_ns = unpacked(own.pop(NEWEST))
        yield from super().restoring(own, held)
        if self._newest_ns != ALWAYS:
            for beginning in [each for query in self._queries for each in query.beginnings]:
                beginning.follow(self._newest_ns)


@mypyc_attr(allow_interpreted_subclasses=True)
class KeepingQuery(QueryOperator):
    """A query that keeps events. `kept` and `released`: those that it lately began to keep, and
    ceased to; once for each time that it keeps one."""

    def __init__(self, name: str, fingerprint: bytes) -> None:
        super().__init__(name, fingerprint)
        self.kept: list[Event] = []
        self.released: list[Event] = []


K = TypeVar("K", bound=KeepingQuery)


@mypyc_attr(allow_interpreted_subclasses=True)
class KeepingQueries(Queries[K]):
    """Queries that keep events beyond letting them pass. An event is held as long as one of them
    keeps it. `position`: their bit in `Event.held_by`."""

    keeps_passed = True

    def __init__(self, queries: Sequence[K], position: int) -> None:
        super().__init__(queries)
        self._position = position
        self._times: dict[Event, int] = {}
        """How often an event is kept."""
        self._freed: list[Event] = []
        """What none of them keeps any more, until a step takes it."""

    def _found(self, events: Sequence[Event], now_ns: int) -> list[Finding]:
        found = super()._found(events, now_ns)
        self._settle()
        return found

    def _settle(self) -> None:
        """Take note of what the queries have begun to keep, and of what they keep no more."""
        for query in self._queries:
            for event in query.kept:
                self._times[event] = self._times.get(event, 0) + 1
                event.held_by |= self._position
            query.kept.clear()
        for query in self._queries:
            for event in query.released:
                self._drop(event)
            query.released.clear()

    def _drop(self, event: Event) -> None:
        times = self._times.pop(event)
        if times > 1:
            self._times[event] = times - 1
            return
        event.held_by &= ~self._position
        self._freed.append(event)

    def _finish(self, step: Step) -> Step:
        self._settle()
        freed, self._freed = self._freed, []
        step.freed += freed
        return step

    def _climbed(self, events: Sequence[Event], step: Step) -> None:
        """Add the results of these events; the watermarks of several streams rise side by side."""
        for ramps, between in side_by_side(events):
            for watermarks in climb(ramps, self.is_due) if ramps else ():
                step.results += self._found(watermarks, watermarks[0].at_ns)
            if between:
                step.results += self._found(between, between[-1].at_ns)

    def held(self) -> Iterable[Event]:
        return list(self._times)

    def takers(self, event: Event) -> Sequence[CompositePart]:
        event.held_by &= ~self._position
        return self._parts

    def restoring(self, state: Mapping[str, Plain], held: Sequence[Event]) -> Iterator[int]:
        yield from super().restoring(state, held)
        self._settle()


def worst(figures: Iterable[Figures]) -> Figures:
    """Several queries' figures: sums, but what was promised and kept by the one which is
    worst (`WORST`)."""
    found: dict[str, list[int]] = {}
    for each in figures:
        for name, value in each.items():
            found.setdefault(name, []).append(value)
    return {name: WORST.get(name, sum)(values) for name, values in found.items()}
