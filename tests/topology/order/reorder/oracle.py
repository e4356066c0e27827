"""Oracle of REORDER: slow, and meant to be read beside reorder_drift_merge.md 1.

The output is computed from the list of arrivals, not by running a buffer:

* A missing number q is *known* from the first arrival that shows it missing. That is a higher
number while a lower one (or the start) is known too. Its deadline is that instant + wait, and never
changes.

* A *moment* is (instant, place): the i-th arrival is at (its instant, i), a deadline at (its
instant, after all its arrivals). So an event that arrives in the very instant of a deadline is in
time.

* q expires at its deadline's moment, or at the moment at which all numbers below it have been
settled, whichever is later. It is in time if its first arrival is no later than that.

* s is emitted at the latest of these moments from the start up to s; lost numbers count with their
expiry.

Modelled: one or several sources, start auto / zero / a number, epochs by header, inferred restarts,
each wait rule, the end of input. Not modelled: overflow and the bounds of the memory
(`beyond_memory`), jumps, `seq_bits`, dead letters that occupy a place. Readings of the
specification where it is open:

1. Start hold (auto): from the source's first arrival for max_wait, inclusive of that instant; a
number 0 that arrives meanwhile opens at once. A gap between two numbers of the hold is known when
the second of them arrives. Its deadline runs from then, not from the opening. Repeats of a number
below the start are Late(before_start) each time. `start: N` makes numbers below N
Late(before_start).

2. A gap whose deadline passed while it waited for its turn expires by the very arrival or deadline
that frees it. So a further arrival of the same instant is too late.

3. Higher epoch: the old epoch's highest number is frozen at the first arrival of the new one. For
max_wait, and while no further epoch has begun, higher numbers of the old epoch are treated as
before, until all of it is emitted. Their deadlines are no later than that. From then on such a
number is Late(gap) once, and its repeats are duplicates. Otherwise it is Late(old_epoch). Numbers
at or below the highest are as before (in time, Late(gap), Duplicate), also after the switch.
Numbers below its start remain Late(before_start), not Duplicate.

4. The new epoch's start hold runs from its own first arrival, even if that one was on trial. The
hold runs beside the wait for the old gaps, and ends no earlier than that wait.

5. An old epoch that is still in its start hold keeps it.

6. Without a header an event belongs to the newest epoch of its source, 0 at first. Events with
timestamps up to a boundary belong to the one before an inferred restart.

7. A restart is inferred in two cases. First: the number is no higher than the highest of the newest
epoch, and neither missing nor lost. Its ts is newer than all timestamps of that epoch that came in
time; later ones can belong to the new epoch. The boundary is the newest of them. Second: the number
is below next, and ts > ts of the highest emitted number + max_wait. The boundary is that sum, or
the newest buffered timestamp below the event's own if later. For max_wait, the old epoch also gets
events older than the one that showed the restart, and above the highest of both. The number that
continues the new epoch is an exception. In the start hold a number below all shows a restart only
if those above are SEVERAL apart. If timestamps fell twice from a number to the next, a timestamp
counts only by more than twice the second deepest fall. Missing numbers then belong to the old run
too.

8. Duplicate.conflict: only while the first copy is still buffered.

9. The end: deadlines before the end fire as timeouts. All other gaps have reason `end`, including
one that was due but waited for its turn after such a gap.

10. A Gap is a maximal run of numbers of one gap that expire together. Its `ts_before` is None if
nothing was emitted before it.

11. Only the last of the ended epochs is remembered; once the second after an epoch has its turn,
its arrivals are Late(old_epoch). So are events older than the one that showed the last restart but
one, unless they are in time or still buffered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise, takewhile
from typing import Any, Final

from tests.topology.order.reorder.oracle_waits import Filled, Happening, History, Left, Opened, Rule

SEVERAL: Final = 3
REMEMBERED: Final = 256
MOST_BEHIND: Final = 16
VARIED: Final = 8
FIRSTS: Final = 16
EARLY: Final = 4
AUTO: Final = -1
"""`start: auto`; any other start is a number."""

EMITTED: Final = "emitted"
LATE: Final = "late"
DUPLICATE: Final = "duplicate"
HELD: Final = "held"

MOST_MISSING: Final = 1_000_000
"""The most numbers in one gap, because each of them is walked."""

Moment = tuple[int, int]
_AFTER_ALL: Final = 1 << 62


@dataclass(slots=True)
class Arrival:
    """One record, in arrival order; `epoch` is None if the record has none."""

    at_ns: int
    source: str
    seq: int
    ts_ns: int
    epoch: int | None = None
    content: Any = None


@dataclass(slots=True)
class Fate:
    """An outcome of an arrival, with its instant (None while buffered)."""

    verdict: str
    at_ns: int | None
    epoch: int
    reason: str = ""
    conflict: bool = False


@dataclass(slots=True)
class DeclaredGap:
    at_ns: int
    source: str
    epoch: int
    first: int
    last: int
    reason: str
    known_at_ns: int
    ts_before_ns: int | None
    ts_after_ns: int | None


@dataclass(slots=True)
class Answer:
    """An output of REORDER.

    `fates` is by arrival; `gaps` is in order of instant, source and number; `left` has the arrivals
    (by index) that were emitted in sequence, by source.
    """

    fates: list[Fate] = field(default_factory=list)
    gaps: list[DeclaredGap] = field(default_factory=list)
    left: dict[str, list[int]] = field(default_factory=dict)


@dataclass(slots=True)
class _Epoch:
    """An epoch with its arrivals.

    `shown_by`: the arrival that shows a number missing; `deadline`: its instant.
    """

    number: int
    begun: int
    hold_from_ns: int
    first: dict[int, int] = field(default_factory=dict)
    shown_by: dict[int, int] = field(default_factory=dict)
    deadline: dict[int, int] = field(default_factory=dict)
    others: list[int] = field(default_factory=list)
    low: int | None = None
    high: int | None = None
    zero: int | None = None
    frozen: int | None = None


@dataclass(slots=True)
class _Walk:
    """A walk over an epoch's numbers, from its start up to `limit`.

    The walk has the moments at which numbers are emitted or expire. `closed`: the moment at which
    all were settled.
    """

    opening: Moment
    start: int
    left: dict[int, Moment] = field(default_factory=dict)
    lost: dict[int, Moment] = field(default_factory=dict)
    closed: Moment | None = None


def reorder(
    arrivals: list[Arrival],
    wait: Rule,
    *,
    max_wait_ns: int,
    start: int = AUTO,
    infer_restart: bool = True,
    until_ns: int | None = None,
    end_ns: int | None = None,
) -> Answer:
    """Return the output that REORDER must give for `arrivals`.

    After the last arrival time does not advance. With `until_ns` it advances up to and including
    that; with `end_ns`, which is not below the last arrival, the input ends.
    """
    sources: dict[str, _Source] = {}
    happenings: list[Happening] = []
    admitted = _Admitted()
    for index, arrival in enumerate(arrivals):
        _end_trials(sources, arrival.at_ns - 1)
        source = sources.get(arrival.source)
        if source is None:
            source = sources[arrival.source] = _Source(
                arrivals, admitted, wait, max_wait_ns, start, infer_restart, happenings
            )
        source.receive(index, arrival.at_ns)
    if until_ns is not None:
        _end_trials(sources, until_ns)
    if end_ns is not None:
        _end_trials(sources, end_ns - 1)
        for _, source in sorted(sources.items()):
            while source.trial:
                source.end_trial(None, end_ns)
    limit, end = _limits(arrivals, until_ns, end_ns)
    told = Answer([Fate(HELD, None, 0) for _ in admitted.arrivals])
    for name, source in sources.items():
        told.left[name] = source.conclude(told, limit, end)
    told.gaps.sort(key=lambda gap: (gap.at_ns, gap.source, gap.epoch, gap.first))
    return admitted.as_they_came(told, len(arrivals))


@dataclass(slots=True)
class _Admitted:
    """A list of the arrivals, in the order and at the instants at which trials admit them.

    Each has its place among all arrivals. `conflicts` has the fates of conflicts, which are not
    admitted.
    """

    arrivals: list[Arrival] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    conflicts: dict[int, Fate] = field(default_factory=dict)

    def as_they_came(self, told: Answer, n: int) -> Answer:
        fates = dict(zip(self.places, told.fates, strict=True)) | self.conflicts
        left = {name: [self.places[i] for i in of] for name, of in told.left.items()}
        return Answer([fates.get(i, Fate(HELD, None, -1)) for i in range(n)], told.gaps, left)


def _end_trials(sources: dict[str, _Source], until_ns: int) -> None:
    while True:
        due = [(s.trial_ends_ns(), name) for name, s in sources.items() if s.trial]
        if not due or min(due)[0] > until_ns:
            return
        at_ns, name = min(due)
        sources[name].end_trial(None, at_ns)


def _limits(
    arrivals: list[Arrival], until_ns: int | None, end_ns: int | None
) -> tuple[Moment, Moment | None]:
    if end_ns is not None:
        return (end_ns, _AFTER_ALL), (end_ns, _AFTER_ALL)
    if until_ns is not None:
        return (until_ns, _AFTER_ALL), None
    return (arrivals[-1].at_ns if arrivals else 0, len(arrivals)), None


class _Source:
    """A source with its epochs."""

    def __init__(
        self,
        sent: list[Arrival],
        admitted: _Admitted,
        wait: Rule,
        max_wait_ns: int,
        start: int,
        infer_restart: bool,
        happenings: list[Happening],
    ) -> None:
        self.sent = sent
        self.admitted = admitted
        self.arrivals = admitted.arrivals
        self.trial: list[Arrival] = []  # The suspect and the arrivals after it, with `places`.
        self.places: list[int] = []
        self.wait = wait
        self.max_wait_ns = max_wait_ns
        self.start = start
        self.infer_restart = infer_restart
        self.happenings = happenings
        self.epochs: list[_Epoch] = []
        self.boundary_ns: int | None = None
        self.ended_ns: int | None = None
        self.begun: Arrival | None = None
        self.guessed: set[int] = set()  # Arrivals of earlier epochs, by timestamp.
        self.strangers: list[
            tuple[int, int]
        ] = []  # Arrivals of an old epoch that was never seen before.

    # At the start of an epoch, a suspect arrival passes a trial before anything else.

    def receive(self, place: int, at_ns: int) -> None:
        arrival = replace(self.sent[place], at_ns=at_ns)
        if not self.trial and not self.is_suspect(arrival):
            self.admit(arrival, place)
            return
        if self.trial and arrival.epoch is None:
            if arrival.ts_ns < self.trial[0].ts_ns and self.lacks(arrival):
                self.admit(arrival, place)
                # Only now can a waiting event be the next number of the old run.
                waiting = [replace(each, at_ns=at_ns) for each in self.trial[1:]]
                told = [self.shown_by(each) for each in waiting if each.epoch is None]
                told = [begins for begins in told if begins is not None]
                if told:
                    self.end_trial(told[0], at_ns)
                return
            begins = self.shown_by(arrival)
            if begins is not None:
                self.end_trial(begins, at_ns)
                self.receive(place, at_ns)
                return
        if len(self.trial) > MOST_BEHIND:
            self.end_trial(None, at_ns)
            self.receive(place, at_ns)
            return
        self.trial.append(arrival)
        self.places.append(place)

    def trial_ends_ns(self) -> int:
        return self.trial[0].at_ns + self.max_wait_ns

    def end_trial(self, begins: bool | None, at_ns: int) -> None:
        (place, *behind), suspect, newest = self.places, self.trial[0], self.epochs[-1]
        self.trial, self.places = [], []
        arrived_ns, suspect = suspect.at_ns, replace(suspect, at_ns=at_ns)
        boundary_ns = self.boundary_of(newest, suspect)
        if begins is None:
            may_be_copy = self.may_be_copy(suspect)
            if boundary_ns is None and self.is_first_of_gateway(suspect):
                boundary_ns = suspect.ts_ns - 1
            began_ns = self.arrivals[newest.begun].at_ns
            is_soon = len(self.epochs) > 1 and at_ns < began_ns + self.max_wait_ns
            begins = boundary_ns is not None and not is_soon
            begins = begins and (bool(behind) or not may_be_copy)
        if begins:
            if self.begun is not None:
                self.ended_ns = self.begun.ts_ns - 4 * self.fall_ns(at_ns)
            if boundary_ns is None and suspect.ts_ns >= self.newest_ns(newest, at_ns):
                boundary_ns = suspect.ts_ns - 1  # Both runs are in one tick of the clock.
            if boundary_ns is not None:
                fall_ns = 2 * self.fall_ns(at_ns)
                self.boundary_ns = boundary_ns - fall_ns
                self.begun = replace(suspect, ts_ns=suspect.ts_ns + fall_ns)
            elif self.begun is None or suspect.ts_ns <= self.begun.ts_ns:
                self.boundary_ns = self.begun = self.ended_ns = None
            else:
                self.begun = replace(self.begun, at_ns=at_ns)
            self.admit(replace(suspect, epoch=newest.number + 1), place)
            self.epochs[-1].hold_from_ns = arrived_ns
        elif suspect.seq in newest.first:
            self.admitted.conflicts[place] = Fate(LATE, at_ns, newest.number, "conflict")
        else:
            self.admit(replace(suspect, epoch=newest.number), place)
        for each in behind:
            self.receive(each, at_ns)

    def admit(self, arrival: Arrival, place: int) -> None:
        self.arrivals.append(arrival)
        self.admitted.places.append(place)
        self.take(len(self.arrivals) - 1)

    def is_suspect(self, arrival: Arrival) -> bool:
        if arrival.epoch is not None or not self.infer_restart or not self.epochs:
            return False
        newest = self.epochs[-1]
        if self.is_of_before(arrival) or newest.high is None or arrival.seq > newest.high:
            return False
        if arrival.seq in self.remembered(newest):
            return not self.is_copy(arrival)
        return self.boundary_of(newest, arrival) is not None

    def remembered(self, newest: _Epoch) -> list[int]:
        first = max(self.start, 0)
        firsts = range(first, first + FIRSTS)
        return [s for s in newest.first if s > (newest.high or 0) - REMEMBERED or s in firsts]

    def is_copy(self, arrival: Arrival) -> bool:
        newest = self.epochs[-1]
        of = {seq: self.arrivals[newest.first[seq]] for seq in self.remembered(newest)}
        last = [seq for seq in of if seq > (newest.high or 0) - REMEMBERED]
        alike = {seq for seq in last if of[seq].content == arrival.content}
        one = of.get(arrival.seq)
        if one is None:
            return False
        is_like = arrival.content and arrival.content == one.content
        is_rare = len(last) >= VARIED and not alike - {arrival.seq}
        return one.ts_ns == arrival.ts_ns or bool(is_like and is_rare)

    def may_be_copy(self, suspect: Arrival) -> bool:
        """Return whether the arrival can be a duplicate that differs only in its timestamp."""
        newest = self.epochs[-1]
        if suspect.seq not in self.remembered(newest):
            return False
        opening, start = self.opening(newest)
        is_begun = (suspect.at_ns, len(self.arrivals)) > opening
        if len({self.arrivals[i].ts_ns for i in newest.first.values()}) == 1:
            return False  # The clock stands still.
        return (is_begun and suspect.seq >= start + EARLY) or self.is_like(suspect)

    def is_first_of_gateway(self, suspect: Arrival) -> bool:
        newest, fall_ns = self.epochs[-1], self.fall_ns(suspect.at_ns)
        opening, start = self.opening(newest)
        is_begun = (suspect.at_ns, len(self.arrivals)) > opening
        if not fall_ns or suspect.seq not in self.remembered(newest):
            return False
        if suspect.seq >= (start if is_begun else 0) + EARLY or self.is_like(suspect):
            return False
        has_both = suspect.content and self.arrivals[newest.first[suspect.seq]].content
        is_new = suspect.ts_ns >= self.newest_ns(newest, suspect.at_ns) - 2 * fall_ns
        return bool(has_both) and is_new

    def newest_ns(self, newest: _Epoch, at_ns: int) -> int:
        """Return the newest timestamp of all arrivals in time."""
        walk = self.walk_all((at_ns, len(self.arrivals) - 1))[-1]
        lost = walk.lost if walk is not None else ()
        return max(self.arrivals[i].ts_ns for seq, i in newest.first.items() if seq not in lost)

    def lacks(self, arrival: Arrival) -> bool:
        """Return whether the number is above all others, missing and not given up, or possibly the
        first.
        """
        newest, seq = self.epochs[-1], arrival.seq
        if seq in newest.first or newest.high is None or seq < self.start:
            return False
        if seq > newest.high:
            return True
        now = arrival.at_ns, len(self.arrivals)
        if now <= self.opening(newest)[0]:
            return True
        walk = self.walk_all((arrival.at_ns, len(self.arrivals) - 1))[-1]
        return seq in newest.deadline and (walk is None or seq not in walk.lost)

    def shown_by(self, arrival: Arrival) -> bool | None:
        newest, suspect = self.epochs[-1], self.trial[0]
        follows = arrival.seq == suspect.seq + 1
        is_newer = arrival.ts_ns >= suspect.ts_ns or self.fall_ns(arrival.at_ns) > 0
        if is_newer and arrival.seq == (newest.high or 0) + 1:
            suspect = replace(suspect, at_ns=arrival.at_ns)
            is_new = self.boundary_of(newest, suspect) is not None and not self.is_like(suspect)
            return follows and is_new
        if self.is_copy(arrival):
            return None
        if is_newer and follows and not self.is_like(arrival):
            return True
        is_other = arrival.ts_ns != suspect.ts_ns and arrival.content != suspect.content
        return True if arrival.seq == suspect.seq and is_other else None

    def is_like(self, arrival: Arrival) -> bool:
        """Return whether the arrival has content, equal to that of the first with its number."""
        newest = self.epochs[-1]
        if not arrival.content or arrival.seq not in self.remembered(newest):
            return False
        return bool(self.arrivals[newest.first[arrival.seq]].content == arrival.content)

    # Take the arrivals one after the other.

    def take(self, index: int) -> None:
        number = self.settle_epoch(index)
        if self.ended_ns is not None and self.arrivals[index].ts_ns < self.ended_ns:
            self.guessed.add(index)
        known = {epoch.number: epoch for epoch in self.epochs}
        if number in known and self.is_forgotten(known[number], index):
            self.strangers.append((index, number))
        elif number in known:
            self.note(known[number], index)
        elif self.epochs and number < self.epochs[-1].number:
            self.strangers.append((index, number))
        else:
            if self.epochs:
                self.epochs[-1].frozen = index
            self.epochs.append(_Epoch(number, index, self.arrivals[index].at_ns))
            self.note(self.epochs[-1], index)

    def is_forgotten(self, epoch: _Epoch, index: int) -> bool:
        second_after = self.epochs.index(epoch) + 2
        if second_after >= len(self.epochs):
            return False
        limit = (self.arrivals[index].at_ns, index - 1)
        return self.walk_all(limit)[second_after] is not None

    def settle_epoch(self, index: int) -> int:
        arrival = self.arrivals[index]
        if arrival.epoch is not None:
            return arrival.epoch
        newest = self.epochs[-1].number if self.epochs else 0
        if self.ended_ns is not None and arrival.ts_ns < self.ended_ns:
            return newest - 2
        return newest - self.is_of_before(arrival)

    def is_of_before(self, arrival: Arrival) -> bool:
        told = self.begun
        if told is None or arrival.ts_ns >= told.ts_ns:
            return False
        if self.boundary_ns is not None and arrival.ts_ns <= self.boundary_ns:
            return True
        newest = self.epochs[-1]
        if arrival.at_ns > told.at_ns + self.max_wait_ns:
            return False
        before = next(e for e in self.epochs if e.number == newest.number - 1)
        newest_high = -1 if newest.high is None else newest.high
        if arrival.seq <= newest_high + 1:
            return False
        if before.high is None or arrival.seq > before.high:
            return True
        return self.fall_ns(arrival.at_ns) > 0 and self.is_missing(before, arrival)

    def is_missing(self, epoch: _Epoch, arrival: Arrival) -> bool:
        if arrival.seq in epoch.first:
            return False
        walks = self.walk_all((arrival.at_ns, len(self.arrivals) - 1))
        walk = walks[self.epochs.index(epoch)]
        return arrival.seq in epoch.deadline and (walk is None or arrival.seq not in walk.lost)

    def fall_ns(self, at_ns: int) -> int:
        """Return the second deepest fall of timestamps from one emitted number to the next."""
        falls = [0, 0]
        for epoch, walk in zip(
            self.epochs, self.walk_all((at_ns, len(self.arrivals) - 1)), strict=True
        ):
            left = walk.left if walk is not None else {}
            stamps = [self.arrivals[epoch.first[seq]].ts_ns for seq in left]
            falls += [max(0, one - two) for one, two in pairwise(stamps)]
        return sorted(falls)[-2]

    def boundary_of(self, newest: _Epoch, arrival: Arrival) -> int | None:
        """Return the last timestamp before a restart, or None if the timestamp shows none."""
        arrival = replace(arrival, ts_ns=arrival.ts_ns - 2 * self.fall_ns(arrival.at_ns))
        now = arrival.at_ns, len(self.arrivals)
        before = arrival.at_ns, len(self.arrivals) - 1
        missing = arrival.seq in newest.deadline and arrival.seq not in newest.first
        # A number below a given start is below that of a new run too.
        is_above = arrival.seq >= max(self.start, 0)
        lost = self.walk_all(before)[-1] if newest.deadline else None
        in_time = [i for seq, i in newest.first.items() if lost is None or seq not in lost.lost]
        all_ns = [self.arrivals[i].ts_ns for i in in_time]
        if newest.low is not None and now <= self.opening(newest)[0]:
            # In the start hold a number below all others can be missing too.
            assert newest.high is not None
            is_above &= arrival.seq >= newest.low or newest.high - newest.low >= SEVERAL
        if not missing and is_above and all_ns and arrival.ts_ns > max(all_ns):
            return max(all_ns)
        if missing and newest.deadline[arrival.seq] >= arrival.at_ns:
            return None  # The number is not yet lost, so next is no higher.
        walk = self.walk_all(before)[-1]
        if walk is None or not walk.left:
            return None
        last = max(walk.left)
        following = max([last, *walk.lost]) + 1
        last_ts_ns = self.arrivals[newest.first[last]].ts_ns
        if arrival.seq >= following or arrival.ts_ns <= last_ts_ns + self.max_wait_ns:
            return None
        held_ns = [self.arrivals[i].ts_ns for seq, i in newest.first.items() if seq >= following]
        older_ns = [ts_ns for ts_ns in held_ns if ts_ns < arrival.ts_ns]
        return max([last_ts_ns + self.max_wait_ns, *older_ns])

    def note(self, epoch: _Epoch, index: int) -> None:
        seq = self.arrivals[index].seq
        opening, start = self.opening(epoch)
        opened = epoch.first and opening < self.moment(index)
        above = epoch.frozen is not None and (epoch.high is None or seq > epoch.high)
        above = above and not (self.is_tail(epoch, index) and self.is_open(epoch, index))
        if above or seq in epoch.first or (opened and seq < start) or seq < self.start:
            epoch.others.append(index)
            return
        epoch.first[seq] = index
        if seq == 0 and epoch.zero is None:
            epoch.zero = index
        if epoch.low is None or epoch.high is None:
            # Before the first arrival only a given start is known.
            epoch.low, epoch.high = (
                (seq, seq) if self.start == AUTO else (self.start, self.start - 1)
            )
        if seq in epoch.shown_by:
            shown_at_ns = self.arrivals[epoch.shown_by[seq]].at_ns
            fill_ns = self.arrivals[index].at_ns - shown_at_ns
            self.happenings.append(Filled(self.arrivals[index].source, fill_ns))
        elif seq > epoch.high + 1:
            self.show(epoch, range(epoch.high + 1, seq), index)
        elif seq < epoch.low - 1:
            self.show(epoch, range(seq + 1, epoch.low), index)
        epoch.low, epoch.high = min(epoch.low, seq), max(epoch.high, seq)

    def show(self, epoch: _Epoch, missing: range, index: int) -> None:
        arrival = self.arrivals[index]
        if len(missing) > MOST_MISSING:
            raise ValueError(f"{arrival}: {len(missing)} numbers missing; jumps are not modelled")
        history = History(
            arrival.source,
            self.happenings,
            lambda: list(self.left_before((arrival.at_ns, index - 1))),
        )
        deadline_ns = arrival.at_ns + self.wait(arrival.at_ns, history)
        if epoch.frozen is not None:
            frozen_ns = self.arrivals[epoch.frozen].at_ns
            deadline_ns = min(deadline_ns, frozen_ns + self.max_wait_ns)
        for seq in missing:
            epoch.shown_by[seq] = index
            epoch.deadline[seq] = deadline_ns
        self.happenings.append(Opened(arrival.source))

    # Compute the consequences of the arrivals.

    def moment(self, index: int) -> Moment:
        return self.arrivals[index].at_ns, index

    def opening(self, epoch: _Epoch) -> tuple[Moment, int]:
        """Return the moment from which the start is settled, and the start."""
        if self.start != AUTO:
            return (0, -1), self.start
        hold_end = (epoch.hold_from_ns + self.max_wait_ns, _AFTER_ALL)
        if epoch.zero is not None and self.moment(epoch.zero) <= hold_end:
            return self.moment(epoch.zero), 0
        # `first` is in arrival order.
        seen = takewhile(lambda item: self.moment(item[1]) <= hold_end, epoch.first.items())
        return hold_end, min((seq for seq, _ in seen), default=0)

    def walk_all(self, limit: Moment, end: Moment | None = None) -> list[_Walk | None]:
        """Return each epoch's walk; None for one that waits for the epoch before."""
        walks: list[_Walk | None] = []
        before: Moment | None = (0, -1)
        for epoch in self.epochs:
            walk = None if before is None else self.walk(epoch, before, limit, end)
            walks.append(walk)
            before = walk.closed if walk is not None else None
            if before is not None and epoch.frozen is not None:
                before = max(before, self.moment(epoch.frozen))
        return walks

    def walk(self, epoch: _Epoch, before: Moment, limit: Moment, end: Moment | None) -> _Walk:
        opening, start = self.opening(epoch)
        if end is not None:
            opening = min(opening, end)
        walk = _Walk(max(opening, before), start)
        now = walk.opening
        for seq in range(start, (-1 if epoch.high is None else epoch.high) + 1):
            arrived = self.moment(epoch.first[seq]) if seq in epoch.first else None
            expiry = None
            if seq in epoch.deadline:
                expiry = max((epoch.deadline[seq], _AFTER_ALL), now)
                if end is not None:
                    expiry = min(expiry, end)
            if arrived is not None and (expiry is None or arrived <= expiry):
                now = max(now, arrived)
                settled = walk.left
            else:
                assert expiry is not None, "a number below the highest is seen or shown missing"
                now = expiry
                settled = walk.lost
            if now > limit:
                return walk
            settled[seq] = now
        if walk.opening <= limit:
            walk.closed = now
        return walk

    def left_before(self, limit: Moment) -> Iterator[Left]:
        walks = zip(self.epochs, self.walk_all(limit), strict=True)
        for epoch, walk in walks:
            for seq, moment in (walk.left if walk is not None else {}).items():
                index = epoch.first[seq]
                unheld = moment == self.moment(index)
                yield Left(epoch.number, seq, self.arrivals[index].at_ns, moment[0], unheld)

    # Build the answer.

    def conclude(self, answer: Answer, limit: Moment, end: Moment | None) -> list[int]:
        for index, number in self.strangers:
            answer.fates[index] = self.late(index, number, "old_epoch")
        left: list[int] = []
        for epoch, walk in zip(self.epochs, self.walk_all(limit, end), strict=True):
            for index in epoch.first.values():
                answer.fates[index].epoch = epoch.number
            for index in epoch.others:
                answer.fates[index] = self.other(epoch, walk, index)
            if walk is None:
                continue
            for seq, moment in walk.left.items():
                answer.fates[epoch.first[seq]] = Fate(EMITTED, moment[0], epoch.number)
                left.append(epoch.first[seq])
            for seq in walk.lost:
                if seq in epoch.first:
                    index = epoch.first[seq]
                    answer.fates[index] = self.late(index, epoch.number, "gap")
            answer.gaps += self.gaps(epoch, walk, end)
        return left

    def late(self, index: int, number: int, reason: str) -> Fate:
        return Fate(LATE, self.arrivals[index].at_ns, number, reason)

    def other(self, epoch: _Epoch, walk: _Walk | None, index: int) -> Fate:
        """Return the fate of an arrival that is not the first of a number from the start on."""
        arrival = self.arrivals[index]
        first = epoch.first.get(arrival.seq)
        if first is None and arrival.seq < self.opening(epoch)[1]:
            return self.late(index, epoch.number, "before_start")
        if first is None:
            same = [i for i in epoch.others if self.arrivals[i].seq == arrival.seq]
            if not self.is_tail(epoch, same[0]) or not self.was_before_newest(epoch, index):
                return self.late(index, epoch.number, "old_epoch")
            if index == same[0]:
                return self.late(index, epoch.number, "gap")
            return Fate(DUPLICATE, arrival.at_ns, epoch.number, conflict=False)
        left = walk.left.get(arrival.seq) if walk is not None else None
        lost = walk is not None and arrival.seq in walk.lost
        was_held = not lost and (left is None or left > self.moment(index))
        if index in self.guessed and not was_held:
            return self.late(index, epoch.number, "old_epoch")
        if self.is_older_than_all(epoch, index) and not was_held:
            is_newest = not any(
                each.begun < index
                for each in self.epochs
                if each is not epoch and each.number > epoch.number
            )
            return self.late(index, epoch.number, "conflict" if is_newest else "old_epoch")
        one, other = self.arrivals[first], arrival
        conflict = was_held and (one.ts_ns, one.content) != (other.ts_ns, other.content)
        return Fate(DUPLICATE, arrival.at_ns, epoch.number, conflict=conflict)

    def is_older_than_all(self, epoch: _Epoch, index: int) -> bool:
        """Return whether the arrival's timestamp is below all in an epoch without a header."""
        if self.sent[0].epoch is not None:
            return False
        before = [i for i in epoch.first.values() if i < index]
        return all(self.arrivals[index].ts_ns < self.arrivals[i].ts_ns for i in before)

    def is_tail(self, epoch: _Epoch, index: int) -> bool:
        """Return whether the arrival's number is above all others, and it comes soon after the next
        epoch's start.
        """
        assert epoch.frozen is not None
        until_ns = self.arrivals[epoch.frozen].at_ns + self.max_wait_ns
        return self.was_before_newest(epoch, index) and self.arrivals[index].at_ns <= until_ns

    def is_open(self, epoch: _Epoch, index: int) -> bool:
        """Return whether an event of the epoch is not settled when this one arrives."""
        limit = (self.arrivals[index].at_ns, index - 1)
        walk = self.walk_all(limit)[self.epochs.index(epoch)]
        return walk is None or walk.closed is None

    def was_before_newest(self, epoch: _Epoch, index: int) -> bool:
        later = [one for one in self.epochs if one.number > epoch.number]
        return sum(one.begun < index for one in later) == 1

    def gaps(self, epoch: _Epoch, walk: _Walk, end: Moment | None) -> Iterator[DeclaredGap]:
        for run in _runs(walk.lost, epoch.shown_by):
            first, last = run[0], run[-1]
            yield DeclaredGap(
                at_ns=walk.lost[first][0],
                source=self.arrivals[epoch.begun].source,
                epoch=epoch.number,
                first=first,
                last=last,
                reason="end" if walk.lost[first] == end else "timeout",
                known_at_ns=self.arrivals[epoch.shown_by[first]].at_ns,
                ts_before_ns=self.stamp(epoch, walk, first - 1),
                ts_after_ns=self.stamp(epoch, walk, last + 1),
            )

    def stamp(self, epoch: _Epoch, walk: _Walk, seq: int) -> int | None:
        if seq < walk.start or seq in walk.lost or seq not in epoch.first:
            return None
        return self.arrivals[epoch.first[seq]].ts_ns


def _runs(lost: dict[int, Moment], shown_by: dict[int, int]) -> Iterable[list[int]]:
    """Return runs of consecutive numbers of one gap that expire together."""
    runs: list[list[int]] = []
    for seq in sorted(lost):
        before = runs[-1][-1] if runs else None
        if before == seq - 1 and (lost[before], shown_by[before]) == (lost[seq], shown_by[seq]):
            runs[-1].append(seq)
        else:
            runs.append([seq])
    return runs
