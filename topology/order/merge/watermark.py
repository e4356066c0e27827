"""Computes what MERGE announces: the watermark W, the completeness frontier C, the time error E.

W: no event with a smaller corrected timestamp is emitted any more, except marked late. It is the
smallest newest time of the live sources, less `max_set_back`, or, if smaller, the first buffered
event. It is at least the time of the last emitted event. The waits for sources
(`topology.order.merge.bounds`) do not raise W: an overdue event becomes late only when another
event has passed it. W follows the clock only when every source is idle and nothing is buffered. It
is then behind the clock by the larger of `quiet_after` and the largest delay that is not
exceptional. So a quiet stream finishes.

W is announced at the first heartbeat after it moved, and at the next one. Emitted events may imply
the same W, but the announcement has E, which nothing else lowers. At each announcement queries also
drop events past correction, even if C does not move.

E: the largest time error of the buffered events and of each live source's newest event. It comes
with each announcement. W is about corrected timestamps. If no source becomes less certain, all
events before W - E by event time have been emitted. MERGE does not wait for an idle source, so its
error delays no result. But it may come back, and final results must allow for that. So each
announcement also has the largest error over all sources without an end-of-stream marker.

C: every known source has sent all events up to here, without a gap. It is below the smallest newest
time by `max_set_back` or, without it, by twice the largest set-back, at most `correct_for`. So an
event that is set back further than this may be below C; it is counted. A set-back by more than
`correct_for` changes nothing else. A missing number keeps C back until it arrives or `correct_for`
has passed. So does one before the first number of an epoch, if `reorder.start` says where epochs
begin. For `reorder.max_wait` after the first event of an epoch, the end of the one before may still
arrive, and keeps C back. If the last announcement said that C equals W, a reader may assume that C
follows each event in order. So when events are emitted that C does not reach, C is announced at
once (`is_owed`), and not at the next heartbeat.

While W follows the clock, one record announces many heartbeats (`topology.base.ramp`).

Cost of an announcement: O(log sources) for each source that moved, and O(sources with missing
numbers).
"""

from __future__ import annotations

from typing import Final

from topology.base.event import WATERMARK, Event
from topology.base.operator import NEVER
from topology.base.ramp import make_ramp
from topology.order.merge.bounds import Bound
from topology.order.merge.settings import MergeConfig
from topology.order.merge.source import NO_REF, WARM_DELAYS, SourceProgress
from topology.order.merge.sources import KnownSources
from topology.state.saved import BIG, Saved, Shape

PROMISES: Final = Shape("merge.watermark", 1, ns=BIG, complete_ns=BIG, news_ns=BIG)


class Watermark(Saved):
    """The watermark `ns` and the completeness frontier `complete_ns` of a `Merge`.

    Neither ever decreases.
    """

    SHAPE = PROMISES

    def __init__(self, known: KnownSources, quiet_after_ns: int, config: MergeConfig) -> None:
        self._known = known
        self._sources = known.rows
        self._pool = known.pool
        self._quiet_after_ns = quiet_after_ns
        self._correct_for_ns = config.correct_for_ns
        self._max_set_back_ns = config.max_set_back_ns
        self.ns = NO_REF
        self.complete_ns = NO_REF
        self.news_ns = NEVER
        """The instant of the last announcement if it announced a change; otherwise NEVER.

        Readers act on a change when its instant is over, so one more announcement follows.
        """
        self.lacking: set[str] = set()  # The sources with missing numbers.

    def is_owed(self, last_ns: int) -> bool:
        """Return whether C was announced as equal to W, but does not reach `last_ns`."""
        return self.complete_ns >= self.ns and self._least_complete_ns() < last_ns

    def find_idle_beats(
        self, beats_ns: tuple[int, int, int, int], heads: list[Bound]
    ) -> tuple[int, int]:
        """Return the first and the last heartbeat that one record can announce.

        Nothing must have changed since the last one. `beats_ns` is the next heartbeat, the
        interval, and two instants before which the heartbeats must be. The second instant counts
        only while W moves. If a lost number is written off in between, its heartbeat is announced
        separately.
        """
        next_ns, every_ns, until_ns, wake_ns = beats_ns
        last_ns = max(next_ns, (until_ns - 1) // every_ns * every_ns)
        tail_ns = -(-self._tail_until_ns() // every_ns) * every_ns
        most_ns, lag_ns = self._projected_rise(heads)
        if most_ns <= self.ns:  # W does not move.
            last_ns = next_ns if self.news_ns < NEVER else min(last_ns, max(next_ns, tail_ns))
            return last_ns, last_ns
        last_ns = max(next_ns, (min(until_ns, wake_ns) - 1) // every_ns * every_ns)
        first_ns = max(next_ns, -(-(self.ns + lag_ns + 1) // every_ns) * every_ns)
        last_ns = min(last_ns, max(first_ns, (most_ns + lag_ns) // every_ns * every_ns))
        for source in self.lacking:
            over_ns = self._sources[source].lost_ns + self._correct_for_ns + lag_ns + 1
            over_ns = -(-over_ns // every_ns) * every_ns
            last_ns = min(last_ns, max(first_ns, over_ns - every_ns))
        last_ns = min(last_ns, max(first_ns, tail_ns - every_ns))
        return min(first_ns, last_ns), last_ns

    def announce(
        self,
        stream: str,
        last_ns: int,
        heads: list[Bound],
        now_ns: int,
        beats_ns: tuple[int, int],
    ) -> Event | None:
        """Return a control event that announces the changes since the last one, or None.

        There is a change if W or C moved, or if C no longer reaches W. One more announcement
        follows the last change. `beats_ns` is the first heartbeat that this record announces, and
        the interval.
        """
        since_ns, every_ns = beats_ns
        self._end_tails(now_ns)
        since_complete_ns = self.complete_ns
        if every_ns and since_ns < now_ns:
            since_complete_ns = self._advanced_complete_ns(self._allowed_watermark(heads, since_ns))
        watermark_ns = max(self.ns, last_ns, self._allowed_watermark(heads, now_ns))
        complete_ns = self._advanced_complete_ns(watermark_ns)
        moved = watermark_ns > self.ns
        falls_back = self.complete_ns == self.ns and complete_ns < watermark_ns
        self.ns = watermark_ns
        has_news = moved or falls_back or complete_ns > self.complete_ns
        if not has_news and now_ns <= self.news_ns:
            return None
        self.news_ns = now_ns if has_news else NEVER
        self.complete_ns = complete_ns
        event = self._make_announcement(stream, now_ns)
        if every_ns and since_ns < now_ns:
            make_ramp(event, since_ns, every_ns, since_complete_ns)
        return event

    def _tail_until_ns(self) -> int:
        """Return the first instant at which the end of an epoch is expected no longer, or NEVER."""
        ends = [self._sources[source].tail_until_ns for source in self.lacking]
        return min(ends, default=NEVER)

    def _end_tails(self, now_ns: int) -> None:
        for source in sorted(self.lacking):
            progress = self._sources[source]
            if progress.tail_until_ns <= now_ns:
                progress.end_tail()
                self._known.mark(progress)
                self.note(progress)

    def _advanced_complete_ns(self, watermark_ns: int) -> int:
        return min(watermark_ns, max(self.complete_ns, self._compute_complete_ns(watermark_ns)))

    def note(self, progress: SourceProgress) -> None:
        """Record whether the source has missing numbers, after this may have changed."""
        if progress.has_missing:
            self.lacking.add(progress.source)
        else:
            self.lacking.discard(progress.source)

    def _make_announcement(self, stream: str, now_ns: int) -> Event:
        """Return the control event with W, C and the errors."""
        event = Event(stream, "", 0, 0, self.ns, now_ns, kind=WATERMARK)
        event.complete_ns = self.complete_ns
        errors = self._known.errors
        live_ns = errors.largest_ns(is_live=True)
        # Sources with missing numbers count even after their end-of-stream markers.
        lacking = [self._sources[source].error_ns for source in self.lacking]
        event.error_ns = live_ns
        event.error_all_ns = max(live_ns, errors.largest_ns(is_live=False), *lacking)
        return event

    def _allowed_watermark(self, heads: list[Bound], now_ns: int) -> int:
        """Return the watermark that the sources allow at `now_ns`, whatever was announced."""
        most_ns, lag_ns = self._projected_rise(heads)
        return min(most_ns, now_ns - lag_ns)

    def _projected_rise(self, heads: list[Bound]) -> tuple[int, int]:
        """Return the time to which W rises without input, and its distance from the clock."""
        least_ns = self._known.least_ns(is_live=True)
        if least_ns < NEVER:
            least_ns -= self._max_set_back_ns or 0
            return min(least_ns, heads[0][0]) if heads else least_ns, 0
        if heads:
            return NO_REF, 0
        usual_ns = self._pool.edge_ns() if self._pool.trials >= WARM_DELAYS else 0
        return NEVER, max(usual_ns, self._quiet_after_ns)

    def _compute_complete_ns(self, watermark_ns: int) -> int:
        expired_ns = watermark_ns - self._correct_for_ns
        for source in sorted(self.lacking):
            progress = self._sources[source]
            if progress.lost_ns < expired_ns:
                progress.drop_missing_before(expired_ns)
                self._known.mark(progress)
                self.note(progress)
        complete_ns = self._least_complete_ns()
        return complete_ns if complete_ns < NEVER else watermark_ns

    def _least_complete_ns(self) -> int:
        """Return the time up to which the events of every source have arrived without a gap.

        Sources that sent an end-of-stream marker and lack no numbers do not count. The result is
        NEVER if no source counts.
        """
        known = self._known
        least_ns = min(known.least_ns(is_live=True), known.least_ns(is_live=False))
        if self.lacking:
            lacking = [self._sources[source].complete_ns for source in self.lacking]
            least_ns = min(least_ns, *lacking)
        return least_ns - self._allowance_ns() if least_ns < NEVER else NEVER

    def _allowance_ns(self) -> int:
        """Return how far C stays below the newest times, for events that are set back."""
        if self._max_set_back_ns is not None:
            return self._max_set_back_ns
        return min(self._known.allowance_ns(), self._correct_for_ns)

    def is_broken_by(self, ref_time_ns: int, last_ns: int) -> bool:
        """Return whether an event with this time is below C as readers know it.

        They let C follow the emitted events, up to `last_ns`, if it was announced as equal to W.
        """
        return ref_time_ns < (last_ns if self.complete_ns >= self.ns else self.complete_ns)
