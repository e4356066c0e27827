"""Computes count windows: each has a fixed number of consecutive events of one key.

Events are ordered by corrected timestamp; ties are ordered by source, epoch and sequence number. So
a late event shifts all later windows, and those that were emitted are computed again and updated.
For this purpose the events of a key are kept, with their values, until they are final. Then they
are folded into the cells of their window. A key keeps at most `max_recount` events. Beyond that the
oldest are folded early, and events that precede them are counted in `expired`.

A window is identified by its number within its key, from 0, because its first event may change. It
covers [first event, last event + 1 ns). It is emitted when it is full and the frontier has passed
its events. A window that never fills is never emitted, not even at the end of the input.

A result is certain if the window's events certainly follow all events before them and precede all
events after them. Otherwise its bounds are None.

A query that began in the middle of the stream leaves out events before the first instant from which
it has seen all events (`topology.answer.query.beginning`). Its windows begin relative to that
instant, so an uninterrupted run would have divided the events differently. Therefore no window is
confirmed, because a replay could contradict it. The ids contain the instant, so they differ from
those of any earlier run.

Bounds: at most `max_windows` keys; the events of further keys are left out (`refused`). Keys are
never forgotten, because their counts would start again at 0. Cost: O(log kept) per event, O(kept)
per emitted window.
"""

from __future__ import annotations

from topology.answer.frontier import Frontier
from topology.base.event import Event
from topology.base.operator import Figures
from topology.base.timers import Timers
from topology.queries.window.cells import Makers, Values
from topology.queries.window.counted import Counted, counted_shape, place
from topology.queries.window.kind import WindowKind
from topology.queries.window.results import WindowEmitter
from topology.queries.window.settings import WindowQuery
from topology.queries.window.unsure.event import make_unsure
from topology.state.tables import Table


class CountedKeys(Table[str, Counted]):
    """A table of the events of each key, as `Counted`."""

    def __init__(self, query: WindowQuery, makers: Makers) -> None:
        super().__init__("count/", counted_shape(makers))
        self._size = query.window.events
        self._makers = makers

    def fresh(self, key: str) -> Counted:
        return Counted(self._size, self._makers.row())


class Counting(WindowKind):
    """The count windows of one query."""

    def __init__(
        self, query: WindowQuery, makers: Makers, frontier: Frontier, emitter: WindowEmitter
    ) -> None:
        super().__init__(query, makers, frontier, emitter)
        self._size = query.window.events
        self._max_recount = query.max_recount
        self._counted = CountedKeys(query, makers)
        self._keys = self._counted.rows
        self.tables = [self._counted]
        self._touched: dict[str, None] = {}
        self._closing: Timers[str] = Timers()
        self._ending: Timers[str] = Timers()
        self.kept = 0

    # -- Input -------------------------------------------------------------------------------------

    def add(self, event: Event, key: str, values: Values) -> None:
        if event.ref_time_ns < self._beginning.since_ns:
            return
        counted = self._keys.get(key)
        if counted is None:
            if len(self._keys) >= self._max_windows:
                self.refused += 1
                return
            counted = self._keys[key] = Counted(self._size, self._makers.row())
            self._counted.note(key)
        mine = make_unsure(event, values)
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
            # There is no room, so the window is emitted before the frontier has passed it.
            if self._count_foldable(counted) == 0:
                counted.emitted += 1
            self._emit_due(key, counted)
            self._fold(key, counted, min(1, self._count_foldable(counted)))

    # -- Emission ----------------------------------------------------------------------------------

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
            final = counted.count_passed(self._frontier.final_ns)
            self._fold(key, counted, min(final, self._count_foldable(counted)))
            self._arm_timers(key, counted)

    def is_due(self, frontier: Frontier) -> bool:
        return (
            bool(self._touched)  # `settle` examines these keys and arms their timers.
            or self._closing.next_ns <= frontier.goal_ns
            or self._ending.next_ns < frontier.final_ns
        )

    def _count_foldable(self, counted: Counted) -> int:
        """Return how many more events may be folded: all before the last event of the next window.

        The next window is the first one that has not been emitted.
        """
        return (counted.emitted + 1) * self._size - 1 - counted.folded

    def _arm_timers(self, key: str, counted: Counted) -> None:
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
        is_midstream = self._beginning.is_midstream
        if is_midstream:
            self._emitter.prefix = f"{self._beginning.since_ns}/"
        is_apart = counted.is_apart(number) and not is_midstream
        current = self._emitter.emit(
            key,
            number,
            (counted.first(number), counted.members(number)[-1].ref_time_ns + 1),
            counted.current.get(number),
            self._measure.plain(row) if is_apart else self._measure.measure_blurred(row, ()),
            is_closed=latest_ns <= self._frontier.goal_ns,
            is_final=is_final,
            is_proven=latest_ns <= self._frontier.proven_ns,
        )
        if is_final:
            counted.current.pop(number, None)
        else:
            counted.current[number] = current
        self._counted.note(key)

    # -- Cleanup -----------------------------------------------------------------------------------

    def _fold(self, key: str, counted: Counted, n: int) -> None:
        """Fold the first `n` kept events, which are final.

        A window becomes final when its last event is folded.
        """
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

    # -- State -------------------------------------------------------------------------------------

    def figures(self) -> Figures:
        return {"windows": len(self._keys), "retained": self.kept, **super().figures()}

    def load(self) -> None:
        for key, counted in self._keys.items():
            self.kept += len(counted.kept)
            if counted.is_touched:
                self._touched[key] = None
            self._arm_timers(key, counted)
