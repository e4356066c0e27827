"""The state of one partition in memory, and what a checkpoint writes of it.

A start fills it (agents.stage.opening) and batches change it (agents.stage.working). `changes` has
what changed since the last checkpoint: operators' entries, pages of buffered events, and how far
the state is (`Progress`). The changelog's layout is in agents.state.changelog.
"""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from functools import cached_property

from aiokafka.structs import TopicPartition
from msgspec import Raw

from agents.kafka.stage_topics import SEQUENCED
from agents.stage.arrangement import Arrangement
from agents.stage.arrival import arrival_clock
from agents.stage.readings import Readings
from agents.stage.services import Services
from agents.state import changelog
from agents.state.changelog import LastWhole, Progress
from agents.state.held import HeldPages
from agents.state.stores.seal import StateTally
from topology.config.change import Contract
from topology.flow.stage import QUERIES


@dataclass(eq=False)
class PartitionState:
    """The operators of a partition, its arrival clock, the events they hold, and the input offset.

    Attributes:
        next_offset: Where reading goes on; None before the first record of a first start.
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
        self.readings = Readings()
        self.next_offset: int | None = None
        self.tally = StateTally()
        self._last_whole = LastWhole()
        self._topic_id = services.topic_ids.get(source.topic, "")
        self._history = ""

    @cached_property
    def _contract(self) -> Raw:
        """The same in each checkpoint; O(streams) to make."""
        return Raw(changelog.encode(self.arrangement.contract(self.source)))

    def resume(self, progress: Progress, before: Contract | None) -> None:
        """Take over how far a state is. `before`: the contract it was made under, if not today's.

        Queries of a changed file may have had events before, of which nothing is known here.
        """
        self.stage.begins_amid = progress.amid or (QUERIES if before is not None else 0)
        if before is not None:
            now = self.arrangement.contract(self.source)
            self.readings.note(progress.next_offset, before, now)
        self._topic_id = self._topic_id or progress.topic_id
        self.next_offset = progress.next_offset
        self.clock.restore(progress.arrival)
        self._history = progress.history
        self._last_whole = LastWhole(progress.since)

    def changes(self, log_end: int) -> dict[bytes, bytes | None]:
        """Return what changed since the last call, encoded. `log_end`: the changelog's end."""
        assert self.next_offset is not None, "nothing was read"
        encoded = changelog.encoded(self.stage.changes(), changelog.STATE)
        is_due = self._last_whole.is_due(log_end, self.tally.entries) and not self.readings
        if is_due and self.held.touch_all():
            whole = changelog.encoded(self.stage.snapshot(), changelog.STATE)
            if self._last_whole.fits(whole, log_end):
                encoded |= whole
        encoded |= changelog.encoded(dict(self.held.changes(self.clock.now_ns)))
        if self.readings:
            encoded |= changelog.encoded(self.readings.changes(self.held.first_offset()))
        self.tally.change(encoded)
        progress = Progress(
            self.next_offset,
            self.clock.snapshot(),
            self._contract,
            self._topic_id,
            changelog.STATE_FORMAT,
            self.tally.entries,
            self.tally.digest,
            self._last_whole.since,
            self._history,
            self.stage.begins_amid,
        )
        encoded[changelog.PROGRESS] = changelog.encode(progress)
        return encoded

    def needed_from(self) -> int | None:
        """Return the first offset that a restore reads again, where others ask for it."""
        if self.arrangement.reads != SEQUENCED or self.next_offset is None:
            return None
        return self.held.needed_from(self.next_offset)
