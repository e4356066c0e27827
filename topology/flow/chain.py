"""Operators one behind the other: the short path of a flow graph, and an operator itself.

What one operator lets go is the batch of the next, at the time up to which the first
has spoken; what it finds, detectors behind it may read. Outcomes stand in the order of their
instant, then of the chain. What leaves a node also goes into its edges, to nodes that have several
inputs (`topology.flow.graph`). Nodes behind MERGE that read what it accepts, and not what it lets
go, are passed by (`topology.flow.accepted`).
"""

from __future__ import annotations

from collections.abc import Sequence

from topology.config.stages import MERGE
from topology.flow.accepted import Accepted
from topology.flow.join_input import JoinInput
from topology.flow.node import Node
from topology.flow.probe import Probe
from topology.model.composite import Composite, CompositePart
from topology.model.event import Event
from topology.model.operator import Operator
from topology.model.outcome import Report, Step
from topology.model.result import Finding


class Chain(Composite):
    """`operators`: (name, operator) in order; the names prefix the keys of the state. Their places
    are `places`, or 1, 2, 4 and so on."""

    def __init__(
        self,
        operators: Sequence[tuple[str, Operator]],
        places: Sequence[int] | None = None,
    ) -> None:
        if places is None:
            places = [1 << number for number in range(len(operators))]
        self.nodes = [
            Node(name, operator, place, f"{name}/")
            for (name, operator), place in zip(operators, places, strict=True)
        ]
        super().__init__(self.nodes)
        self.edges: list[JoinInput] = []
        """Where events go that have not met a node."""
        self.moved: list[Event] | None = None
        """Where it is a list: what passed from one operator to the next since it was
        last emptied, for a driver that keeps book of who holds what."""
        self.probe: Probe | None = None
        self._has_readers = any(node.reads_accepted for node in self.nodes)

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
        freed: list[Event] = []
        for edge in self.edges:
            edge.put(events, now_ns)
        probe = self.probe
        if probe is not None:
            probe.entered(events)
        is_first = True
        accepted: Accepted | None = None
        for node in self.nodes:
            if node.reads_accepted and accepted is not None:
                step = accepted.read_by(node.operator, now_ns)
                results += step.results
                freed += step.freed
                continue
            if self.moved is not None and not is_first:
                self.moved += events
            is_first = False
            if results and node.detectors is not None:
                node.detectors.overhear(results)
            if self._has_readers and node.name == MERGE:
                accepted = Accepted(events)
            step = node.operator.on_batch(events, now_ns)
            if accepted is not None and node.name == MERGE:
                accepted.note(step)
            reports += step.reports
            results += step.results
            freed += step.freed
            events, now_ns = step.released, step.now_ns
            if probe is not None:
                probe.left(node.name, events)
            for edge in node.edges:
                edge.put(events, now_ns)
        reports.sort(key=instant)
        results.sort(key=instant)
        return Step(now_ns, list(events), reports, results, freed)

    def on_time(self, now_ns: int) -> Step:
        return self._pass_time(now_ns, is_end=False)

    def on_end(self, now_ns: int) -> Step:
        return self._pass_time(now_ns, is_end=True)

    def _pass_time(self, now_ns: int, *, is_end: bool) -> Step:
        reports: list[Report] = []
        results: list[Finding] = []
        freed: list[Event] = []
        released: list[Event] = []
        for edge in self.edges:
            edge.put(released, now_ns)
        is_first = True
        accepted: Accepted | None = None
        for node in self.nodes:
            operator, steps = node.operator, []
            finish = operator.on_end if is_end else operator.on_time
            if node.reads_accepted and accepted is not None:
                step = accepted.read_by(operator, now_ns, finish)
                results += step.results
                freed += step.freed
                continue
            if self._has_readers and node.name == MERGE:
                accepted = Accepted(released)
            if not is_first:
                if self.moved is not None:
                    self.moved += released
                if results and node.detectors is not None:
                    node.detectors.overhear(results)
                steps.append(operator.on_batch(released, now_ns))
            is_first = False
            steps.append(finish(now_ns))
            released = []
            for step in steps:
                if accepted is not None and node.name == MERGE:
                    accepted.note(step)
                reports += step.reports
                results += step.results
                freed += step.freed
                released += step.released
                now_ns = step.now_ns
            if self.probe is not None:
                self.probe.left(node.name, released)
            for edge in node.edges:
                edge.put(released, now_ns)
        reports.sort(key=instant)
        results.sort(key=instant)
        return Step(now_ns, released, reports, results, freed)

    def prefix_of(self, key: str) -> str:
        return key[: key.find("/") + 1]

    def takers(self, event: Event) -> Sequence[CompositePart]:
        """The nodes that hold the event."""
        return [node for node in self.nodes if event.held_by & node.place]


def instant(outcome: Report | Finding) -> int:
    return outcome.at_ns
