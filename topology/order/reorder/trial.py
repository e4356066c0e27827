"""Distinguishes copies, restarts and conflicts of sources that write no epochs.

If a number came before, the remembered timestamps and contents decide
(`topology.order.reorder.recent`):

    the same timestamp      a duplicate
    the same content        a duplicate, if there is a payload and no other remembered number has it
    otherwise               a *suspect*

An event whose number is not remembered is a suspect if its timestamp shows a restart
(`Epochs.find_restart_ns`). So is a number that was given up. A record without a timestamp is a
suspect only if both payloads are known and differ, or if its arrival shows a restart. The arrival
of a duplicate is newer, too.

A suspect waits for the events that follow it, for at most `max_wait` (a *trial*). Up to
`MAX_BEHIND` events of its source wait behind it. An event that is older than the suspect does not
wait if its number is missing or above all others.

* The next number of the suspect follows, not older and with a payload of its own: a new epoch
  begins with the suspect.
* The next number of the old run follows, not older: there was no restart.
* Both are the same number: a new epoch begins if the timestamp of the suspect shows a restart. The
  payload must not be that of the remembered event of its number.
* Another event of the same number follows, with another timestamp and content: the suspect is an
  epoch of its own. So the events of a counter that stands still are all emitted.
* Events that follow may be older if the timestamps of the source fall (`Epochs.fall_ns`).
* Nothing of this follows: a new epoch begins if the timestamp of the suspect shows a restart. Such
  an epoch begins only `max_wait` or more after the one before. A remembered number must be one of
  the first of its epoch, with another payload. Otherwise it may be a copy with a new timestamp.

If there was no restart, a suspect whose number came is late, reason `conflict`. Any other is
processed as if there had been no suspicion. A copy is no sign of a restart.

At most `MAX_LATER` inferred epochs wait for gaps or starts of those before. Beyond that, the oldest
gap or start is given up.

A trial blocks its source in MERGE as a gap does, but only one trial in `QUIET_NS`. Events of other
trials may thus be late. Events in a trial are counted in no measurement of waiting times.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from topology.base.event import DEAD, NO_EPOCH, Event
from topology.base.late import CONFLICT
from topology.base.native import mypyc_attr
from topology.base.outcome import OVERFLOW, Step
from topology.order.reorder.epochs import FALLS, Epochs, complete_number
from topology.order.reorder.recent import SIZE, Recent, digest_of
from topology.order.reorder.sequence import NO_STAMP, UNSTARTED, Sequence
from topology.order.reorder.shared import Shared

EARLY: Final = 4
"""If nothing else shows a restart, its first event must have one of so many first numbers."""
VARIED: Final = 8
"""A payload identifies a copy only if so many numbers are remembered, so that it may be rare."""
MAX_BEHIND: Final = 16
"""The maximum number of events that wait behind a suspect. The next event ends the trial."""
MAX_LATER: Final = 16
"""The maximum number of inferred epochs that wait for the one before."""
QUIET_NS: Final = 60_000_000_000
"""For so long after a trial that blocked its source in MERGE, no other one blocks it."""


@mypyc_attr(acyclic=True)
class Trials(Epochs):
    """The part of a source's buffer that decides whether an epoch begins.

    Attributes:
        recent: The last numbers of the newest epoch, or None if they are not remembered.
        trial: The suspect and the events behind it, in order of arrival.
        asked_ns: The beginning of the last trial that blocked the source, or NO_STAMP.
    """

    __slots__ = ("_suspected", "asked_ns", "recent", "trial")

    def __init__(self, source: str, shared: Shared) -> None:
        super().__init__(source, shared)
        self.recent: Recent | None = None
        self.trial: list[Event] = []
        self.asked_ns = NO_STAMP
        self._suspected: list[int] = []  # Used only while a state is restored.

    # Defined by the buffer, which is the subclass.

    def arrive(self, event: Event, step: Step) -> None:
        """Process an event of which its epoch is known or cannot be a new one."""
        raise NotImplementedError

    def report_late(self, event: Event, reason: str, by_ns: int, step: Step) -> None:
        raise NotImplementedError

    def count_buffered(self, event: Event) -> None:
        raise NotImplementedError

    def report_buffered(self, now_ns: int, step: Step) -> None:
        raise NotImplementedError

    def give_up_oldest(self, why: str, now_ns: int, step: Step) -> None:
        raise NotImplementedError

    def count_taken_out(self, event: Event) -> None:
        raise NotImplementedError

    # -- Intake ------------------------------------------------------------------------------------

    def take(self, event: Event, step: Step) -> None:
        """Process an arriving event of any kind."""
        if self.trial:
            self._take_in_trial(event, step)
        elif self._is_suspect(event):
            now_ns = event.at_ns
            if self.asked_ns == NO_STAMP or now_ns >= self.asked_ns + QUIET_NS:
                self.asked_ns = now_ns
            self.trial = [event]
            self.count_buffered(event)
            self.report_buffered(now_ns, step)
        else:
            self.arrive(event, step)

    def _take_in_trial(self, event: Event, step: Step) -> None:
        now_ns, newest = event.at_ns, self.newest()
        if event.epoch < 0 and event.kind != DEAD:
            if self._is_of_old_run(event, newest):
                self.arrive(event, step)
                # An event that waits may be the next number of the old run only now.
                shown = [
                    begins for e in self.trial[1:] if (begins := self._find_verdict(e)) is not None
                ]
                if shown:
                    self.decide(shown[0], now_ns, step)
                return
            begins = self._find_verdict(event)
            if begins is not None:
                self.decide(begins, now_ns, step, event)
                return
        if len(self.trial) > MAX_BEHIND:
            self.decide(None, now_ns, step, event)
            return
        self.trial.append(event)
        self.count_buffered(event)

    def _is_of_old_run(self, event: Event, newest: Sequence) -> bool:
        """Return whether an event is of the old run, and not a repeated number of it."""
        number = complete_number(newest, event.seq, self.shared.modulus)
        is_older = event.ts_ns < self.trial[0].ts_ns
        return is_older and (number > newest.hi or newest.lacks(number))

    def decide(
        self, begins: bool | None, now_ns: int, step: Step, last: Event | None = None
    ) -> None:
        """End the trial: an epoch begins with the suspect, or not, or (None) nothing shows it.

        `last` is the event that ends it.
        """
        (suspect, *behind), self.trial = self.trial, []
        newest = self.newest()
        number = complete_number(newest, suspect.seq, self.shared.modulus)
        boundary_ns = self.find_restart_ns(suspect, number, newest)
        if begins is None:
            if boundary_ns is None and self._is_first_of_gateway(suspect, number, newest):
                boundary_ns = suspect.ts_ns - 1
            begins = boundary_ns is not None and now_ns >= self.until_ns
            begins = begins and (
                bool(behind) or not self._may_be_duplicate(suspect, number, newest)
            )
        until_ns = suspect.at_ns + self.shared.max_wait_ns
        kept = self.shared.kept
        before = len(kept)
        self._remove(suspect, now_ns)
        suspect.epoch = newest.epoch + begins
        if begins:
            self._begin_epoch(suspect, boundary_ns, until_ns, step)
        elif newest.came(number):
            suspect.seq = number
            self.report_late(suspect, CONFLICT, 0, step)
        else:
            self.arrive(suspect, step)
        for event in behind:
            self._remove(event, now_ns)
            self.take(event, step)
        again = set(kept[before:])
        self.shared.freed += [event for event in (suspect, *behind) if event not in again]
        if last is not None:
            self.take(last, step)
        self.report_buffered(now_ns, step)

    def _begin_epoch(
        self, first: Event, boundary_ns: int | None, until_ns: int, step: Step
    ) -> None:
        """Begin an epoch with an event, and hold its start until `until_ns`.

        The last timestamp before it is `boundary_ns`, or None if timestamps do not show it.
        """
        before = self.newest()
        self.shared.inferred += 1
        self.ended_ns = max(NO_STAMP, self.begun_ns - 2 * FALLS * self.fall_ns)
        if boundary_ns is None and first.ts_ns >= before.newest_ts_ns > NO_STAMP:
            boundary_ns = first.ts_ns - 1  # Both runs are in one tick.
        if boundary_ns is not None:
            self.boundary_ns = boundary_ns - FALLS * self.fall_ns
            self.begun_ns = first.ts_ns + FALLS * self.fall_ns
        elif first.ts_ns <= self.begun_ns:  # The clock was set back, so numbers decide.
            self.boundary_ns = self.begun_ns = self.ended_ns = NO_STAMP
        while len(self.later) >= MAX_LATER:
            self.shared.overflows += 1
            self.give_up_oldest(OVERFLOW, first.at_ns, step)
        self.arrive(first, step)
        begun = self.newest()
        begun.oldest_ts_ns = first.ts_ns
        if begun.next == UNSTARTED:  # The trial is part of the start hold.
            begun.start_deadline_ns = until_ns

    def _remove(self, event: Event, now_ns: int) -> None:
        """Take an event out of the trial, so that it can be processed as if it arrived now."""
        self.shared.waited_ns += now_ns - event.at_ns
        self.count_taken_out(event)
        event.at_ns = now_ns

    # -- Judgement ---------------------------------------------------------------------------------

    def _is_suspect(self, event: Event) -> bool:
        if event.epoch >= 0 or event.kind == DEAD or not self.shared.infers:
            return False
        newest = self.newest()
        if self.is_of_previous_epoch(event):
            return False
        number = complete_number(newest, event.seq, self.shared.modulus)
        if number > newest.hi:
            return False
        if self._remembers(number, newest):
            if self._is_duplicate(event, number, newest):
                return False
            if event.is_stamped or self._has_other_payload(event, number):
                return True
        return self.find_restart_ns(event, number, newest) is not None

    def _find_verdict(self, event: Event) -> bool | None:
        """Return whether an event shows that an epoch began with the suspect; None if neither."""
        if event.epoch >= 0 or event.kind == DEAD:
            return None
        suspect, newest, shared = self.trial[0], self.newest(), self.shared
        number = complete_number(newest, event.seq, shared.modulus)
        is_newer = event.ts_ns >= suspect.ts_ns or self.fall_ns > 0
        next_sent = shared.first if suspect.seq == shared.last else suspect.seq + 1
        follows = event.seq == next_sent
        if is_newer and number == newest.hi + 1:
            return follows and self._may_be_new(suspect, newest)
        is_known = self._remembers(number, newest)
        if self._is_duplicate(event, number, newest):
            return None
        if is_newer and follows and not (is_known and self._has_same_payload(event, number)):
            return True
        is_other = event.ts_ns != suspect.ts_ns and digest_of(event) != digest_of(suspect)
        return True if event.seq == suspect.seq and is_other else None

    def _remembers(self, number: int, newest: Sequence) -> bool:
        recent = self.recent
        return recent is not None and recent.covers(number, newest.hi) and newest.came(number)

    def _is_duplicate(self, event: Event, number: int, newest: Sequence) -> bool:
        """Return whether an event is a copy of the remembered one of its number."""
        recent = self.recent
        if recent is None or not self._remembers(number, newest):
            return False
        place = recent.place_of(number)
        if recent.stamps[place] == event.ts_ns:
            return True
        if not self._has_same_payload(event, number):
            return False
        known = range(newest.hi, newest.hi - SIZE, -1)
        varied = islice((n for n in known if self._remembers(n, newest)), VARIED)
        if sum(1 for _ in varied) < VARIED:
            return False
        digest = recent.digests[place]
        # Places of numbers that never came may have digests of older ones.
        return recent.digests.count(digest) == 1 or not any(
            recent.digests[recent.place_of(n)] == digest
            and n != number
            and self._remembers(n, newest)
            for n in known
        )

    def _has_same_payload(self, event: Event, number: int) -> bool:
        """Return whether an event has the payload of the remembered one of this number."""
        return 0 != digest_of(event) == self._digest_of(number)

    def _has_other_payload(self, event: Event, number: int) -> bool:
        """Return whether an event has another payload than the remembered one of this number."""
        digests = digest_of(event), self._digest_of(number)
        return 0 not in digests and digests[0] != digests[1]

    def _digest_of(self, number: int) -> int:
        recent = self.recent
        return 0 if recent is None else recent.digests[recent.place_of(number)]

    def _may_be_duplicate(self, suspect: Event, number: int, newest: Sequence) -> bool:
        """Return whether a suspect that nothing has followed may be a copy with a new timestamp.

        A restart is not known by what follows if its source sends rarely. Then it must begin with
        one of the first numbers, with another payload, or with a number that is not remembered.
        """
        if not self._remembers(number, newest):
            return False
        if newest.oldest_ts_ns == newest.newest_ts_ns:
            return False  # A counter that stands still makes an epoch of each event.
        is_first = newest.next == UNSTARTED or suspect.seq < newest.start + EARLY
        return not is_first or self._has_same_payload(suspect, number)

    def _may_be_new(self, suspect: Event, newest: Sequence) -> bool:
        """Return whether an epoch may begin with a suspect that repeats the highest number."""
        number = complete_number(newest, suspect.seq, self.shared.modulus)
        is_copied = self._remembers(number, newest) and self._has_same_payload(suspect, number)
        return not is_copied and self.find_restart_ns(suspect, number, newest) is not None

    def _is_first_of_gateway(self, suspect: Event, number: int, newest: Sequence) -> bool:
        """Return whether numbers alone show that a gateway has restarted.

        Its timestamps need not be the newest, but not older than falls explain.
        """
        return (
            self.fall_ns > 0
            and self._remembers(number, newest)
            and suspect.seq < newest.start + EARLY
            and self._has_other_payload(suspect, number)
            and suspect.ts_ns >= newest.newest_ts_ns - FALLS * self.fall_ns
        )

    # -- Memory ------------------------------------------------------------------------------------

    def begin_remembering(self, event: Event) -> Recent:
        """Begin to remember the numbers of the newest epoch from `event` on."""
        newest = self.newest()
        self.recent = self.shared.recents.of(self.source)
        self.recent.since = newest.hi + 1
        if newest.hi == max(self.shared.start, 0) - 1 and event.kind != DEAD:
            newest.oldest_ts_ns = event.ts_ns
        return self.recent

    def note(self, sequence: Sequence, event: Event) -> None:
        """Remember an event that came."""
        if self.recent is not None:
            sequence.note_oldest(event)
            if sequence is self.newest():
                self.recent.note(event, sequence.hi)

    # -- State -------------------------------------------------------------------------------------

    @property
    def suspected(self) -> list[int]:
        """The offsets of the events of the trial."""
        return [event.offset for event in self.trial]

    @suspected.setter
    def suspected(self, offsets: list[int]) -> None:
        self._suspected = offsets

    def restore_trial(self, held: dict[int, Event]) -> None:
        """Take the restored events of the trial out of `held`, which has events by offset."""
        self.trial = [held.pop(offset) for offset in self._suspected if offset in held]
        self._suspected = []
        for event in self.trial:
            if self.shared.ignores_epoch:
                event.epoch = NO_EPOCH
            self.count_buffered(event)

    @property
    def remembered(self) -> int:
        """The smallest number that is remembered if it came, or -1 if none is."""
        return -1 if self.recent is None else self.recent.since

    @remembered.setter
    def remembered(self, since: int) -> None:
        if since >= 0:
            self.recent = self.shared.recents.of(self.source)
            self.recent.since = since
