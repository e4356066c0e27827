"""Passes batches and marks of time along the edges between the nodes of a stage.

Each stream has a chain of nodes with one input (`topology.stage.chain`). Streams that are joined
have edges from their chains into one node with several inputs, a *junction*. Its operator gets the
events of all edges as one batch, in the order of `at_ns`. The batch extends up to the time that all
inputs have reported. In a stage that reads the ordered topic, that order is the order of the log.
Joined streams share a partition there, and one MERGE has written them in the order of `at_ns`. A
junction emits results only; its events go no further.

    stream a   reorder - clock - merge -+->
                                        +- join
    stream b   reorder - clock - merge -+->
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from topology.base.composite import SEPARATOR
from topology.base.event import Event, at_ns, offset_of
from topology.base.operator import Figures, Operator, Plain
from topology.base.outcome import Step
from topology.stage.accepted import ACCEPTED
from topology.stage.chain import Chain
from topology.stage.ledger import Ledger
from topology.stage.node import BATCH, JoinInput, Node, figures_of

ACCEPTED_JOINS: Final = "accepted/"
"""The last part of a junction's prefix if its queries read accepted events."""


class Junction(Node):
    """A node with several inputs.

    `inputs` has the edges by stream. `keeps_log_order` means that the events' offsets are already
    in one order.
    """

    def __init__(
        self,
        name: str,
        operator: Operator,
        place: int,
        ledger: Ledger,
        inputs: Mapping[str, JoinInput],
        *,
        keeps_log_order: bool,
    ) -> None:
        self.streams = sorted(inputs)
        prefix = f"{SEPARATOR}{self.streams[0]}{SEPARATOR}"
        if name.startswith(ACCEPTED):
            prefix += ACCEPTED_JOINS
        super().__init__(name, operator, place, prefix, ledger)
        self._inputs = list(inputs.values())
        self._keeps_log_order = keeps_log_order

    def take(self, what: int) -> Step:
        """Process the events since the last call, then the passing of time or the end (`what`)."""
        accepted = [each for edge in self._inputs for each in edge.accepted]
        events = [event for edge in self._inputs for event in edge.events]
        events += [event for each in accepted for event in each.events()]
        now_ns = self._inputs_now_ns()
        if not self._keeps_log_order:
            events.sort(key=at_ns)
        elif events:
            events.sort(key=offset_of)
            now_ns = events[-1].at_ns
        step = self.operator.on_batch(events, now_ns)
        for edge in self._inputs:
            edge.clear()
        self.record(step, accepted)
        if what != BATCH:
            step.add_outcomes(self.passes(what, self._inputs_now_ns()))
        return step

    def _inputs_now_ns(self) -> int:
        spoken = [each.now_ns for each in self._inputs]
        return max(spoken) if self._keeps_log_order else min(spoken)


class Graph:
    """The chains of a stage by stream, and the junctions to which their edges lead.

    `own_clocks` means that each stream has its own time, as the streams of an ordered topic do.
    """

    def __init__(
        self,
        chains: Mapping[str, Chain],
        junctions: Sequence[Junction],
        *,
        own_clocks: bool = False,
    ) -> None:
        self.chains = dict(chains)
        self.junctions = list(junctions)
        self._own_clocks = own_clocks
        self._passed: tuple[int, int] | None = None
        """The kind and time of the last input that all chains have processed."""

    @property
    def nodes(self) -> list[Node]:
        chains, junctions = self.chains.values(), self.junctions
        return [*(node for chain in chains for node in chain.nodes), *junctions]

    def add(self, part: Graph, order: Mapping[str, int]) -> None:
        """Add the chains and junctions of a part that has had no input yet.

        `order` ranks all streams that may have chains. Cost: O(streams already in the graph).
        """
        if self._passed is not None:
            what, now_ns = self._passed
            part.run(what, {}, now_ns)
        chains = [*self.chains.items(), *part.chains.items()]
        self.chains = dict(sorted(chains, key=lambda named: order[named[0]]))
        self.junctions += part.junctions
        self.junctions.sort(key=lambda junction: order[junction.streams[0]])

    # -- Batches and time --------------------------------------------------------------------------

    def run(self, what: int, batches: Mapping[str, Sequence[Event]], now_ns: int) -> Step:
        step = Step(now_ns)
        goes_on = what != BATCH or not self._own_clocks
        if goes_on:
            self._passed = what, now_ns
        for stream, chain in self.chains.items():
            batch = batches.get(stream, ())
            if goes_on or batch:
                step.add(chain.run(what, batch, now_ns if goes_on else batch[-1].at_ns))
        for junction in self.junctions:
            # The chains have already emitted the junction's events.
            step.add_outcomes(junction.take(what))
        return self.in_order(step)

    def in_order(self, step: Step) -> Step:
        if len(self.chains) > 1:
            step.released.sort(key=at_ns)
        if len(self.chains) > 1 or self.junctions:
            step.results.sort(key=at_ns)
        step.reports.sort(key=at_ns)
        return step

    def begin_queries_late(self) -> None:
        """Let restored queries without a state begin after the events that have passed."""
        for chain in self.chains.values():
            for node in chain.nodes:
                node.operator.begin_late(*chain.progress_before(node))
        for junction in self.junctions:
            passed = [self.chains[stream].progress_before(junction) for stream in junction.streams]
            since_ns, error_ns = map(max, zip(*passed, strict=True))
            junction.operator.begin_late(since_ns, error_ns)

    # -- For people and drivers --------------------------------------------------------------------

    def figures_of(self, stream: str) -> Figures:
        """Return the figures of a stream's operators; a junction counts with its first stream."""
        met = [each for each in self.junctions if each.streams[0] == stream]
        return self.chains[stream].figures() | figures_of(met)

    def explain(self) -> dict[str, Plain]:
        return {
            "streams": {stream: chain.explain() for stream, chain in self.chains.items()},
            "joins": [junction.operator.explain() for junction in self.junctions],
        }

    def locate(self, stream: str | None, source: str, epoch: int, seq: int) -> dict[str, Plain]:
        """Return the operators' answers about one event, by stream.

        If `stream` is None, the operators of all streams are asked.
        """
        asked = self.chains if stream is None else {stream} & self.chains.keys()
        found = {name: self.chains[name].locate(source, epoch, seq) for name in asked}
        return {name: answers for name, answers in found.items() if answers is not None}
