"""A stage in one input partition: a chain of operators for each of its streams.

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
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from topology.clock import Clock
from topology.clock.drift_table import DriftTable
from topology.flow.alignment import Alignment
from topology.flow.chain import Chain, instant
from topology.flow.join_input import Tap
from topology.flow.meeting import JOIN_PLACE, Meeting, meetings
from topology.merge.by_time import MergeByTime
from topology.merge.operator import Merge
from topology.model.event import DEAD, NO_EPOCH, Event
from topology.model.operator import TURN, Changes, Figures, Operator, State, StepByStep
from topology.model.outcome import Malformed, Report, Step, dead_letter
from topology.pattern.compile.scope import Environment
from topology.pattern.operator import Pattern
from topology.pattern.run.compiled import Compiled
from topology.pattern.run.engine import Engine
from topology.query.quality import Quality, quality_of
from topology.reorder.by_time import SourcesByTime
from topology.reorder.operator import Reorder
from topology.waiting.strategy import strategy_of
from topology.window import Windows
from topology.window import of as window_config
from topology.window.several import SeveralWindows

REORDER = "reorder"
CLOCK = "clock"
MERGE = "merge"
WINDOW = "window"
PATTERN = "pattern"
JOIN = "join"
ALIGN = "align"
PPB_PER_PPM = 1_000
SEPARATOR = "\n"
"""Between stream and key in the state: no stream name holds one."""


ALIGN_PLACE = 1
CHAIN_PLACE = 2
"""`Event.held_by`: 1 is the alignment in front of the chains, which start at 2; behind all of them
is `JOIN_PLACE`."""


def chain_of(
    topology: Any, stream: str, operators: Sequence[str], table: DriftTable | None = None
) -> Chain:
    """The operators of one stream as the stage is cut."""
    config = topology.streams[stream]
    parts: list[tuple[str, Operator]] = []
    for name in in_chain(topology, operators):
        place = len(parts) + CHAIN_PLACE
        if name == REORDER:
            parts.append((REORDER, _reorder(stream, config, place)))
            parts.append((CLOCK, Clock(config.clock, config.reorder.max_sources, table)))
        elif name == MERGE:
            merge = (Merge if config.reorder.numbered else MergeByTime)(
                stream,
                config.merge,
                late=config.reorder.late,
                position=place,
                max_sources=config.reorder.max_sources,
                heartbeat_ns=topology.heartbeat_ns if topology.watermark else 0,
                correct_for_ns=topology.correct_for_ns,
            )
            parts.append((MERGE, merge))
        elif name == WINDOW:
            parts += _windows(topology, stream)
        elif name == PATTERN:
            parts += _pattern(topology, stream, place)
        elif name == JOIN:
            parts.append((JOIN, Tap(is_alone=topology.joins_read == "ordered")))
    return Chain(parts, first_place=CHAIN_PLACE)


def _reorder(stream: str, config: Any, place: int) -> Operator:
    """Each source in order: by its numbers, or by its own time. There a stamp far ahead makes dead,
    as in CLOCK, where sources are taken at their word."""
    if config.reorder.numbered:
        return Reorder(stream, config.reorder, place)
    trusted = config.clock.unsynced == "trust"
    max_ahead_ns = config.clock.max_ahead_ns if trusted else None
    strategy = strategy_of(config.reorder)
    return SourcesByTime(stream, config.reorder, strategy, place, max_ahead_ns)


def in_chain(topology: Any, operators: Sequence[str]) -> list[str]:
    """The operators of a stage as events meet them: windows and joins that do not wait for the
    merge stand before it."""
    names = list(operators)
    for name, reads in ((WINDOW, topology.windows_read), (JOIN, topology.joins_read)):
        if MERGE in names and name in names and reads == "sequenced":
            names.remove(name)
            names.insert(names.index(MERGE), name)
    return names


def _windows(topology: Any, stream: str) -> list[tuple[str, Operator]]:
    config = topology.streams[stream]
    reads_ordered = topology.windows_read == "ordered"
    configs = [
        window_config(
            name,
            query,
            early_ns=query.early_ns,
            finals=query.finals,
            correct_for_ns=topology.corrects_for_ns(query),
            newcomers_ns=topology.newcomers_ns(stream),
            max_error_ns=config.clock.max_error_ns,
            max_skew_ppm=-(-config.clock.max_skew_ppb // PPB_PER_PPM),
            max_windows=query.max_windows,
            quality=quality_of(query.quality, [config]),
        )
        for name, query in topology.queries_of(stream).items()
        if query.window is not None
    ]
    if not configs and reads_ordered:
        return []  # before the merge all streams have it, so that what is behind has one place
    own = topology.own.aggregates
    windows = [
        (each, Windows(stream, each, functions=own, ordered=reads_ordered)) for each in configs
    ]
    return [(WINDOW, SeveralWindows(windows))]


def _pattern(topology: Any, stream: str, place: int) -> list[tuple[str, Operator]]:
    queries = topology.queries_of(stream)
    if not topology.live_queries and all(query.pattern is None for query in queries.values()):
        return []
    engine = engine_of(stream, queries, Environment(functions=topology.own.functions))
    qualities = qualities_of(queries, topology.streams[stream])
    reads_ordered = topology.patterns_read == "ordered"
    max_ahead_ns = None if reads_ordered else topology.streams[stream].clock.max_ahead_ns
    pattern = Pattern(
        engine,
        topology.correct_for_ns,
        place,
        newcomers_ns=topology.newcomers_ns(stream),
        max_ahead_ns=max_ahead_ns,
        qualities=qualities,
    )
    return [(PATTERN, pattern)]


def engine_of(
    stream: str,
    queries: Mapping[str, Any],
    environment: Environment,
    known: Mapping[str, Compiled] | None = None,
) -> Engine:
    """The patterns among the queries (`QueryConfig` by name). What is `known` and the same is not
    compiled again."""
    found = {name: query for name, query in queries.items() if query.pattern is not None}
    compiled = []
    for name, query in found.items():
        pattern = replace(query.pattern, name=name)
        before = (known or {}).get(name)
        if before is None or before.query != pattern:
            before = Compiled(pattern, environment)
        compiled.append(before)
    tells_final = [name for name, query in found.items() if query.finals]
    return Engine(compiled, stream, tells_final=tells_final)


def qualities_of(queries: Mapping[str, Any], config: Any) -> dict[str, Quality]:
    """Of the patterns that wait, by name."""
    return {
        name: quality
        for name, query in queries.items()
        if query.pattern is not None
        and (quality := quality_of(query.quality, [config])) is not None
    }


class Stage(StepByStep):
    """`topology` is a `topology.config.Topology`; `operators` the stage's, in
    order; `streams` those that can occur in its input (default: all). Behind a derived
    topic (`operators` do not start with reorder) `lanes` is how many partitions the
    topic upstream of that one has: they are aligned first, but for the ordered topic, where a
    stream has one lane. `table` is what is heard about
    the clocks of the sources; whoever owns it adds to it."""

    def __init__(
        self,
        topology: Any,
        operators: Sequence[str],
        lanes: int = 0,
        streams: Iterable[str] | None = None,
        table: DriftTable | None = None,
    ) -> None:
        self.chains = {
            stream: chain_of(topology, stream, operators, table)
            for stream in (topology.streams if streams is None else streams)
        }
        self._topology = topology
        reads = {MERGE: "sequenced", WINDOW: topology.windows_read, JOIN: topology.joins_read}
        reads_sequenced = reads.get(operators[0]) == "sequenced"
        self._begins_ordered = operators[0] != REORDER and not reads_sequenced
        self.meetings: list[Meeting] = []
        if JOIN in operators:
            taps = {stream: chain.operator(JOIN) for stream, chain in self.chains.items()}
            self.meetings = meetings(topology, taps, keeps_log_order=self._begins_ordered)
        self._moved: list[Event] = []
        self._keeps_moved = False
        self.alignment: Alignment | None = None
        if reads_sequenced:
            merges = [topology.streams[name].merge for name in self.chains]
            self.alignment = Alignment(
                lanes,
                max(merge.max_queued for merge in merges),
                ALIGN_PLACE,
                max(merge.max_queued_bytes for merge in merges),
            )

    def on_batch(self, inputs: Sequence[Event | Malformed], now_ns: int) -> Step:
        if self.alignment is None:
            return self._through_chains(inputs, now_ns)
        aligned = self.alignment.on_batch([e for e in inputs if isinstance(e, Event)], now_ns)
        if self._keeps_moved:
            self._moved += aligned.released
        step = self._through_chains(aligned.released, aligned.now_ns)
        step.reports += [dead for dead in inputs if not isinstance(dead, Event)]
        return step

    def _through_chains(self, inputs: Sequence[Event | Malformed], now_ns: int) -> Step:
        reports: list[Report] = []
        batches = self._by_stream(inputs, reports)
        step = Step(now_ns, [], reports)
        for stream, chain in self.chains.items():
            batch = batches.get(stream, ())
            if not self._begins_ordered:
                self._add(step, chain.on_batch(batch, now_ns))
            elif batch:  # each stream bears its own clock there
                self._add(step, chain.on_batch(batch, batch[-1].at_ns))
        for meeting in self.meetings:
            step.results += meeting.pass_on()
        return self._in_order(step)

    def on_time(self, now_ns: int) -> Step:
        if self.alignment is not None:
            now_ns = self.alignment.on_time(now_ns).now_ns
        step = Step(now_ns)
        for chain in self.chains.values():
            self._add(step, chain.on_time(now_ns))
        for meeting in self.meetings:
            step.results += meeting.on_time()
        return self._in_order(step)

    def on_end(self, now_ns: int) -> Step:
        first = Step(now_ns)
        if self.alignment is not None:
            aligned = self.alignment.on_end(now_ns)
            first = self._through_chains(aligned.released, aligned.now_ns)
            now_ns = aligned.now_ns
        for chain in self.chains.values():
            self._add(first, chain.on_end(now_ns))
        for meeting in self.meetings:
            first.results += meeting.on_end()
        return self._in_order(first)

    def set_queries(
        self, queries: Mapping[str, Any], compiled: Mapping[str, Compiled] | None = None
    ) -> None:
        """From now on these patterns are looked for (`topology.live_queries`). One that is new
        counts what starts from now on; one that is no more retracts nothing. What is `compiled`
        already, by name, is not compiled here; several stages may share it."""
        for stream, chain in self.chains.items():
            if PATTERN in chain.names:
                mine = self._topology.queries_of(stream, queries)
                known = chain.operator(PATTERN).compiled | (compiled or {})
                environment = Environment(functions=self._topology.own.functions)
                engine = engine_of(stream, mine, environment, known)
                qualities = qualities_of(mine, self._topology.streams[stream])
                chain.operator(PATTERN).take_over(engine, qualities)

    def figures_of(self, stream: str) -> Figures:
        """How the stream's operators stand, and with the first of several that are joined, the
        joins."""
        figures = self.chains[stream].figures()
        for meeting in self.meetings:
            figures |= meeting.figures(stream)
        return figures

    def keep_moved(self) -> None:
        """From now on `take_moved` says what passed from one operator to the next, or is no
        longer held by one that had let it pass."""
        self._keeps_moved = True
        for chain in self.chains.values():
            chain.moved = []

    def take_moved(self) -> list[Event]:
        moved, self._moved = self._moved, []
        for chain in self.chains.values():
            if chain.moved:
                moved += chain.moved
                chain.moved = []
            moved += chain.let_go()
        for meeting in self.meetings:
            moved += meeting.let_go()
        return moved

    def next_deadline_ns(self) -> int | None:
        due = [chain.next_deadline_ns() for chain in self.chains.values()]
        due += [meeting.next_deadline_ns() for meeting in self.meetings]
        return min((ns for ns in due if ns is not None), default=None)

    def _add(self, step: Step, part: Step) -> None:
        step.released += part.released
        step.reports += part.reports
        step.results += part.results
        step.now_ns = min(step.now_ns, part.now_ns)

    def _in_order(self, step: Step) -> Step:
        if len(self.chains) > 1:
            step.released.sort(key=at_ns)
        if len(self.chains) > 1 or self.meetings:
            step.results.sort(key=instant)
        step.reports.sort(key=instant)
        return step

    def _by_stream(
        self, inputs: Sequence[Event | Malformed], reports: list[Report]
    ) -> dict[str, Sequence[Event]]:
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
        known = ", ".join(sorted(self.chains))
        detail = (
            f"stream {event.stream!r} is not in the topology file (it has: {known});"
            " add it under `streams:` or correct the streamId header"
        )
        return dead_letter(event, event.arrival_ns, "unknown_stream", detail)

    def close(self) -> None:
        """Let go of what the stage shares with others; it is not used after."""
        for chain in self.chains.values():
            chain.close()

    def snapshot(self) -> State:
        state = self._prefixed({name: chain.snapshot() for name, chain in self.chains.items()})
        for meeting in self.meetings:
            state |= _of_meeting(meeting, meeting.snapshot())
        if self.alignment is not None:
            state[ALIGN] = self.alignment.snapshot()
        return state

    def changes(self) -> Changes:
        changes = self._prefixed({name: chain.changes() for name, chain in self.chains.items()})
        for meeting in self.meetings:
            changes |= _of_meeting(meeting, meeting.changes())
        if self.alignment is not None:
            changes[ALIGN] = self.alignment.changes()
        return changes

    def _prefixed(self, states: dict[str, dict[str, Any]]) -> dict[str, Any]:
        return {
            f"{stream}{SEPARATOR}{key}": value
            for stream, state in states.items()
            for key, value in state.items()
        }

    def held(self) -> Iterable[Event]:
        if self.alignment is not None:
            yield from self.alignment.held()
        for chain in self.chains.values():
            yield from chain.held()
        for meeting in self.meetings:
            yield from meeting.held()

    def waiting(self) -> Iterable[Event]:
        """Those held that have not been let pass: the `held` of the balance."""
        if self.alignment is not None:
            yield from self.alignment.held()
        for chain in self.chains.values():
            yield from chain.waiting()

    def restoring(self, state: Mapping[str, Any], held: Iterable[Event]) -> Iterator[int]:
        """See `topology.model.operator`. What belongs to a stream that the topology no longer names
        is left out; the caller has refused such a change before."""
        states: dict[str, dict[str, Any]] = {stream: {} for stream in self.chains}
        met: dict[str, dict[str, Any]] = {}
        aligned: list[Event] = []
        joined: list[Event] = []
        events: dict[str, list[Event]] = {stream: [] for stream in self.chains}
        for key, value in state.items():
            stream, _, rest = key.partition(SEPARATOR)
            if not stream:
                place, _, rest = rest.partition(SEPARATOR)
                met.setdefault(place, {})[rest] = value
            elif stream in states and key != ALIGN:
                states[stream][rest] = value
        for number, event in enumerate(held):
            if event.held_by == ALIGN_PLACE:
                aligned.append(event)
            elif event.held_by == JOIN_PLACE:
                joined.append(event)
            elif event.stream in events:
                events[event.stream].append(event)
            if not number % TURN:
                yield 0
        if self.alignment is not None:
            self.alignment.restore(state.get(ALIGN, {}), aligned)
        for stream, chain in self.chains.items():
            yield from chain.restoring(states[stream], events[stream])
        for meeting in self.meetings:
            place = meeting.streams[0]
            here = [event for event in joined if event.stream in meeting.streams]
            meeting.restore(met.get(place, {}), here)
            yield len(here)


def _of_meeting(meeting: Meeting, state: dict[str, Any]) -> dict[str, Any]:
    """The name of no stream is empty."""
    place = f"{SEPARATOR}{meeting.streams[0]}{SEPARATOR}"
    return {place + key: value for key, value in state.items()}


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


def at_ns(event: Event) -> int:
    return event.at_ns
