"""Runs operators one after another, as one operator.

Each operator's output is the batch of the next operator. The time of that batch is the time up to
which the operator has reported. Detectors may read the results of the operators before them.
Outcomes are in the order of their instant, then of the chain. A node's output also goes into its
edges, which lead to nodes with several inputs (`topology.stage.graph`). Some nodes after MERGE read
the events that MERGE accepts instead of those that it emits (`topology.stage.accepted`). Ordered
events bypass these nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

from topology.answer.query.beginning import UNKNOWN
from topology.answer.query.passed import PASSED, Passed
from topology.base.composite import Composite, CompositePart
from topology.base.event import Event, at_ns
from topology.base.operator import Figures
from topology.base.outcome import Step
from topology.config.stages import MERGE
from topology.order.merge.operator import Merge
from topology.stage.accepted import Accepted
from topology.stage.node import BATCH, END, TIME, JoinInput, Node, figures_of


class Chain(Composite):
    """A sequence of nodes, with the edges that leave them."""

    def __init__(self, nodes: Sequence[Node], passed: Passed | None = None) -> None:
        """Run the nodes, and let added queries begin after the events that `passed` records."""
        parts = [] if passed is None else [CompositePart(PASSED, passed, f"{PASSED}/")]
        super().__init__([*nodes, *parts])
        self.nodes = list(nodes)
        self.passed = passed
        self.edges: list[JoinInput] = []
        """The edges that get the chain's input before any node does."""
        self.accepted_edges: list[JoinInput] = []
        """The edges that get the events which MERGE accepts."""
        self._merge = next((node for node in self.nodes if node.name == MERGE), None)
        self._has_readers = any(node.is_speculative for node in self.nodes)

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        return self.run(BATCH, events, now_ns)

    def on_time(self, now_ns: int) -> Step:
        return self.run(TIME, (), now_ns)

    def on_end(self, now_ns: int) -> Step:
        return self.run(END, (), now_ns)

    def run(self, what: int, events: Sequence[Event], now_ns: int) -> Step:
        """Process a batch, the passing of time, or the end of the input (`what`).

        Only a BATCH has `events`.
        """
        found = Step(now_ns)
        for edge in self.edges:
            edge.put(events, now_ns)
        if self.passed is not None and self._merge is None:
            self.passed.note(events)
        is_first = True
        accepted: Accepted | None = None
        for node in self.nodes:
            if node.is_speculative and accepted is not None:
                found.add_outcomes(node.read(accepted, what, now_ns))
                continue
            if not events and what != END and not self._is_needed(node, found, what, now_ns):
                is_first = False
                for edge in node.edges:
                    edge.put((), now_ns)
                continue
            if found.results and node.detectors is not None:
                node.detectors.take_results(found.results)
            merge = node.operator if node.name == MERGE else None
            if isinstance(merge, Merge) and (self._has_readers or self.accepted_edges):
                accepted = Accepted(events, passes_late=merge.passes_late)
            nothing_came = is_first and what != BATCH
            step = node.passes(what, now_ns) if nothing_came else node.run(what, events, now_ns)
            if merge is not None:
                self._record_merged(step, accepted)
            is_first = False
            found.add_outcomes(step)
            events, now_ns = step.released, step.now_ns
            for edge in node.edges:
                edge.put(events, now_ns)
        found.now_ns = now_ns
        found.released = list(events)
        found.reports.sort(key=at_ns)
        found.results.sort(key=at_ns)
        return found

    def _is_needed(self, node: Node, found: Step, what: int, now_ns: int) -> bool:
        """Return whether a node without events has anything to do.

        A detector also reads the results that the nodes before it have `found`. Readers of accepted
        events get the time from MERGE.
        """
        if node.detectors is not None and found.results:
            return True
        if node is self._merge and (self._has_readers or self.accepted_edges):
            return True
        return node.is_due(what, now_ns)

    def _record_merged(self, step: Step, accepted: Accepted | None) -> None:
        """Record what MERGE emitted, for readers of accepted events too."""
        if self.passed is not None:
            self.passed.note(step.released)
        if accepted is not None:
            accepted.note(step)
            for edge in self.accepted_edges:
                edge.collect_accepted(accepted, step.now_ns)

    def progress_before(self, reader: Node) -> tuple[int, int]:
        """Return an instant after all events that have passed, and the error of later events.

        The reader may read accepted events, which MERGE may still hold. The instant is UNKNOWN if
        nothing was recorded.
        """
        if self.passed is None:
            return UNKNOWN, 0
        merge = self._merge if reader.is_speculative else None
        held = () if merge is None else merge.operator.iter_held()
        return self.passed.since_ns(held), self.passed.error_ns

    def prefix_of(self, key: str) -> str:
        return key[: key.find("/") + 1]

    def figures(self) -> Figures:
        """Return the nodes' figures as `<operator>_<figure>`, combined for each operator."""
        return figures_of(self.nodes)

    def holders_of(self, event: Event) -> Sequence[CompositePart]:
        """Return the nodes that hold the event."""
        return [node for node in self.nodes if event in node.kept]
