"""MERGE: the sources of one stream leave in one order of reference time.

Order: (ref_time, source, epoch, seq), total, so the output does not depend on how
equal times arrived. An event may leave when no other source can still bring an
earlier one: each has been heard beyond it, or is idle, or is overdue by its own delay
(reorder_drift_merge.md 3.2). Said as a frontier: every live source bounds what may
leave by

    max(its newest key, now - D)      D = the wait its measured delays call for,
    its newest key alone              while its events wait in REORDER behind a hole,

and everything at or below the smallest bound leaves, at the end of the instant.

How the smallest bound is found in O(log sources): sources are *keyed* (bounded by
their newest key) or *led* (bounded by time). A heap holds the keyed ones under a key
that may be older than their newest, put right when it comes up; only the source that
holds everything up is ever moved to the led ones, of which only the largest D counts.

States of a source: live; idle (nothing for `idle_after`); catching up (its last event
was late): the last two hold nobody back. `wait: thesis` instead waits for an empty
source as long as its pace calls for, then does without it until it speaks (3.1).

Late: an event below the last one released unmarked, or below an announced watermark.

Watermark: announced at multiples of `heartbeat` where it moved without an event or
where C moved. W = the smallest newest time of the live sources, at least the last
released. It is not raised by D: an event that no other event has passed is not made
late by a clock alone. Only when every source is idle does W follow the clock, at the
distance of `idle_after` or of the largest delay that is not exceptional, whichever is
longer: so a quiet stream finishes. C = the time up to which every source known has
been heard without a hole (a lost number holds C until it comes or `correct_for` has
passed).

Bounds: `max_queued` events (at the bound the smallest leaves anyway, counted in
`overflows`), `max_sources` sources. Cost per event O(log sources).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush, heapreplace
from typing import Any, Final

from topology.event import BLOCKED, BYE, DATA, HEARTBEAT, UNBLOCKED, WATERMARK, Event
from topology.feed import BEHIND, COLD, KEYED, LED, NO_REF, OUT, Feed
from topology.histogram import Histogram
from topology.operator import Changes, State
from topology.outcome import MERGE, Duplicate, Late, Step
from topology.quiet import Quiet

NEVER: Final = 1 << 62
WARM_DELAYS: Final = 64
"""Samples a source, or the pool, needs before its delays are believed."""

STREAM: Final = "stream"
FEED: Final = "feed/"
Bound = tuple[int, str]
NO_BOUND: Final[Bound] = (NEVER, "")


class Merge:
    """`config` is a `topology.description.MergeConfig`; `late` the stream's policy."""

    def __init__(
        self,
        stream: str,
        config: Any,
        *,
        late: str = "pass",
        position: int = 1,
        max_sources: int = 200_000,
        heartbeat_ns: int = 200_000_000,
        correct_for_ns: int = 600_000_000_000,
    ) -> None:
        self._stream = stream
        self._pass_late = late == "pass"
        self._position = position
        self._thesis: bool = config.wait == "thesis"
        self._max_wait_ns: int = config.max_wait_ns
        self._idle_after_ns: int = config.idle_after_ns
        self._max_queued: int = config.max_queued
        self._miss_ppm: int = config.miss_target_ppm
        self._expected: tuple[str, ...] = tuple(config.expected_sources)
        self._max_sources = max_sources
        self._heartbeat_ns = heartbeat_ns
        self._correct_for_ns = correct_for_ns

        self._feeds: dict[str, Feed] = {}
        self._pool = Histogram(self._miss_ppm)
        self._cold_wait_ns = self._max_wait_ns
        self._heads: list[Bound] = []  # (ref_time, source) of each queue's head
        self._keyed: list[Bound] = []  # (newest or older, source)
        self._led: dict[int, int] = {}  # D -> how many led sources have it
        self._led_cold: set[str] = set()
        self._led_max_ns = -1
        self._idle: list[Bound] = []  # (instant or earlier, source)
        self._quiet = Quiet()

        self._now_ns = 0
        self._instant_open = False
        self._limiting = ""  # only a word of this source can change what may leave; "": any
        self._wake_ns = NEVER
        self._beat_ns = 0
        self._settled = False  # nothing has changed since the last beat
        self._last = (NO_REF, "", 0, 0)
        self._watermark_ns = NO_REF
        self._complete_ns = NO_REF
        self._queued = 0
        self._dirty: list[Feed] = []
        self._gone: list[str] = []
        self.overflows = 0

    # -- the contract ------------------------------------------------------------------------------

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        step = Step(now_ns)
        for event in events:
            if event.at_ns > self._now_ns:
                self._pass_time(event.at_ns, step)
            self._take(event, step)
        if now_ns > self._now_ns:
            self._pass_time(now_ns, step)
        return step

    def on_time(self, now_ns: int) -> Step:
        step = Step(now_ns)
        if now_ns >= self._now_ns:
            self._pass_time(now_ns + 1, step)
            self._now_ns = now_ns
        return step

    def next_deadline_ns(self) -> int | None:
        if self._instant_open:
            return self._now_ns
        due_ns = min(self._wake_ns, self._next_beat())
        return due_ns if due_ns < NEVER else None

    def on_end(self, now_ns: int) -> Step:
        step = self.on_time(now_ns)
        self._release_until(NO_BOUND, now_ns, step)
        self._wake_ns = NEVER
        return step

    # -- taking events in --------------------------------------------------------------------------

    def _take(self, event: Event, step: Step) -> None:
        feed = self._feeds.get(event.source)
        if feed is None:
            feed = self._new_feed(event.source, event.at_ns)
        if not feed.dirty:
            feed.dirty = True
            self._dirty.append(feed)
        kind = event.kind
        if kind == DATA:
            self._take_data(feed, event, step)
            return
        self._instant_open = True
        if kind == BLOCKED:
            self._block(feed)
        elif kind == UNBLOCKED:
            self._unblock(feed)
        elif feed.has_heard(event):
            return
        elif kind == HEARTBEAT:
            self._hear(feed, event)
            feed.follow(event)
            if feed.state != BEHIND or event.ref_time_ns >= max(self._last[0], self._watermark_ns):
                self._enter(feed, max(feed.newest_ns, event.ref_time_ns))
        elif kind == BYE:
            self._hear(feed, event)
            feed.follow(event)
            feed.newest_ns = max(feed.newest_ns, event.ref_time_ns)
            if feed.state != BEHIND:
                self._leave(feed, OUT)
            feed.said_bye = True

    def _take_data(self, feed: Feed, event: Event, step: Step) -> None:
        feed.received += 1
        if event.late:
            feed.fill()
            feed.late += 1
            if feed.state < OUT:
                feed.last_arrival_ns = max(feed.last_arrival_ns, event.arrival_ns)
            step.released.append(event)
            return
        ref_ns = event.ref_time_ns
        if feed.has_heard(event):
            feed.duplicate += 1
            step.reports.append(Duplicate(self._now_ns, event))
            return
        self._hear(feed, event)
        delay_ns = event.arrival_ns - ref_ns
        feed.delays.add(delay_ns)
        self._pool.add(delay_ns)
        feed.follow(event)
        if ref_ns < self._watermark_ns or (
            ref_ns <= self._last[0] and (ref_ns, event.source, event.epoch, event.seq) < self._last
        ):
            self._late(feed, event, step)
            return
        queue = feed.queue
        if not queue:
            heappush(self._heads, (ref_ns, event.source))
        queue.append(event)
        event.held_by = self._position
        self._queued += 1
        self._enter(feed, ref_ns)
        if self._queued > self._max_queued:
            self._overflow(step)
        if not self._limiting or event.source == self._limiting or self._first_is(event):
            self._instant_open = True

    def _first_is(self, event: Event) -> bool:
        return bool(self._heads) and self._heads[0] == (event.ref_time_ns, event.source)

    def _hear(self, feed: Feed, event: Event) -> None:
        if event.arrival_ns > feed.last_arrival_ns:
            feed.last_arrival_ns = event.arrival_ns
        feed.said_bye = False
        if feed.blocked:
            self._unblock(feed)
        if self._thesis:
            feed.pace(event.at_ns)

    def _late(self, feed: Feed, event: Event, step: Step) -> None:
        """Its source is catching up: it holds nobody back until it is in time again."""
        feed.late += 1
        self._leave(feed, BEHIND)
        self._instant_open = True
        if self._pass_late:
            event.late = MERGE
            event.at_ns = self._now_ns
            step.released.append(event)
        else:
            by_ns = max(self._last[0], self._watermark_ns) - event.ref_time_ns
            step.reports.append(Late(self._now_ns, event, MERGE, by_ns))

    def _new_feed(self, source: str, at_ns: int) -> Feed:
        if not self._feeds:
            for expected in self._expected:
                if expected != source:
                    heard_ns = at_ns + self._max_wait_ns - self._idle_after_ns
                    self._enter(self._add_feed(expected, heard_ns), NO_REF)
        return self._add_feed(source, at_ns)

    def _add_feed(self, source: str, at_ns: int) -> Feed:
        feed = self._feeds[source] = Feed(source, self._miss_ppm)
        feed.last_arrival_ns = at_ns
        feed.dirty = True
        self._dirty.append(feed)
        self._quiet.note(source, at_ns)
        if len(self._feeds) > self._max_sources:
            longest = self._quiet.longest(self._feeds, source, NEVER)
            if longest is not None:
                self._leave(self._feeds.pop(longest), OUT)
                self._gone.append(longest)
                self._instant_open = True
        return feed

    # -- which sources bound the frontier ----------------------------------------------------------

    def _enter(self, feed: Feed, newest_ns: int) -> None:
        """The source is live and its newest time is `newest_ns`."""
        feed.newest_ns = newest_ns
        if feed.state == KEYED:
            return  # its entry in the heap is older: put right when it comes up
        if feed.state < OUT:
            self._unlead(feed)
        feed.state = KEYED
        if not feed.in_keyed:
            feed.in_keyed = True
            heappush(self._keyed, (newest_ns, feed.source))
        self._watch(feed)

    def _watch(self, feed: Feed) -> None:
        """For the instant at which the source has been silent for `idle_after`."""
        if not feed.watched:
            feed.watched = True
            heappush(self._idle, (feed.last_arrival_ns + self._idle_after_ns, feed.source))

    def _leave(self, feed: Feed, state: int) -> None:
        if feed.state == LED or feed.state == COLD:
            self._unlead(feed)
        feed.state = state
        self._mark(feed)

    def _block(self, feed: Feed) -> None:
        """Its events are here already, so it is waited for; unless they will be late."""
        feed.blocked = True
        if feed.state != BEHIND:
            self._enter(feed, feed.newest_ns)

    def _unblock(self, feed: Feed) -> None:
        feed.blocked = False
        if feed.state < OUT:
            self._watch(feed)

    def _lead(self, feed: Feed, wait_ns: int) -> None:
        """From now on time bounds the source, at the distance `wait_ns`."""
        if feed.delays.trials < WARM_DELAYS:
            feed.state = COLD
            self._led_cold.add(feed.source)
        else:
            feed.state = LED
        feed.led_wait_ns = wait_ns
        self._led[wait_ns] = self._led.get(wait_ns, 0) + 1
        self._led_max_ns = max(self._led_max_ns, wait_ns)

    def _unlead(self, feed: Feed) -> None:
        wait_ns = feed.led_wait_ns
        if feed.state == COLD:
            self._led_cold.discard(feed.source)
        left = self._led[wait_ns] - 1
        if left:
            self._led[wait_ns] = left
        else:
            del self._led[wait_ns]
            if wait_ns == self._led_max_ns:
                self._led_max_ns = max(self._led) if self._led else -1

    def _wait_ns(self, feed: Feed) -> int:
        if feed.delays.trials < WARM_DELAYS:
            return self._cold_wait_ns
        return min(self._max_wait_ns, feed.delays.edge_ns())

    def _refresh_cold(self) -> None:
        """Sources not yet known by their own delays go by the pool's, which moves."""
        wait_ns = self._max_wait_ns
        if self._pool.trials >= WARM_DELAYS:
            wait_ns = min(wait_ns, 2 * self._pool.edge_ns())
        if wait_ns == self._cold_wait_ns:
            return
        self._cold_wait_ns = wait_ns
        for source in sorted(self._led_cold):
            feed = self._feeds[source]
            self._enter(feed, feed.newest_ns)

    def _limit(self, now_ns: int) -> Bound:
        """The smallest bound of the live sources."""
        keyed = self._keyed
        while True:
            by_time = (now_ns - self._led_max_ns + 1, "") if self._led else NO_BOUND
            if not keyed or keyed[0] >= by_time:
                return by_time
            ref_ns, source = keyed[0]
            feed = self._feeds.get(source)
            if feed is None or feed.state != KEYED:
                heappop(keyed)
                if feed is not None:
                    feed.in_keyed = False
            elif feed.newest_ns > ref_ns:
                heapreplace(keyed, (feed.newest_ns, source))
            elif feed.blocked or self._thesis or now_ns - self._wait_ns(feed) < ref_ns:
                return keyed[0]
            else:
                heappop(keyed)
                feed.in_keyed = False
                self._lead(feed, self._wait_ns(feed))

    # -- time --------------------------------------------------------------------------------------

    def _pass_time(self, until_ns: int, step: Step) -> None:
        """End the open instant, then fire what is due before `until_ns`."""
        if self._instant_open:
            self._instant_open = False
            self._evaluate(step)
        while True:
            beat_ns = self._next_beat()
            if self._settled:
                # Nothing has changed since the last one: of many in a row only the last counts.
                beat_ns = max(beat_ns, (until_ns - 1) // self._heartbeat_ns * self._heartbeat_ns)
            if self._wake_ns < until_ns and self._wake_ns <= beat_ns:
                self._now_ns = max(self._now_ns, self._wake_ns)
                self._evaluate(step)
            elif beat_ns < until_ns:
                self._now_ns = self._beat_ns = beat_ns
                self._evaluate(step)
                self._announce(step)
                self._settled = True
            else:
                break
        self._now_ns = until_ns

    def _next_beat(self) -> int:
        beat_ns = self._heartbeat_ns
        if not beat_ns or not self._feeds:
            return NEVER
        return max(self._beat_ns + beat_ns, -(-self._now_ns // beat_ns) * beat_ns)

    def _evaluate(self, step: Step) -> None:
        """Let go what may leave now, and find out when more may."""
        now_ns = self._now_ns
        self._settled = False
        self._refresh_cold()
        self._retire_idle(now_ns)
        self._limiting = ""
        limit = NO_BOUND
        while self._heads:
            if self._thesis:
                self._give_up_empty(now_ns)
            limit = self._limit(now_ns)
            if self._heads[0] > limit:
                break
            self._release_until(limit, now_ns, step)
        self._wake_ns = self._idle[0][0] if self._idle else NEVER
        if self._heads:
            self._wake_ns = min(self._wake_ns, self._next_wake(limit))
            if limit[1] and not self._thesis:
                feed = self._feeds[limit[1]]
                if feed.blocked or feed.delays.trials >= WARM_DELAYS:
                    self._limiting = limit[1]

    def _next_wake(self, limit: Bound) -> int:
        """The first instant at which the head may leave because time has passed."""
        if self._thesis:
            return self._first_given_up()
        wait_ns = self._led_max_ns
        if limit[1]:
            feed = self._feeds[limit[1]]
            if feed.blocked:
                return NEVER
            wait_ns = max(wait_ns, self._wait_ns(feed))
        return max(self._heads[0][0] + wait_ns, self._now_ns + 1)

    def _retire_idle(self, now_ns: int) -> None:
        idle = self._idle
        while idle and idle[0][0] <= now_ns:
            _, source = heappop(idle)
            feed = self._feeds.get(source)
            if feed is None:
                continue
            feed.watched = False
            if feed.state >= OUT or feed.blocked:
                continue
            if feed.last_arrival_ns + self._idle_after_ns > now_ns:
                self._watch(feed)
            else:
                self._leave(feed, OUT)

    # -- the thesis's rule -------------------------------------------------------------------------

    def _give_up_empty(self, now_ns: int) -> None:
        """Deadlines run in parallel, from the instant the source became empty while
        another had a head. O(sources): the rule is here for comparison."""
        for feed in self._feeds.values():
            since_ns = feed.empty_since_ns
            if feed.queue or feed.state >= OUT:
                since_ns = NEVER
            elif since_ns == NEVER:
                since_ns = now_ns
            if since_ns != feed.empty_since_ns:
                feed.empty_since_ns = since_ns
                self._mark(feed)
            if not feed.blocked and feed.given_up_ns(self._max_wait_ns) <= now_ns:
                self._leave(feed, OUT)

    def _first_given_up(self) -> int:
        first_ns = NEVER
        for feed in self._feeds.values():
            if not feed.blocked and feed.state < OUT:
                first_ns = min(first_ns, feed.given_up_ns(self._max_wait_ns))
        return first_ns

    # -- letting go --------------------------------------------------------------------------------

    def _release_until(self, limit: Bound, now_ns: int, step: Step) -> None:
        heads = self._heads
        runs: list[tuple[str, list[Event]]] = []
        while heads and heads[0] <= limit:
            source = heads[0][1]
            feed = self._feeds[source]
            queue = feed.queue
            run: list[Event] = []
            while queue and (queue[0].ref_time_ns, source) <= limit:
                event = queue.popleft()
                event.at_ns = now_ns
                event.held_by = 0
                run.append(event)
            feed.released += len(run)
            self._mark(feed)
            runs.append((source, run))
            if queue:
                heapreplace(heads, (queue[0].ref_time_ns, source))
            else:
                heappop(heads)
        if not runs:
            return
        events = runs[0][1]
        if len(runs) > 1:
            # Each run is in order and the sort is stable: sources in order of name settle ties.
            runs.sort()
            events = [event for _, run in runs for event in run]
            events.sort(key=ref_time)
        self._queued -= len(events)
        last = events[-1]
        self._last = (last.ref_time_ns, last.source, last.epoch, last.seq)
        step.released.extend(events)

    def _overflow(self, step: Step) -> None:
        """The bound is reached: the smallest leaves, whoever might still come before it."""
        self.overflows += 1
        source = self._heads[0][1]
        feed = self._feeds[source]
        event = feed.queue.popleft()
        event.at_ns = self._now_ns
        event.held_by = 0
        feed.released += 1
        self._mark(feed)
        self._queued -= 1
        self._last = (event.ref_time_ns, source, event.epoch, event.seq)
        if feed.queue:
            heapreplace(self._heads, (feed.queue[0].ref_time_ns, source))
        else:
            heappop(self._heads)
        step.released.append(event)

    # -- watermarks --------------------------------------------------------------------------------

    def _announce(self, step: Step) -> None:
        watermark_ns = max(self._watermark_ns, self._last[0], self._promise())
        complete_ns = min(watermark_ns, max(self._complete_ns, self._completeness(watermark_ns)))
        moved = watermark_ns > max(self._watermark_ns, self._last[0])
        self._watermark_ns = watermark_ns
        if moved or complete_ns > self._complete_ns:
            self._complete_ns = complete_ns
            event = Event(self._stream, "", 0, 0, watermark_ns, self._now_ns, kind=WATERMARK)
            event.complete_ns = complete_ns
            step.released.append(event)

    def _promise(self) -> int:
        """No event with a smaller reference time is still to come, as far as can be said."""
        live = [feed.newest_ns for feed in self._feeds.values() if feed.state < OUT]
        if not live:
            usual_ns = self._pool.edge_ns() if self._pool.trials >= WARM_DELAYS else 0
            wait_ns = max(usual_ns, self._idle_after_ns, self._max_wait_ns)
            return self._now_ns - wait_ns if not self._heads else NO_REF
        promise_ns = min(live)
        return min(promise_ns, self._heads[0][0]) if self._heads else promise_ns

    def _completeness(self, watermark_ns: int) -> int:
        expired_ns = watermark_ns - self._correct_for_ns
        known_ns = []
        for feed in self._feeds.values():
            if feed.expired(expired_ns):
                feed.write_off()
                self._mark(feed)
            if not feed.said_bye:
                known_ns.append(feed.complete_ns)
        return min(known_ns, default=watermark_ns)

    # -- for people --------------------------------------------------------------------------------

    def explain(self) -> dict[str, Any]:
        """What waits, for which sources, and until when if they stay silent."""
        head = self._heads[0] if self._heads else None
        waits_for = []
        if head is not None:
            for source, feed in sorted(self._feeds.items()):
                if feed.state != OUT and not feed.queue and feed.newest_ns < head[0]:
                    waits_for.append(
                        {
                            "source": source,
                            "newest": feed.newest_ns if feed.newest_ns != NO_REF else None,
                            "behind_hole": feed.blocked,
                            "until": None if feed.blocked else head[0] + self._wait_ns(feed),
                        }
                    )
        return {
            "sources": len(self._feeds),
            "idle": sum(1 for feed in self._feeds.values() if feed.state == OUT),
            "queued": self._queued,
            "head": {"source": head[1], "ref_time": head[0]} if head is not None else None,
            "waits_for": waits_for,
            "watermark": self._watermark_ns if self._watermark_ns != NO_REF else None,
            "overflows": self.overflows,
        }

    # -- state -------------------------------------------------------------------------------------

    def _mark(self, feed: Feed) -> None:
        if not feed.dirty:
            feed.dirty = True
            self._dirty.append(feed)

    def snapshot(self) -> State:
        state: State = {FEED + source: feed.snapshot() for source, feed in self._feeds.items()}
        state[STREAM] = self._stream_state()
        return state

    def changes(self) -> Changes:
        changes: Changes = {FEED + source: None for source in self._gone}
        self._gone.clear()
        for feed in self._dirty:
            feed.dirty = False
            if self._feeds.get(feed.source) is feed:
                changes[FEED + feed.source] = feed.snapshot()
        self._dirty.clear()
        changes[STREAM] = self._stream_state()
        return changes

    def _stream_state(self) -> Any:
        return [
            self._now_ns,
            self._instant_open,
            self._wake_ns,
            self._beat_ns,
            list(self._last),
            self._watermark_ns,
            self._complete_ns,
            self.overflows,
            self._pool.snapshot(),
            self._cold_wait_ns,
        ]

    def held(self) -> Iterable[Event]:
        for feed in self._feeds.values():
            yield from feed.queue

    def restore(self, state: Mapping[str, Any], held: Iterable[Event]) -> None:
        for key, value in state.items():
            if key != STREAM:
                self._restore_feed(key[len(FEED) :], value)
        for event in sorted(held, key=in_sequence):
            feed = self._feeds[event.source]
            if not feed.queue:
                heappush(self._heads, (event.ref_time_ns, event.source))
            feed.queue.append(event)
            event.held_by = self._position
            self._queued += 1
        if STREAM in state:
            (
                self._now_ns,
                self._instant_open,
                self._wake_ns,
                self._beat_ns,
                last,
                self._watermark_ns,
                self._complete_ns,
                self.overflows,
                pool,
                self._cold_wait_ns,
            ) = state[STREAM]
            self._last = (last[0], last[1], last[2], last[3])
            self._pool.restore(pool)

    def _restore_feed(self, source: str, state: Any) -> None:
        feed = self._feeds[source] = Feed(source, self._miss_ppm)
        feed.restore(state)
        self._quiet.note(source, feed.last_arrival_ns)
        if feed.state == KEYED:
            feed.state = OUT
            self._enter(feed, feed.newest_ns)


def in_sequence(event: Event) -> tuple[int, int, int]:
    """How the events of one source came; reference times do not fall within a source."""
    return (event.ref_time_ns, event.epoch, event.seq)


def ref_time(event: Event) -> int:
    return event.ref_time_ns
