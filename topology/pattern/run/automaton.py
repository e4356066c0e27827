"""The plain case of a run: walks of single events, moved on by what comes in order.

Units are start events, as always (`run.ledger.Unit`). Each holds what its walk has `taken`. The
automaton keeps those that wait, by the component they wait for:

* an event in order (the newest of its partition) moves each walk that waits for it by one step;
* a late one is put right in the walks that pass over its place: it is taken where it comes before
  what was taken, and the walk goes on from there through the indexes. Without conditions over
  several events later starts never take earlier events, so that these walks lie side by side
  and are found from the newest backwards. A strict step breaks where anything comes between: all
  starts of the window are walked anew.

Nothing of it is state: what waits follows from the indexes (`walk`), so a restart builds it again.

When it holds: the query is a line (`match.tactics.line`), results are emitted when found and not
told again when final, no target is waited for, and no time is unsure. When the first unsure one
comes, or an index grows beyond what one evaluation may look through, the run goes the general way
from then on (`Run.give_up`). Both ways say the same, byte for byte; the law holds them together.

Cost: an event in order, O(walks moved); a late one O(log n) for each walk that it changes.

Proved by: tests/topology/pattern/run/test_automaton.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from topology.pattern.match.evaluation import Place
from topology.pattern.match.tactics.line import LOOKED_THROUGH, Line
from topology.pattern.run.compiled import Slot
from topology.pattern.run.ledger import Unit
from topology.pattern.run.timers import FAR_OFF_NS
from topology.pattern.run.wiring import Wiring
from topology.pattern.store.entry import Entry, Key

BEFORE_ALL: Final = -FAR_OFF_NS


class Automaton:
    """One run's: `units` are those of the run. `_filters[j]` is the filter of component j."""

    __slots__ = (
        "_backwards",
        "_components",
        "_everything",
        "_filters",
        "_indexes",
        "_over_ns",
        "_since_ns",
        "_units",
        "_waiting",
        "line",
    )

    def __init__(self, line: Line, wiring: Wiring, place: Place, units: dict[Key, Unit]) -> None:
        self.line = line
        self._filters = wiring.components
        self._backwards = range(line.count - 1, 0, -1)  # no walk takes an entry twice
        self._components = [
            [j for j in self._backwards if number == wiring.components[j]]
            for number in range(max(wiring.components) + 1)
        ]  # by filter, but for the first one
        self._since_ns = wiring.since_ns
        self._indexes = place.components[0]
        self._everything = place.everything
        self._over_ns = BEFORE_ALL  # all before it had been decided when it was asked last
        self._units = units
        self._waiting: list[dict[Key, Unit]] = [{} for _ in range(line.count)]

    @property
    def is_beyond(self) -> bool:
        """More entries than an evaluation may look through; then units may overflow."""
        return self.line.is_tested and sum(map(len, self._indexes)) > LOOKED_THROUGH

    def follow(self, entry: Entry, filters: Sequence[int]) -> list[Unit]:
        """An entry of these filters, newer than all others; the units that it completes."""
        complete: list[Unit] = []
        numbers, waiting = self._filters, self._waiting
        if len(filters) == 1 and not self.line.is_strict:  # as mostly
            number = filters[0]
            if number < len(self._components):
                for j in self._components[number]:
                    if waiting[j]:
                        self._step(j, entry, complete)
        else:
            for j in self._backwards:
                if numbers[j] in filters:
                    if waiting[j]:
                        self._step(j, entry, complete)
                elif self.line.strict[j]:
                    waiting[j].clear()
        if numbers[0] in filters and self._begins(entry):
            key = entry.key
            unit = self._units[key] = waiting[1][key] = Unit(entry)
            unit.taken.append(entry)
        return complete

    def _step(self, j: int, entry: Entry, complete: list[Unit]) -> None:
        """The walks that wait for component j take the entry, where it fits."""
        line, units = self.line, self._waiting[j]
        self._waiting[j] = {}
        time_ns, is_strict, is_last = entry.time_ns, line.strict[j], j + 1 == line.count
        since_ns = time_ns - line.within_ns
        for key, unit in units.items():
            taken = unit.taken
            last = taken[-1]
            if taken[0].time_ns < since_ns or (is_strict and not self._is_next(last)):
                continue
            fits = last.time_ns < time_ns or line.by_key
            if fits and line.is_tested:
                fits = line.fits(taken, entry)
            if fits:
                taken.append(entry)
                if is_last:
                    complete.append(unit)
                else:
                    self._waiting[j + 1][key] = unit
            elif not is_strict:
                self._waiting[j][key] = unit

    def put_right(self, entry: Entry, filters: Sequence[int]) -> list[Unit]:
        """An entry that comes late; the units of which something else is true now. `filters` are
        empty where it lies in another partition."""
        line, numbers = self.line, self._filters
        changed: dict[Key, Unit] = {}
        if line.is_strict:
            self._walk_window(entry, changed)
        else:
            for j in range(1, line.count):
                if numbers[j] in filters:
                    self._take_late(entry, j, changed)
            if numbers[0] in filters:
                unit = self.walk(entry)
                if unit is not None:
                    changed[entry.key] = unit
        return list(changed.values())

    def walk(self, anchor: Entry) -> Unit | None:
        """The unit of this start, walked from its beginning; None if no match begins here."""
        if not self._begins(anchor):
            return None
        unit = self._units.get(anchor.key)
        if unit is None:
            unit = self._units[anchor.key] = Unit(anchor)
            unit.taken.append(anchor)
        self._go_on(unit, 1)
        return unit

    def over(self, floor_ns: int) -> list[Unit]:
        """The units that nothing can change any more, now that all before `floor_ns` is decided,
        but for those that were over before."""
        starts, within_ns = self._indexes[0], self.line.within_ns
        low = starts.before_time(self._over_ns - within_ns)
        high = starts.before_time(floor_ns - within_ns)
        self._over_ns = floor_ns
        found = [self._units.get(anchor.key) for anchor in starts.entries[low:high]]
        return [unit for unit in found if unit is not None]

    def forget_decided(self, unit: Unit) -> None:
        """What was decided by then needs no memory. It is let go of when the unit is looked at
        again, or is over, a window after its start; at each purge it would cost the most."""
        if unit.emitted or unit.found:
            unit.forget(self._over_ns)

    def waits(self, unit: Unit) -> bool:
        at = len(unit.taken)
        return at < self.line.count and unit.anchor.key in self._waiting[at]

    def evaluated(self, unit: Unit) -> tuple[int, frozenset[Slot] | None]:
        """`hi_ns` and `waits` of an evaluation that finds the walk as it is."""
        line, at = self.line, len(unit.taken)
        until_ns = unit.anchor.time_ns + line.within_ns
        if at == line.count:
            return unit.taken[-1].time_ns, frozenset()
        if line.strict[at] and not self.waits(unit):
            return until_ns, frozenset()
        return until_ns, frozenset(((0, at),))

    def forget(self, unit: Unit) -> None:
        at = len(unit.taken)
        if at < self.line.count:
            self._waiting[at].pop(unit.anchor.key, None)

    def _begins(self, entry: Entry) -> bool:
        if entry.time_ns < self._since_ns:
            return False
        return not self.line.is_tested or self.line.fits((), entry)

    def _is_next(self, last: Entry) -> bool:
        """Whether nothing stands between that one and the newest."""
        everything = self._everything
        return everything is not None and everything.entries[-2] is last

    def _go_on(self, unit: Unit, taken: int) -> None:
        """Walk on behind the first entries of its walk."""
        self.forget(unit)
        del unit.taken[taken:]
        if self.line.walk(unit.taken, self._indexes, self._everything):
            self._waiting[len(unit.taken)][unit.anchor.key] = unit

    def _walk_window(self, entry: Entry, changed: dict[Key, Unit]) -> None:
        starts = self._indexes[0]
        low = starts.before_time(entry.time_ns - self.line.within_ns)
        for anchor in starts.entries[low : starts.up_to_time(entry.time_ns)]:
            before = self._units.get(anchor.key)
            taken = [] if before is None else before.taken[:]
            unit = self.walk(anchor)
            if unit is not None and unit.taken != taken:
                changed[anchor.key] = unit

    def _take_late(self, entry: Entry, j: int, changed: dict[Key, Unit]) -> None:
        """In the walks that have what stands before component j before the entry, and j itself
        behind it, or not yet."""
        line, starts = self.line, self._indexes[0]
        low = starts.before_time(entry.time_ns - line.within_ns)
        for at in range(starts.up_to_time(entry.time_ns) - 1, low - 1, -1):
            unit = self._units.get(starts.entries[at].key)
            if unit is None:
                continue
            taken = unit.taken
            if len(taken) < j or not line.precedes(taken[j - 1], entry):
                continue
            if len(taken) > j and taken[j].key < entry.key:
                if line.is_tested:
                    continue
                break  # so have all starts before this one
            if not line.is_tested or line.fits(taken[:j], entry):
                self._go_on(unit, j)
                changed[unit.anchor.key] = unit
