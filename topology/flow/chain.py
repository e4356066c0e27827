"""Operators one behind the other: the short path of a flow graph, and an operator itself.

What one operator lets go is the batch of the next, at the time up to which the first
has spoken; what it finds, those behind it may overhear. Outcomes stand in the order of their
instant, then of the chain. What leaves a node also goes into its edges, to nodes that have several
inputs (`topology.flow.graph`).

Proved by: tests/topology/flow/test_graph.py, tests/laws/test_figures.py
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from topology.flow.join_input import JoinInput
from topology.flow.node import Node, changes_of, restoring_nodes, snapshot_of
from topology.model.event import Event
from topology.model.operator import Changes, Figures, Operator, Plain, State, StepByStep
from topology.model.outcome import Report, Step
from topology.model.probe import Probe
from topology.model.result import Finding


class Chain(StepByStep):
    """`operators`: (name, operator) in order; the names prefix the keys of the state, behind
    `prefix`. Their places are `places`, or 1, 2, 3 and so on."""

    def __init__(
        self,
        operators: Sequence[tuple[str, Operator]],
        places: Sequence[int] | None = None,
        prefix: str = "",
    ) -> None:
        if places is None:
            places = range(1, len(operators) + 1)
        self.nodes = [
            Node(name, operator, place, f"{prefix}{name}/")
            for (name, operator), place in zip(operators, places, strict=True)
        ]
        self.edges: list[JoinInput] = []
        """Where events go that have not met a node."""
        self.moved: list[Event] | None = None
        """Where it is a list: what passed from one operator to the next since it was
        last emptied, for a driver that keeps book of who holds what."""
        self.probe: Probe | None = None

    def operator(self, name: str) -> Operator:
        """The operator of that name, for its figures; KeyError if there is none."""
        for node in self.nodes:
            if node.name == name:
                return node.operator
        raise KeyError(name)

    @property
    def names(self) -> list[str]:
        return [node.name for node in self.nodes]

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        reports: list[Report] = []
        results: list[Finding] = []
        for edge in self.edges:
            edge.put(events, now_ns)
        probe = self.probe
        if probe is not None:
            probe.entered(events)
        is_first = True
        for node in self.nodes:
            if self.moved is not None and not is_first:
                self.moved += events
            is_first = False
            if results:
                node.operator.overhear(results)
            step = node.operator.on_batch(events, now_ns)
            reports += step.reports
            results += step.results
            events, now_ns = step.released, step.now_ns
            if probe is not None:
                probe.left(node.name, events)
            for edge in node.edges:
                edge.put(events, now_ns)
        reports.sort(key=instant)
        results.sort(key=instant)
        return Step(now_ns, list(events), reports, results)

    def on_time(self, now_ns: int) -> Step:
        return self._pass_time(now_ns, is_end=False)

    def on_end(self, now_ns: int) -> Step:
        return self._pass_time(now_ns, is_end=True)

    def _pass_time(self, now_ns: int, *, is_end: bool) -> Step:
        reports: list[Report] = []
        results: list[Finding] = []
        released: list[Event] = []
        for edge in self.edges:
            edge.put(released, now_ns)
        is_first = True
        for node in self.nodes:
            steps = []
            if not is_first:
                if self.moved is not None:
                    self.moved += released
                if results:
                    node.operator.overhear(results)
                steps.append(node.operator.on_batch(released, now_ns))
            is_first = False
            steps.append(node.operator.on_end(now_ns) if is_end else node.operator.on_time(now_ns))
            released = []
            for step in steps:
                reports += step.reports
                results += step.results
                released += step.released
                now_ns = step.now_ns
            if self.probe is not None:
                self.probe.left(node.name, released)
            for edge in node.edges:
                edge.put(released, now_ns)
        reports.sort(key=instant)
        results.sort(key=instant)
        return Step(now_ns, released, reports, results)

    def next_deadline_ns(self) -> int | None:
        due = [node.operator.next_deadline_ns() for node in self.nodes]
        return min((ns for ns in due if ns is not None), default=None)

    def explain(self) -> dict[str, Any]:
        """What each operator that holds events waits for, for people."""
        return {
            node.name: explained
            for node in self.nodes
            if (explained := node.operator.explain()) is not None
        }

    def locate(self, source: str, epoch: int, seq: int) -> dict[str, Any]:
        """What each operator knows of one event; none: nobody has heard of its source."""
        found = {}
        for node in self.nodes:
            answer = node.operator.locate(source, epoch, seq)
            if answer is not None:
                found[node.name] = answer
        return found

    def counts_of(self, source: str) -> Figures:
        """Those of the first operator that counts by source."""
        for node in self.nodes:
            counts = node.operator.counts_of(source)
            if counts:
                return counts
        return {}

    def figures(self) -> Figures:
        """Those of all operators that have some, as `<operator>_<figure>`."""
        return {
            f"{node.name}_{figure}": value
            for node in self.nodes
            for figure, value in node.operator.figures().items()
        }

    def let_go(self) -> list[Event]:
        gone: list[Event] = []
        for node in self.nodes:
            gone += node.operator.let_go()
        return gone

    def close(self) -> None:
        for node in self.nodes:
            node.operator.close()

    def snapshot(self) -> State:
        return snapshot_of(self.nodes)

    def changes(self) -> Changes:
        return changes_of(self.nodes)

    def held(self) -> Iterable[Event]:
        for node in self.nodes:
            yield from node.operator.held()

    def waiting(self) -> Iterable[Event]:
        for node in self.nodes:
            yield from node.operator.waiting()

    def restoring(self, state: Mapping[str, Plain], held: Iterable[Event]) -> Iterator[int]:
        """See `topology.model.operator`."""
        at = {node.place: node for node in self.nodes}
        yield from restoring_nodes(self.nodes, state, held, lambda event: at[event.held_by], {})


def instant(outcome: Report | Finding) -> int:
    return outcome.at_ns
