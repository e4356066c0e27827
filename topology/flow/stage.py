"""A stage in one input partition: the graph of its operators, and what comes before it.

This is the whole of what a worker runs for a partition, and, with all operators in one
stage, the whole topology in the process: `inorder replay`, the kit for users' tests,
and the simulation are this class and nothing else.

Inputs are what a reader of records made of them: events, or `Malformed` values. A
dead letter whose source and number could be read still takes its place in the
sequence, so it leaves no hole. A stream that the topology does not name is dead,
reason `unknown_stream`.

Outcomes stand in the order of their instant. What different streams say at one instant
has no order among them, nor have reports of different operators: which comes first may
depend on how the input was cut. Within a stream the events' order is always the same.

Proved by: tests/simulation/test_simulation.py, tests/topology/join/test_stage.py,
tests/topology/flow/test_state_goes.py
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from topology.clock.drift_table import DriftTable
from topology.config import QueryConfig, Topology
from topology.config.stages import PATTERN, REORDER
from topology.flow.alignment import Alignment
from topology.flow.answers import Answers
from topology.flow.build import engine_of, qualities_of
from topology.flow.chain import Chain, instant
from topology.flow.graph import add
from topology.flow.registry import graph_of
from topology.model.event import DEAD, NO_EPOCH, Event
from topology.model.operator import Changes, Figures, Plain, State, StepByStep
from topology.model.outcome import Malformed, Report, Step, dead_letter
from topology.model.probe import Probe
from topology.pattern.compile.scope import Environment
from topology.pattern.operator import Pattern
from topology.pattern.run.compiled import Compiled
from topology.speculate.ahead import Ahead
from topology.speculate.choice import Chosen
from topology.speculate.queries import DetectorQueries

ALIGN: Final = "align"
"""The key of the alignment's state; all others name a node (topology.flow.node), or a query that
chooses its answers (topology.flow.answers)."""

ALIGN_PLACE: Final = 1


class Stage(StepByStep):
    """`operators` are the stage's, in order; `streams` those that can occur in its input (default:
    all). Behind the sequenced topic `lanes` is how many partitions the topic upstream of that one
    has: they are aligned first. `table` is what is heard about the clocks of the sources; whoever
    owns it adds to it."""

    def __init__(
        self,
        topology: Topology,
        operators: Sequence[str],
        lanes: int = 0,
        streams: Iterable[str] | None = None,
        table: DriftTable | None = None,
    ) -> None:
        self._topology = topology
        reads = topology.reads_of(operators[0])
        is_aligned = reads == "sequenced" and operators[0] != PATTERN  # which takes all as it comes
        self._graph = graph_of(
            topology,
            list(topology.streams if streams is None else streams),
            operators,
            table,
            begins_ordered=operators[0] != REORDER and not is_aligned,
        )
        self._moved: list[Event] = []
        self._keeps_moved = False
        self._queries: Mapping[str, QueryConfig] = topology.queries
        self._answers = Answers(topology.queries, operators)
        self.alignment: Alignment | None = None
        if is_aligned:
            merges = [topology.streams[name].merge for name in self.chains]
            self.alignment = Alignment(
                lanes,
                max(merge.max_queued for merge in merges),
                ALIGN_PLACE,
                max(merge.max_queued_bytes for merge in merges),
            )

    @property
    def chains(self) -> Mapping[str, Chain]:
        """By stream."""
        return self._graph.chains

    # -- batches and time --------------------------------------------------------------------------

    def on_batch(self, inputs: Sequence[Event | Malformed], now_ns: int) -> Step:
        return self._answer(self._on_batch(inputs, now_ns))

    def _on_batch(self, inputs: Sequence[Event | Malformed], now_ns: int) -> Step:
        if self.alignment is None:
            return self._through(inputs, now_ns)
        aligned = self.alignment.on_batch([e for e in inputs if isinstance(e, Event)], now_ns)
        if self._keeps_moved:
            self._moved += aligned.released
        step = self._through(aligned.released, aligned.now_ns)
        step.reports += [dead for dead in inputs if not isinstance(dead, Event)]
        return step

    def _through(self, inputs: Sequence[Event | Malformed], now_ns: int) -> Step:
        reports: list[Report] = []
        step = self._graph.on_batches(self._by_stream(inputs, reports), now_ns)
        if reports:
            step.reports = [*reports, *step.reports]
            step.reports.sort(key=instant)
        return step

    def on_time(self, now_ns: int) -> Step:
        if self.alignment is not None:
            now_ns = self.alignment.on_time(now_ns).now_ns
        return self._answer(self._graph.on_time(now_ns))

    def on_end(self, now_ns: int) -> Step:
        return self._answer(self._on_end(now_ns))

    def _answer(self, step: Step) -> Step:
        step.results = self._answers.of(step.results, step.now_ns)
        return step

    def _on_end(self, now_ns: int) -> Step:
        if self.alignment is None:
            return self._graph.on_end(now_ns)
        aligned = self.alignment.on_end(now_ns)
        step = self._through(aligned.released, aligned.now_ns)
        add(step, self._graph.on_end(aligned.now_ns))
        return self._graph.in_order(step)

    def next_deadline_ns(self) -> int | None:
        return self._graph.next_deadline_ns()

    def _by_stream(
        self, inputs: Sequence[Event | Malformed], reports: list[Report]
    ) -> dict[str, Sequence[Event]]:
        first = inputs[0] if inputs else None
        if isinstance(first, Event) and first.stream in self.chains:
            alike = [
                item for item in inputs if isinstance(item, Event) and item.stream == first.stream
            ]
            if len(alike) == len(inputs):
                return {first.stream: alike}  # the plain case: all are events of one stream
        batches: dict[str, list[Event]] = {stream: [] for stream in self.chains}
        stream = ""
        batch: list[Event] | None = None
        for item in inputs:
            if isinstance(item, Event):
                if item.stream != stream:
                    stream = item.stream
                    batch = batches.get(stream)
                if batch is not None:
                    batch.append(item)
                elif item.kind != DEAD:
                    reports.append(self._unknown(item))
            else:
                reports.append(item)
                held_place = placeholder(item)
                if held_place is not None and held_place.stream in batches:
                    batches[held_place.stream].append(held_place)
        return {name: taken for name, taken in batches.items() if taken}

    def _unknown(self, event: Event) -> Malformed:
        names = self._topology.streams
        known = ", ".join(sorted(self.chains if event.stream in names else names))
        detail = (
            f"stream {event.stream!r} is not in the topology file (it has: {known});"
            " add it under `streams:` or correct the streamId header"
        )
        return dead_letter(event, event.arrival_ns, "unknown_stream", detail)

    # -- for people and drivers --------------------------------------------------------------------

    def set_queries(
        self,
        queries: Mapping[str, QueryConfig],
        compiled: Mapping[str, Compiled] | None = None,
    ) -> None:
        """From now on these patterns are looked for (`topology.live_queries`). One that is new
        counts what starts from now on; one that is no more retracts nothing. What is `compiled`
        already, by name, is not compiled here; several stages may share it."""
        self._queries = queries
        self._answers.set_queries({**self._topology.queries, **queries})
        self._look_for(compiled or {})

    def _look_for(self, compiled: Mapping[str, Compiled]) -> None:
        environment = Environment(functions=self._topology.user_functions.functions)
        queries = self._answers.answered(self._queries)
        for stream, chain in self.chains.items():
            for node in chain.nodes:
                pattern = node.operator
                if isinstance(pattern, Pattern):
                    mine = self._topology.queries_of(stream, queries)
                    known = {**pattern.compiled, **compiled}
                    engine = engine_of(stream, mine, environment, known)
                    qualities = qualities_of(mine, self._topology.streams[stream])
                    pattern.take_over(engine, qualities)

    def reading_ahead(self) -> list[Ahead | Answers]:
        """Those whose work a driver may put a price to (`items_cost`), as they tell early by it."""
        ahead = [node.operator for node in self._graph.nodes if isinstance(node.operator, Ahead)]
        return [*ahead, self._answers] if self._answers else [*ahead]

    @property
    def kept_final(self) -> Mapping[str, str]:
        """Live queries whose other `answer` is not taken, by name, with the reason."""
        return self._answers.kept

    def chosen(self) -> list[Chosen]:
        """How those queries answer that choose it."""
        found = self._answers.chosen()
        for node in self._graph.nodes:
            if isinstance(node.operator, Ahead | DetectorQueries):
                found += node.operator.chosen()
        return found

    def figures_of(self, stream: str) -> Figures:
        return self._graph.figures_of(stream)

    def explain(self) -> dict[str, Plain]:
        alignment = None if self.alignment is None else self.alignment.explain()
        said = {"alignment": alignment, **self._graph.explain()}
        return {**said, "answers": self._answers.explain()} if self._answers else said

    def locate_in(self, stream: str | None, source: str, epoch: int, seq: int) -> dict[str, Plain]:
        """Where one event is (topology.model.whereabouts): what the operators say by stream, and
        since when it waits for a word from which lanes. O(events that wait for lanes)."""
        aligned = None
        if self.alignment is not None:
            for event in self.alignment.held():
                if (event.source, event.seq) == (source, seq) and epoch in {NO_EPOCH, event.epoch}:
                    aligned = {
                        "stream": event.stream,
                        "epoch": event.epoch,
                        "since": event.at_ns,
                        "lanes": self.alignment.waiting_for(),
                    }
                    break
        return {
            "alignment": aligned,
            "streams": self._graph.locate(stream, source, epoch, seq),
        }

    def counts_in(self, stream: str, source: str) -> Figures:
        """What has come of one source; none: it has not been heard here."""
        chain = self.chains.get(stream)
        return {} if chain is None else chain.counts_of(source)

    def keep_moved(self) -> None:
        """From now on `take_moved` says what passed from one operator to the next, or is no
        longer held by one that had let it pass."""
        self._keeps_moved = True
        self._graph.keep_moved()

    def show(self, probe: Probe) -> None:
        """From now on it sees events between the operators."""
        self._graph.show(probe)

    def take_moved(self) -> list[Event]:
        moved, self._moved = self._moved, []
        return moved + self._graph.take_moved() + self._graph.let_go()

    def close(self) -> None:
        self._graph.close()

    # -- state -------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        state = self._graph.snapshot()
        if self.alignment is not None:
            state[ALIGN] = self.alignment.snapshot()
        return state | self._answers.snapshot()

    def changes(self) -> Changes:
        changes = self._graph.changes()
        if self.alignment is not None:
            changes[ALIGN] = self.alignment.changes()
        return changes | self._answers.changes()

    def held(self) -> Iterable[Event]:
        if self.alignment is not None:
            yield from self.alignment.held()
        yield from self._graph.held()

    def held_apart(self) -> list[Event]:
        """A copy for each operator that holds an event, for whoever keeps them himself. Not
        behind an alignment."""
        assert self.alignment is None, "who reads a topic reads held events there again"
        return self._graph.held_apart()

    def waiting(self) -> Iterable[Event]:
        """Those held that have not been let pass: the `held` of the balance."""
        if self.alignment is not None:
            yield from self.alignment.waiting()
        yield from self._graph.waiting()

    def restoring(self, state: Mapping[str, Plain], held: Iterable[Event]) -> Iterator[int]:
        """See `topology.model.operator`."""
        events = list(held)
        if self.alignment is not None:
            aligned = [event for event in events if event.held_by == ALIGN_PLACE]
            self.alignment.restore(state.get(ALIGN, {}), aligned)
            events = [event for event in events if event.held_by != ALIGN_PLACE]
        nodes = self._answers.restore(state)
        if self._answers.kept:
            self._look_for({})
        nodes.pop(ALIGN, None)
        yield from self._graph.restoring(nodes, events)


def placeholder(dead: Malformed) -> Event | None:
    """What takes the place of a dead letter in its sequence; None if that is unknown."""
    if dead.stream is None or dead.source is None or dead.seq is None:
        return None
    epoch = NO_EPOCH if dead.epoch is None else dead.epoch
    return Event(
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
