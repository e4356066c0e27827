"""The state of one partition in memory, and what a checkpoint writes of it.

A start fills it (agents.stage.opening) and batches change it (agents.stage.working). `changes` has
what changed since the last checkpoint: operators' entries, pages of buffered events, and how far
the state is (`Progress`). The changelog's layout is in agents.state.changelog.
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
    """The operators of a partition, its arrival clock, the events they hold, and the input offset.

    Attributes:
        restored: Steps of a restore that are done, and those that are known, as it goes on.
        next_offset: Where reading goes on; None before the first record of a first start.
        progress: How far the state is, as the last checkpoint has it.
        tally: The entries of the changelog as the last checkpoint left them.
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
        """Note how far a restore is."""
        self.restored = done, known

    def resume(self, progress: Progress, before: Contract | None) -> None:
        """Take over how far a state is. `before`: the contract it was made under, if not today's.

        Queries of a changed file may have had events before, of which nothing is known here.
        """
        mine, self.progress = self.progress, progress
        progress.contract = mine.contract
        progress.topic_id = mine.topic_id or progress.topic_id
        self.stage.begins_amid = progress.amid or (QUERIES if before is not None else 0)
        if before is not None:
            now = self.arrangement.contract(self.source).streams
            was = {name: stream.reading for name, stream in before.streams.items()}
            if was != {name: stream.reading for name, stream in now.items()}:
                # Where nothing came since an earlier change, its reading holds.
                progress.readings.setdefault(progress.next_offset, before.streams)
        self.next_offset = progress.next_offset
        self.clock.restore(progress.arrival)
        self._tried_at = progress.since

    def read_until(self, offset: int) -> int | None:
        """Return which of `Progress.readings` is that of a held record; None: it is read as records
        are now."""
        return min((until for until in self.progress.readings if until > offset), default=None)

    def changes(self, log_end: int) -> dict[bytes, bytes | None]:
        """Return what changed since the last call, encoded. `log_end`: the changelog's end."""
        assert self.next_offset is not None, "nothing was read"
        encoded = changelog.encoded(self.stage.changes(), changelog.STATE) | self._whole(log_end)
        encoded |= changelog.encoded(dict(self.held.changes(self.clock.now_ns)))
        self.tally.change(encoded)
        now = self.progress
        now.next_offset, now.arrival = self.next_offset, self.clock.snapshot()
        now.entries, now.digest = self.tally.entries, self.tally.digest
        now.amid = self.stage.begins_amid
        if now.readings:
            held = self.held.first_offset()
            kept = {u: was for u, was in now.readings.items() if held is not None and held < u}
            now.readings = kept
        encoded[changelog.PROGRESS] = changelog.encode(now)
        return encoded

    def _whole(self, log_end: int) -> dict[bytes, bytes | None]:
        """Return all that operators keep, where the changelog is long and the state small; nothing
        otherwise. The next attempt is as far away after one that was too large."""
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
        """Return the first offset that a restore reads again, where others ask for it."""
        if self.arrangement.reads != SEQUENCED or self.next_offset is None:
            return None
        return self.held.needed_from(self.next_offset)
