"""Orders the events of one source for REORDER, with its epochs, gaps and buffered events.

For the number q of an arriving event:

    q = next              emit it, and the buffered events that follow without a gap
    q > next              buffer it; the numbers between it and the highest so far are a
                          gap, and its deadline is fixed now
    q < next              late if q was declared lost, is before the start, or is too old
                          to be remembered; else a duplicate, or an event of a new epoch
                          (`topology.order.reorder.trial`)
    q > highest + max_jump  keep it aside as a suspect. One corrupt number must not make
                          all later events late. A second number within `max_jump` of it
                          confirms it (one gap, reason `jump`) if it arrives within
                          `max_wait`. Otherwise the first is a dead letter, reason
                          `seq_jump`, and has no place in the order

A higher epoch waits until the gaps of the one before are filled or given up. This takes at most
`max_wait`, because gaps that the old epoch opens after the first event of the new one are due by
then. A restart without an epoch header is recognised by a number that came before, with another
content and timestamp, and by what follows it (`topology.order.reorder.trial`).

These decisions go beyond the specification:

* During the start hold, the source is treated as if it had started before all numbers received so
  far. A gap is known from the arrival that reveals it, even a gap above a new lowest number.
* The start hold of a source's first epoch blocks MERGE only in the stream's own first `max_wait`,
  when all sources start together. Sources that appear later do not block the others.

The start hold is the time of up to `max_wait` in which a new source waits for smaller numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from topology.base.event import BLOCKED, DATA, DEAD, UNBLOCKED, Event
from topology.base.late import BEFORE_START, BEYOND_MEMORY, CONFLICT, GAP, OLD_EPOCH
from topology.base.native import mypyc_attr
from topology.base.operator import NEVER
from topology.base.outcome import END, JUMP, TIMEOUT, Duplicate, Gap, Late, Step, make_dead_letter
from topology.order.reorder.epochs import MAX_TAIL
from topology.order.reorder.sequence import NO_STAMP, SEQUENCE, UNSTARTED, OpenGap, Sequence
from topology.order.reorder.shared import Shared, size_of, unwrap_number
from topology.order.reorder.timeout import FILL_TIMES, FillTimes, Miss, Timeout
from topology.order.reorder.trial import Trials
from topology.state.saved import FLAG, INT, Saved, Shape, list_of, optional, tuple_of

MAX_SUSPECTS: Final = 16
"""The maximum number of events kept aside per source and epoch.

Beyond that, the oldest is given up.
"""


Named = tuple[int, int, int, bool]
"""A buffered event: the index of its sequence, its offset, its number, and one flag.

The flag is True if the event is a suspect, which is kept aside.
"""

NONE_NAMED: Final[list[Named]] = []


def source_shape(name: str, measured: Shape) -> Shape:
    """Return the saved form of sources whose timeouts save measurements of the form `measured`."""
    return Shape(
        name,
        1,
        last_arrival_ns=INT,
        boundary_ns=INT,
        begun_ns=INT,
        ended_ns=INT,
        until_ns=INT,
        fall_ns=INT,
        deepest_fall_ns=INT,
        blocked=FLAG,
        received=INT,
        released=INT,
        late=INT,
        duplicate=INT,
        dead=INT,
        measured=optional(measured),
        retired=optional(SEQUENCE),
        current=SEQUENCE,
        later=list_of(SEQUENCE, tuple),
        named=list_of(tuple_of(INT, INT, INT, FLAG)),
        tail=list_of(INT),
        asked_ns=INT,
        remembered=INT,
        suspected=list_of(INT),
    )


SOURCE: Final = source_shape("reorder.source", FILL_TIMES)


@mypyc_attr(acyclic=True)
class NumberedBuffer(Trials):
    """The buffer of one source with sequence numbers; see the module's docstring."""

    SHAPE = SOURCE
    __slots__ = (
        "_named",
        "dead",
        "duplicate",
        "late",
        "received",
        "released",
        "timeout",
        "words",
    )

    def __init__(self, source: str, shared: Shared) -> None:
        super().__init__(source, shared)
        self.timeout: Timeout | None = None
        self.received = 0
        self.released = 0
        self.late = 0
        self.duplicate = 0
        self.dead = 0
        self.words = 0  # The number of buffered control events and dead letters.
        self._named = NONE_NAMED  # Used only while a state is restored.

    # -- Intake ------------------------------------------------------------------------------------

    def arrive(self, event: Event, step: Step) -> None:
        now_ns = event.at_ns
        target = self.settle(event)
        if target is None:
            self._past(self.retired, event, step)
            return
        self.place(target, event, step)
        if self.later:
            self._advance(now_ns, step)

    def place(self, sequence: Sequence, event: Event, step: Step) -> None:
        number = event.seq
        if number < sequence.next:
            self._past(sequence, event, step)
        elif (first := sequence.find_buffered(number)) is not None:
            self.take_duplicate(event, step, first)
        elif number > sequence.hi and sequence.epoch < self.find_newest_epoch():
            self._take_above(sequence, event, step)
        elif sequence.next != UNSTARTED and number - sequence.hi > self.shared.max_jump:
            self._set_aside(sequence, event, step)
        else:
            self.accept(sequence, event, step)

    def accept(self, sequence: Sequence, event: Event, step: Step) -> None:
        number, now_ns = event.seq, event.at_ns
        sequence.note_newest(event)
        self.note(sequence, event)
        if number == sequence.next and sequence.active:
            if number > sequence.hi:
                sequence.hi = number
            else:
                self._count_filled(now_ns - sequence.drop_first_missing())
            self._release(sequence, event, now_ns, step)
            self._drain(sequence, now_ns, step)
            self._expire_overdue(sequence, now_ns, step)
            return
        is_unstarted = sequence.next == UNSTARTED
        if is_unstarted and sequence.hi < 0:
            sequence.start_deadline_ns = now_ns + self.shared.max_wait_ns
            sequence.low, sequence.hi = number, number - 1
        if number == sequence.hi + 1:
            sequence.find_last_piece().append(event)
            sequence.hi = number
        elif number > sequence.hi:
            sequence.gaps.append(self._make_gap(sequence.hi + 1, number - 1, now_ns, [event]))
            sequence.hi = number
        elif is_unstarted and number < sequence.low:
            if number < sequence.low - 1:
                gap = self._make_gap(number + 1, sequence.low - 1, now_ns, sequence.front)
                sequence.gaps.insert(0, gap)
                sequence.front = []
            sequence.front.insert(0, event)
            sequence.low = number
        else:
            self._count_filled(now_ns - sequence.fill_gap(event))
        self.count_buffered(event)
        if is_unstarted and number == self.shared.first:
            self._start(sequence, now_ns, step)
        elif is_unstarted or not self.blocked:
            self.report_buffered(now_ns, step)

    def _past(self, sequence: Sequence | None, event: Event, step: Step) -> None:
        """Report an event with a number below `next`, or of a finished epoch, as late or duplicate.

        This is the only place where REORDER decides between the two, and determines the reason.
        """
        now_ns = event.at_ns
        if sequence is None or event.epoch != sequence.epoch:
            self.report_late(event, OLD_EPOCH, 0, step)
            return
        found = sequence.take_lost(event.seq, now_ns)
        if found is not None:
            self.shared.outlived += 1
            self.ensure_timeout().note_filled(now_ns - found.known_at_ns)
            self.note(sequence, event)
            self.report_late(event, GAP, now_ns - found.lost_at_ns, step)
        elif event.seq > sequence.hi:
            self._take_above(sequence, event, step)
        elif event.seq < sequence.start:
            self.report_late(event, BEFORE_START, 0, step)
        elif event.seq < sequence.floor:
            self.report_late(event, BEYOND_MEMORY, 0, step)
        elif event.ts_ns < self.ended_ns:  # Its epoch is a guess, so its number proves nothing.
            self.report_late(event, OLD_EPOCH, 0, step)
        elif self.recent is not None and event.ts_ns < sequence.oldest_ts_ns:
            # The clock of its run was set back, so no other event has its number and timestamp.
            is_newest = sequence is self.newest()
            self.report_late(event, CONFLICT if is_newest else OLD_EPOCH, 0, step)
        else:
            self.take_duplicate(event, step, None)

    def _take_above(self, sequence: Sequence, event: Event, step: Step) -> None:
        """Process an event with a number above all that came in its epoch, which is not the newest.

        It may be the end of a run that arrives after the first event of the next epoch. It is in
        order while its epoch is not finished; its gap then delays the next epoch no further.
        """
        is_before_newest = sequence is self.find_previous()
        is_tail = is_before_newest and event.at_ns <= self.until_ns
        is_finished = sequence is self.retired
        if is_tail and not is_finished and event.seq - sequence.hi <= self.shared.max_jump:
            self.accept(sequence, event, step)
            if sequence.gaps:
                last = sequence.gaps[-1]
                last.deadline_ns = min(last.deadline_ns, self.until_ns)
        elif is_before_newest and event.seq in self.tail:
            self.take_duplicate(event, step, None)
        elif is_tail and is_finished and len(self.tail) < MAX_TAIL:
            if event.kind == DATA:
                self.tail.append(event.seq)
            self.report_late(event, GAP, 0, step)
        else:
            self.report_late(event, OLD_EPOCH, 0, step)

    def report_late(self, event: Event, reason: str, by_ns: int, step: Step) -> None:
        if event.kind != DATA:
            return  # A late control event has no effect.
        if event.seq < self.shared.first:
            event.seq += self.shared.modulus  # The number is from before the counter's wrap.
        self.late += 1
        if reason == GAP and self.shared.config.late == "pass":
            event.late = reason
            step.released.append(event)
        else:
            step.reports.append(Late(event.at_ns, event, reason, by_ns))

    def take_duplicate(self, event: Event, step: Step, first: Event | None) -> None:
        if event.kind != DATA:
            return
        self.duplicate += 1
        conflict = first is not None and (
            (event.ts_ns != first.ts_ns and event.is_stamped and first.is_stamped)
            or event.type != first.type
            or event.value != first.value
        )
        step.reports.append(Duplicate(event.at_ns, event, conflict))

    # -- Jumps of the number -----------------------------------------------------------------------

    def _set_aside(self, sequence: Sequence, event: Event, step: Step) -> None:
        """Set aside an event whose number jumps, unless it repeats or confirms an earlier one."""
        max_jump = self.shared.max_jump
        for other in sequence.suspects:
            if other.seq == event.seq:
                self.take_duplicate(event, step, other)
                return
            near = abs(other.seq - event.seq) <= max_jump
            # Two corrupt numbers prove nothing.
            if near and event.kind != DEAD and other.kind != DEAD:
                self._confirm(sequence, other, event, step)
                return
        if len(sequence.suspects) >= MAX_SUSPECTS:
            self._give_up_suspect(sequence, event.at_ns, step)
        sequence.suspects.append(event)
        self.count_buffered(event)

    def _confirm(self, sequence: Sequence, first: Event, second: Event, step: Step) -> None:
        now_ns = second.at_ns
        sequence.suspects.remove(first)
        self.count_taken_out(first)
        low, high = (first, second) if first.seq < second.seq else (second, first)
        sequence.gaps.append(OpenGap(sequence.hi + 1, low.seq - 1, now_ns, now_ns, is_jump=True))
        sequence.hi = low.seq - 1
        self._take_again(sequence, low, now_ns, step)
        self._take_again(sequence, high, now_ns, step)
        max_jump = self.shared.max_jump
        for event in [e for e in sequence.suspects if e.seq - sequence.hi <= max_jump]:
            sequence.suspects.remove(event)
            self.count_taken_out(event)
            self._take_again(sequence, event, now_ns, step)

    def _take_again(self, sequence: Sequence, event: Event, now_ns: int, step: Step) -> None:
        """Process an event again, as if it had just arrived.

        The event is not counted as buffered.
        """
        kept = self.shared.kept
        before = len(kept)
        event.at_ns = now_ns
        self.place(sequence, event, step)
        if event not in kept[before:]:
            self.shared.freed.append(event)

    def _give_up_suspect(self, sequence: Sequence, now_ns: int, step: Step) -> None:
        """Give up the oldest suspect, or accept it if `hi` has come within `max_jump` of it."""
        event = sequence.suspects.pop(0)
        self.count_taken_out(event)
        if event.seq - sequence.hi <= self.shared.max_jump:
            self._take_again(sequence, event, now_ns, step)
            return
        self.shared.freed.append(event)
        if event.kind != DEAD:
            self.dead += event.kind == DATA
            detail = (
                f"number {event.seq:d} is more than max_jump above {sequence.hi:d} and no second"
                " one confirmed it; raise reorder.max_jump if the source really skips that far"
            )
            step.reports.append(make_dead_letter(event, now_ns, "seq_jump", detail))

    def _set_jumps_aside(self, sequence: Sequence, now_ns: int, step: Step) -> None:
        """Keep aside the numbers that jump, because the start hold has accepted any number."""
        max_jump = self.shared.max_jump
        for at, gap in enumerate(sequence.gaps):
            if gap.last - gap.first + 1 >= max_jump:
                beyond = sequence.take_from(at)
                if self.recent is not None:
                    # Their places were those of numbers that are still remembered.
                    self.shared.recents.mark_changed(self.source)
                    self.recent.since = sequence.hi + 1
                for event in beyond:
                    self.count_taken_out(event)
                for event in beyond:
                    self._take_again(sequence, event, now_ns, step)
                return

    # -- Gaps, buffering, emission -----------------------------------------------------------------

    def ensure_timeout(self) -> Timeout:
        """Return the rule that decides how long to wait for gaps, creating it at the first gap.

        Most sources of a large fleet never have one.
        """
        if self.timeout is None:
            self.timeout = self.make_timeout()
        return self.timeout

    def _count_filled(self, fill_ns: int) -> None:
        """Count a missing number that arrived in time, `fill_ns` after its gap became known."""
        self.shared.filled += 1
        self.ensure_timeout().note_filled(fill_ns)

    def make_timeout(self) -> Timeout:
        shared = self.shared
        if shared.config.rule == "fixed":
            return Timeout(shared.max_wait_ns)
        return Miss(shared.max_wait_ns, shared.times)

    def _make_gap(self, first: int, last: int, now_ns: int, behind: list[Event]) -> OpenGap:
        deadline_ns = now_ns + self.ensure_timeout().open()
        return OpenGap(first, last, now_ns, deadline_ns, behind=behind)

    def count_buffered(self, event: Event) -> None:
        shared, size = self.shared, size_of(event)
        shared.kept.append(event)
        self.words += event.kind != DATA
        self.held += 1
        shared.held += 1
        self.held_bytes += size
        shared.held_bytes += size

    def count_taken_out(self, event: Event) -> None:
        self.words -= event.kind != DATA
        self.held -= 1
        self.shared.held -= 1
        self.held_bytes -= size_of(event)
        self.shared.held_bytes -= size_of(event)

    def _release(self, sequence: Sequence, event: Event, now_ns: int, step: Step) -> None:
        sequence.next = event.seq + 1
        event.at_ns = now_ns
        step.released.append(event)
        if event.kind != DEAD:
            if event.ts_ns < sequence.last_ts_ns:
                self.note_fall(sequence.last_ts_ns - event.ts_ns)
            sequence.last_ts_ns = event.ts_ns
        if event.kind == DATA:
            self.released += 1

    def _drain(self, sequence: Sequence, now_ns: int, step: Step) -> None:
        """Emit the events of `front`, because no gap is before them any more.

        The effect is that of `_release` for each event, but the events are counted together at the
        end.
        """
        events = sequence.front
        if events:
            sequence.front = []
            data = len(events)
            waited_ns, last_ns = 0, sequence.last_ts_ns
            for event in events:
                waited_ns += now_ns - event.at_ns
                event.at_ns = now_ns
                if event.kind != DEAD:
                    if event.ts_ns < last_ns:
                        self.note_fall(last_ns - event.ts_ns)
                    last_ns = event.ts_ns
            sequence.last_ts_ns = last_ns
            shared = self.shared
            shared.waited_ns += waited_ns
            if self.held_bytes:
                size = 0
                for event in events:
                    value = event.value
                    if isinstance(value, bytes):
                        size += len(value)
                shared.held_bytes -= size
                self.held_bytes -= size
            if self.words:
                words = sum([event.kind != DATA for event in events])
                data -= words
                self.words -= words
            step.released += events
            shared.freed += events
            shared.held -= len(events)
            self.held -= len(events)
            self.released += data
            sequence.next += len(events)
        self.report_buffered(now_ns, step)

    def report_buffered(self, now_ns: int, step: Step) -> None:
        """Inform MERGE if events of this source are now buffered here, or no longer are.

        For MERGE, an event emitted in order implies that none is. BLOCKED after it means that some
        still are.
        """
        current = self.current
        is_quiet = bool(self.trial) and self.trial[0].at_ns != self.asked_ns
        waits = self.held > len(current.suspects) + len(self.trial) * is_quiet and (
            current.next != UNSTARTED
            or self.retired is not None
            or now_ns <= self.shared.blocking_until_ns
        )
        last = step.released[-1] if step.released else None
        spoke = (
            last is not None
            and last.source == self.source
            and last.kind != BLOCKED
            and not last.late
        )
        if waits:
            if spoke or not self.blocked:
                step.released.append(self._make_control(BLOCKED, now_ns))
        elif self.blocked and not spoke:
            step.released.append(self._make_control(UNBLOCKED, now_ns))
        self.blocked = waits

    def _make_control(self, kind: str, now_ns: int) -> Event:
        current = self.current
        place = self.source, current.epoch, max(current.next, 0)
        return Event(self.shared.stream, *place, 0, now_ns, kind=kind)

    # -- Time and bounds ---------------------------------------------------------------------------

    def deadline_ns(self) -> int:
        current = self.current
        due_ns = NEVER
        if current.next == UNSTARTED:
            if current.has_buffered():
                due_ns = current.start_deadline_ns
        elif current.gaps:
            due_ns = current.gaps[0].deadline_ns
        if current.suspects:
            due_ns = min(due_ns, current.suspects[0].at_ns + self.shared.max_wait_ns)
        if self.trial:
            due_ns = min(due_ns, self.trial[0].at_ns + self.shared.max_wait_ns)
        return due_ns

    def fire(self, now_ns: int, step: Step) -> None:
        """Process a trial, gap, start hold or suspect; one of them must be due at `now_ns`."""
        if self.trial and self.trial[0].at_ns + self.shared.max_wait_ns <= now_ns:
            self.decide(None, now_ns, step)
            return
        current = self.current
        due_ns = current.start_deadline_ns
        if current.next != UNSTARTED and current.gaps:
            due_ns = current.gaps[0].deadline_ns
        self._give_up(current.has_buffered() and due_ns <= now_ns, TIMEOUT, now_ns, step)

    def end(self, now_ns: int, step: Step) -> None:
        while self.held:
            if self.trial:
                self.decide(None, now_ns, step)
            else:
                self.give_up_oldest(END, now_ns, step)

    def give_up_oldest(self, why: str, now_ns: int, step: Step) -> None:
        if self.held == len(self.trial):
            self.decide(None, now_ns, step)
        else:
            self._give_up(self.current.has_buffered(), why, now_ns, step)

    def _give_up(self, is_awaited: bool, why: str, now_ns: int, step: Step) -> None:
        """End the start hold or the first gap if `is_awaited`, else give up the oldest suspect."""
        current = self.current
        if is_awaited and current.next == UNSTARTED:
            self._start(current, now_ns, step)
        elif is_awaited:
            self._expire(current, why, now_ns, step)
        elif current.suspects:
            self._give_up_suspect(current, now_ns, step)
        if self.later:
            self._advance(now_ns, step)

    def _start(self, sequence: Sequence, now_ns: int, step: Step) -> None:
        sequence.begin(sequence.low)
        self._set_jumps_aside(sequence, now_ns, step)
        if sequence.active:
            self._drain(sequence, now_ns, step)
            self._expire_overdue(sequence, now_ns, step)

    def _expire_overdue(self, sequence: Sequence, now_ns: int, step: Step) -> None:
        """Give up each gap at the front whose deadline has already passed.

        Earlier gaps or epochs came first, so these gaps could not be given up on time.
        """
        while sequence.gaps and sequence.gaps[0].deadline_ns < now_ns:
            self._expire(sequence, TIMEOUT, now_ns, step)

    def _expire(self, sequence: Sequence, why: str, now_ns: int, step: Step) -> None:
        gap = sequence.give_up_first_gap()
        after = gap.behind[0]
        step.reports.append(
            Gap(
                now_ns,
                self.shared.stream,
                self.source,
                sequence.epoch,
                gap.first,
                gap.last,
                JUMP if gap.is_jump else why,
                gap.known_at_ns,
                sequence.last_ts_ns if sequence.last_ts_ns != NO_STAMP else None,
                after.ts_ns if after.kind != DEAD else None,
            )
        )
        sequence.record_lost(gap.first, gap.last, gap.known_at_ns, now_ns)
        self._drain(sequence, now_ns, step)

    def _advance(self, now_ns: int, step: Step) -> None:
        """Advance to later epochs while the current one has no gap and is not in its start hold."""
        while self.later and not self.current.has_buffered():
            while self.current.suspects:
                self._give_up_suspect(self.current, now_ns, step)
            if self.current.has_buffered():
                return
            if self.retired is not None:
                self.retired.forget_lost()
            self.retired = self.current
            sequence = self.current = self.later[0]
            self.later = self.later[1:]
            sequence.active = True
            if sequence.next != UNSTARTED:
                self._drain(sequence, now_ns, step)
                self._expire_overdue(sequence, now_ns, step)
            elif sequence.start_deadline_ns <= now_ns:
                self._start(sequence, now_ns, step)
            else:
                self.report_buffered(now_ns, step)

    # -- State -------------------------------------------------------------------------------------

    @property
    def measured(self) -> Saved | None:
        """The measurements of the timeout rule, or None if there are none."""
        return None if self.timeout is None else self.timeout.measure()

    @measured.setter
    def measured(self, measured: Saved | None) -> None:
        """Do nothing, because `fresh` returned the object into which the measurements were read."""

    @property
    def named(self) -> list[Named]:
        """The buffered events whose sequence cannot be derived from their numbers."""
        current = self.current
        if not self.later and not current.suspects and current.next != UNSTARTED:
            return NONE_NAMED
        named: list[Named] = []
        for at, sequence in enumerate([current, *self.later]):
            named += [(at, event.offset, event.seq, True) for event in sequence.suspects]
            if at or sequence.next == UNSTARTED:
                named += [(at, event.offset, event.seq, False) for event in sequence.waiting()]
        return named

    @named.setter
    def named(self, named: list[Named]) -> None:
        self._named = named

    def fresh(self, field: str) -> Saved:
        if field == "measured":
            return self.ensure_timeout().measure() or FillTimes(0)
        return self.make_sequence(0, active=True)

    def buffer_again(self, held: list[Event]) -> None:
        """Buffer the restored events `held` again, after the state has been read.

        An event that is not in `named` belongs to the current sequence, in which each buffered
        number occurs once. An event is left out if the state does not list its number as buffered.
        If the event of a buffered number is absent from the log, the number becomes missing again.
        """
        current = self.current
        for each in self.list_sequences():
            each.find_ranges()
        if self.recent is not None:
            self.recent.unsaved = self.newest().hi + 1
            self.recent.is_first_unsaved = False
        if not (held or self._named or self.later) and current.hi < current.base:
            return  # Nothing is buffered, as in most sources.
        sequences = [current, *self.later]
        found: list[dict[int, Event]] = [{} for _ in sequences]
        others = {event.offset: event for event in held}
        self.restore_trial(others)
        for at, offset, number, is_aside in self._named:
            event = others.pop(offset, None)
            if event is None:
                continue
            if is_aside:
                event.epoch, event.seq = sequences[at].epoch, number
                sequences[at].suspects.append(event)
                self.count_buffered(event)
            else:
                self._buffer_again(sequences[at], event, number, found[at])
        self._named = NONE_NAMED
        modulus = self.shared.modulus
        for event in others.values():
            number = unwrap_number(event.seq, modulus, current.next) if modulus else event.seq
            self._buffer_again(current, event, number, found[0])
        for sequence, waiting in zip(sequences, found, strict=True):
            sequence.settle(waiting, self.last_arrival_ns)

    def _buffer_again(
        self, sequence: Sequence, event: Event, number: int, found: dict[int, Event]
    ) -> None:
        if number not in found and sequence.is_recorded_as_buffered(number):
            event.epoch, event.seq = sequence.epoch, number
            found[number] = event
            self.count_buffered(event)

    def forget(self) -> None:
        for sequence in self.list_sequences():
            sequence.forget_lost()
        self.shared.recents.drop(self.source)

    # -- Diagnosis ---------------------------------------------------------------------------------

    def waiting(self) -> Iterable[Event]:
        for sequence in [self.current, *self.later]:
            yield from sequence.waiting()
            yield from sequence.suspects
        yield from self.trial

    def explain(self) -> dict[str, Any]:
        current = self.current
        gap = current.gaps[0] if current.gaps else None
        reason = "hole" if gap is not None else "restart" if self.trial else "jump"
        since_ns = self.trial[0].at_ns if self.trial else self.last_arrival_ns
        return {
            "source": self.source,
            "epoch": current.epoch,
            "held": self.held,
            "later_epochs": [sequence.epoch for sequence in self.later],
            "reason": "start" if current.next == UNSTARTED else reason,
            "missing": [gap.first, gap.last] if gap is not None else None,
            "since": gap.known_at_ns if gap is not None else since_ns,
            "deadline": self.deadline_ns(),
        }
