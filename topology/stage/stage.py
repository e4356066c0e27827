"""Runs a stage in one input partition: the graph of its operators, and the alignment before it.

A worker runs one `Stage` for each of its partitions. A stage with all operators is the whole
topology in one process. So `inorder replay`, the kit for users' tests and the simulation run this
class, too.

If there are several streams, each begins when its first event arrives or its state is restored. The
streams that it is joined with begin at the same time. Most input partitions never get most streams,
and a stream without events costs nothing there. No outcome depends on when a stream begins, as a
test shows.

A driver calls `begin_midstream` if events may have passed before there was a state to restore. With
QUERIES, queries that begin then emit nothing about earlier times
(`topology.answer.query.beginning`). With SOURCES, sources are not assumed to begin with their
first number either.

Inputs are the values that a reader made of the records: events, or `Malformed`. A dead letter with
a readable source and number still takes its place in the sequence, so it leaves no gap. An event
whose stream the topology does not name is a dead letter with the reason `unknown_stream`.

Outcomes are in the order of their instant. At one instant, outcomes of different streams have no
defined order, nor have reports of different operators. Their order may depend on how the input was
divided into batches. Within a stream, the order of the events is always the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from topology.base.composite import SEPARATOR, Composite, CompositePart
from topology.base.event import DEAD, NO_EPOCH, WATERMARK, Event, at_ns, copy_event
from topology.base.field_use import FieldUse
from topology.base.meter import Meter
from topology.base.operator import Figures, Plain
from topology.base.outcome import Malformed, Report, Step, make_dead_letter
from topology.base.payload import MakeScan, Payloads
from topology.base.result import LEAVES_AS, Result
from topology.config import Topology
from topology.config.stages import MERGE, REORDER
from topology.order.clock.drift_table import DriftTable
from topology.order.merge.operator import Merge
from topology.order.reorder.mixed import MixedReorder
from topology.order.reorder.operator import Reorder
from topology.stage.alignment import Alignment
from topology.stage.bounded import replace_large
from topology.stage.by_lane import lanes_in
from topology.stage.chain import Chain
from topology.stage.graph import ACCEPTED_JOINS, Graph
from topology.stage.lanes import Lanes, lane_of, lanes_of
from topology.stage.ledger import Ledger
from topology.stage.node import BATCH, END, TIME, Node, split_key
from topology.stage.registry import (
    ALIGN_PLACE,
    BEGIN_LATE,
    buffering_places,
    graph_of,
    group_by_joins,
)

if TYPE_CHECKING:
    from topology.queries.detector.queries import DetectorQueries

QUERIES: Final = 1
SOURCES: Final = 2
"""The choices of `Stage.begin_midstream`: the queries begin late, or the sources too."""

ALIGN: Final = "\n\nalign/"
"""The prefix of the alignment's keys; other prefixes name a node (`topology.stage.node`)."""


class Stage(Composite):
    """The operators of a stage in one input partition.

    `operators` are the stage's, in order. `streams` are those that can occur in its input (default:
    all). `table` has the reports about the clocks of sources; its owner adds to it.

    `lanes` are the partitions whose events are aligned first. They are those of the input of a
    task, or the upstream partitions of the sequenced topic (by default there is one). A task gives
    each event the number of its lane. With `is_aligned`, the caller gives the events of any lanes
    in the order of the alignment, and a lane begins with its first event.

    `make_scan` makes the functions that read single fields of a payload (`topology.base.payload`).
    By default payloads are decoded whole.
    """

    def __init__(
        self,
        topology: Topology,
        operators: Sequence[str],
        lanes: Lanes | None = None,
        streams: Iterable[str] | None = None,
        table: DriftTable | None = None,
        *,
        is_aligned: bool = False,
        make_scan: MakeScan | None = None,
    ) -> None:
        self._payloads = Payloads(make_scan)
        self._topology = topology
        self._operators = operators
        self.waiting_places = buffering_places(operators)
        """The places of the operators that hold events before they pass them on."""
        self.ledger = Ledger()
        """The places of all events that operators keep."""
        self._table = table
        self.streams = list(topology.streams if streams is None else streams)
        """The streams that can occur in the input."""
        self._order = {stream: at for at, stream in enumerate(self.streams)}
        groups = group_by_joins(topology, self.streams)
        self._groups = {stream: group for group in groups for stream in group}
        """For each stream, all streams that it is joined with, including itself."""
        is_derived = operators[0] == MERGE
        merges_lanes = operators[0] == REORDER and MERGE in operators
        is_task = merges_lanes and lanes is not None and len(lanes.places) > 1
        self._begins_ordered = operators[0] != REORDER and not is_derived
        self._lanes: dict[str, list[int] | None] = {}
        """The lanes of each stream, in a task of several; None if they begin with their events."""
        if is_aligned:
            self._lanes = dict.fromkeys(self.streams)
        elif lanes is not None and is_task:
            for name in self.streams:
                topic = topology.streams[name].input
                found = [lane for lane, place in enumerate(lanes.places) if place[0] == topic]
                self._lanes[name] = found
        self._graph = Graph({}, [], own_clocks=self._begins_ordered)
        self.speculative_detectors: list[DetectorQueries] = []
        """The detectors that read accepted events; the list grows as streams begin.

        A driver may set the cost of their work (`set_costs`), which affects how early their
        results are.
        """
        self.meter = Meter()
        """The time of each query, while the driver has set the meter's clock."""
        self.begins_midstream = 0
        """How streams without a state begin; set it by `begin_midstream`."""
        self._most_bytes = topology.topics.max_record_bytes
        self.alignment: Alignment | None = None
        self._in_front: list[Node] = []
        if is_derived or is_task:
            settings = [topology.streams[name] for name in self.streams]
            self.alignment = Alignment(
                lanes_of(topology.topics.sequenced, 1) if lanes is None else lanes,
                max(each.merge.max_queued for each in settings),
                max(each.reorder.max_held_bytes for each in settings),
            )
            node = Node("alignment", self.alignment, ALIGN_PLACE, ALIGN, self.ledger)
            self._in_front = [node]
        self._holders: dict[str, list[tuple[int, CompositePart]]] = {}
        """The parts that may hold events of each stream, each with its places."""
        self._chain_parts: dict[str, CompositePart] = {}
        super().__init__(self._in_front)
        if len(groups) == 1:
            self.begin(self.streams)

    def begin(self, streams: Iterable[str]) -> None:
        """Create the operators of these streams, and of the streams that they are joined with.

        Streams that have begun are skipped.
        """
        new = {each for s in streams if s not in self.chains for each in self._groups[s]}
        if not new:
            return
        part = graph_of(
            self._topology,
            sorted(new, key=self._order.__getitem__),
            self._operators,
            self.ledger,
            self._table,
            lanes=self._lanes,
            begins_ordered=self._begins_ordered,
            payloads=self._payloads,
        )
        self.speculative_detectors += [
            each.detectors for each in part.nodes if each.is_speculative and each.detectors
        ]
        for node in part.nodes:
            node.operator.measure(self.meter)
        if self.begins_midstream:
            _begin_midstream(part, self.begins_midstream)
        self._graph.add(part, self._order)
        in_front = [(ALIGN_PLACE, each) for each in self._in_front]
        for name, chain in part.chains.items():
            it = self._chain_parts[name] = CompositePart(name, chain, f"{name}{SEPARATOR}")
            places = sum([node.place for node in chain.nodes])
            met = [(each.place, each) for each in part.junctions if name in each.streams]
            self._holders[name] = [*in_front, (places, it), *met]
        chains = [self._chain_parts[name] for name in self.chains]
        self._parts = [*self._in_front, *chains, *self._graph.junctions]

    def begin_midstream(self, what: int) -> None:
        """Let streams without a state begin late: QUERIES, or SOURCES, which includes QUERIES.

        Call this before any input or restored state. 0 means that no events came before.
        """
        self.begins_midstream = what
        if what:
            _begin_midstream(self._graph, what)

    @property
    def chains(self) -> Mapping[str, Chain]:
        """The chains of the streams that have begun, by stream."""
        return self._graph.chains

    # -- Batches and time --------------------------------------------------------------------------

    def on_batch(self, inputs: Sequence[Event | Malformed], now_ns: int) -> Step:
        if self.alignment is None:
            return self._finish_step(self._run_graph(inputs, now_ns))
        (front,) = self._in_front
        aligned = front.run(BATCH, [e for e in inputs if isinstance(e, Event)], now_ns)
        step = self._finish_step(self._run_graph(aligned.released, aligned.now_ns))
        step.reports += [dead for dead in inputs if not isinstance(dead, Event)]
        return step

    def _run_graph(self, inputs: Sequence[Event | Malformed], now_ns: int) -> Step:
        reports: list[Report] = []
        step = self._graph.run(BATCH, self._group_by_stream(inputs, reports), now_ns)
        if reports:
            step.reports = [*reports, *step.reports]
            step.reports.sort(key=at_ns)
        return step

    def on_time(self, now_ns: int) -> Step:
        if self.alignment is not None:
            now_ns = self.alignment.on_time(now_ns).now_ns
        return self._finish_step(self._graph.run(TIME, {}, now_ns))

    def on_end(self, now_ns: int) -> Step:
        """End the input; results that only the end has decided are emitted, but are not final."""
        if self.alignment is None:
            step = self._graph.run(TIME, {}, now_ns)  # This completes the last instant.
        else:
            aligned = self._in_front[0].passes(END, now_ns)
            now_ns = aligned.now_ns
            step = self._run_graph(aligned.released, now_ns)
            step.add(self._graph.run(TIME, {}, now_ns))
        self.seal()
        step.add(self._graph.run(END, {}, now_ns))
        step = self._finish_step(self._graph.in_order(step))
        for result in step.results:
            if isinstance(result, Result) and result.confidence in LEAVES_AS:
                result.confidence, result.final = LEAVES_AS[result.confidence], False
        return step

    def _finish_step(self, step: Step) -> Step:
        self._payloads.clear()
        if step.results:
            step.results = replace_large(step.results, self._most_bytes)
        return step

    def _group_by_stream(
        self, inputs: Sequence[Event | Malformed], reports: list[Report]
    ) -> Mapping[str, Sequence[Event]]:
        first = inputs[0] if inputs else None
        if isinstance(first, Event) and first.stream in self._order:
            alike = [
                item for item in inputs if isinstance(item, Event) and item.stream == first.stream
            ]
            if len(alike) == len(inputs):
                self.begin([first.stream])
                return {first.stream: alike}  # In the usual case, all events are of one stream.
        batches: dict[str, list[Event]] = {}
        for item in inputs:
            if isinstance(item, Event):
                event: Event | None = item
                if item.stream not in self._order and item.kind not in (DEAD, WATERMARK):
                    names = self._topology.streams
                    reports.append(
                        reject_unknown_stream(item, self.streams if item.stream in names else names)
                    )
            else:
                reports.append(item)
                event = make_placeholder(item)
            if event is not None and event.stream in self._order:
                batches.setdefault(event.stream, []).append(event)
        self.begin(batches)
        return batches

    # -- For people and drivers --------------------------------------------------------------------

    def figures_of(self, stream: str) -> Figures:
        """Return the figures of a stream's operators; the stream begins if it has not yet."""
        self.begin([stream])
        return self._graph.figures_of(stream)

    def field_uses_of(self, stream: str) -> list[FieldUse]:
        """Return the values that the stream's queries left out, by query and field."""
        self.begin([stream])
        return self._graph.chains[stream].field_uses()

    def explain(self) -> dict[str, Plain]:
        alignment = None if self.alignment is None else self.alignment.explain()
        return {"alignment": alignment, **self._graph.explain()}

    def locate_in(self, stream: str | None, source: str, epoch: int, seq: int) -> dict[str, Plain]:
        """Return the operators' answers about one event, by stream (`topology.base.location`).

        Also return the upstream partitions for which the event waits, and since when. Cost:
        O(buffered events).
        """
        aligned = None if self.alignment is None else self.alignment.locate(source, epoch, seq)
        return {"alignment": aligned, "streams": self._graph.locate(stream, source, epoch, seq)}

    def counts_in(self, stream: str, source: str) -> Figures:
        """Return the counts of one source, or an empty dict if it has not been seen here."""
        chain = self.chains.get(stream)
        return {} if chain is None else chain.counts_of(source)

    # -- State -------------------------------------------------------------------------------------

    def copy_held(self) -> dict[Event, int]:
        """Return copies of the held events with their places, for a driver that saves them itself.

        The driver must not call it on a stage with an alignment, which reads held events from its
        topic.
        """
        assert self.alignment is None, "a stage that reads a topic rereads held events from it"
        return {copy_event(event): self.ledger.places_of(event) for event in self.iter_held()}

    def waiting(self) -> Iterable[Event]:
        """Yield the held events that have not been emitted, which figures count as `held`."""
        if self.alignment is not None:
            yield from self.alignment.iter_held()
        for node in self._graph.nodes:
            if not node.operator.keeps_passed:
                yield from node.operator.iter_held()

    def restoring(self, state: Mapping[str, Plain], held: Sequence[Event]) -> Iterator[int]:
        met = {split_key(key).stream for key in state}
        # A stream whose only events are in the alignment has not begun.
        self.begin(met & self._order.keys())
        yield from super().restoring(state, held)
        self.ledger.clear()
        for node in (*self._in_front, *self._graph.nodes):
            node.settle_restored()
        self._payloads.clear()
        self._graph.begin_queries_late()

    def prefix_of(self, key: str) -> str:
        if key.startswith(ALIGN):
            return ALIGN
        prefix = super().prefix_of(key)
        return prefix + ACCEPTED_JOINS if key.startswith(prefix + ACCEPTED_JOINS) else prefix

    def holders_of(self, event: Event) -> Sequence[CompositePart]:
        """Return all parts that hold the event, as the ledger says."""
        in_front = [(ALIGN_PLACE, part) for part in self._in_front]
        at = self.ledger.places_of(event)
        return [part for places, part in self._holders.get(event.stream, in_front) if at & places]


def _begin_midstream(graph: Graph, what: int) -> None:
    """Tell the operators of a graph without input that there were earlier events."""
    for chain in graph.chains.values():
        if chain.passed is not None:
            chain.passed.restore({}, ())
    for node in graph.nodes:
        if node.kind in BEGIN_LATE:
            node.operator.restore({}, ())
        elif what == SOURCES:
            for _, operator in lanes_in(node.operator):
                if isinstance(operator, Reorder | MixedReorder | Merge):
                    operator.begin_midstream()


def make_placeholder(dead: Malformed) -> Event | None:
    """Return an event with the sequence number of the dead letter, so that it leaves no gap.

    Return None if its stream, source or number is unknown.
    """
    if dead.stream is None or dead.source is None or dead.seq is None:
        return None
    epoch = NO_EPOCH if dead.epoch is None else dead.epoch
    event = Event(
        dead.stream,
        dead.source,
        epoch,
        dead.seq,
        0,
        dead.at_ns,
        dead.offset,
        dead.record,
        kind=DEAD,
    )
    event.lane = lane_of(dead.offset)
    return event


def reject_unknown_stream(event: Event, known: Iterable[str]) -> Malformed:
    """Return the dead letter for an event whose stream is not one of the `known` ones."""
    detail = (
        f"stream {event.stream!r} is not in the topology file (it has: {', '.join(sorted(known))});"
        " add it under `streams:` or correct the streamId header"
    )
    return make_dead_letter(event, event.arrival_ns, "unknown_stream", detail)
