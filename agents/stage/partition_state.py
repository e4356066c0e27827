"""Keeps the state of one partition in memory, and collects its changes for a checkpoint.

The state is filled when the partition is opened (`agents.stage.opening`), and each batch changes it
(`agents.stage.working`). `changes` returns everything that changed since its last call, or the
whole state if the changelog is long and the state small. `agents.state.changelog` describes the
entries.
"""

from __future__ import annotations

from dataclasses import InitVar, dataclass

from aiokafka.structs import TopicPartition

from agents.kafka.stage_topics import SEQUENCED
from agents.stage.arrangement import Arrangement
from agents.stage.arrival import arrival_clock
from agents.stage.services import Services
from agents.state import changelog
from agents.state.changelog import Progress
from agents.state.held import HeldPages
from agents.state.stores.seal import StateTally
from topology.config.change import Contract
from topology.flow.stage import QUERIES


@dataclass(eq=False)
class PartitionState:
    """The operators of a partition, its arrival clock, its buffered events, and the input offset.

    Attributes:
        restored: Number of finished steps of a restore, and number of all known steps.
        next_offset: Offset at which reading continues; None before the first record.
        progress: Progress of the state at the last checkpoint.
        tally: Number and digest of the changelog's entries after the last checkpoint.
    """

    source: TopicPartition
    arrangement: Arrangement
    services: InitVar[Services]

    def __post_init__(self, services: Services) -> None:
        source, topology, feed = self.source, self.arrangement.topology, services.clock_feed
        self.stage = self.arrangement.operators(source, None if feed is None else feed.table)
        self.stage.keep_moved()
        self.clock = arrival_clock(
            topology, source.topic, topology.tick_lag_ns, embedded=services.logs.is_embedded
        )
        self.held = HeldPages(topology.spill_after_ns, self.stage.waiting_places)
        self.tally = StateTally()
        self.restored = (0, 1)
        self.next_offset: int | None = None
        topic_id = services.topic_ids.get(source.topic, "")
        self.progress = self.arrangement.progress(source, topic_id)
        self._tried_at = 0

    def note_restored(self, done: int, known: int) -> None:
        """Record the number of finished steps of a restore, and of all known steps."""
        self.restored = done, known

    def resume(self, progress: Progress, before: Contract | None) -> None:
        """Adopt the progress of a restored state.

        `before` is the contract under which the state was written, or None if it equals today's. If
        the file has changed, earlier events may have matched queries that this state does not
        contain.
        """
        mine, self.progress = self.progress, progress
        progress.contract = mine.contract
        progress.topic_id = mine.topic_id or progress.topic_id
        self.stage.begin_midstream(progress.midstream or (QUERIES if before is not None else 0))
        if before is not None:
            now = self.arrangement.contract(self.source).streams
            was = {name: stream.reading for name, stream in before.streams.items()}
            if was != {name: stream.reading for name, stream in now.items()}:
                # If no record arrived since an earlier change, the settings from before that change
                # apply.
                progress.readings.setdefault(progress.next_offset, before.streams)
        self.next_offset = progress.next_offset
        self.clock.restore(progress.arrival)
        self._tried_at = progress.since

    def read_until(self, offset: int) -> int | None:
        """Return the key in `Progress.readings` that applies to a buffered record at this offset.

        None means that the record is read by the present topology file.
        """
        return min((until for until in self.progress.readings if until > offset), default=None)

    def changes(self, log_end: int) -> dict[bytes, bytes | None]:
        """Return the encoded changes since the last call; `log_end` is the changelog's end."""
        assert self.next_offset is not None, "nothing was read"
        encoded = changelog.encoded(self.stage.changes(), changelog.STATE) | self._whole(log_end)
        encoded |= changelog.encoded(dict(self.held.changes(self.clock.now_ns)))
        self.tally.change(encoded)
        now = self.progress
        now.next_offset, now.arrival = self.next_offset, self.clock.snapshot()
        now.entries, now.digest = self.tally.entries, self.tally.digest
        now.midstream = self.stage.begins_midstream
        if now.readings:
            held = self.held.first_offset()
            kept = {u: was for u, was in now.readings.items() if held is not None and held < u}
            now.readings = kept
        encoded[changelog.PROGRESS] = changelog.encode(now)
        return encoded

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
        whole = changelog.encoded(self.stage.snapshot(), changelog.STATE)
        if sum(len(value or b"") for value in whole.values()) > changelog.MOST_WHOLE_BYTES:
            return {}
        self.progress.since = log_end
        return whole

    def needed_from(self) -> int | None:
        """Return the first offset that a restore would read; None if purging does not need it."""
        if self.arrangement.reads != SEQUENCED or self.next_offset is None:
            return None
        return self.held.needed_from(self.next_offset)
