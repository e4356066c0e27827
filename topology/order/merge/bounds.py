"""Finds the source that limits what MERGE may emit, in O(log sources).

A live source has the bound max(its newest time, now - D), where D is the wait for the source. While
REORDER buffers its events behind a gap, its newest time alone is its bound. A source is *keyed* if
its newest time is its bound, and *led* if its bound is now - D, so that the clock moves it. With
`max_set_back`, the newest time counts as smaller by it, and D as larger.

A heap has the bounds of the keyed sources. They may be older than the newest times; a bound is
corrected when it reaches the top. A keyed source becomes led only when it limits all others. Among
the led sources only the largest D counts. One led source, the *witness*, shows that the clock minus
the largest D is a bound. All others stay led when they send an event, because their bounds do not
count before or after it. Their newest times are compared with the clock again when there is no
witness any more. So with many sources an event moves no source from one kind to the other.

D is a quantile of the source's own delays. For a source with too few delays it is twice the
quantile of the pool. It is at most `max_wait`, and `max_set_back` is added to it.

A source that is silent for `idle_after` is no longer live. Its state becomes `OUT`, unless it has
come back from a silence like this before. Then its state is `DOZING`: MERGE expects it until its
silence is twice the usual one. An expected source is not live, but its own delays still bound it,
even if only `FEW_DELAYS` of them were measured. So its next event is in time. MERGE thus waits for
a source that sends once a minute, as long as its events usually take. It does not wait for a source
that never paused before and has stopped.
"""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace
from itertools import islice
from typing import Any, Final

from topology.base.operator import NEVER
from topology.base.timers import Timers
from topology.order.merge.settings import MergeConfig
from topology.order.merge.source import (
    AWAITED,
    BEHIND,
    COLD,
    DOZING,
    KEYED,
    LED,
    NO_REF,
    NOT_LED,
    OUT,
    WARM_DELAYS,
    SourceProgress,
)
from topology.order.merge.sources import KnownSources
from topology.state.saved import INT, Saved, Shape

Bound = tuple[int, str]
"""(corrected timestamp, source): events at or below it may be emitted."""

NO_BOUND: Final[Bound] = (1 << 64, "")
"""A bound above all events. Their corrected timestamps may be later than `NEVER`."""

NONE_LED: Final[dict[str, None]] = {}
"""An empty table of led sources. It must not be changed."""

LOOKS: Final = 8
"""The number of led sources, evenly spread, among which a witness is looked for first."""


BOUNDS: Final = Shape("merge.bounds", 1, awaited_until_ns=INT)


class SourceBounds(Saved):
    """The bounds of the sources that a `Merge` knows."""

    SHAPE = BOUNDS

    def __init__(self, known: KnownSources, config: MergeConfig) -> None:
        self._known = known
        self._sources = known.rows
        self._pool = known.pool
        self._set_back_ns = config.max_set_back_ns or 0
        self._max_wait_ns = config.max_wait_ns
        self.idle_after_ns = config.idle_after_ns
        self._keyed: list[Bound] = []  # A heap of the bounds, or of older ones.
        self._led: dict[int, dict[str, None]] = {}  # The sources led by their own delays, by D.
        self.led_cold: dict[str, None] = {}  # The sources led by the pool.
        self._cold_wait_ns = 0  # The D of all sources led by the pool.
        self.led_max_ns = -1
        self._witness = ""
        self.lacks_witness = False
        """Whether a source led with `led_max_ns` must be found that is overdue; `limit` does it."""
        self.idle: Timers[str] = Timers()
        """The instants at which sources may become idle, or earlier ones."""
        self.expected: Timers[str] = Timers()
        """The instants at which sources may cease to be expected, or earlier ones."""
        self.live = 0
        self.dozing = 0
        self.behind = 0
        self.blocked = 0  # The number of sources with events in REORDER, live or not.
        self.departed = 0  # The number of sources whose last record is an end-of-stream marker.
        self.limiting = ""
        """The only source whose records can change what may be emitted; empty if any source can."""
        self.limited_by_time = False
        """Whether only time, or a change of `led_max_ns`, can change what may be emitted."""
        self.pooled_ns = NOT_LED
        """The pool's wait, if it determines the limit; otherwise `NOT_LED`.

        If the pool's wait changes, the limit may change too.
        """
        self._limit_wait_ns = 0  # The D of the keyed source that is the limit.
        self.awaited: set[str] = set()
        self.awaited_until_ns = NEVER

    def make_live(self, progress: SourceProgress, newest_ns: int) -> None:
        """Make the source live, and set its newest time to `newest_ns`."""
        progress.newest_ns = newest_ns
        if progress.state == KEYED or progress.state == AWAITED:
            return  # The entry in the heap is older. It is corrected when it reaches the top.
        if self.is_redundant(progress):
            if progress.state == DOZING:
                self._count_as_live(progress)
                progress.state = LED
                self.watch(progress)
            return
        self._stop_leading(progress)
        self._count_as_live(progress)
        progress.state = KEYED
        self._key(progress)
        self.watch(progress)

    def is_redundant(self, progress: SourceProgress) -> bool:
        """Return whether the source is led and another led source has a bound as low as its own.

        Such a source may stay led, because its bound does not count.
        """
        if progress.led_wait_ns == NOT_LED or progress.blocked or progress.source == self._witness:
            return False
        if not progress.warm:
            return progress.state == COLD
        return progress.state != COLD and self.wait_ns(progress) == progress.led_wait_ns

    def _count_as_live(self, progress: SourceProgress) -> None:
        """Count the source as live if it is not live yet."""
        self._known.add_live(progress)
        self.live += progress.state >= OUT
        self.behind -= progress.state == BEHIND
        self.dozing -= progress.state == DOZING

    def _key(self, progress: SourceProgress) -> None:
        if not progress.in_keyed:
            progress.in_keyed = True
            heappush(self._keyed, (progress.newest_ns - self._set_back_ns, progress.source))

    def wait_for(self, progress: SourceProgress, until_ns: int) -> None:
        """Wait for a source that was cut off by a pause of the log.

        It is live, and its newest time is its bound until it is back or `until_ns` is reached.
        """
        self.awaited_until_ns = until_ns
        self._stop_leading(progress)
        self._count_as_live(progress)
        progress.state = AWAITED
        self._known.mark(progress)
        self.awaited.add(progress.source)
        self._key(progress)

    def mark_returned(self, progress: SourceProgress) -> None:
        """Stop awaiting a source that has caught up, or that has been awaited for long enough."""
        self.awaited.discard(progress.source)
        progress.state = KEYED
        self._known.mark(progress)
        self.watch(progress)
        if not self.awaited:
            self.awaited_until_ns = NEVER

    def mark_all_returned(self) -> None:
        for source in sorted(self.awaited):
            self.mark_returned(self._sources[source])

    def record_in_sequence(self, progress: SourceProgress, at_ns: int) -> None:
        """Record an event in sequence. It revokes an end-of-stream marker and `blocked`."""
        if progress.said_bye:
            self.set_departed(progress, said=False)
        if progress.blocked:
            self.unblock(progress)

    def record_progress(self, progress: SourceProgress, newest_ns: int) -> None:
        """Make the source live after a heartbeat or a report of REORDER.

        If the source was out, `woke_ns` becomes its newest time. A late event that arrives before a
        newer one has the cause `merge_idle`.
        """
        if progress.state == OUT:
            progress.woke_ns = newest_ns
        self.make_live(progress, newest_ns)

    def watch(self, progress: SourceProgress) -> None:
        """Arm the timer for the instant at which the source has been silent for `idle_after`."""
        self.idle.arm(progress.source, progress.last_arrival_ns + self.idle_after_ns)

    def has_unlimiting_source(self) -> bool:
        """Return whether there is a source whose newest time does not limit what MERGE may emit.

        Sources that sent an end-of-stream marker do not count.
        """
        return self.led_max_ns >= 0 or self.live + self.departed < len(self._sources)

    def set_departed(self, progress: SourceProgress, *, said: bool = True) -> None:
        self.departed += said - progress.said_bye
        progress.said_bye = said
        if said:
            self._known.forget_set_back(progress.source)
        else:
            self._known.note_set_back(progress)
        if not said and progress.state >= OUT:
            self._known.add_silent(progress)

    def retire(self, progress: SourceProgress, state: int) -> None:
        self._stop_leading(progress)
        if progress.state == AWAITED:
            self.mark_returned(progress)
        self.live -= progress.state < OUT
        self.behind += (state == BEHIND) - (progress.state == BEHIND)
        self.dozing -= progress.state == DOZING
        progress.state = state
        self._known.add_silent(progress)
        self._known.mark(progress)

    def stop_waiting_if_slow(self, progress: SourceProgress, delay_ns: int) -> None:
        """Stop waiting for a source if its late event took longer than MERGE waits for the source.

        MERGE waits for it again after its next event in time. If `delay_ns` is no longer than the
        wait, the source stays live, because its next events will be in time. Without this, one late
        event would make a source with longer delays late forever.
        """
        if delay_ns > self.wait_ns(progress):
            self.retire(progress, BEHIND)
        else:
            self.make_live(progress, progress.newest_ns)

    def resume(self, progress: SourceProgress) -> None:
        """Set the bound of a restored source from its saved state."""
        self.departed += progress.said_bye
        self.blocked += progress.blocked
        self.behind += progress.state == BEHIND
        if progress.state == KEYED:
            progress.state = OUT
            self.make_live(progress, progress.newest_ns)
        elif progress.state == AWAITED:
            progress.state = OUT
            self.wait_for(progress, self.awaited_until_ns)
        elif progress.state == DOZING:
            self.dozing += 1
            self._key(progress)
            self.expected.arm(progress.source, progress.expected_until_ns)

    def block(self, progress: SourceProgress) -> None:
        """Record that REORDER buffers events of the source, and wait for them.

        A source that is catching up is not waited for, because these events will be late.
        """
        self.blocked += not progress.blocked
        progress.blocked = True
        self.set_departed(progress, said=False)
        if progress.state != BEHIND:
            self.record_progress(progress, progress.newest_ns)

    def unblock(self, progress: SourceProgress) -> None:
        self.blocked -= progress.blocked
        progress.blocked = False
        if progress.state < OUT:
            self.watch(progress)

    def _lead(self, progress: SourceProgress, wait_ns: int) -> None:
        """Make the clock minus `wait_ns` the bound of the source."""
        if progress.state != DOZING:
            progress.state = LED if progress.warm else COLD
        progress.led_wait_ns = wait_ns
        if progress.state == COLD:
            self.led_cold[progress.source] = None
            self._cold_wait_ns = wait_ns
        else:
            self._led.setdefault(wait_ns, {})[progress.source] = None
        if wait_ns >= self.led_max_ns:
            self.led_max_ns = wait_ns
            self._witness = progress.source
            self.lacks_witness = False

    def _stop_leading(self, progress: SourceProgress) -> None:
        """Stop using the clock as the source's bound, if the source is led."""
        wait_ns, progress.led_wait_ns = progress.led_wait_ns, NOT_LED
        if wait_ns == NOT_LED:
            return
        if progress.source == self._witness:
            self._witness = ""
            self.lacks_witness = True
        if progress.source in self.led_cold:
            del self.led_cold[progress.source]
            if not self.led_cold:
                self._lower_led_max(self._cold_wait_ns)
            return
        led = self._led[wait_ns]
        del led[progress.source]
        if not led:
            del self._led[wait_ns]
            self._lower_led_max(wait_ns)

    def _lower_led_max(self, wait_ns: int) -> None:
        """Lower `led_max_ns` if it is `wait_ns`, because no source is led with that wait."""
        if wait_ns == self.led_max_ns:
            self.led_max_ns = max(self._led, default=-1)
            if self.led_cold and self._cold_wait_ns > self.led_max_ns:
                self.led_max_ns = self._cold_wait_ns
            self.lacks_witness = True

    def _find_witness(self, now_ns: int) -> None:
        """Find a source that is led with the largest D and is overdue.

        If a few looks find none, those that are led with it become keyed until one is found. If
        there is none, the largest D falls. Cost: O(1) for each source that becomes keyed, and for
        a few looks O(led sources), with a tiny constant.
        """
        while self.lacks_witness:
            self.lacks_witness = False
            passed_ns = now_ns - self.led_max_ns + self._set_back_ns
            led = self._led_longest()
            # If sources take turns, the one that became overdue last stays so for longest.
            newest_ns, self._witness = NO_REF - 1, ""
            for source in islice(led, 0, None, len(led) // LOOKS + 1):
                if newest_ns < self._sources[source].newest_ns <= passed_ns:
                    newest_ns, self._witness = self._sources[source].newest_ns, source
            if not self._witness:
                self._key_until_overdue(led, passed_ns)

    def _led_longest(self) -> dict[str, None]:
        """Return the sources that are led with the largest D, by the pool if some are."""
        if self.led_cold and self._cold_wait_ns == self.led_max_ns:
            return self.led_cold
        return self._led.get(self.led_max_ns, NONE_LED)

    def _key_until_overdue(self, led: dict[str, None], passed_ns: int) -> None:
        """Make led sources keyed that are not overdue, up to the first one that is: the witness."""
        ahead: list[SourceProgress] = []
        for source in led:
            if self._sources[source].newest_ns <= passed_ns:
                self._witness = source
                break
            ahead.append(self._sources[source])
        for progress in ahead:
            self._stop_leading(progress)
            if progress.state != DOZING:
                progress.state = KEYED
            self._key(progress)

    def wait_ns(self, progress: SourceProgress) -> int:
        """Return D of a source, which comes from the pool if the source has too few delays."""
        if not progress.warm and progress.state != DOZING:
            return self.pool_wait_ns()
        wait_ns = progress.delays.edge_ns()
        return (wait_ns if wait_ns < self._max_wait_ns else self._max_wait_ns) + self._set_back_ns

    def pool_wait_ns(self) -> int:
        """Return D of the sources with too few delays."""
        if self._pool.trials < WARM_DELAYS:
            return self._max_wait_ns + self._set_back_ns
        wait_ns = 2 * self._pool.edge_ns()
        return (wait_ns if wait_ns < self._max_wait_ns else self._max_wait_ns) + self._set_back_ns

    def refresh_cold(self) -> None:
        """Adopt the pool's current wait for the sources that the pool leads.

        They stay led, with the new wait. Cost: O(waits by which sources are led).
        """
        if not self.led_cold:
            return
        before_ns = self._cold_wait_ns
        wait_ns = self.pool_wait_ns()
        if wait_ns == before_ns:
            return
        self._cold_wait_ns = wait_ns
        if wait_ns > self.led_max_ns:
            self.led_max_ns = wait_ns
            self.lacks_witness = True
        elif wait_ns < before_ns:
            self._lower_led_max(before_ns)

    def limit(self, now_ns: int) -> Bound:
        """Return the smallest bound of the sources.

        The bound names no source if it comes from the clock, and is `NO_BOUND` if nothing limits
        MERGE.
        """
        if self.lacks_witness:
            self._find_witness(now_ns)
        keyed = self._keyed
        back_ns = self._set_back_ns
        while True:
            by_time = (now_ns - self.led_max_ns + 1, "") if self.led_max_ns >= 0 else NO_BOUND
            if not keyed or keyed[0] >= by_time:
                return by_time
            ref_ns, source = keyed[0]
            progress = self._sources.get(source)
            if progress is None or not progress.is_keyed:
                heappop(keyed)
                if progress is not None:
                    progress.in_keyed = False
            elif progress.newest_ns - back_ns > ref_ns:
                heapreplace(keyed, (progress.newest_ns - back_ns, source))
            elif progress.blocked or progress.state == AWAITED:
                return keyed[0]
            else:
                wait_ns = self.wait_ns(progress)
                if now_ns - wait_ns < ref_ns:
                    self._limit_wait_ns = wait_ns
                    return keyed[0]
                heappop(keyed)
                progress.in_keyed = False
                self._lead(progress, wait_ns)

    def stays_limited_by_time(self, now_ns: int, wait_ns: int) -> bool:
        """Retire idle sources, and return whether `limit` is still the clock minus `wait_ns`.

        This was so before, and `wait_ns` was `led_max_ns`.
        """
        if self.idle.next_ns <= now_ns and not self.retire_idle(now_ns) and not self.led_cold:
            return True
        keyed = self._keyed
        if self.lacks_witness or (keyed and keyed[0][0] <= now_ns - wait_ns):
            return not self.limit(now_ns)[1] and wait_ns == self.led_max_ns
        return wait_ns == self.led_max_ns

    def record_pool_limit(self, *, rests: bool) -> None:
        """Record whether the limit depends on the pool's wait, which has not changed since."""
        if not rests:
            self.pooled_ns = NOT_LED
        elif self.pooled_ns == NOT_LED:
            self.pooled_ns = self.pool_wait_ns()

    def wake_ns(self, limit: Bound, head_ns: int, now_ns: int) -> int:
        """Return when the first buffered event may be emitted if nothing arrives, or NEVER.

        `head_ns` is the event's time. It is above `limit`, the value just returned by `limit`.
        """
        wait_ns = self.led_max_ns
        if limit[1]:
            progress = self._sources[limit[1]]
            if progress.blocked or progress.state == AWAITED:
                return NEVER
            if self._limit_wait_ns > wait_ns:
                wait_ns = self._limit_wait_ns
        due_ns = head_ns + wait_ns
        return due_ns if due_ns > now_ns else now_ns + 1

    def waits_for(self, head_ns: int) -> list[dict[str, Any]]:
        """Return the sources that MERGE waits for before it may emit an event with this time.

        The list is for display. Cost: O(n log n) for n sources.
        """
        return [
            {
                "source": source,
                "newest": progress.newest_ns if progress.newest_ns != NO_REF else None,
                "behind_hole": progress.blocked,
                "after_pause": progress.state == AWAITED,
                "until": self._waits_until_ns(progress, head_ns),
            }
            for source, progress in sorted(self._sources.items())
            if (progress.state < OUT or progress.state == DOZING)
            and not (progress.queue and not self._set_back_ns)
            and progress.newest_ns - self._set_back_ns < head_ns
        ]

    def _waits_until_ns(self, progress: SourceProgress, head_ns: int) -> int | None:
        if progress.blocked:
            return None
        if progress.state == AWAITED:
            return self.awaited_until_ns
        return head_ns + self.wait_ns(progress)

    def retire_idle(self, now_ns: int) -> bool:
        """Retire sources that became idle, and return whether this changes what may be emitted.

        Usually it changes nothing. Most sources that are due have sent something since, or are
        still expected and have the same bound.
        """
        changed = False
        for source in self.idle.due(now_ns + 1):
            progress = self._sources.get(source)
            if progress is None or progress.state >= AWAITED or progress.blocked:
                continue
            if progress.last_arrival_ns + self.idle_after_ns > now_ns:
                self.watch(progress)
                continue
            if progress.is_expected(now_ns):
                changed = self._mark_expected(progress) or changed
            else:
                self.retire(progress, OUT)
                changed = True
        return changed

    def _mark_expected(self, progress: SourceProgress) -> bool:
        """Mark a silent source as expected, and return whether its bound may have changed.

        It may have changed if it came from the pool's delays. The bound of an expected source comes
        from its own.
        """
        if progress.state == COLD:
            self._stop_leading(progress)
            self._key(progress)
        self.live -= 1
        self.dozing += 1
        progress.state = DOZING
        self._known.add_silent(progress)
        self._known.mark(progress)
        self.expected.arm(progress.source, progress.expected_until_ns)
        return not progress.warm

    def retire_dozing(self, now_ns: int) -> bool:
        """Retire the sources that are no longer expected, and return whether there were any."""
        retired = False
        for source in self.expected.due(now_ns + 1):
            progress = self._sources.get(source)
            if progress is None or progress.state != DOZING:
                continue
            if progress.expected_until_ns > now_ns:
                self.expected.arm(source, progress.expected_until_ns)
            else:
                self.retire(progress, OUT)
                retired = True
        return retired
