"""What MERGE can promise: the watermark W and the complete frontier C.

W: no event with a smaller reference time leaves any more, except marked late. It is the
smallest newest time of the live sources, at least the last released. It is not raised by
D: an event that no other event has passed is not made late by a clock alone. Only when
every source is idle does W follow the clock, at the distance of `quiet_after` or of the
largest delay that is not exceptional, whichever is longer: so a quiet stream finishes.

W is announced at each beat since which it moved, and at the one after, though events that left may
imply as much: with it comes E, which nothing else lowers, and queries let go of what is past
correcting at each announcement, also while C does not move.

E: the largest error of what waits, and of each live source's newest, given with each
announcement. W is about reference times; as long as no source becomes less sure, what
happened before W - E, by true time, has left. A source that is idle is not waited for, so
its error delays nobody; but it may come back, and what is final must bear that: beside E the
same is given over all sources that have not said bye.

C: every source known has sent all, without a hole, up to here. A lost number holds C
until it comes or `correct_for` has passed. As long as the last announcement said that C is W,
whoever hears of an event in order may take it that C has followed; so when events leave that C
does not reach, it is announced at once (`is_owed`), and not at the next beat.

While W follows the clock one record announces many beats (`topology.model.ramp`).

Cost of an announcement: O(log sources) for each source that moved, O(sources of which numbers are
missing).
"""

from __future__ import annotations

from typing import Final

from topology.merge.bounds import Bound
from topology.merge.source import NO_REF, WARM_DELAYS, SourceProgress
from topology.merge.sources import KnownSources
from topology.model.event import WATERMARK, Event
from topology.model.kept import BIG, Kept, Shape
from topology.model.operator import NEVER
from topology.model.ramp import ramp

PROMISES: Final = Shape("merge.watermark", 1, ns=BIG, complete_ns=BIG, news_ns=BIG)


class Watermark(Kept):
    """The watermark and the completeness frontier of a `Merge`: `ns` and `complete_ns`, which never
    go back."""

    SHAPE = PROMISES

    def __init__(self, known: KnownSources, quiet_after_ns: int, correct_for_ns: int) -> None:
        self._known = known
        self._sources = known.rows
        self._pool = known.pool
        self._quiet_after_ns = quiet_after_ns
        self._correct_for_ns = correct_for_ns
        self.ns = NO_REF
        self.complete_ns = NO_REF
        self.news_ns = NEVER
        """The last announcement said something new at this instant. Readers act on it when that is
        over, so one more follows that shows them. NEVER: it said nothing new."""
        self.lacking: set[str] = set()  # sources of which numbers are missing

    def is_owed(self, last_ns: int) -> bool:
        """The last announcement said that C reaches all, and it does not reach the event let go
        last."""
        return self.complete_ns >= self.ns and self._least_complete_ns() < last_ns

    def idle_beats(
        self, beats_ns: tuple[int, int, int, int], heads: list[Bound]
    ) -> tuple[int, int]:
        """Nothing has changed since the last beat. From the beats from the next, every so often, to
        before an instant and, while W moves, before another (`beats_ns`): the first and the last
        that one record can announce. A lost number that is written off on the way is announced at
        its own beat."""
        next_ns, every_ns, until_ns, wake_ns = beats_ns
        last_ns = max(next_ns, (until_ns - 1) // every_ns * every_ns)
        most_ns, lag_ns = self._course(heads)
        if most_ns <= self.ns:  # W does not move
            return (next_ns, next_ns) if self.news_ns < NEVER else (last_ns, last_ns)
        last_ns = max(next_ns, (min(until_ns, wake_ns) - 1) // every_ns * every_ns)
        first_ns = max(next_ns, -(-(self.ns + lag_ns + 1) // every_ns) * every_ns)
        last_ns = min(last_ns, max(first_ns, (most_ns + lag_ns) // every_ns * every_ns))
        for source in self.lacking:
            over_ns = self._sources[source].lost_ns + self._correct_for_ns + lag_ns + 1
            over_ns = -(-over_ns // every_ns) * every_ns
            last_ns = min(last_ns, max(first_ns, over_ns - every_ns))
        return min(first_ns, last_ns), last_ns

    def announce(
        self,
        stream: str,
        last_ns: int,
        heads: list[Bound],
        now_ns: int,
        beats_ns: tuple[int, int],
    ) -> Event | None:
        """The control event, if W moved since the last announcement, or C moved, or does not
        reach W any more, and once more when neither does. `beats_ns`: the first that it announces,
        and their interval."""
        since_ns, every_ns = beats_ns
        since_complete_ns = self.complete_ns
        if every_ns and since_ns < now_ns:
            since_complete_ns = self._complete(self._promise(heads, since_ns))
        watermark_ns = max(self.ns, last_ns, self._promise(heads, now_ns))
        complete_ns = self._complete(watermark_ns)
        moved = watermark_ns > self.ns
        falls_back = self.complete_ns == self.ns and complete_ns < watermark_ns
        self.ns = watermark_ns
        has_news = moved or falls_back or complete_ns > self.complete_ns
        if not has_news and now_ns <= self.news_ns:
            return None
        self.news_ns = now_ns if has_news else NEVER
        self.complete_ns = complete_ns
        event = self._announced(stream, now_ns)
        if every_ns and since_ns < now_ns:
            ramp(event, since_ns, every_ns, since_complete_ns)
        return event

    def _complete(self, watermark_ns: int) -> int:
        return min(watermark_ns, max(self.complete_ns, self._completeness(watermark_ns)))

    def note(self, progress: SourceProgress) -> None:
        """Numbers of the source went missing, or came after all."""
        if progress.lacks_numbers:
            self.lacking.add(progress.source)
        else:
            self.lacking.discard(progress.source)

    def _announced(self, stream: str, now_ns: int) -> Event:
        """Return the control event that says W and C, and the errors."""
        event = Event(stream, "", 0, 0, self.ns, now_ns, kind=WATERMARK)
        event.complete_ns = self.complete_ns
        errors = self._known.errors
        live_ns = errors.largest_ns(is_live=True)
        lacking = [self._sources[source].error_ns for source in self.lacking]  # some said bye
        event.error_ns, event.error_all_ns = (
            live_ns,
            max(live_ns, errors.largest_ns(is_live=False), *lacking),
        )
        return event

    def _promise(self, heads: list[Bound], now_ns: int) -> int:
        """No event with a smaller reference time is still to come, as far as can be said."""
        most_ns, lag_ns = self._course(heads)
        return min(most_ns, now_ns - lag_ns)

    def _course(self, heads: list[Bound]) -> tuple[int, int]:
        """As long as nothing arrives: where W stops, and how far it is behind the clock before."""
        least_ns = self._known.least_ns(is_live=True)
        if least_ns < NEVER:
            return min(least_ns, heads[0][0]) if heads else least_ns, 0
        if heads:
            return NO_REF, 0
        usual_ns = self._pool.edge_ns() if self._pool.trials >= WARM_DELAYS else 0
        return NEVER, max(usual_ns, self._quiet_after_ns)

    def _completeness(self, watermark_ns: int) -> int:
        expired_ns = watermark_ns - self._correct_for_ns
        for source in sorted(self.lacking):
            progress = self._sources[source]
            if progress.lost_ns < expired_ns:
                progress.write_off(expired_ns)
                self._known.mark(progress)
                self.note(progress)
        complete_ns = self._least_complete_ns()
        return complete_ns if complete_ns < NEVER else watermark_ns

    def _least_complete_ns(self) -> int:
        """Every source that is not over is received without a hole up to here; NEVER: all are."""
        known = self._known
        least_ns = min(known.least_ns(is_live=True), known.least_ns(is_live=False))
        if self.lacking:
            lacking = [self._sources[source].complete_ns for source in self.lacking]
            least_ns = min(least_ns, *lacking)
        return least_ns
