"""All queries of one place as one operator of the stage.

The state of each is kept under its name and what it computes: one that was changed begins anew,
and what is kept of one that is no more goes with the next changes. Results of one instant stand in
the order of the queries.

Watermarks of a quiet stream come as ramps (`topology.model.ramp`): each query gets those beats at
which any of them decides something.

Proved by: tests/topology/window/test_examples.py, tests/topology/join/test_stage.py
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, Generic, TypeVar

from topology.model.event import Event
from topology.model.instant import InstantOperator
from topology.model.native import mypyc_attr
from topology.model.operator import Changes, Figures, Operator, State
from topology.model.outcome import Step
from topology.model.ramp import pieces
from topology.model.result import Finding
from topology.query.quality_target import worst

KNOWN_BY_BYTES: Final = 8
SEPARATOR: Final = "\n"


@mypyc_attr(allow_interpreted_subclasses=True)
class Query(InstantOperator):
    """One query as an operator. `known_by`: its name and what it computes."""

    def __init__(self, name: str, fingerprint: bytes) -> None:
        """`fingerprint`: equal for queries whose results are the same."""
        super().__init__()
        self.name = name
        digest = blake2b(fingerprint, digest_size=KNOWN_BY_BYTES).hexdigest()
        self.known_by = f"{digest}@{name}"

    def is_due(self, watermarks: Sequence[Event]) -> bool:
        """Whether these, of one instant, would decide something (`topology.model.ramp`)."""
        raise NotImplementedError


Q = TypeVar("Q", bound=Query)


@mypyc_attr(allow_interpreted_subclasses=True)
class Queries(Operator, Generic[Q]):
    """`queries` in the order in which their results stand."""

    def __init__(self, queries: Sequence[Q]) -> None:
        self._queries = {query.known_by: query for query in queries}
        self._runners: list[InstantOperator] = [*self._queries.values()]
        """What is run: each query by itself, unless some hang together."""
        self._stale: dict[str, None] = {}

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        step = Step(now_ns, list(events))
        for piece, until_ns in pieces(events, now_ns, self.is_due):
            step.results += self._found(piece, until_ns)
        if len(self._queries) > 1:  # each tells its own in their order
            step.results.sort(key=instant_of)
        return step

    def _found(self, events: Sequence[Event], now_ns: int) -> list[Finding]:
        found: list[Finding] = []
        for each in self._runners:
            found += each.on_batch(events, now_ns).results
        return found

    def is_due(self, watermarks: Sequence[Event]) -> bool:
        return any(query.is_due(watermarks) for query in self._queries.values())

    def on_time(self, now_ns: int) -> Step:
        step = Step(now_ns)
        for each in self._runners:
            step.results += each.on_time(now_ns).results
        step.results.sort(key=instant_of)
        return step

    def on_end(self, now_ns: int) -> Step:
        step = self.on_time(now_ns)  # of the open instant, each in its turn
        ends: list[Finding] = []
        for each in self._runners:
            ends += each.on_end(now_ns).results
        step.results += sorted(ends, key=instant_of)
        return step

    def next_deadline_ns(self) -> int | None:
        due = [each.next_deadline_ns() for each in self._runners]
        return min((ns for ns in due if ns is not None), default=None)

    def figures(self) -> Figures:
        """Those of all queries together, or of the worst (`topology.query.quality_target`)."""
        return worst(query.figures() for query in self._queries.values())

    def explain(self) -> dict[str, Any]:
        """The figures of each query, and what it waits by."""
        return {query.name: query.explain() for query in self._queries.values()}

    def snapshot(self) -> State:
        return {
            f"{name}{SEPARATOR}{key}": value
            for name, query in self._queries.items()
            for key, value in query.snapshot().items()
        }

    def changes(self) -> Changes:
        changes: Changes = dict(self._stale)
        self._stale = {}
        for name, query in self._queries.items():
            for key, value in query.changes().items():
                changes[f"{name}{SEPARATOR}{key}"] = value
        return changes

    def restore(self, state: Mapping[str, Any], held: Iterable[Event]) -> None:
        events = list(held)
        states: dict[str, dict[str, Any]] = {name: {} for name in self._queries}
        for key, value in state.items():
            name, _, rest = key.partition(SEPARATOR)
            if name in states:
                states[name][rest] = value
            else:
                self._stale[key] = None
        for name, query in self._queries.items():
            query.restore(states[name], events)


@mypyc_attr(allow_interpreted_subclasses=True)
class KeepingQueries(Queries[Q]):
    """Queries that keep events beyond letting them pass; `_settle` notes who keeps what."""

    def _settle(self) -> None:
        """Take note of what the queries have begun to keep, and of what they keep no more."""
        raise NotImplementedError

    def on_time(self, now_ns: int) -> Step:
        step = super().on_time(now_ns)
        self._settle()
        return step

    def on_end(self, now_ns: int) -> Step:
        step = super().on_end(now_ns)
        self._settle()
        return step

    def waiting(self) -> Iterable[Event]:
        """None: each was let pass when it came."""
        return ()

    def restore(self, state: Mapping[str, Any], held: Iterable[Event]) -> None:
        events = list(held)
        for event in events:
            event.held_by = 0
        super().restore(state, events)
        self._settle()


def instant_of(finding: Finding) -> int:
    return finding.at_ns
