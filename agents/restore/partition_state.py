"""Keeps the state of one task in memory, and collects its changes for a checkpoint.

The state is filled when the partition is opened (`agents.task.opening`), and each batch changes it
(`agents.task.working`). `changes` returns everything that changed since its last call, or the
whole state if the changelog is long and the state small. `agents.state.changelog` describes the
entries.
"""

from __future__ import annotations

from dataclasses import InitVar, dataclass

from aiokafka.structs import TopicPartition

from agents.kafka.stage_topics import SEQUENCED
from agents.restore.services import Services
from agents.stage.arrangement import Arrangement
from agents.stage.arrival import make_arrival_clock
from agents.stage.lane import Lane
from agents.state import changelog
from agents.state.changelog import NOTHING_READ, LaneProgress, Progress
from agents.state.held import HeldPages
from agents.state.stores.seal import StateTally
from topology.config.change import Contract
from topology.stage.lanes import lane_of, number_of
from topology.stage.registry import operators_of, place_moves
from topology.stage.stage import QUERIES


@dataclass(eq=False)
class PartitionState:
    """The operators of a task, its lanes with their clocks and offsets, and its buffered events.

    Attributes:
        lanes: The input partitions, by their numbers, in the order of the numbers.
        restored: Number of finished steps of a restore, and number of all known steps.
        progress: Progress of the state at the last checkpoint.
        place_moves: The new places of the operators that a changed file has moved.
        tally: Number and digest of the changelog's entries after the last checkpoint.
    """

    source: TopicPartition
    arrangement: Arrangement
    services: InitVar[Services]

    def __post_init__(self, services: Services) -> None:
        source, topology, feed = self.source, self.arrangement.topology, services.clock_feed
        self.stage = self.arrangement.operators(source, None if feed is None else feed.table)
        self.lanes = {
            number: Lane(
                number,
                partition,
                self.arrangement.inlet(partition),
                make_arrival_clock(
                    topology,
                    partition.topic,
                    topology.tick_lag_ns,
                    embedded=services.logs.is_embedded,
                ),
            )
            for number, partition in self.arrangement.lanes_of(source)
        }
        self.held = HeldPages(topology.spill_after_ns, self.stage.ledger, self.stage.waiting_places)
        self.tally = StateTally()
        self.restored = (0, 1)
        self.place_moves: dict[int, int] = {}
        self._topic_ids = services.topic_ids
        topic_id = services.topic_ids.get(source.topic, "")
        self.progress = self.arrangement.progress(source, topic_id)
        self._tried_at = 0

    @property
    def first(self) -> Lane:
        """The first lane, whose input partition names the task."""
        return next(iter(self.lanes.values()))

    @property
    def has_begun(self) -> bool:
        """Whether any record has been read."""
        return any(lane.next_offset is not None for lane in self.lanes.values())

    @property
    def now_ns(self) -> int:
        """The time of the operators."""
        alignment = self.stage.alignment
        aligned = len(self.lanes) > 1 and alignment is not None
        return alignment.now_ns if aligned and alignment is not None else self.first.clock.now_ns

    def note_restored(self, done: int, known: int) -> None:
        """Record the number of finished steps of a restore, and of all known steps."""
        self.restored = done, known

    def resume(self, progress: Progress, before: Contract | None) -> None:
        """Adopt the progress of a restored state.

        `before` is the contract under which the state was written, or None if it equals today's. If
        the file has changed, earlier events may have matched queries that this state does not
        contain. A lane that the state does not have begins with its first record.
        """
        mine, self.progress = self.progress, progress
        progress.contract = mine.contract
        progress.topic_id = mine.topic_id or progress.topic_id
        self.stage.begin_midstream(progress.midstream or (QUERIES if before is not None else 0))
        others = {(each.topic, each.partition): each for each in progress.lanes}
        for lane in self.lanes.values():
            known = progress if lane is self.first else others.get(lane.partition)
            if known is not None and known.next_offset != NOTHING_READ:
                lane.next_offset = known.next_offset
                lane.clock.restore(known.arrival)
        alignment = self.stage.alignment
        if len(self.lanes) > 1 and not progress.lanes and alignment is not None:
            # The input had one partition when this state was written.
            alignment.begin_at(self.first.clock.now_ns)
        if before is not None:
            now = self.arrangement.operator_names
            self.place_moves = place_moves(operators_of(before.shapes), now)
            self._keep_old_readings(before)
        self._tried_at = progress.since

    def _keep_old_readings(self, before: Contract) -> None:
        """Read the buffered records by the settings of a file that was changed.

        If no record arrived since an earlier change, the settings from before that change apply.
        """
        now = self.arrangement.contract(self.source).streams
        was = {name: stream.reading for name, stream in before.streams.items()}
        if was == {name: stream.reading for name, stream in now.items()}:
            return
        for lane in self.lanes.values():
            if lane.next_offset is not None:
                number = number_of(lane.number, lane.next_offset)
                self.progress.readings.setdefault(number, before.streams)

    def reading_key_of(self, number: int) -> int | None:
        """Return the key in `Progress.readings` that applies to a buffered event of this number.

        None means that the record is read by the present topology file.
        """
        lane = lane_of(number)
        later = (u for u in self.progress.readings if u > number and lane_of(u) == lane)
        return min(later, default=None)

    def changes(self, log_end: int) -> dict[bytes, bytes | None]:
        """Return the encoded changes since the last call; `log_end` is the changelog's end."""
        assert self.has_begun, "nothing was read"
        encoded = changelog.encode_changes(self.stage.changes(), changelog.STATE) | self._whole(
            log_end
        )
        encoded |= changelog.encode_changes(dict(self.held.changes(self.now_ns)))
        self.tally.change(encoded)
        now = self.progress
        self._note_positions(now)
        now.entries, now.digest = self.tally.entries, self.tally.digest
        now.midstream = self.stage.begins_midstream
        if now.readings:
            now.readings = {
                until: was
                for until, was in now.readings.items()
                if self.held.has_any(lane_of(until), until)
            }
        encoded[changelog.PROGRESS] = changelog.encode(now)
        return encoded

    def _note_positions(self, now: Progress) -> None:
        first, *others = self.lanes.values()
        now.next_offset = NOTHING_READ if first.next_offset is None else first.next_offset
        now.arrival = first.clock.snapshot()
        now.lanes = [
            LaneProgress(
                lane.partition.topic,
                lane.partition.partition,
                lane.next_offset,
                lane.clock.snapshot(),
                self._topic_ids.get(lane.partition.topic, ""),
            )
            for lane in others
            if lane.next_offset is not None
        ]

    def offsets(self) -> dict[TopicPartition, int]:
        """Return the next offset of each lane of which anything has been read."""
        return {
            lane.partition: lane.next_offset
            for lane in self.lanes.values()
            if lane.next_offset is not None
        }

    def _whole(self, log_end: int) -> dict[bytes, bytes | None]:
        """Return the whole state if the changelog is long and the state small, else an empty dict.

        After a state that was too large, the next attempt comes only when the changelog has grown
        by as much again.
        """
        entries = self.tally.entries
        is_long = log_end - self._tried_at > max(changelog.LONG, changelog.TIMES_WHOLE * entries)
        if not is_long or entries > changelog.MOST_WHOLE or not self.held.touch_all():
            return {}
        self._tried_at = log_end
        whole = changelog.encode_changes(self.stage.snapshot(), changelog.STATE)
        if sum(len(value or b"") for value in whole.values()) > changelog.MOST_WHOLE_BYTES:
            return {}
        self.progress.since = log_end
        return whole

    def needed_from(self) -> int | None:
        """Return the first offset that a restore would read; None if purging does not need it."""
        if self.arrangement.reads != SEQUENCED or self.first.next_offset is None:
            return None
        return self.held.needed_from(self.first.next_offset)
