"""Oracle of MERGE: slow, and meant to be read beside reorder_drift_merge.md 3.

Time goes from one instant to the next at which anything can happen: an arrival, or a deadline of
any head for any source. At the end of each instant, when all of it is in, the rule is applied as
printed, over plain lists, until nothing changes.

h is the smallest head by (ref, source, epoch, seq). If its time is below that of the last event
emitted unmarked, or below a published W, it is emitted at once, marked late(merge). Otherwise h is
emitted if one of these holds for each other source s:

* s has a head;

* s is idle and not expected back (12), or catching up;

* h is below the newest key of s, or below its heartbeat;

* s is not blocked, and ref_h + D_s is due.

A deadline d is due at the end of instant d. Readings of the specification where it is open:

1. D_s is read at the end of the instant, with the samples of that instant. A sample is max(0,
arrival - ref) of each event, including late ones. Events marked late before the merge (REORDER's
rule for gaps has judged them) and control records give no sample. A sample enters the counts of the
source and of the stream; each is halved for itself after 4 096 samples. The number of samples is n
(oracle.histogram). A source, or the stream, is known after 64 samples.

2. A source is idle when idle_after has passed since its last arrival, inclusive, or since its
end-of-stream marker. The arrival is the record's own, not the instant at which it came here. Any
later record makes the source active again, even a heartbeat. A blocked source is not idle.

3. A source is catching up if its last emitted event was marked here, and had taken longer than D_s
at that time. Under `wait: thesis` the time of the mark counts. The others wait for it again after
one of its events was emitted unmarked. So an active source that is passed by its D_s catches up by
the same rule as an idle one.

4. The newest key is the largest key of any event received from s.

5. An expected source without any record is active and empty until max_wait after the first instant
of the stream, then idle. Another source with nothing but a blocked record is so until idle_after
has passed since its first record.

6. A record that is already marked late can join the queue of its source, unmarked. This requires
that its number had been skipped, its time lies between those of its neighbours by number, and its
place has not been passed. Otherwise it is emitted at the end of its instant, before the others.
Either way it counts only as a sign of life: it keeps its source from becoming idle, but does not
end its idleness.

7. A record that is not marked shows that its source is no longer blocked.

8. Heartbeats and end-of-stream markers raise the source's heartbeat to their ref when they arrive,
even if events of the source are still queued. They are not emitted.

9. `wait: thesis`: s is passed when its time-out has run since it was empty while another source had
a head. It runs from the end of that instant, or from the point in it; the time-out is read then and
fixed. The flag remains until the next record of s. After idle_after s is not waited for either.

10. W is as printed, over the sources with records; a source that is catching up counts as idle;
with all idle W is unchanged. It is computed only at the end of instants that are multiples of
`heartbeat_ns`. It is published if it has passed the last unmarked ref and the last published W. In
the printed rule only events below the last emitted one are late. But W may pass that by now - D_s
while nothing is emitted, and an unmarked event below a published W would break W's guarantee. So it
is late too. Without `heartbeat_ns` nothing is published and the printed rule holds.

11. An event that is ahead of the clock is not emitted before the clock has reached it, even if all
other sources let it pass. W is never ahead of the clock.

12. An idle source with 8 samples is expected back if it was silent for longer than idle_after
before and then returned. This lasts for twice its silence since its last arrival. Its silence is
the longest one, of which each shorter one subtracts a fourth of the difference. It is waited for
like an active source, but W ignores it. D_s is then that of its own samples, however few.

13. An event in sequence whose time is below an earlier one of its source is set back. It joins the
queue in its place; only the newest event of a source decides whether the source is catching up. One
that is emitted after another of the same time and a larger key is late. In a source that set back,
a lost event fits at any time. With `max_set_back_ns` the newest key and the heartbeat of a source
are smaller by it, and D_s is larger by it. A sample is then arrival - newest, and a source waits
for its own events too.

Not modelled: max_queued, C, error bounds, pauses of the log; W with `max_set_back_ns`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from tests.topology.base.oracle_histogram import Histogram

DATA: Final = ""
HEARTBEAT: Final = "heartbeat"
BYE: Final = "bye"
BLOCKED: Final = "blocked"
UNBLOCKED: Final = "unblocked"

KNOWN_AFTER: Final = 64
STREAM_TAKES: Final = 8
"""The stream takes every eighth sample of a source that is known."""

Key = tuple[int, bytes, int, int]
Timeout = Callable[[str, int], int]
"""(source, now_ns) -> the source's (3.11) time-out."""


@dataclass(slots=True)
class Item:
    """A record that reaches the merge at `at_ns`, in that order; `late`: already marked."""

    at_ns: int
    ref_ns: int
    source: str
    seq: int
    epoch: int = 0
    arrival_ns: int | None = None
    kind: str = DATA
    late: bool = False

    @property
    def key(self) -> Key:
        return self.ref_ns, self.source.encode(), self.epoch, self.seq

    @property
    def arrived_ns(self) -> int:
        return self.at_ns if self.arrival_ns is None else self.arrival_ns


@dataclass(slots=True)
class Leaving:
    """An emitted item: `index` is emitted at `at_ns`.

    `late`: marked by the merge, by `by_ns` (the ref of the last unmarked one, or W if that is
    higher, less the item's ref). `stays_late`: marked before, and without a place in the queue.
    """

    at_ns: int
    index: int
    late: bool = False
    by_ns: int = 0
    stays_late: bool = False


@dataclass(slots=True)
class Answer:
    """An output of the merge.

    `leaving` is in the order of emission; `watermarks` has (instant, W) as published; `held` has
    the indices of items that are not emitted yet.
    """

    leaving: list[Leaving] = field(default_factory=list)
    watermarks: list[tuple[int, int]] = field(default_factory=list)
    held: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Settings:
    """Settings of the merge.

    `timeout`: `wait: thesis` instead of `wait: delay`. `heartbeat_ns`: publish W at its multiples.
    """

    max_wait_ns: int
    idle_after_ns: int
    miss_ppm: int = 1_000
    expected: tuple[str, ...] = ()
    timeout: Timeout | None = None
    heartbeat_ns: int | None = None
    max_set_back_ns: int = 0


@dataclass(slots=True)
class _Source:
    name: str
    queue: list[int] = field(default_factory=list)
    delays: Histogram = field(default_factory=Histogram)
    heard: bool = False
    last_arrival_ns: int = 0
    newest: Key | None = None
    last_ref_ns: int = 0
    heartbeat_ns: int | None = None
    said_bye: bool = False
    blocked: bool = False
    catching_up: bool = False
    late_ns: int = 0
    taken: list[Item] = field(default_factory=list)
    sets_back: bool = False
    silence_ns: int = 0
    passed_at_ns: int | None = None
    """`wait: thesis`: the instant at which its time-out ends; None while it does not run."""


def merge(
    items: list[Item],
    settings: Settings,
    *,
    until_ns: int | None = None,
    end_ns: int | None = None,
) -> Answer:
    """Return the output that MERGE must give for `items`.

    The instant of the last item is not over. With `until_ns`, time advances up to and including it.
    With `end_ns` the input ends: items that are due by then are emitted, then all the rest, in
    order.
    """
    merging = _Merge(items, settings)
    horizon = until_ns if end_ns is None else end_ns
    arriving = sorted({item.at_ns for item in items})
    by_instant: dict[int, list[int]] = {}
    for index, item in enumerate(items):
        by_instant.setdefault(item.at_ns, []).append(index)
    while arriving:
        now_ns = arriving.pop(0)
        for index in by_instant[now_ns]:
            merging.take(index)
        if not arriving and horizon is None:
            break
        merging.finish(now_ns)
        following = arriving[0] - 1 if arriving else horizon
        assert following is not None
        while (due_ns := merging.next_deadline(now_ns)) is not None and due_ns <= following:
            now_ns = due_ns
            merging.finish(now_ns)
    if end_ns is not None:
        merging.end(end_ns)
    merging.answer.held = sorted(i for s in merging.sources.values() for i in s.queue)
    return merging.answer


class _Merge:
    def __init__(self, items: list[Item], settings: Settings) -> None:
        self.items = items
        self.settings = settings
        self.answer = Answer()
        self.sources: dict[str, _Source] = {}
        self.stream = Histogram()
        self.passing: list[int] = []
        self.within: set[int] = set()
        self.set_back: set[int] = set()
        self.first_ns: dict[str, int] = {}
        self.last_unmarked: Key | None = None
        self.watermark_ns: int | None = None
        self.begun_ns = items[0].at_ns if items else 0
        for name in settings.expected:
            self.sources[name] = _Source(name)

    # Take the arrivals of the instant.

    def take(self, index: int) -> None:
        item = self.items[index]
        self.first_ns.setdefault(item.source, item.at_ns)
        if item.late:
            known = self.sources.get(item.source)
            if known is not None and self.fits(known, item) and not self.is_passed(item):
                self.enqueue(known, index)
                known.taken.append(item)
            else:
                self.passing.append(index)
            if known is not None and not self.is_idle(known, item.at_ns - 1):
                known.late_ns = max(known.late_ns, item.arrived_ns)
            return
        source = self.sources.setdefault(item.source, _Source(item.source))
        if item.kind in (BLOCKED, UNBLOCKED):
            source.blocked = item.kind == BLOCKED
            source.said_bye = source.said_bye and not source.blocked
            return
        self.learn(source, item)
        source.last_arrival_ns = (
            max(source.last_arrival_ns, item.arrived_ns) if source.heard else item.arrived_ns
        )
        source.heard = True
        source.taken.append(item)
        source.blocked = False
        source.said_bye = item.kind == BYE
        source.passed_at_ns = None
        if item.kind == HEARTBEAT and not self.is_below(item.ref_ns):
            source.catching_up = False
        if item.kind in (HEARTBEAT, BYE):
            beat_ns = source.heartbeat_ns
            source.heartbeat_ns = item.ref_ns if beat_ns is None else max(beat_ns, item.ref_ns)
            return
        newest_ns = max(item.ref_ns, self.newest_ns(source))
        if item.ref_ns < newest_ns:
            self.set_back.add(id(item))
            source.sets_back = True
        since_ns = newest_ns if self.settings.max_set_back_ns else item.ref_ns
        samples = [source.delays]
        if source.delays.total < KNOWN_AFTER or (source.delays.total + 1) % STREAM_TAKES == 0:
            samples.append(self.stream)
        for delays in samples:
            delays.add(item.arrived_ns - since_ns)
            delays.count()
        if item.arrived_ns - newest_ns <= self.delay_ns(source):
            self.within.add(index)
        self.enqueue(source, index)

    def enqueue(self, source: _Source, index: int) -> None:
        item = self.items[index]
        source.queue.append(index)
        source.queue.sort(key=lambda one: self.items[one].key)
        source.newest = item.key if source.newest is None else max(source.newest, item.key)
        source.last_ref_ns = source.newest[0]

    def newest_ns(self, source: _Source) -> int:
        heard = [key[0] for key in (source.newest,) if key is not None]
        heard += [ns for ns in (source.heartbeat_ns,) if ns is not None]
        return max(heard, default=-1 << 63)

    def learn(self, source: _Source, item: Item) -> None:
        silent_ns = item.arrived_ns - self.heard_ns(source)
        if silent_ns > self.settings.idle_after_ns:
            before_ns = source.silence_ns
            less_ns = max(0, before_ns - silent_ns) // 4
            source.silence_ns = max(silent_ns, before_ns) - less_ns

    def fits(self, source: _Source, item: Item) -> bool:
        """Return whether the number was skipped, and the time fits those of its neighbours."""
        own = [one for one in source.taken if one.epoch == item.epoch]
        below = [one for one in own if one.seq < item.seq]
        above = [one for one in own if one.seq > item.seq]
        return (
            bool(below and above)
            and len(below) + len(above) == len(own)
            and (source.sets_back or self.is_between(below, item, above))
        )

    def is_between(self, below: list[Item], item: Item, above: list[Item]) -> bool:
        return (
            max(one.ref_ns for one in below)
            <= item.ref_ns
            <= min(above, key=lambda one: one.seq).ref_ns
        )

    # Apply the rule at the end of an instant.

    def finish(self, now_ns: int) -> None:
        before = len(self.answer.leaving)
        for index in self.passing:
            self.answer.leaving.append(Leaving(now_ns, index, stays_late=True))
        self.passing.clear()
        while True:
            self.run_timeouts(now_ns)
            head = self.smallest_head()
            if head is None or not (self.is_late(head) or self.may_leave(head, now_ns)):
                break
            self.leave(head, now_ns)
        self.late_ones_first(before)
        beat_ns = self.settings.heartbeat_ns
        if beat_ns is not None and now_ns % beat_ns == 0:
            self.publish_watermark(now_ns)

    def late_ones_first(self, begin: int) -> None:
        """Move the late items of an instant to the front, in order among themselves."""
        left = self.answer.leaving[begin:]
        late = [one for one in left if one.late or one.stays_late]
        late.sort(key=lambda one: self.items[one.index].key)
        others = [one for one in left if not one.late and not one.stays_late]
        self.answer.leaving[begin:] = late + others

    def smallest_head(self) -> Item | None:
        """Return the next item; one that is set back and late comes before others at its time."""
        queued = [self.items[index] for each in self.sources.values() for index in each.queue]
        late = [item for item in queued if id(item) in self.set_back and self.is_late(item)]
        return min(late or queued, key=lambda item: item.key, default=None)

    def is_below(self, ref_ns: int) -> bool:
        return self.last_unmarked is not None and ref_ns < self.last_unmarked[0]

    def is_late(self, head: Item) -> bool:
        below_last = self.is_below(head.ref_ns)
        if id(head) in self.set_back and self.last_unmarked is not None:
            below_last = head.key < self.last_unmarked
        return below_last or (self.watermark_ns is not None and head.ref_ns < self.watermark_ns)

    def is_passed(self, item: Item) -> bool:
        """Return whether a skipped number is too late: its own source can be beyond it at the same
        time.
        """
        below_last = self.last_unmarked is not None and item.key < self.last_unmarked
        return below_last or self.is_late(item)

    def may_leave(self, head: Item, now_ns: int) -> bool:
        return head.ref_ns <= now_ns and all(
            self.lets_pass(source, head, now_ns)
            for source in self.sources.values()
            if source.name != head.source or self.settings.max_set_back_ns
        )

    def lets_pass(self, source: _Source, head: Item, now_ns: int) -> bool:
        dozes = self.is_idle(source, now_ns) and self.dozes(source, now_ns)
        is_out = self.is_idle(source, now_ns) and not dozes
        back_ns = self.settings.max_set_back_ns
        if is_out or (not back_ns and source.queue):
            return True
        if source.catching_up and not source.queue:
            return True
        newest = source.newest
        if newest is not None and head.key[:2] <= (newest[0] - back_ns, newest[1]):
            return True
        beat_ns = source.heartbeat_ns
        if beat_ns is not None and head.key[:2] <= (beat_ns - back_ns, source.name.encode()):
            return True
        if self.settings.timeout is not None:
            return False  # `is_idle` checks the time-out.
        return not source.blocked and head.ref_ns + self.delay_ns(source, known=dozes) <= now_ns

    def leave(self, head: Item, now_ns: int) -> None:
        source = self.sources[head.source]
        index = next(one for one in source.queue if self.items[one] is head)
        source.queue.remove(index)
        if self.is_late(head):
            passed_ns = [key[0] for key in (self.last_unmarked,) if key is not None]
            passed_ns += [ns for ns in (self.watermark_ns,) if ns is not None]
            by_ns = max(passed_ns) - head.ref_ns
            self.answer.leaving.append(Leaving(now_ns, index, late=True, by_ns=by_ns))
            if self.newest_ns(source) < max(passed_ns):
                source.catching_up = self.settings.timeout is not None or index not in self.within
        else:
            self.answer.leaving.append(Leaving(now_ns, index))
            self.last_unmarked = max(head.key, self.last_unmarked or head.key)
            source.catching_up = False

    def end(self, end_ns: int) -> None:
        while (head := self.smallest_head()) is not None:
            self.leave(head, end_ns)

    # Compute the wait for a source.

    def delay_ns(self, source: _Source, *, known: bool = False) -> int:
        """Return D_s; with `known` its own samples are enough."""
        max_wait_ns, miss_ppm = self.settings.max_wait_ns, self.settings.miss_ppm
        back_ns = self.settings.max_set_back_ns
        if source.delays.values >= KNOWN_AFTER or known:
            return min(max_wait_ns, source.delays.quantile_ns(miss_ppm)) + back_ns
        if self.stream.values >= KNOWN_AFTER:
            return min(max_wait_ns, 2 * self.stream.quantile_ns(miss_ppm)) + back_ns
        return max_wait_ns + back_ns

    def is_idle(self, source: _Source, now_ns: int) -> bool:
        if source.blocked:
            return False
        if self.settings.timeout is not None:
            passed_at_ns = source.passed_at_ns
            if passed_at_ns is not None and passed_at_ns <= now_ns:
                return True
        return source.said_bye or self.idle_from(source) <= now_ns

    def dozes(self, source: _Source, now_ns: int) -> bool:
        """Return whether an idle source is expected back."""
        if self.settings.timeout is not None or source.said_bye or source.delays.values < 8:
            return False
        return self.expected_until(source) > now_ns

    def expected_until(self, source: _Source) -> int:
        return self.heard_ns(source) + 2 * source.silence_ns

    def idle_from(self, source: _Source) -> int:
        return self.heard_ns(source) + self.settings.idle_after_ns

    def heard_ns(self, source: _Source) -> int:
        if source.heard:
            return max(source.late_ns, source.last_arrival_ns)
        if source.name not in self.settings.expected:
            return max(source.late_ns, self.first_ns[source.name])
        return max(
            source.late_ns,
            self.begun_ns + self.settings.max_wait_ns - self.settings.idle_after_ns,
        )

    def run_timeouts(self, now_ns: int) -> None:
        """Run the time-outs of empty sources while another has a head (`wait: thesis`)."""
        if self.settings.timeout is None:
            return
        any_head = any(source.queue for source in self.sources.values())
        for source in self.sources.values():
            passed = source.passed_at_ns is not None and source.passed_at_ns <= now_ns
            if source.queue or not (any_head or passed):
                source.passed_at_ns = None
            elif source.passed_at_ns is None:
                source.passed_at_ns = now_ns + self.settings.timeout(source.name, now_ns)

    def next_deadline(self, now_ns: int) -> int | None:
        """Return the next instant after `now_ns` at which an item can become due or W can rise."""
        candidates = [
            self.items[source.queue[0]].ref_ns + self.delay_ns(other, known=known)
            for source in self.sources.values()
            if source.queue
            for other in self.sources.values()
            for known in (False, True)
        ]
        for source in self.sources.values():
            candidates += [self.items[index].ref_ns for index in source.queue]
            candidates.append(self.idle_from(source))
            candidates.append(self.expected_until(source))
            if source.passed_at_ns is not None:
                candidates.append(source.passed_at_ns)
        if self.settings.heartbeat_ns is not None:
            candidates.append(
                (now_ns // self.settings.heartbeat_ns + 1) * self.settings.heartbeat_ns
            )
        return min((due_ns for due_ns in candidates if due_ns > now_ns), default=None)

    # Compute and publish W.

    def publish_watermark(self, now_ns: int) -> None:
        bounds = [
            bound_ns
            for source in self.sources.values()
            if (bound_ns := self.bound_ns(source, now_ns)) is not None
        ]
        if not bounds:
            return
        bounds.append(now_ns)
        said = [key[0] for key in (self.last_unmarked,) if key is not None]
        said += [ns for ns in (self.watermark_ns,) if ns is not None]
        if min(bounds) > max(said, default=min(bounds) - 1):
            self.watermark_ns = min(bounds)
            self.answer.watermarks.append((now_ns, self.watermark_ns))

    def bound_ns(self, source: _Source, now_ns: int) -> int | None:
        """Return the bound below which `source` sends no ref; None if the source does not count."""
        if source.queue:
            return self.items[source.queue[0]].ref_ns
        if source.catching_up or self.is_idle(source, now_ns):
            return None
        known = [ns for ns in (source.heartbeat_ns,) if ns is not None]
        if source.newest is not None:
            known.append(source.last_ref_ns)
        if source.blocked:
            return max(known, default=None)
        return max([*known, now_ns - self.delay_ns(source)])


def order(items: list[Item], answer: Answer) -> Iterable[Key]:
    """Return the keys of the items that were emitted in order, unmarked."""
    return (
        items[leaving.index].key
        for leaving in answer.leaving
        if not leaving.late and not leaving.stays_late
    )
