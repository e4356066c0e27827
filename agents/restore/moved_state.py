"""Makes the first states of a stage's tasks from the states of other stages, which are drained.

The tasks of the former layout are restored as at any start (`agents.restore.rebuilding`). The state
of each operator goes to the stage that has it now (`topology.stage.recut`). Joins, patterns and
detectors hold past events, which are records of another topic in the new layout. So the new state
has these records whole, in the form of the topic that the stage reads, as after a backfill
(`agents.restore.history`). Their offsets are below 0, which are in no log.

A task of an input goes on at the offsets and with the clocks of its partitions. A task of a topic
between stages begins at the end of that topic, because everything in it was processed. Time goes on
from the latest instant of all former tasks.

Cost: a snapshot of all former tasks for each new stage. Memory: the states, and the held events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from aiokafka.structs import TopicPartition

from agents.kafka.stage_topics import ORDERED, RAW
from agents.restore.partition_state import PartitionState
from agents.restore.rebuilding import StateParts
from agents.stage.arrangement import Arrangement
from agents.stage.arrival import LOG_APPEND_TIME, NS_PER_MS
from agents.state import changelog
from agents.state.changelog import NOTHING_READ, LaneProgress, Progress
from agents.state.held import offset_of, pages_of
from agents.state.notes import Spilled
from agents.state.stores.seal import StateTally
from topology.base.event import Event, copy_event
from topology.base.operator import State
from topology.config.stages import MERGE
from topology.order.clock.drift_table import DriftTable
from topology.records.header_writer import HeaderWriter
from topology.stage.lanes import number_of
from topology.stage.node import split_key
from topology.stage.recut import OperatorStates, find_divided_streams
from topology.stage.registry import ALIGN_PLACE, BY_LANE, move_places, new_places, places_of
from topology.stage.stage import ALIGN

ORDERING: Final = frozenset({*BY_LANE, MERGE})
"""The operators that hold nothing in a drained chain, so that their state is moved as it is."""


class MovedState(NamedTuple):
    """The first state of a task, with all entries, and the next offsets of its partitions."""

    entries: Mapping[bytes, bytes]
    offsets: Mapping[TopicPartition, int]


@dataclass(eq=False)
class FormerTask:
    """A task of the former layout: its restored state, and the entries that it was restored from.

    Attributes:
        held: The events that its operators hold, with the offsets that they have in its state.
    """

    state: PartitionState
    entries: Mapping[bytes, bytes]

    def __post_init__(self) -> None:
        parts = StateParts()
        for key, value in self.entries.items():
            parts.add(key.decode(), value)
        self._ordering = {
            key: value for key, value in parts.operators.items() if split_key(key).name in ORDERING
        }
        held = sorted(self.state.stage.iter_held(), key=offset_of)
        if len(self.state.lanes) > 1:
            held.sort(key=lambda event: (event.at_ns, event.ref_time_ns))
        self.held = [(event.offset, event) for event in held]

    @property
    def arrangement(self) -> Arrangement:
        return self.state.arrangement

    @property
    def now_ns(self) -> int:
        """The latest instant that the task or one of its lanes has reached."""
        lanes = self.state.lanes.values()
        return max(self.state.now_ns, *(lane.clock.now_ns for lane in lanes))

    def waiting(self) -> list[str]:
        """Return what waits in the operators that order events, a phrase for each of them."""
        places = {"alignment": ALIGN_PLACE} | places_of(self.arrangement.operator_names)
        waits = self.state.stage.waiting_places
        counts = {
            name: len(self.state.stage.ledger.kept_at(place))
            for name, place in places.items()
            if place & waits
        }
        stage = self.arrangement.stage.name
        return [f"{name} of {stage} has buffered {n} events" for name, n in counts.items() if n]

    def renumber(self, numbers: Mapping[int, int]) -> State:
        """Return the operators' state with these numbers of the held events, by the former ones."""
        stage = self.state.stage
        stage.renumber({event.offset: numbers.get(former, former) for former, event in self.held})
        for former, event in self.held:
            event.offset = numbers.get(former, former)
        state = {k: v for k, v in stage.snapshot().items() if split_key(k).name not in ORDERING}
        return self._ordering | state


def spread(arrangement: Arrangement) -> str | None:
    """Return a stream whose partition only its records tell, or None if the file tells all.

    It is in one partition of its input, and each of these is a task that reorders and merges.
    """
    if not (arrangement.is_first and MERGE in arrangement.operator_names):
        return None
    lanes = {source: arrangement.lanes_by_stream(source) for source in arrangement.tasks}
    return next(find_divided_streams(lanes), None)


def moved_states(
    arrangement: Arrangement,
    former: Sequence[FormerTask],
    ends: Mapping[TopicPartition, int],
    topic_ids: Mapping[str, str],
) -> dict[TopicPartition, MovedState]:
    """Return the first states of the tasks of a stage, by task.

    `ends` has the ends of the partitions that the stage reads, if these are between stages. A task
    of which nothing was read has no state.
    """
    tasks = {source: arrangement.lanes_by_stream(source) for source in arrangement.tasks}
    lane_of = {name: at[0][0] for lanes in tasks.values() for name, at in lanes.items()}
    pool, held = _pool_states(arrangement, former, lane_of)
    now_ns = max(task.now_ns for task in former)
    record_of = _record_writer(arrangement)
    found: dict[TopicPartition, MovedState] = {}
    for source, lanes in tasks.items():
        progress = _make_progress(arrangement, source, former, now_ns, ends, topic_ids)
        offsets = {
            lane: offset
            for lane, offset in progress.offsets(source).items()
            if offset != NOTHING_READ
        }
        if not offsets:
            continue
        state = pool.share(arrangement.operator_names, lanes)
        alignment = arrangement.operators(source, DriftTable()).alignment
        if alignment is not None:
            alignment.begin_at(now_ns)
            state |= {ALIGN + key: value for key, value in alignment.snapshot().items()}
        entries: dict[str, Any] = {changelog.STATE + key: value for key, value in state.items()}
        own = sorted((event for event in held if event.stream in lanes), key=offset_of)
        entries |= pages_of({event: held[event] for event in own})
        entries |= {f"{changelog.RECORD}{event.offset}": record_of(event) for event in own}
        found[source] = MovedState(_encode_entries(entries, progress), offsets)
    return found


def _pool_states(
    arrangement: Arrangement, former: Sequence[FormerTask], lane_of: Mapping[str, int]
) -> tuple[OperatorStates, dict[Event, int]]:
    """Return the states of all operators, and the events that those of this stage hold.

    The events are numbered from -1 downwards, the newest first.
    """
    pool, held = OperatorStates(), dict[Event, int]()
    count = sum(len(task.held) for task in former)
    for task in former:
        moves = new_places(task.arrangement.operator_names, arrangement.operator_names)
        ledger = task.state.stage.ledger
        numbers: dict[int, int] = {}
        for was, event in task.held:
            at = move_places(ledger.places_of(event), moves)
            if at:
                copy = copy_event(event)
                copy.lane = lane_of[event.stream]
                copy.offset = numbers[was] = number_of(copy.lane, -count)
                held[copy] = at
            count -= 1
        lanes = task.arrangement.lanes_by_stream(task.state.source)
        pool.add(task.renumber(numbers), lanes)
    return pool, held


def _make_progress(
    arrangement: Arrangement,
    source: TopicPartition,
    former: Sequence[FormerTask],
    now_ns: int,
    ends: Mapping[TopicPartition, int],
    topic_ids: Mapping[str, str],
) -> Progress:
    made = arrangement.progress(source, topic_ids.get(source.topic, ""))
    made.midstream = max(task.state.progress.midstream for task in former)
    made.history = max(task.state.progress.history for task in former)
    if not arrangement.is_first:
        made.next_offset, made.arrival = ends[source], [now_ns, 0, 0]
        return made
    read = {
        lane.partition: (lane.next_offset, lane.clock.snapshot())
        for task in former
        if task.arrangement.is_first
        for lane in task.state.lanes.values()
        if lane.next_offset is not None
    }
    made.next_offset, made.arrival = read.get(source, (NOTHING_READ, []))
    made.lanes = [
        LaneProgress(
            lane.topic, lane.partition, *read[lane], topic_id=topic_ids.get(lane.topic, "")
        )
        for _, lane in arrangement.lanes_of(source)
        if lane != source and lane in read
    ]
    return made


def _encode_entries(entries: Mapping[str, Any], progress: Progress) -> dict[bytes, bytes]:
    """Return the encoded entries, with the progress that counts them."""
    encoded = changelog.encode_changes(entries)
    tally = StateTally()
    tally.change(encoded)
    progress.entries, progress.digest = tally.entries, tally.digest
    found = {key: value for key, value in encoded.items() if value is not None}
    return found | {changelog.PROGRESS: changelog.encode(progress)}


def _record_writer(arrangement: Arrangement) -> Callable[[Event], Spilled]:
    """Return a function that writes a held event as a record of the topic that the stage reads."""
    streams = arrangement.topology.streams.values()
    writer = HeaderWriter(next(iter(streams)).headers)

    def write(event: Event) -> Spilled:
        record = event.record
        stamp_ms, headers = max(record.timestamp, 0), record.headers
        if arrangement.reads == ORDERED:
            stamp_ms = max(event.ref_time_ns // NS_PER_MS, 0)
            headers = writer.write_ordered(event, headers)
        elif arrangement.reads != RAW:
            headers = writer.stamp(event, headers, event.lane)
        return Spilled(event.offset, stamp_ms, LOG_APPEND_TIME, record.key, record.value, headers)

    return write
