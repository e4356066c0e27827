"""MERGE: emits the events of all sources of a stream in one order of corrected timestamps.

The order is by corrected timestamp (`ref_time`). Events that are emitted together are sorted by
(ref_time, source, epoch, seq). This order is total, so the output does not depend on the arrival
order of equal times within an instant. An event may be emitted when no other source can still send
an earlier one. That is so when each other source has sent a later event, is idle, or is overdue,
judging by its own delays. In other words, every live source has a bound:

    max(its newest time, now - D)     D = the wait that its measured delays require,
    its newest time alone             while REORDER buffers its events behind a gap,

and all events at or below the smallest bound are emitted at the end of the instant
(topology.order.merge.bounds finds it). If `clock.max_set_back` is declared, the newest time counts
as smaller by it, and D as larger.

An event goes through four steps:

* *learn*: find what it shows about its source, and whether it is late
  (topology.order.merge.intake);
* *place*: put it into the queue of its source, or among the late ones
  (topology.order.merge.queues);
* *release*: at the end of the instant, emit all events that no source holds up (`_evaluate`);
* *announce*: report the progress of MERGE in a watermark (topology.order.merge.watermark).

`_take` does the first two for any event. topology.order.merge.stretch does them for many plain
events at once. `_pass_time` does the other two.

A source is in one of these states:

* live;
* awaited after a pause of the whole log (topology.order.merge.pause): its newest time alone is its
  bound;
* idle: nothing arrived for `idle_after`, or its end-of-stream marker arrived. It is still expected,
  with time as its bound, or it is out (topology.order.merge.bounds);
* catching up: its last event was late, and took longer than MERGE waits for the source.

MERGE does not wait for a source that is out or catching up.

An event is late if its time is below that of the last event emitted unmarked, or below an announced
watermark. `Passage.judge` in topology.order.merge.passage decides, and names the cause. Late
events of an instant are emitted at its end, in order.

These are the decisions in special cases:

* MERGE does not wait for a source that is catching up, even if REORDER buffers its events behind a
  gap. A heartbeat that is not below the last emitted time ends its catching up, as an event does.
* REORDER may have declared the number of an event missing. The event is not late while nothing
  emitted or to be emitted contradicts its order. It is then emitted in order, unmarked. Otherwise
  it stays late. Its delay is not sampled, because the rule for gaps has counted it. It does not
  make an idle source live, but it keeps a live one from becoming idle.
* An event ahead of the arrival clock waits for the clock, even if no source holds it up. Otherwise
  sources that come back would be late until the clock has reached it.
* An event whose time and number are at or below the newest of its source is a duplicate, because
  each source arrives in sequence. The previous stage sends such events after a restart with
  `at_least_once`. They unblock their source, as they did the first time.
* An event is *set back* if its time is below the newest of its source, but its number is not. It is
  emitted unmarked if nothing at or above it was emitted and no watermark forbids it. Else it is
  late, but its source is not catching up. MERGE waits for such events only as long as
  `clock.max_set_back` says, and C stays below them (topology.order.merge.watermark).
* If a source comes back after its end-of-stream marker, the marker counts like a heartbeat.

Watermarks (topology.order.merge.watermark) are announced at multiples of `heartbeat` if W or C
moved, and at once when C no longer reaches the emitted events.

Bounds: `max_queued` events, `reorder.max_held_bytes` of payload and `max_sources` sources. At the
first two, the source that fills the queues makes room (topology.order.merge.queues); `overflows`
counts this. Cost per event: O(log sources), and for an event that is set back O(queue of its
source).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from topology.base.event import DEAD, NO_EPOCH, Event
from topology.base.late import MERGE_FULL, OVERTAKEN
from topology.base.location import HELD, LOST, NOT_COME, OLD_EPOCH, PASSED
from topology.base.operator import NEVER, TURN, Figure, Figures, Plain, total
from topology.base.outcome import Step
from topology.order.merge.bounds import BOUNDS, NO_BOUND, Bound, SourceBounds
from topology.order.merge.passage import PASSAGE, Passage
from topology.order.merge.pause import PAUSE, Pause
from topology.order.merge.queues import Queues
from topology.order.merge.settings import MergeConfig
from topology.order.merge.source import AWAITED, KEYED, NO_REF, NOT_LED, OUT, SourceProgress
from topology.order.merge.sources import KnownSources
from topology.order.merge.stretch import Stretches
from topology.order.merge.unnumbered import (
    UncertainPassage,
    UncertainWatermark,
    correct_after_intake,
)
from topology.order.merge.watermark import PROMISES, Watermark
from topology.state.histogram import HISTOGRAM, PPM
from topology.state.saved import FLAG, INT, Shape
from topology.state.saved_operator import SavedOperator
from topology.state.tables import SavedState

MERGE: Final = Shape(
    "merge",
    1,
    _now_ns=INT,
    _instant_open=FLAG,
    _wake_ns=INT,
    _beat_ns=INT,
    _watermark=PROMISES,
    _passage=PASSAGE,
    _pause=PAUSE,
    _bounds=BOUNDS,
    overflows=INT,
    _pool=HISTOGRAM,
)

MAX_LISTED: Final = 10
"""The maximum number of sources that `explain` lists because their timestamps fall."""

FIGURES: Final[Mapping[str, Figure]] = {
    "sources": Figure("Sources known to MERGE"),
    "idle": Figure("Sources that are idle or ended, for which MERGE does not wait"),
    "ended": Figure("Sources that sent an end-of-stream marker"),
    "paused": Figure(
        "Sources between two events, for no longer than usual; MERGE waits a bounded time for them"
    ),
    "catching_up": Figure("Sources whose last event was late; MERGE does not wait for them"),
    "awaited_after_outage": Figure("Sources that MERGE waits for because the whole log paused"),
    "blocked": Figure("Sources whose events REORDER buffers behind a gap"),
    "queued": Figure("Events buffered for other sources"),
    "queued_bytes": Figure("Payload of the buffered events, in bytes"),
    "overflows": total("Events emitted early because a bound was reached"),
    "set_backs": total("Events with a time below the newest of their source, in sequence"),
    "set_backs_beyond": total("Events set back below the completeness frontier"),
    "set_back_ns": Figure("Largest distance of an event below the newest time of its source"),
    "forgotten": total("Sources forgotten at a bound or after forget_after"),
    "in_several_partitions": Figure("Sources whose events arrived in several input partitions"),
    "target_ppm": Figure("Share of events that should arrive within the wait for their source"),
    "watermark_ns": Figure("Watermark: later events with a smaller corrected timestamp are late"),
    "watermark_lag_ns": Figure("Distance of the watermark from the newest arrival time"),
    "completeness_frontier_ns": Figure(
        "Completeness frontier: every source has delivered all events up to it"
    ),
}


class Merge(SavedOperator):
    """The operator that emits the events of all sources of one stream in one order.

    A subclass may find the bounds of sources in another way, from rows of another class.
    """

    bounds_class: ClassVar[type[SourceBounds]] = SourceBounds
    progress_class: ClassVar[type[SourceProgress]] = SourceProgress

    def __init__(self, stream: str, config: MergeConfig) -> None:
        mixed, heartbeat_ns = config.reorder.is_mixed, config.heartbeat_ns
        numbered = config.reorder.numbered and not mixed
        self.passes_late = config.reorder.late == "pass"
        self._stream = stream
        self._config = config
        self._heartbeat_ns = heartbeat_ns
        self._numbered = numbered

        known = KnownSources(config, self.progress_class)
        self._known, self._sources, self._pool = known, known.rows, known.pool
        self._saved = SavedState("stream", MERGE, [known])
        self._bounds = self.bounds_class(known, config)
        self._queues = Queues(known, config)
        self._heads = self._queues.heads
        quiet_after_ns = max(config.quiet_after_ns, config.idle_after_ns, config.max_wait_ns)
        if numbered:
            self._watermark = Watermark(known, quiet_after_ns, config)
            self._passage = Passage(self._watermark, self.passes_late)
        else:
            uncertain = UncertainWatermark(known, quiet_after_ns, config)
            uncertain.is_mixed = mixed
            self._watermark = uncertain
            self._passage = UncertainPassage(uncertain, self.passes_late, heartbeat_ns > 0)
        self._pause = Pause(known, self._bounds, config)
        self._intake = Stretches(
            known,
            self._bounds,
            self._queues,
            self._passage,
            self._pause,
            self._watermark,
            numbered,
            config,
        )
        self._now_ns = 0
        self._instant_open = False
        self._wake_ns = NEVER
        self._look_ns = 0
        """The next instant at which more may be emitted even if no source becomes idle.

        It is 0 before it is computed.
        """
        # The earlier of the next wake and the next heartbeat; nothing is due before it.
        self._due_ns = 0
        self._beat_ns = 0
        # The next heartbeat. It is computed once and kept until it is reached.
        self._next_beat_ns = -1
        self._settled = False  # Whether nothing has changed since the last heartbeat.
        self.overflows = 0

    def begin_midstream(self) -> None:
        """Begin in the middle of the stream, where sources need not begin with their first number.

        Then no numbers are missing before the first event of a source.
        """
        self._intake.start = -1

    # -- The operator's contract -------------------------------------------------------------------

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        step = Step(now_ns)
        batch: list[Event] = events if isinstance(events, list) else list(events)
        pause = self._pause
        at, end = 0, len(batch)
        gaps = pause.find_gaps(batch)
        gap = gaps[-1][0] if gaps else end
        while at < end:
            at_ns = batch[at].at_ns
            if at_ns > self._now_ns:
                if self._instant_open or self._due_ns < at_ns:
                    self._pass_time(at_ns, step)
                else:
                    self._now_ns = at_ns
            if at == gap:
                pause.begin(gaps.pop()[1], at_ns)
                gap = gaps[-1][0] if gaps else end
            if self.takes_plain and pause.since_ns == NEVER:
                at, self._now_ns, self._instant_open, revived = self._intake.take_plain(
                    batch, at, gap, self._now_ns, self._due_ns, self._instant_open
                )
                if revived:
                    self._settled = False
                if at == gap or batch[at].at_ns > self._now_ns:
                    continue
            self._take(batch[at], step)
            at += 1
        if batch:
            pause.received_ns = batch[-1].at_ns
        if now_ns > self._now_ns:
            self._pass_time(now_ns, step)
        step.take_kept(self._queues.kept, self._queues.freed)
        return step

    def on_time(self, now_ns: int) -> Step:
        step = Step(now_ns)
        if now_ns >= self._now_ns:
            self._pass_time(now_ns + 1, step)
            self._now_ns = now_ns
        step.take_kept(self._queues.kept, self._queues.freed)
        return step

    def next_deadline_ns(self) -> int | None:
        if self._instant_open:
            return self._now_ns
        due_ns = min(self._wake_ns, self._find_next_beat())
        return due_ns if due_ns < NEVER else None

    def on_end(self, now_ns: int) -> Step:
        step = self.on_time(now_ns)
        self._emit_late(step)
        self._passage.release(self._queues.take_until(NO_BOUND, now_ns), step)
        self._announce_if_needed(step)
        self._wake_ns = NEVER
        step.take_kept(self._queues.kept, self._queues.freed)
        return step

    # -- Intake ------------------------------------------------------------------------------------

    def _take(self, event: Event, step: Step) -> None:
        """Take in an event of any kind."""
        progress = self._sources.get(event.source)
        if progress is None:
            self._settled = False
            if event.kind == DEAD:
                return
            progress = self._add_source(event.source, event.at_ns)
        self._known.mark(progress)
        intake = self._intake
        was_empty, was_blocked = not progress.queue, progress.blocked
        was_idle = progress.state >= OUT
        led_max_ns = self._bounds.led_max_ns
        is_next = intake.is_next(progress, event)
        if not is_next or progress.state != KEYED or progress.blocked:
            self._settled = False
        was_late = event.late == OVERTAKEN
        may_change = intake.take(progress, event, self._now_ns, step)
        if self._queues.are_full():
            self._make_room(step)
        if is_next:
            may_change = was_blocked or intake.opens(progress, was_empty, led_max_ns)
        if may_change:
            self._instant_open = True
        elif was_idle and not self._instant_open:  # The source may become idle again.
            self._wake_ns = min(self._wake_ns, self._bounds.idle.next_ns)
            self._due_ns = min(self._due_ns, self._wake_ns)
        if not self._numbered:
            correct_after_intake(self._bounds, progress, event.kind, was_late, was_blocked)

    def _add_source(self, source: str, at_ns: int) -> SourceProgress:
        """Add a source; with the stream's first event, add all expected ones too.

        MERGE treats an expected source as if it had sent something, and waits for its first event.
        If it sends nothing, it is idle after `max_wait`.
        """
        if not self._sources:
            self._due_ns = 0
            received_ns = at_ns + self._config.max_wait_ns - self._config.idle_after_ns
            for expected in self._config.expected_sources:
                if expected != source:
                    progress = self._known.make_source(expected, received_ns)
                    self._known.put(expected, progress)
                    self._known.mark(progress)
                    self._bounds.make_live(progress, NO_REF)
        progress = self._known.make_source(source, at_ns)
        for forgotten in self._known.add(progress):
            self._bounds.retire(forgotten, OUT)
            self._bounds.set_departed(forgotten, said=False)
            self._watermark.lacking.discard(forgotten.source)
            self._instant_open = True
        return progress

    # -- Time --------------------------------------------------------------------------------------

    def _pass_time(self, until_ns: int, step: Step) -> None:
        """End the open instant, then do what is due before `until_ns`."""
        if self._instant_open:
            self._instant_open = False
            if self._queues.late:
                self._emit_late(step)
            self._evaluate(step)
            if self._next_beat_ns <= self._beat_ns:
                self._find_next_beat()
            if self._wake_ns >= until_ns and self._next_beat_ns >= until_ns:
                self._now_ns = until_ns
                self._due_ns = min(self._wake_ns, self._next_beat_ns)
                return  # Nothing is due, which is the usual case.
        if self.takes_plain and self._wake_ns < until_ns and self._bounds.limited_by_time:
            self._release_by_time(until_ns, step)
        while True:
            since_ns = beat_ns = self._find_next_beat()
            if self._settled:
                beats_ns = beat_ns, self._heartbeat_ns, until_ns, self._wake_ns
                since_ns, beat_ns = self._watermark.find_idle_beats(beats_ns, self._heads)
            if self._wake_ns < until_ns and self._wake_ns <= beat_ns:
                self._now_ns = max(self._now_ns, self._wake_ns)
                if not self._retire_idle():
                    self._evaluate(step)
            elif beat_ns < until_ns:
                self._now_ns = self._beat_ns = beat_ns
                self._evaluate(step)
                self._announce(step, since_ns)
                self._settled = True
            else:
                break
        self._now_ns = until_ns
        self._due_ns = min(self._wake_ns, self._find_next_beat())

    def _release_by_time(self, until_ns: int, step: Step) -> None:
        """Emit the events that only time holds back and that are due before `until_ns`.

        With many sources, each event is emitted at an instant of its own. `_evaluate` is the
        definition. The caller goes on with the first instant at which something else may be due.
        """
        bounds, heads, take_first = self._bounds, self._heads, self._queues.take_first
        wait_ns, idle = bounds.led_max_ns, bounds.idle
        if bounds.lacks_witness or self._watermark.complete_ns >= self._watermark.ns:
            return  # C may have to be announced with the next event.
        before_ns = min(until_ns, self._find_next_beat() + 1, bounds.awaited_until_ns)
        now_ns = self._now_ns
        released: list[Event] = []
        while heads:
            look_ns = due_ns = heads[0][0] + wait_ns
            is_head = due_ns < idle.next_ns
            if not is_head:
                due_ns = idle.next_ns
            if due_ns >= before_ns or due_ns >= bounds.expected.next_ns:
                break
            if due_ns < now_ns or not bounds.stays_limited_by_time(due_ns, wait_ns):
                look_ns = due_ns  # `_evaluate` looks at all that is due then.
                break
            now_ns = due_ns
            if is_head:
                take_first(now_ns, released)
        else:
            look_ns = now_ns
        self._now_ns = now_ns
        self._settled = False
        self._passage.release(released, step)
        bounds.record_pool_limit(rests=bool(bounds.led_cold))
        self._look_ns = min(look_ns, bounds.awaited_until_ns)
        self._wake_ns = self._find_next_wake()

    def _retire_idle(self) -> bool:
        """Retire idle sources, and return whether nothing more may be emitted because of this.

        Return False, too, if anything else is due.
        """
        bounds = self._bounds
        now_ns = self._now_ns
        if self._look_ns <= now_ns or bounds.led_cold:
            return False
        live = bounds.live
        changed = bounds.retire_idle(now_ns)
        if bounds.live < live:
            self._settled = False
            changed = changed or not self._heads
        if self._heads and bounds.expected.next_ns <= now_ns:
            self._settled = False
            changed = bounds.retire_dozing(now_ns) or changed
        if changed:
            return False
        self._wake_ns = self._find_next_wake()
        return True

    def _find_next_wake(self) -> int:
        """Return when more may be emitted, or a source becomes idle, if nothing arrives."""
        bounds = self._bounds
        due_ns = min(bounds.idle.next_ns, self._look_ns)
        return min(due_ns, bounds.expected.next_ns) if self._heads else due_ns

    def _find_next_beat(self) -> int:
        if self._now_ns > self._next_beat_ns or self._next_beat_ns <= self._beat_ns:
            beat_ns = self._heartbeat_ns
            if not beat_ns or not self._sources:
                return NEVER
            earliest_ns = -(-self._now_ns // beat_ns) * beat_ns
            self._next_beat_ns = max(self._beat_ns + beat_ns, earliest_ns)
        return self._next_beat_ns

    def _evaluate(self, step: Step) -> None:
        """Emit the events that need not wait any more, and set the time of the next evaluation."""
        now_ns = self._now_ns
        bounds = self._bounds
        heads = self._heads
        self._settled = False
        if bounds.led_cold:
            bounds.refresh_cold()
        if bounds.awaited_until_ns <= now_ns:
            bounds.mark_all_returned()
        if bounds.idle.next_ns <= now_ns:
            bounds.retire_idle(now_ns)
        if bounds.expected.next_ns <= now_ns:
            bounds.retire_dozing(now_ns)
        bounds.limiting, bounds.limited_by_time, bounds.pooled_ns = "", False, NOT_LED
        before = len(step.released)
        limit = self._release(step) if heads else NO_BOUND
        has_left = len(step.released) > before
        if has_left and (
            self._watermark.lacking or self._known.set_back_ns or bounds.has_unlimiting_source()
        ):
            self._announce_if_needed(step)
        self._look_ns = bounds.awaited_until_ns
        if heads:
            self._await_head(heads[0], limit)
        self._wake_ns = self._find_next_wake()

    def _release(self, step: Step) -> Bound:
        """Emit all events at or below the smallest bound, and return the bound."""
        now_ns = self._now_ns
        limit = self._bounds.limit(now_ns)
        head = self._heads[0]
        if head <= limit and head[0] <= now_ns:
            # Events ahead of the clock wait for it, so that the floor is never above the arrival
            # clock.
            until = limit if limit[0] <= now_ns else (now_ns + 1, "")
            self._passage.release(self._queues.take_until(until, now_ns), step)
        return limit

    def _await_head(self, head: Bound, limit: Bound) -> None:
        """Record what the first buffered event waits for, and until when if nothing arrives."""
        bounds = self._bounds
        due_ns = head[0]
        if head > limit:
            due_ns = max(due_ns, bounds.wake_ns(limit, due_ns, self._now_ns))
            if not limit[1]:
                bounds.limited_by_time = True
                rests_on_pool = bool(bounds.led_cold)
            else:
                bounds.limiting = limit[1]
                progress = self._sources[limit[1]]
                rests_on_pool = not (progress.blocked or progress.warm or progress.state == AWAITED)
            bounds.record_pool_limit(rests=rests_on_pool)
        self._look_ns = min(self._look_ns, due_ns)

    # -- Emission ----------------------------------------------------------------------------------

    def _make_room(self, step: Step) -> None:
        """Emit or give up events because a bound is reached.

        `topology.order.merge.queues` decides which events these are.
        """
        self._emit_late(step)
        if not self._queues.are_full():
            return
        if self._bounds.awaited:
            self._bounds.mark_all_returned()
            self._evaluate(step)
        while self._queues.are_full():
            given_up, smallest = self._queues.make_room(self._now_ns)
            self.overflows += len(given_up) + len(smallest)
            for event in given_up:
                progress = self._sources[event.source]
                self._intake.defer_late(progress, event, MERGE_FULL, self._now_ns)
            self._emit_late(step)
            if smallest:
                self._passage.release(smallest, step)
                self._passage.record_overflow()
        self._announce_if_needed(step)

    def _emit_late(self, step: Step) -> None:
        self._passage.emit_late(self._queues.take_late(), step)

    def _announce_if_needed(self, step: Step) -> None:
        """Announce a watermark if C no longer reaches the emitted events.

        Otherwise readers would assume until the next heartbeat that C follows each event.
        """
        if self._heartbeat_ns and self._watermark.is_owed(self._passage.last[0]):
            self._announce(step)

    def _announce(self, step: Step, since_ns: int = NEVER) -> None:
        said = self._watermark.announce(
            self._stream,
            self._passage.last[0],
            self._heads,
            self._now_ns,
            (since_ns, self._heartbeat_ns),
        )
        self._passage.derive()
        if said is not None:
            step.released.append(said)

    # -- Diagnosis ---------------------------------------------------------------------------------

    def figures(self) -> Figures:
        """Return the values of the figures in `FIGURES`.

        `watermark_ns` is the larger of the announced W and the time of the last emitted event.
        """
        bounds = self._bounds
        sources = len(self._sources)
        figures = {
            "sources": sources,
            "idle": sources - bounds.live - bounds.behind - bounds.dozing,
            "ended": bounds.departed,
            "paused": bounds.dozing,
            "catching_up": bounds.behind,
            "awaited_after_outage": len(bounds.awaited),
            "blocked": bounds.blocked,
            "queued": self._queues.count,
            "queued_bytes": self._queues.bytes,
            "forgotten": self._known.forgotten,
            "in_several_partitions": len(self._known.scattered),
            "overflows": self.overflows,
            "set_backs": self._passage.set_backs,
            "set_backs_beyond": self._passage.set_backs_beyond,
            "set_back_ns": self._known.set_back_ns,
            "target_ppm": PPM - self._config.miss_target_ppm,
        }
        floor_ns = self._passage.floor_ns
        if floor_ns != NO_REF:
            figures["watermark_ns"] = floor_ns
            figures["watermark_lag_ns"] = self._now_ns - floor_ns
        if self._watermark.complete_ns != NO_REF:
            figures["completeness_frontier_ns"] = self._watermark.complete_ns
        return figures

    def explain(self) -> dict[str, Any]:
        """Return the figures, the first buffered event, and the sources that it waits for.

        `late_by_cause` counts the events that MERGE found late. `sets_back` has the largest
        set-backs, in ns by source, largest first, and `max_set_back_ns` what is declared, or 0.
        `wandering` lists the sources whose events arrived in several input partitions.
        """
        heads = self._queues.heads
        return {
            **self.figures(),
            "late_by_cause": dict(sorted(self._passage.late_by_cause.items())),
            "max_set_back_ns": self._config.max_set_back_ns or 0,
            "sets_back": self._known.largest_set_backs(MAX_LISTED),
            "wandering": sorted(self._known.scattered),
            "head": {"source": heads[0][1], "ref_time": heads[0][0]} if heads else None,
            "waits_for": self._bounds.waits_for(heads[0][0]) if heads else [],
        }

    def locate(self, source: str, epoch: int, seq: int) -> dict[str, Any] | None:
        """Return where an event is (topology.base.location).

        Cost: O(buffered events of the source), and O(sources) for a buffered event.
        """
        progress = self._sources.get(source)
        if progress is None:
            return None
        wanted = progress.epoch if epoch == NO_EPOCH else epoch
        answer: dict[str, Any] = {
            "epoch": wanted,
            "newest_epoch": progress.epoch,
            "newest": progress.seq,
        }
        for event in (*progress.queue, *self._queues.late):
            if (event.seq, event.epoch, event.source) == (seq, wanted, source):
                return {
                    **answer,
                    "where": HELD,
                    "arrival": event.arrival_ns,
                    "since": event.at_ns,
                    "ref_time": event.ref_time_ns,
                    "error": event.error_ns,
                    "waits_for": [] if event.late else self._bounds.waits_for(event.ref_time_ns),
                }
        floor_ns = self._passage.floor_ns
        answer["watermark"] = None if floor_ns == NO_REF else floor_ns
        if (wanted, seq) > (progress.epoch, progress.seq):
            return {**answer, "where": NOT_COME}
        if wanted < progress.epoch:
            return {**answer, "where": OLD_EPOCH}
        missing = progress.find_missing_around(seq)
        if missing is not None:
            return {**answer, "where": LOST, "missing": missing}
        return {**answer, "where": PASSED}

    def counts_of(self, source: str) -> Figures:
        progress = self._sources.get(source)
        if progress is None:
            return {}
        return {
            "received": progress.received,
            "late": progress.late,
            "duplicate": progress.duplicate,
        }

    # -- State -------------------------------------------------------------------------------------

    def iter_held(self) -> Iterable[Event]:
        yield from self._queues.late
        for progress in self._sources.values():
            yield from progress.queue

    def restoring(self, state: Mapping[str, Plain], held: Sequence[Event]) -> Iterator[int]:
        yield from super().restoring(state, held)
        for number, progress in enumerate(self._sources.values()):
            self._watermark.note(progress)
            self._bounds.resume(progress)
            if not number % TURN:
                yield 0
        yield from self._queues.restoring(held)
