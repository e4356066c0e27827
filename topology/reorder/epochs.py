"""Which epoch an event of a source belongs to, and its number where counters wrap.

An epoch header settles it. Without one a restart is inferred (1.5): a late event has an
older stamp than its followers, so a small number with a stamp too new contradicts one
clock and one counter. The restart test comes before the number is settled.

Where counters are small (`seq_bits`), the number is the one that is congruent to what was
sent and nearest to the next awaited, upward on a tie.

Decided here:

* A number that came before, or lies before all, with a newer stamp than all is of a new run at
  once. For a number that is missing or was given up the stamp has to be newer by `max_wait`, and
  where the record bore no stamp: the arrival stands for it then, and that of a copy is newer, too.
* Without an epoch header, stamps up to `boundary_ns` belong to the epoch before an inferred
  restart: the newest of before, or where `max_wait` was asked for that instant, and up to the
  newest event then waiting that is older than the one that gave the restart away. So do higher
  numbers than those of both with a stamp older than that one's (`begun_ns`), if they come within
  `max_wait` of it (`until_ns`): later such a stamp says that the clock has been set back since.
* The last one of the epochs that are over is remembered; what comes from those before
  it is late, reason `old_epoch`.
* Numbers below 0 do not leave: a source whose first events come from both sides of a
  wrap is counted from one cycle up. After the start such a number is before the start.
"""

from __future__ import annotations

from topology.model.event import DEAD, Event
from topology.reorder.buffer import SourceBuffer
from topology.reorder.sequence import NO_STAMP, UNSTARTED, Sequence
from topology.reorder.shared import Shared, extended


class Epochs(SourceBuffer):
    """The sequences of one source, by epoch.

    Attributes:
        current: The one in force.
        later: Those that wait to be current, oldest first.
        retired: The last one that is over.
    """

    __slots__ = ("begun_ns", "boundary_ns", "current", "later", "retired", "shared", "until_ns")

    def __init__(self, source: str, shared: Shared) -> None:
        super().__init__(source)
        self.shared = shared
        self.later: tuple[Sequence, ...] = ()
        self.retired: Sequence | None = None
        self.boundary_ns = NO_STAMP
        self.begun_ns = NO_STAMP
        self.until_ns = 0
        self.current = self.new_sequence(0, active=True)

    def new_sequence(self, epoch: int, active: bool) -> Sequence:
        start = self.shared.start
        sequence = Sequence(self.shared.lost, self.source, epoch, active)
        if start != UNSTARTED:
            sequence.begin(start)
            sequence.hi = start - 1
        return sequence

    def sequences(self) -> list[Sequence]:
        """Return all of them, in the order of their epochs."""
        over = [self.retired] if self.retired is not None else []
        return [*over, self.current, *self.later]

    def newest_epoch(self) -> int:
        return self.later[-1].epoch if self.later else self.current.epoch

    def settle(self, event: Event) -> Sequence | None:
        """The sequence the event belongs to; None: an epoch that is over, or one below the
        newest that was never seen. The event bears its epoch and number then; the number
        is below 0 only where it is before the start."""
        if event.epoch < 0:
            event.epoch = self._inferred(event, self.later[-1] if self.later else self.current)
        target = self._sequence_of(event.epoch)
        known = target if target is not None else self.retired
        modulus = self.shared.modulus
        if modulus and known is not None:
            event.seq = _numbered(known, event.seq, modulus)
            if event.seq < 0 and known.next == UNSTARTED:
                known.raise_by(modulus)
                event.seq += modulus
        return target

    def _inferred(self, event: Event, newest: Sequence) -> int:
        shared = self.shared
        if shared.config.infer_restart is False or event.kind == DEAD:
            return newest.epoch
        ts_ns = event.ts_ns
        if ts_ns < self.begun_ns and self._is_of_before(event):
            return newest.epoch - 1
        number = event.seq
        if shared.modulus:
            number = _numbered(newest, number, shared.modulus)
        if number > newest.hi:
            return newest.epoch
        # A start that is given holds for the new run, too: what is below it is before both.
        boundary_ns = (
            newest.newest_ts_ns
            if event.is_stamped
            and number >= max(shared.start, 0)
            and newest.is_begun_anew_by(number, ts_ns)
            else newest.refuted_by(number, ts_ns, shared.max_wait_ns)
        )
        if boundary_ns is None:
            return newest.epoch
        self.boundary_ns, self.begun_ns = boundary_ns, ts_ns
        self.until_ns = event.at_ns + shared.max_wait_ns
        return newest.epoch + 1

    def _is_of_before(self, event: Event) -> bool:
        """It is older than the event that gave the last restart away; the run before sent it."""
        if event.ts_ns <= self.boundary_ns:
            return True
        before, newest = [self.retired, self.current, *self.later][-2:]
        if before is None or newest is None or event.at_ns > self.until_ns:
            return False
        modulus = self.shared.modulus
        number = _numbered(before, event.seq, modulus) if modulus else event.seq
        return number > max(before.hi, newest.hi + 1)

    def _sequence_of(self, epoch: int) -> Sequence | None:
        if epoch == self.current.epoch:
            return self.current
        for later in self.later:
            if later.epoch == epoch:
                return later
        if epoch < self.newest_epoch():
            return None
        self.later = (*self.later, self.new_sequence(epoch, active=False))
        return self.later[-1]


def _numbered(sequence: Sequence, sent: int, modulus: int) -> int:
    """What was sent, where no number is known yet."""
    near = sequence.next if sequence.next != UNSTARTED else sequence.hi
    return extended(sent, modulus, near) if near >= 0 else sent
