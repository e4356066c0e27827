"""Finds the epoch of an event, and its full number if the source's counter wraps.

An epoch header decides the epoch. Without one, a restart is inferred from numbers, contents and
timestamps. `topology.order.reorder.trial` decides whether an epoch begins. This module tells what
the timestamp of an event shows. A late event has an older timestamp than the events that follow
it. So a small number with too new a timestamp contradicts the assumption of one clock and one
counter.

With small counters (`seq_bits`, `seq_range`), the full number is congruent to the one sent, modulo
the count of their numbers. It is the one nearest to the next expected number, upward on a tie.

These decisions go beyond the specification:

* A number that arrived before, or is below all others, shows a restart if its timestamp is newer
  than all. If the number was given up, its timestamp must be newer by `max_wait`. The same holds
  for a record without a timestamp. Its arrival time is used, and the arrival time of a duplicate is
  newer, too.
* Without an epoch header, timestamps up to `boundary_ns` belong to the epoch before an inferred
  restart. This is the newest timestamp before it or, if `max_wait` was required, the last emitted
  one plus `max_wait`. It is at least the newest of the events then buffered that are older than the
  event that revealed the restart. If the timestamp shows no restart, the boundary stays, or
  is unknown if the clock was set back before it.
* A gateway numbers what it forwards, and timestamps fall from number to number. So a timestamp
  shows something only if it is newer by `FALLS` times the deepest fall that has come twice. For
  `max_wait`, a missing number belongs to the earlier epoch, too. One fall alone is a clock that was
  set back.
* The end of a run may arrive after the first event of the next epoch. For `max_wait` after that
  event, a number above all of its epoch is in order. If its epoch is finished, it is late, reason
  `gap`, because MERGE may still put it in its place. Afterwards it is late, reason `old_epoch`.
* Numbers higher than those of both epochs also belong to the earlier one, if two conditions hold.
  Their timestamps are older than that of the revealing event (`begun_ns`), and they arrive within
  `max_wait` of it (`until_ns`). Later, such a timestamp shows that the clock has been set back.
* The last finished epoch is remembered. Events of earlier ones are late, reason `old_epoch`. So are
  those with a timestamp of before the last two epochs (`ended_ns`), even if their number came.
* Events with a number below the first one of their counter, which is 0 by default, are not emitted.
  If the first events of a source come from both sides of a wrap, its numbers are raised by one
  cycle. Once the source has started, such a number is before its start.
"""

from __future__ import annotations

from typing import Final

from topology.base.event import DEAD, Event
from topology.base.native import mypyc_attr
from topology.order.reorder.buffer import SourceBuffer
from topology.order.reorder.sequence import NO_STAMP, UNSTARTED, Sequence
from topology.order.reorder.shared import Shared, unwrap_number

FALLS: Final = 2
"""A timestamp may be older by as many of the usual falls of its source."""
MAX_TAIL: Final = 1_000
"""The maximum number of events of the end of a run that are accepted after the next epoch began."""


@mypyc_attr(acyclic=True)
class Epochs(SourceBuffer):
    """The sequences of one source, by epoch.

    Attributes:
        current: The sequence of the current epoch.
        later: The sequences of later epochs, oldest first, whose events are buffered.
        retired: The sequence of the last finished epoch.
        ended_ns: The timestamp below which events are of epochs before the last two.
        until_ns: The instant until which the end of the run before the newest epoch may arrive.
        tail: The numbers above all others of that run that have arrived since the newest epoch
            began.
        fall_ns: How far timestamps fall from one number to the next, as seen at least twice.
        deepest_fall_ns: How far they fell at most. The fall of a clock that was set back is seen
            only once.
    """

    __slots__ = (
        "begun_ns",
        "boundary_ns",
        "current",
        "deepest_fall_ns",
        "ended_ns",
        "fall_ns",
        "later",
        "retired",
        "shared",
        "tail",
        "until_ns",
    )

    def __init__(self, source: str, shared: Shared) -> None:
        super().__init__(source)
        self.shared = shared
        self.later: tuple[Sequence, ...] = ()
        self.retired: Sequence | None = None
        self.boundary_ns = NO_STAMP
        self.begun_ns = NO_STAMP
        self.ended_ns = NO_STAMP
        self.until_ns = 0
        self.fall_ns = 0
        self.deepest_fall_ns = 0
        self.tail: list[int] = []
        self.current = self.make_sequence(0, active=True)

    def make_sequence(self, epoch: int, active: bool) -> Sequence:
        start = self.shared.start
        sequence = Sequence(self.shared.lost, self.source, epoch, active)
        if start != UNSTARTED:
            sequence.begin(start)
            sequence.hi = start - 1
        return sequence

    def list_sequences(self) -> list[Sequence]:
        """Return all sequences, in the order of their epochs."""
        over = [self.retired] if self.retired is not None else []
        return [*over, self.current, *self.later]

    def newest(self) -> Sequence:
        """Return the sequence of the newest epoch."""
        return self.later[-1] if self.later else self.current

    def find_newest_epoch(self) -> int:
        return self.newest().epoch

    def settle(self, event: Event) -> Sequence | None:
        """Set the epoch and the number of an event, and return the sequence to which it belongs.

        The number is below the counter's first only if it is before the start. Return None for a
        finished epoch, and for an epoch that is below the newest and was never seen.
        """
        if event.epoch < 0:
            event.epoch = self.find_newest_epoch() - self.is_of_previous_epoch(event)
            if event.ts_ns < self.ended_ns and event.kind != DEAD:
                event.epoch = self.find_newest_epoch() - 2
        target = self._ensure_sequence(event.epoch, event.at_ns)
        known = target if target is not None else self.retired
        modulus = self.shared.modulus
        if modulus and known is not None:
            event.seq = complete_number(known, event.seq, modulus)
            if event.seq < self.shared.first and known.next == UNSTARTED:
                known.raise_numbers(modulus)
                self.shared.recents.raise_numbers(self.source, modulus)
                event.seq += modulus
        return target

    def find_restart_ns(self, event: Event, number: int, newest: Sequence) -> int | None:
        """Return the last timestamp before a restart, or None if the event shows no restart.

        Its number in the newest epoch would be `number`, which is not above all others.
        """
        # A timestamp that a gateway could have set back shows nothing.
        least_ns = event.ts_ns - FALLS * self.fall_ns
        # A configured start also applies to the new epoch: a smaller number is before both starts.
        if (
            event.is_stamped
            and number >= max(self.shared.start, self.shared.first)
            and newest.is_restarted_by(number, least_ns)
        ):
            return newest.newest_ts_ns
        return newest.find_restart_ns(number, least_ns, self.shared.max_wait_ns)

    def note_fall(self, fall_ns: int) -> None:
        """Record that the timestamp fell from one number to the next."""
        if fall_ns > self.deepest_fall_ns:
            self.fall_ns, self.deepest_fall_ns = self.deepest_fall_ns, fall_ns
        elif fall_ns > self.fall_ns:
            self.fall_ns = fall_ns

    def is_of_previous_epoch(self, event: Event) -> bool:
        """Return whether an event was sent in the epoch before the last inferred restart."""
        if not self.shared.infers or event.kind == DEAD or event.ts_ns >= self.begun_ns:
            return False
        if event.ts_ns <= self.boundary_ns:
            return True
        before, newest = self.find_previous(), self.newest()
        if before is None or event.at_ns > self.until_ns:
            return False
        number = complete_number(before, event.seq, self.shared.modulus)
        if number <= newest.hi + 1:
            return False
        return number > before.hi or (self.fall_ns > 0 and before.lacks(number))

    def _ensure_sequence(self, epoch: int, now_ns: int) -> Sequence | None:
        if epoch == self.current.epoch:
            return self.current
        for later in self.later:
            if later.epoch == epoch:
                return later
        if epoch < self.find_newest_epoch():
            return None
        self.later = (*self.later, self.make_sequence(epoch, active=False))
        self.until_ns, self.tail = now_ns + self.shared.max_wait_ns, []
        self.shared.recents.restart(self.source)
        return self.later[-1]

    def find_previous(self) -> Sequence | None:
        """Return the sequence of the epoch before the newest, if it is known."""
        return [self.retired, self.current, *self.later][-2]


def complete_number(sequence: Sequence, sent: int, modulus: int) -> int:
    """Return the full number for the number sent, which is the same if no other number is known.

    The same holds if `modulus` is 0, since the counter does not wrap.
    """
    near = sequence.next if sequence.next != UNSTARTED else sequence.hi
    return unwrap_number(sent, modulus, near) if modulus and near >= 0 else sent
