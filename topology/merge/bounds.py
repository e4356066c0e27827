"""Which source of MERGE bounds what may leave, in O(log sources).

Every live source bounds it by max(its newest key, now - D); while its events wait in
REORDER behind a hole, by its newest key alone. Sources are *keyed* (bounded by their
newest key) or *led* (bounded by time). A heap holds the keyed ones under a key that
may be older than their newest, put right when it comes up; only the source that holds
everything up is ever moved to the led ones, of which only the largest D counts. A led source whose
D is smaller stays where it is when it sends something, as it bounds nothing before or after; only
where the largest D falls to its own, its newest key is looked at.

D of a source is the quantile of its own delays, of a source not yet known twice the
pool's, at most `max_wait`. A source that has been silent for
`idle_after` is no longer live. It is out, unless it has been silent for as long before and
came back. Then it *dozes* until its silence is twice its usual one: it is not live, but
bounded by the largest of its own delays, of which a few are enough, so that what it sends
next is in time. So a source that speaks once a minute is waited for, for as long
as its events travel, and one that never paused and has stopped is not.
"""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace
from typing import Any, Final

from topology.merge.source import (
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
from topology.merge.sources import KnownSources
from topology.model.kept import INT, Kept, Shape
from topology.model.operator import NEVER
from topology.model.timers import Timers

Bound = tuple[int, str]
"""(reference time, source): what is at or below it may leave."""

NO_BOUND: Final[Bound] = (NEVER, "")


BOUNDS: Final = Shape("merge.bounds", 1, awaited_until_ns=INT)


class SourceBounds(Kept):
    """Over the sources that a `Merge` knows."""

    SHAPE = BOUNDS

    def __init__(self, known: KnownSources, max_wait_ns: int, idle_after_ns: int) -> None:
        self._known = known
        self._sources = known.rows
        self._pool = known.pool
        self._max_wait_ns = max_wait_ns
        self.idle_after_ns = idle_after_ns
        self._keyed: list[Bound] = []  # (newest or older, source)
        self._led: dict[int, dict[str, None]] = {}  # D -> the sources led by their own delays
        self.led_cold: set[str] = set()
        self._cold_wait_ns = 0  # the D of all that are led by the pool
        self.led_max_ns = -1
        self._has_fallen = False  # led_max_ns, since a limit was found
        self.idle: Timers[str] = Timers()
        """The instants at which sources may become idle, or earlier ones."""
        self.expected: Timers[str] = Timers()
        """Those at which dozing ones may be out."""
        self.live = 0
        self.dozing = 0
        self.behind = 0
        self.blocked = 0  # live or not, their events wait in REORDER
        self.departed = 0  # said bye, and have sent nothing since
        self.limiting = ""
        """Only a word of this source can change what may leave; "": any, as far as is known."""
        self.limited_by_time = False
        """Only time can, or what changes the distance at which it bounds."""
        self.pooled_ns = NOT_LED
        """Or another wait by the pool than this one; NOT_LED: none of it rests on the pool."""
        self._limit_wait_ns = 0  # D of the source that bounds by its newest key, found with it
        self.awaited: set[str] = set()
        self.awaited_until_ns = NEVER

    def enter(self, progress: SourceProgress, newest_ns: int) -> None:
        """The source is live and its newest time is `newest_ns`."""
        progress.newest_ns = newest_ns
        if progress.state == KEYED or progress.state == AWAITED:
            return  # its entry in the heap is older: put right when it comes up
        if self._bounds_nothing(progress):
            if progress.state == DOZING:
                self._revive(progress)
                progress.state = LED
                self.watch(progress)
            return
        self._unlead(progress)
        self._revive(progress)
        progress.state = KEYED
        self._key(progress)
        self.watch(progress)

    def _bounds_nothing(self, progress: SourceProgress) -> bool:
        """It is led, and another one at a larger distance than its own, so it may stay led."""
        wait_ns = progress.led_wait_ns
        return (
            NOT_LED < wait_ns < self.led_max_ns
            and progress.warm
            and not progress.blocked
            and self.wait_ns(progress) == wait_ns
        )

    def _revive(self, progress: SourceProgress) -> None:
        """It is live, if it was not."""
        self._known.revives(progress)
        self.live += progress.state >= OUT
        self.behind -= progress.state == BEHIND
        self.dozing -= progress.state == DOZING

    def _key(self, progress: SourceProgress) -> None:
        if not progress.in_keyed:
            progress.in_keyed = True
            heappush(self._keyed, (progress.newest_ns, progress.source))

    def await_(self, progress: SourceProgress, until_ns: int) -> None:
        """A pause of the log took it away: it is live, and bounded by its newest key, until it
        is back, or that instant comes."""
        self.awaited_until_ns = until_ns
        self._unlead(progress)
        self._revive(progress)
        progress.state = AWAITED
        self._known.mark(progress)
        self.awaited.add(progress.source)
        self._key(progress)

    def is_back(self, progress: SourceProgress) -> None:
        """It has caught up, or is awaited no longer."""
        self.awaited.discard(progress.source)
        progress.state = KEYED
        self._known.mark(progress)
        self.watch(progress)
        if not self.awaited:
            self.awaited_until_ns = NEVER

    def await_no_more(self) -> None:
        for source in sorted(self.awaited):
            self.is_back(self._sources[source])

    def receive(self, progress: SourceProgress, at_ns: int) -> None:
        """An event of the source came in sequence, so none of them is behind a hole."""
        if progress.said_bye:
            self.say_bye(progress, said=False)
        if progress.blocked:
            self.unblock(progress)

    def speak(self, progress: SourceProgress, newest_ns: int) -> None:
        """It said something that is no event: should one be late by what went out before, its
        having been idle is why."""
        if progress.state == OUT:
            progress.woke_ns = newest_ns
        self.enter(progress, newest_ns)

    def watch(self, progress: SourceProgress) -> None:
        """For the instant at which the source has been silent for `idle_after`."""
        self.idle.arm(progress.source, progress.last_arrival_ns + self.idle_after_ns)

    def leaves_somebody_out(self) -> bool:
        """Events may leave before a source without a bye has sent one beyond them."""
        return self.led_max_ns >= 0 or self.live + self.departed < len(self._sources)

    def say_bye(self, progress: SourceProgress, *, said: bool = True) -> None:
        self.departed += said - progress.said_bye
        progress.said_bye = said
        if not said and progress.state >= OUT:
            self._known.falls_silent(progress)

    def leave(self, progress: SourceProgress, state: int) -> None:
        self._unlead(progress)
        if progress.state == AWAITED:
            self.is_back(progress)
        self.live -= progress.state < OUT
        self.behind += (state == BEHIND) - (progress.state == BEHIND)
        self.dozing -= progress.state == DOZING
        progress.state = state
        self._known.falls_silent(progress)
        self._known.mark(progress)

    def fall_behind(self, progress: SourceProgress, delay_ns: int) -> None:
        """Its event was late: it holds nobody back until one is in time. But what took no longer
        than the source is waited for will be in time once others wait for it: else a source with
        a longer way than theirs would be late for ever for having been late once."""
        if delay_ns > self.wait_ns(progress):
            self.leave(progress, BEHIND)
        else:
            self.enter(progress, progress.newest_ns)

    def resume(self, progress: SourceProgress) -> None:
        """Place the source as its restored state says."""
        self.departed += progress.said_bye
        self.blocked += progress.blocked
        self.behind += progress.state == BEHIND
        if progress.state == KEYED:
            progress.state = OUT
            self.enter(progress, progress.newest_ns)
        elif progress.state == AWAITED:
            progress.state = OUT
            self.await_(progress, self.awaited_until_ns)
        elif progress.state == DOZING:
            self.dozing += 1
            self._key(progress)
            self.expected.arm(progress.source, progress.expected_until_ns)

    def block(self, progress: SourceProgress) -> None:
        """Its events are here already, so it is waited for; unless they will be late."""
        self.blocked += not progress.blocked
        progress.blocked = True
        self.say_bye(progress, said=False)
        if progress.state != BEHIND:
            self.speak(progress, progress.newest_ns)

    def unblock(self, progress: SourceProgress) -> None:
        self.blocked -= progress.blocked
        progress.blocked = False
        if progress.state < OUT:
            self.watch(progress)

    def _lead(self, progress: SourceProgress, wait_ns: int) -> None:
        """From now on time bounds the source, at the distance `wait_ns`."""
        if progress.state != DOZING:
            progress.state = LED if progress.warm else COLD
        progress.led_wait_ns = wait_ns
        if progress.state == COLD:
            self.led_cold.add(progress.source)
            self._cold_wait_ns = wait_ns
        else:
            self._led.setdefault(wait_ns, {})[progress.source] = None
        self.led_max_ns = max(self.led_max_ns, wait_ns)

    def _unlead(self, progress: SourceProgress) -> None:
        """If time bounds it."""
        wait_ns, progress.led_wait_ns = progress.led_wait_ns, NOT_LED
        if wait_ns == NOT_LED:
            return
        if progress.source in self.led_cold:
            self.led_cold.discard(progress.source)
            if not self.led_cold:
                self._lead_no_more(self._cold_wait_ns)
            return
        led = self._led[wait_ns]
        del led[progress.source]
        if not led:
            del self._led[wait_ns]
            self._lead_no_more(wait_ns)

    def _lead_no_more(self, wait_ns: int) -> None:
        """The last source at that distance has left it."""
        if wait_ns == self.led_max_ns:
            self.led_max_ns = max(self._led, default=-1)
            if self.led_cold and self._cold_wait_ns > self.led_max_ns:
                self.led_max_ns = self._cold_wait_ns
            self._has_fallen = True

    def _put_right(self, now_ns: int) -> None:
        """The largest distance has fallen: a source at the new one that has sent something which
        time has not passed is bounded by its newest key. Cost: a look at each of them."""
        sources = self._sources
        while self._has_fallen:
            self._has_fallen = False
            passed_ns = now_ns - self.led_max_ns
            led = self._led.get(self.led_max_ns, ())
            for source in [name for name in led if sources[name].newest_ns > passed_ns]:
                progress = sources[source]
                self._unlead(progress)
                if progress.state == LED:
                    progress.state = KEYED
                self._key(progress)

    def wait_ns(self, progress: SourceProgress) -> int:
        """D of a source; one that is not known yet goes by the pool."""
        if not progress.warm and progress.state != DOZING:
            return self.pool_wait_ns()
        wait_ns = progress.delays.edge_ns()
        return wait_ns if wait_ns < self._max_wait_ns else self._max_wait_ns

    def pool_wait_ns(self) -> int:
        """D of those that are not known yet."""
        if self._pool.trials < WARM_DELAYS:
            return self._max_wait_ns
        wait_ns = 2 * self._pool.edge_ns()
        return wait_ns if wait_ns < self._max_wait_ns else self._max_wait_ns

    def refresh_cold(self, now_ns: int) -> None:
        """The pool moves, and with it the wait for the sources led by it: all the same. Time
        bounds them as before, at the new distance, but for those that it has not passed: their
        newest key does. Cost: one look at each where the wait has grown, else none."""
        cold = self.led_cold
        if not cold:
            return
        before_ns = self._cold_wait_ns
        wait_ns = self.wait_ns(self._sources[next(iter(cold))])
        if wait_ns == before_ns:
            return
        self._cold_wait_ns = wait_ns
        if wait_ns > self.led_max_ns:
            self.led_max_ns = wait_ns
        elif wait_ns < before_ns and before_ns not in self._led:
            self._lead_no_more(before_ns)
        if wait_ns > before_ns:
            sources, passed_ns = self._sources, now_ns - wait_ns
            for source in [name for name in cold if sources[name].newest_ns > passed_ns]:
                self.enter(sources[source], sources[source].newest_ns)

    def limit(self, now_ns: int) -> Bound:
        """The smallest bound of the live sources."""
        if self._has_fallen:
            self._put_right(now_ns)
        keyed = self._keyed
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
            elif progress.newest_ns > ref_ns:
                heapreplace(keyed, (progress.newest_ns, source))
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

    def wake_ns(self, limit: Bound, head_ns: int, now_ns: int) -> int:
        """The first instant at which the head, above `limit`, may leave because time has passed;
        asked right after `limit`."""
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
        """For people: the sources that an event of this time waits for. O(sources)."""
        return [
            {
                "source": source,
                "newest": progress.newest_ns if progress.newest_ns != NO_REF else None,
                "behind_hole": progress.blocked,
                "after_pause": progress.state == AWAITED,
                "until": self._until(progress, head_ns),
            }
            for source, progress in sorted(self._sources.items())
            if (progress.state < OUT or progress.state == DOZING)
            and not progress.queue
            and progress.newest_ns < head_ns
        ]

    def _until(self, progress: SourceProgress, head_ns: int) -> int | None:
        if progress.blocked:
            return None
        if progress.state == AWAITED:
            return self.awaited_until_ns
        return head_ns + self.wait_ns(progress)

    def retire_idle(self, now_ns: int) -> bool:
        """Whether that changes what may leave: mostly all that are looked at have sent something
        since, or doze now and bound as they did."""
        changed = False
        for source in self.idle.due(now_ns + 1):
            progress = self._sources.get(source)
            if progress is None or progress.state >= AWAITED or progress.blocked:
                continue
            if progress.last_arrival_ns + self.idle_after_ns > now_ns:
                self.watch(progress)
                continue
            if progress.is_expected(now_ns):
                changed = self._doze(progress) or changed
            else:
                self.leave(progress, OUT)
                changed = True
        return changed

    def _doze(self, progress: SourceProgress) -> bool:
        """Whether it bounds by other delays than before: its own, where they were the pool's."""
        if progress.state == COLD:
            self._unlead(progress)
            self._key(progress)
        self.live -= 1
        self.dozing += 1
        progress.state = DOZING
        self._known.falls_silent(progress)
        self._known.mark(progress)
        self.expected.arm(progress.source, progress.expected_until_ns)
        return not progress.warm

    def retire_dozing(self, now_ns: int) -> bool:
        """Whether any was expected no longer."""
        retired = False
        for source in self.expected.due(now_ns + 1):
            progress = self._sources.get(source)
            if progress is None or progress.state != DOZING:
                continue
            if progress.expected_until_ns > now_ns:
                self.expected.arm(source, progress.expected_until_ns)
            else:
                self.leave(progress, OUT)
                retired = True
        return retired
