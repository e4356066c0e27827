"""Runs all queries of one kind in a stage as a single operator.

The state of a query is stored under its name and a digest of what it computes. So a changed query
begins without state, in the middle of the stream (`topology.answer.query.beginning`). The state of
a removed query is deleted with the next changes to the state. Results of one instant are in the
order of the queries.

Watermarks of an idle stream arrive as ramps (`topology.base.ramp`). All queries get those
watermarks at which any query decides something, and no others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, Generic, TypeVar

from topology.answer.query.beginning import QueryBeginning, begin_midstream
from topology.base.composite import SEPARATOR, Composite, CompositePart
from topology.base.event import Event, at_ns
from topology.base.meter import Meter
from topology.base.native import mypyc_attr
from topology.base.operator import Figures, Plain
from topology.base.outcome import Step
from topology.base.ramp import iter_due_beats, iter_pieces, side_by_side
from topology.base.result import Finding
from topology.state.instant import InstantOperator

KNOWN_BY_BYTES: Final = 8

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
"""For each figure that is not summed over the queries, the function that finds the worst value.

For `lead_ns`, which is 0 without speculation, the largest value is reported.
"""


@mypyc_attr(allow_interpreted_subclasses=True)
class QueryOperator(InstantOperator):
    """A query as an operator.

    `known_by` is its name and a digest of what it computes. `beginnings` has, for each stream, the
    instant from which the query counts; it is empty if the query needs none. A query that is
    restored without a stored state begins in the middle of the stream. `is_ordered`: its events
    come from MERGE in order.
    """

    def __init__(self, name: str, fingerprint: bytes) -> None:
        """Name the query; queries with the same results have the same `fingerprint`."""
        super().__init__()
        self.name = name
        digest = blake2b(fingerprint, digest_size=KNOWN_BY_BYTES).hexdigest()
        self.known_by = f"{digest}@{name}"
        self.beginnings: list[QueryBeginning] = []
        self.is_ordered = True

    def restoring(self, state: Mapping[str, Plain], held: Sequence[Event]) -> Iterator[int]:
        if not self._saved.is_in(state):
            begin_midstream(self.beginnings)
        yield from super().restoring(state, held)

    def is_due(self, watermarks: Sequence[Event]) -> bool:
        """Return whether these watermarks of one instant would decide something.

        `topology.base.ramp` calls this.
        """
        raise NotImplementedError


Q = TypeVar("Q", bound=QueryOperator)


@mypyc_attr(allow_interpreted_subclasses=True)
class Queries(Composite, Generic[Q]):
    """The queries of one kind in a stage, in the order in which results are emitted."""

    def __init__(self, queries: Sequence[Q]) -> None:
        super().__init__(
            [CompositePart(query.name, query, f"{query.known_by}{SEPARATOR}") for query in queries]
        )
        self._queries = list(queries)
        self._runners: list[InstantOperator] = [*self._queries]
        """The operators that run: each query by itself, unless some depend on others."""
        self._names = [query.name for query in queries]
        """For each of these operators, the names of its queries."""
        self._meter = Meter()

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        step = Step(now_ns, list(events))
        for piece, until_ns in iter_pieces(events, now_ns, self.is_due):
            step.results += self._find(piece, until_ns)
        if len(self._queries) > 1:  # Each query emits its results in order.
            step.results.sort(key=at_ns)
        return self._finish(step)

    def _finish(self, step: Step) -> Step:
        """Complete the step; subclasses add everything that is not a result."""
        return step

    def _find(self, events: Sequence[Event], now_ns: int) -> list[Finding]:
        found: list[Finding] = []
        for name, each in zip(self._names, self._runners, strict=True):
            begun_ns = self._meter.begin()
            found += each.on_batch(events, now_ns).results
            self._meter.end(name, begun_ns)
        return found

    def measure(self, meter: Meter) -> None:
        self._meter = meter

    def is_due(self, watermarks: Sequence[Event]) -> bool:
        return any(query.is_due(watermarks) for query in self._queries)

    def on_time(self, now_ns: int) -> Step:
        found = [finding for each in self._runners for finding in each.on_time(now_ns).results]
        return self._finish(Step(now_ns, results=sorted(found, key=at_ns)))

    def on_end(self, now_ns: int) -> Step:
        step = self.on_time(now_ns)  # This ends the open instant of each query.
        ends = [finding for each in self._runners for finding in each.on_end(now_ns).results]
        step.results += sorted(ends, key=at_ns)
        return self._finish(step)

    def figures(self) -> Figures:
        """Return the sums of the queries' figures, or the worst of them (`worst`)."""
        return combine_figures(query.figures() for query in self._queries)

    # -- State -------------------------------------------------------------------------------------

    def begin_late(self, since_ns: int, error_ns: int) -> None:
        for query in self._queries:
            for beginning in query.beginnings:
                beginning.begin_if_unknown(since_ns)


@mypyc_attr(allow_interpreted_subclasses=True)
class KeepingQuery(QueryOperator):
    """A query that keeps events.

    `kept` and `released` list the events that the query has started and stopped keeping, until
    `KeepingQueries` clears the lists. An event that is kept several times is listed as often.
    """

    def __init__(self, name: str, fingerprint: bytes) -> None:
        super().__init__(name, fingerprint)
        self.kept: list[Event] = []
        self.released: list[Event] = []


K = TypeVar("K", bound=KeepingQuery)


@mypyc_attr(allow_interpreted_subclasses=True)
class KeepingQueries(Queries[K]):
    """A set of queries that keep events after passing them on.

    An event is held while any query keeps it.
    """

    keeps_passed = True

    def __init__(self, queries: Sequence[K]) -> None:
        super().__init__(queries)
        self._times: dict[Event, int] = {}
        """How many times each event is kept."""
        self._moved: dict[Event, None] = {}
        """The events that a query has started or stopped keeping since the last step."""

    def _find(self, events: Sequence[Event], now_ns: int) -> list[Finding]:
        found = super()._find(events, now_ns)
        self._record_kept()
        return found

    def _record_kept(self) -> None:
        """Record the events that the queries have started and stopped keeping."""
        for query in self._queries:
            for event in query.kept:
                self._times[event] = self._times.get(event, 0) + 1
            self._moved |= dict.fromkeys(query.kept)
            query.kept.clear()
        for query in self._queries:
            for event in query.released:
                self._stop_keeping(event)
            query.released.clear()

    def _stop_keeping(self, event: Event) -> None:
        times = self._times.pop(event)
        if times > 1:
            self._times[event] = times - 1
            return
        self._moved[event] = None

    def _finish(self, step: Step) -> Step:
        self._record_kept()
        for event in self._moved:
            (step.kept if event in self._times else step.freed).append(event)
        self._moved.clear()
        return step

    def _add_results(self, events: Sequence[Event], step: Step) -> None:
        """Add the results of these events; watermarks of several streams advance side by side."""
        for ramps, between in side_by_side(events):
            for watermarks in iter_due_beats(ramps, self.is_due) if ramps else ():
                step.results += self._find(watermarks, watermarks[0].at_ns)
            if between:
                step.results += self._find(between, between[-1].at_ns)

    def iter_held(self) -> Iterable[Event]:
        return list(self._times)

    def restoring(self, state: Mapping[str, Plain], held: Sequence[Event]) -> Iterator[int]:
        yield from super().restoring(state, held)
        self._record_kept()
        self._moved.clear()


def combine_figures(figures: Iterable[Figures]) -> Figures:
    """Return the figures of several queries together: sums, or the worst value (`WORST`)."""
    found: dict[str, list[int]] = {}
    for each in figures:
        for name, value in each.items():
            found.setdefault(name, []).append(value)
    return {name: WORST.get(name, sum)(values) for name, values in found.items()}
