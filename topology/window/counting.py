"""Count windows: of each key every so many events, in their order.

The order is that of reference times (ties by source, epoch and sequence), so a late event
shifts the windows after it: those that were emitted are counted anew and updated. For that the
events of a key are kept, with their values, until they are final; then they are folded into
the cells of the window they are in. At most `max_recount` are kept a key: beyond, the oldest
are folded early, and what comes before them is counted in `expired`.

A window is known by its number within its key, from 0, as its first event may change; it
lies in [first event, last event + 1 ns). It is emitted when it is full and the frontier has
passed its events. What is never full is never emitted, at the end of the input neither.

It is sure if its events certainly come after all before them and before all behind; else its
bounds are not given.

A query that began amid the stream counts the events from the instant on from which it has all
(`topology.query.beginning`); what lies before is left out. Where its windows begin follows from
that instant, not from the stream: an unbroken run would have cut elsewhere. So each is emitted, but
none as confirmed, and the instant is part of the ids: no earlier life of the query had them.
To emit nothing would be as true, and of no use; to call them confirmed would be a promise that a
replay breaks.

Bounds: `max_windows` keys; the events of further ones are left out (`refused`). Keys are not
forgotten: their count would begin anew. Cost per event O(log kept), per window emitted O(kept).
"""

from __future__ import annotations

from topology.answer.frontier import Frontier
from topology.model.event import Event
from topology.model.operator import Figures
from topology.model.tables import Table
from topology.model.timers import Timers
from topology.window.cells import Makers, Values
from topology.window.counted import Counted, counted_shape, place
from topology.window.kind import WindowKind
from topology.window.results import WindowEmitter
from topology.window.settings import WindowSettings
from topology.window.unsure.event import unsure_of
from topology.window.unsure.measure import Measure


class CountedKeys(Table[str, Counted]):
    """What is counted of each key."""

    def __init__(self, query: WindowSettings, makers: Makers) -> None:
        super().__init__("count/", counted_shape(makers))
        self._size = query.windows.events
        self._makers = makers

    def fresh(self, key: str) -> Counted:
        return Counted(self._size, self._makers.row())


class Counting(WindowKind):
    """State of one query; see the module's docstring."""

    def __init__(
        self, query: WindowSettings, makers: Makers, frontier: Frontier, emitter: WindowEmitter
    ) -> None:
        super().__init__(query, makers, frontier, emitter)
        self._size = query.windows.events
        self._max_recount = query.max_recount
        self._measure = Measure(query, makers)
        self._counted = CountedKeys(query, makers)
        self._keys = self._counted.rows
        self.tables = [self._counted]
        self._touched: dict[str, None] = {}
        self._closing: Timers[str] = Timers()
        self._ending: Timers[str] = Timers()
        self.kept = 0

    # -- taking events in --------------------------------------------------------------------------

    def add(self, event: Event, key: str, values: Values) -> None:
        if event.ref_time_ns < self._emitter.beginning.since_ns:
            return
        counted = self._keys.get(key)
        if counted is None:
            if len(self._keys) >= self._max_windows:
                self.refused += 1
                return
            counted = self._keys[key] = Counted(self._size, self._makers.row())
            self._counted.note(key)
        mine = unsure_of(event, values)
        if not self._heeds_errors:
            mine.error_ns = 0
        if mine.ref_time_ns < self._frontier.final_ns or place(mine) < counted.floor:
            self.expired += 1
            return
        counted.insert(mine)
        self.kept += 1
        self._touched[key] = None
        counted.is_touched = True
        self._counted.note(key)
        if len(counted.kept) > self._max_recount:
            if self._foldable(counted) == 0:  # for want of room, before the frontier is there
                counted.emitted += 1
            self._emit_due(key, counted)
            self._fold(key, counted, min(1, self._foldable(counted)))

    # -- emitting ---------------------------------------------------------------------------------

    def settle(self) -> None:
        due = {*self._closing.due(self._frontier.goal_ns + 1), *self._touched}
        due.update(self._ending.due(self._frontier.final_ns))
        for key in sorted(due):
            counted = self._keys[key]
            if counted.is_touched:
                counted.is_touched = False
                del self._touched[key]
                self._counted.note(key)
            self._emit_due(key, counted)
            final = counted.passed(self._frontier.final_ns)
            self._fold(key, counted, min(final, self._foldable(counted)))
            self._await(key, counted)

    def is_due(self, frontier: Frontier) -> bool:
        return (
            bool(self._touched)  # looked at, and its timers armed, when the instant is over
            or self._closing.next_ns <= frontier.goal_ns
            or self._ending.next_ns < frontier.final_ns
        )

    def _foldable(self, counted: Counted) -> int:
        """All but the last event of the first window that has not been emitted."""
        return (counted.emitted + 1) * self._size - 1 - counted.folded

    def _await(self, key: str, counted: Counted) -> None:
        if counted.emitted < counted.full:
            self._closing.arm(key, counted.latest(counted.emitted))
        if counted.current and self._emits_finals:
            self._ending.arm(key, counted.latest(min(counted.current)))

    def _emit_due(self, key: str, counted: Counted) -> None:
        number = counted.anew_from
        while number < counted.full:
            if number >= counted.emitted and not self._may_emit(counted.latest(number)):
                break
            is_given_up = self._frontier.waits_for_final and number not in counted.current
            self._emit(key, counted, number, is_final=is_given_up)
            number += 1
        if number != counted.anew_from:
            counted.anew_from = number
            counted.emitted = max(counted.emitted, number)
            self._counted.note(key)

    def _may_emit(self, latest_ns: int) -> bool:
        frontier = self._frontier
        if frontier.waits_for_final:
            return latest_ns < frontier.final_ns
        return latest_ns <= frontier.goal_ns

    def _emit(self, key: str, counted: Counted, number: int, *, is_final: bool) -> None:
        latest_ns = counted.latest(number)
        is_final = is_final or latest_ns < self._frontier.final_ns
        row = counted.row_of(number, self._makers)
        beginning = self._emitter.beginning
        if beginning.is_amid:
            self._emitter.prefix = f"{beginning.since_ns}/"
        is_apart = counted.is_apart(number) and not beginning.is_amid
        current = self._emitter.emit(
            key,
            number,
            (counted.first(number), counted.members(number)[-1].ref_time_ns + 1),
            counted.current.get(number),
            self._measure.plain(row) if is_apart else self._measure.blurred(row, ()),
            is_closed=latest_ns <= self._frontier.goal_ns,
            is_final=is_final,
            is_proven=latest_ns <= self._frontier.proven_ns,
        )
        if is_final:
            counted.current.pop(number, None)
        else:
            counted.current[number] = current
        self._counted.note(key)

    # -- forgetting --------------------------------------------------------------------------------

    def _fold(self, key: str, counted: Counted, n: int) -> None:
        """The first `n` kept ones are final; with the last of a window, the window is."""
        if n <= 0:
            return
        for number in sorted(counted.current):
            if (number + 1) * self._size > counted.folded + n:
                break
            if self._emits_finals:
                self._emit(key, counted, number, is_final=True)
            counted.current.pop(number, None)
        counted.fold(n, self._makers)
        self.kept -= n
        self._counted.note(key)

    # -- state -------------------------------------------------------------------------------------

    def figures(self) -> Figures:
        return {"windows": len(self._keys), "retained": self.kept, **super().figures()}

    def loaded(self) -> None:
        for key, counted in self._keys.items():
            self.kept += len(counted.kept)
            if counted.is_touched:
                self._touched[key] = None
            self._await(key, counted)
