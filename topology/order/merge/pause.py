"""Recognises pauses of the whole log, and makes MERGE wait for the sources that were cut off.

When a broker stops, all sources fall silent together, and their producers keep their records.
Afterwards each producer sends them as soon as its partition has a leader and it is connected. Some
send at once, others seconds later. These sources are not idle, and their events should not be late
because of the outage.

* A *gap* is longer than a second and than `max_wait`, and nothing at all was received in it.
* A gap was a *pause* if an event after it took longer to arrive than events of its source usually
  do. Such an event happened during the gap and was kept. A stream that merely had nothing to send
  continues with new events. So a sparse stream is not waited for.
* Sources that were live when the pause began are awaited from then on, however overdue. The wait
  ends when they send events that are no older than usual. It lasts at most twice as long as the
  pause, and never longer than `outage_wait`. Producers that retry at growing intervals are back by
  then.

Time is the arrival clock. There is no cost except at a gap.
"""

from __future__ import annotations

from typing import Final

from topology.base.event import Event
from topology.base.operator import NEVER
from topology.order.merge.bounds import SourceBounds
from topology.order.merge.settings import MergeConfig
from topology.order.merge.source import AWAITED, BEHIND, NO_REF, SourceProgress
from topology.order.merge.sources import KnownSources
from topology.state.saved import INT, Saved, Shape

SHORTEST_GAP_NS: Final = 1_000_000_000
BACK_AFTER: Final = 2
"""Sources are awaited for at most this many times the length of the pause."""
NO_GAPS: Final[list[tuple[int, int]]] = []


PAUSE: Final = Shape("merge.pause", 1, received_ns=INT, since_ns=INT, _until_ns=INT)


class Pause(Saved):
    """The gaps and pauses of the log of a `Merge`.

    If `outage_wait` is 0, no gap is a pause.
    """

    SHAPE = PAUSE

    def __init__(self, known: KnownSources, bounds: SourceBounds, config: MergeConfig) -> None:
        self._sources = known.rows
        self._bounds = bounds
        self._max_wait_ns = config.max_wait_ns
        self._set_back_ns = config.max_set_back_ns or 0
        self._idle_after_ns = config.idle_after_ns
        self._outage_wait_ns = config.outage_wait_ns
        self.longest_silence_ns: int = max(SHORTEST_GAP_NS, self._max_wait_ns)
        if not self._outage_wait_ns:
            self.longest_silence_ns = NEVER
        self.received_ns = NEVER
        """The instant of the last event, set by `Merge`; NEVER before the first."""
        self.since_ns = NEVER
        """The beginning of the gap that is to be judged; NEVER if there is none."""
        self._until_ns = NEVER

    def find_gaps(self, batch: list[Event]) -> list[tuple[int, int]]:
        """Return the gaps before the events of a batch, the last one first.

        A gap is given as the index of the event after it and the instant at which it began. Call
        this before the first event is taken, because emitted events get a later instant.
        """
        longest_ns = self.longest_silence_ns
        received_ns = self.received_ns
        if not batch or batch[-1].at_ns - min(received_ns, batch[0].at_ns) <= longest_ns:
            return NO_GAPS
        gaps: list[tuple[int, int]] = []
        for at, event in enumerate(batch):
            if event.at_ns - received_ns > longest_ns:
                gaps.append((at, received_ns))
            received_ns = event.at_ns
        gaps.reverse()
        return gaps

    def begin(self, received_ns: int, at_ns: int) -> None:
        """Record a gap that began at `received_ns` and ended at `at_ns`."""
        self.since_ns = received_ns
        self._until_ns = at_ns + min(self._outage_wait_ns, BACK_AFTER * (at_ns - received_ns))

    def judge_record(self, progress: SourceProgress, event: Event) -> None:
        """Judge an open gap by this record, and end the wait for its source if it has caught up.

        Call this with each event in sequence and each heartbeat while a gap is to be judged. Call
        it also with the records of an awaited source. In both cases the source's row must not
        contain the record yet.
        """
        if self.since_ns != NEVER:
            self._judge_gap(progress, event)
        if progress.state == AWAITED and not self._is_old(progress, event):
            self._bounds.mark_returned(progress)

    def _judge_gap(self, progress: SourceProgress, event: Event) -> None:
        """Decide by this record whether the gap was a pause. Cost: O(sources) if it was."""
        since_ns = self.since_ns
        if event.at_ns >= self._until_ns:
            self.since_ns = NEVER
        elif progress.last_arrival_ns <= since_ns and self._is_old(progress, event):
            self.since_ns = NEVER
            for each in self._sources.values():
                silent_ns = since_ns - each.last_arrival_ns
                was_live = 0 <= silent_ns < self._idle_after_ns and not each.said_bye
                if was_live and each.state != BEHIND and each.newest_ns != NO_REF:
                    self._bounds.wait_for(each, self._until_ns)

    def _is_old(self, progress: SourceProgress, event: Event) -> bool:
        """Return whether the event took longer to arrive than MERGE would wait for its source."""
        usual_ns = self._max_wait_ns
        if progress.warm:
            usual_ns = max(usual_ns, progress.delays.edge_ns())
        return event.arrival_ns - event.ref_time_ns > usual_ns + self._set_back_ns
