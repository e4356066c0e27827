"""Tumbling and sliding windows: of a fixed size, at fixed times.

Per key and slice of time (`slices`) one pane is kept; a window is its panes taken together, so
an event costs the same whatever the number of windows it belongs to. A window is emitted when
the frontier has passed its end; emitted again at the end of an instant that brought it more;
and forgotten, pane by pane, when it is final. A window exists if an event possibly belongs
to it.

Bounds: `max_windows` panes. At the bound the oldest panes whose windows have all been emitted
are given up (`given_up`), as if `correct_for` were shorter; if there are none, the event
that would open one more is left out (`refused`): other keys and windows are not touched by
one key too many. What comes for windows that are final is counted in `expired`.

A query that began amid the stream keeps the windows that start before it counts as all others, and
does not emit them (`topology.query.beginning`).

Plain events (`run`) are taken many at a time, and plain windows that close together are emitted in
one loop; for what has been emitted of those nothing is kept as long as their panes stay the same.

Cost per event O(aggregates), where it is unsure also O(slices it touches). Cost per window
emitted: O(aggregates) and, for sliding windows, a look at each of its slices (`sharing`); m
unsure events add O(m log m). Memory: one pane per key and slice, and as much again for what
sliding windows share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from topology.answer.frontier import NOT_YET, Frontier
from topology.model.event import Event
from topology.model.kept import FLAG
from topology.model.operator import Figures, Plain
from topology.model.tables import Grid, NumberAndKey, NumberedTable
from topology.window.cells import Makers, Values
from topology.window.kind import WindowKind
from topology.window.panes import Pane, Panes
from topology.window.reading import Columns
from topology.window.results import CURRENT, Current, WindowEmitter, current_of, emitted_plain
from topology.window.run import Room
from topology.window.settings import TUMBLING, WindowSettings
from topology.window.slices import Slices, SliceTimers

MAX_TOUCHED_SLICES: Final = 1_000
"""One event's: one that is less sure than that blurs the pane it is in by reference time."""

AS_ITS_PANE: Final = (current_of(0, 0), current_of(0, 1))
"""In place of the current result of a tumbling window that was emitted once, unconfirmed or
confirmed, and whose pane has not changed since: its digest can be made of the pane, and mostly is
not needed."""


class Shown(Grid[Current]):
    """The current results that are not final, by the start and key of their windows."""

    def __init__(self, panes: Panes, size_ns: int) -> None:
        super().__init__("shown/", CURRENT)
        self._panes = panes
        self._size_ns = size_ns

    def own(self, start_ns: int, key: str) -> Current | None:
        """Return the current result of a window, its own from here on."""
        current = self.find((start_ns, key))
        if current in AS_ITS_PANE:
            current = self.by_number[start_ns][key] = self._spelled(start_ns, key, current)
        return current

    def _spelled(self, start_ns: int, key: str, current: Current | None) -> Current:
        """Return what AS_ITS_PANE means."""
        measured = self._panes.measured(start_ns, key)
        assert measured is not None
        span_ns = start_ns, start_ns + self._size_ns
        return emitted_plain(span_ns, measured, is_sure=current is AS_ITS_PANE[True])

    def peek(self, key: NumberAndKey) -> Plain:
        current = self.find(key)
        if current in AS_ITS_PANE:
            current = self._spelled(*key, current)
        return None if current is None else self.kind.dump(current)


class Spans(WindowKind):
    """State of one query; see the module's docstring."""

    def __init__(
        self, query: WindowSettings, makers: Makers, frontier: Frontier, emitter: WindowEmitter
    ) -> None:
        super().__init__(query, makers, frontier, emitter)
        windows = query.windows
        self._size_ns = windows.size_ns
        self._slices = Slices(windows.size_ns, windows.step_ns)
        self._panes = Panes(query, makers, self._slices)
        self._has_plain_panes = (
            makers.is_tallied and windows.kind == TUMBLING and not self._early_ns
        )
        self._zone_ns = query.zone_ns

        self._shown = Shown(self._panes, windows.size_ns)
        self._changed: NumberedTable[bool] = NumberedTable("touched/", FLAG)
        self._touched = self._changed.rows
        self.tables = [self._panes, self._shown, self._changed]
        self._closed_ns = NOT_YET
        self._emitted_ns = NOT_YET  # the latest end of a window that was emitted
        self._timers = SliceTimers(self._slices)

    # -- taking events in --------------------------------------------------------------------------

    def add(self, event: Event, key: str, values: Values) -> None:
        ref_ns = event.ref_time_ns
        if self._heeds_errors:
            reach_ns = max(event.error_ns, self._zone_ns)
            if reach_ns:
                touched = self._slices.within(
                    ref_ns - reach_ns, ref_ns + reach_ns, MAX_TOUCHED_SLICES
                )
                if len(touched) > 1:
                    self._add_unsure(event, key, values, touched)
                    return
        slice_ns = self._slices.at(ref_ns)
        pane = self._pane(slice_ns, key)
        if pane is None:
            return
        pane.add(values, event)
        if self._mark(slice_ns, key):
            self.expired += 1

    def room(self, ref_time_ns: int) -> Room | None:
        """For plain events (`run`), in the slice that holds the instant; None if there are none."""
        slice_ns = self._slices.at(ref_time_ns)
        if self._touched or slice_ns not in self._panes.by_number:
            return None
        end_ns = self._slices.after(slice_ns)
        limit_ns = min(end_ns, self._timers.room_ns(self._frontier))
        vacancies = self._max_windows - self._panes.count
        if self._frontier.watermark_ns >= limit_ns or vacancies <= 0:
            return None
        return Room(slice_ns, end_ns, limit_ns, vacancies)

    def take(self, slice_ns: int, found: dict[str, Columns]) -> None:
        """Plain events of the slice, by key."""
        panes = self._panes.by_number[slice_ns]
        is_followed = self._panes.is_followed
        for key, columns in found.items():
            pane = panes.get(key)
            if pane is None:
                pane = self._panes.open(slice_ns, key)
            pane.take(columns.n, columns.values)
            if is_followed:
                self._panes.note((slice_ns, key))

    def _add_unsure(self, event: Event, key: str, values: Values, touched: list[int]) -> None:
        too_many = len(touched) == MAX_TOUCHED_SLICES
        own_ns = self._slices.at(event.ref_time_ns)
        expired = False
        for slice_ns in [own_ns] if too_many else touched:
            pane = self._pane(slice_ns, key)
            if pane is None:
                continue
            span_ns = slice_ns, self._slices.after(slice_ns)
            if too_many and not pane.blurred:
                pane.blur(span_ns)
            pane.add_unsure(event, values, span_ns, self._max_edge_events)
            expired = self._mark(slice_ns, key) or expired
        if expired:
            self.expired += 1

    def _pane(self, slice_ns: int, key: str) -> Pane | None:
        """To be changed."""
        pane = self._panes.find((slice_ns, key))
        if pane is None:
            return self._open(slice_ns, key)
        if slice_ns in self._shown.by_number:
            self._shown.own(slice_ns, key)
        return pane

    def _open(self, slice_ns: int, key: str) -> Pane | None:
        last_end_ns = self._slices.last_end(slice_ns)
        if self._panes.count >= self._max_windows and last_end_ns > self._frontier.final_ns:
            self._make_room()
        if last_end_ns <= self._frontier.final_ns:
            self.expired += 1
            return None
        if self._panes.count >= self._max_windows:
            self.refused += 1
            return None
        if slice_ns not in self._panes.by_number:
            self._timers.expect(slice_ns, self._closed_ns)
        return self._panes.open(slice_ns, key)

    def _make_room(self) -> None:
        oldest_ns = self._timers.ending.next_ns
        if oldest_ns <= self._frontier.closed_ns:
            self._emit_all(self._closed(), is_closed=True)
            before = self._panes.count
            self._frontier.give_up(oldest_ns)
            self.settle()
            self.given_up += before - self._panes.count

    def _mark(self, slice_ns: int, key: str) -> bool:
        """Decide whether it is expired: a window that it belongs to is final. Note what has to be
        emitted and saved."""
        self._panes.note((slice_ns, key))
        closed_ns = self._closed_ns
        if slice_ns < self._emitted_ns:
            self._panes.changed(key)
        is_early = self._early_ns > 0
        if not is_early and self._slices.after(slice_ns) > closed_ns:
            return False
        expired = False
        for start_ns in self._slices.windows(slice_ns):
            end_ns = start_ns + self._size_ns
            if end_ns <= self._frontier.final_ns:
                expired = True
            elif (end_ns <= closed_ns or is_early) and (start_ns, key) not in self._touched:
                self._touched[start_ns, key] = True
                self._changed.note((start_ns, key))
        return expired

    # -- emitting ---------------------------------------------------------------------------------

    def settle(self) -> None:
        frontier = self._frontier
        due: list[tuple[int, str]] = []
        if self._touched:
            due = self._closed()
        if frontier.goal_ns > self._closed_ns:
            before_ns, self._closed_ns = self._closed_ns, frontier.goal_ns
            closing = self._timers.closing(before_ns, self._closed_ns)
            if self._has_plain_panes and not self._touched:
                for start_ns in sorted(closing):
                    self._close(start_ns)
            else:
                due += [(start, key) for start in closing for key in self._panes.keys(start)]
        if due:
            self._emit_all(due, is_closed=True)
        if frontier.final_ns >= self._timers.next_final_ns:
            self._retire()

    def is_due(self, frontier: Frontier) -> bool:
        return self._timers.is_due(frontier.goal_ns, frontier.final_ns)

    def emit_early(self) -> None:
        self._emit_all(self._touched, is_closed=False)

    @property
    def has_fresh(self) -> bool:
        return bool(self._touched)

    def _closed(self) -> list[tuple[int, str]]:
        """Return the windows that have changed and were closed before."""
        size_ns = self._size_ns
        return [window for window in self._touched if window[0] + size_ns <= self._closed_ns]

    def _emit_all(self, windows: Iterable[tuple[int, str]], *, is_closed: bool) -> None:
        for window in sorted(windows):
            self._changed.forget(window)
            self._emit(window, is_closed=is_closed)

    def _close(self, start_ns: int) -> None:
        """The windows that start there, by key; those of plain panes together."""
        panes = self._panes.by_number.get(start_ns, {})
        keys: list[str] = []
        for key in sorted(panes):
            pane = panes[key]
            if pane.unsure is None and not pane.blurred:
                keys.append(key)
                continue
            self._emit_plain(start_ns, keys)
            keys = []
            self._emit((start_ns, key), is_closed=True)
        self._emit_plain(start_ns, keys)

    def _emit_plain(self, start_ns: int, keys: Sequence[str]) -> None:
        """As `_emit`, of windows that close, of which nothing was emitted before."""
        if not keys or start_ns < self._emitter.beginning.since_ns:
            return
        panes = self._panes.by_number[start_ns]
        values = [self._makers.values(panes[key]) for key in keys]
        end_ns = start_ns + self._size_ns
        self._emitted_ns = max(self._emitted_ns, end_ns)
        is_final = end_ns <= self._frontier.final_ns
        is_sure = self._emitter.emit_plain(keys, values, start_ns, end_ns, is_final=is_final)
        if not is_final:
            self._keep(start_ns, keys, AS_ITS_PANE[is_sure])

    def _keep(self, start_ns: int, keys: Sequence[str], current: Current) -> None:
        shown = self._shown.by_number.get(start_ns)
        if shown is None:
            shown = self._shown.by_number[start_ns] = {}
            self._timers.expect_final(start_ns)
        for key in keys:
            shown[key] = current
            if self._shown.is_followed:
                self._shown.note((start_ns, key))

    def _emit(self, window: tuple[int, str], *, is_closed: bool) -> None:
        start_ns, key = window
        end_ns = start_ns + self._size_ns
        self._emitted_ns = max(self._emitted_ns, end_ns)
        if start_ns < self._emitter.beginning.since_ns:
            return
        measured = self._panes.measured(start_ns, key)
        if measured is None:
            return
        is_final = end_ns <= self._frontier.final_ns
        current = self._emitter.emit(
            key,
            start_ns,
            (start_ns, end_ns),
            self._shown.own(start_ns, key),
            measured,
            is_closed=is_closed,
            is_final=is_final,
            is_proven=end_ns <= self._frontier.proven_ns,
        )
        if is_final:
            self._forget(start_ns, key)
        else:
            self._keep(start_ns, (key,), current)

    def _forget(self, start_ns: int, key: str) -> None:
        if self._shown.by_number.get(start_ns, {}).pop(key, None) is not None:
            self._shown.note((start_ns, key))

    # -- forgetting --------------------------------------------------------------------------------

    def _retire(self) -> None:
        """Forget what is final; where the query asks for it, emit it as final."""
        final_ns = self._frontier.final_ns
        for start_ns in self._timers.taken(self._timers.emitted, final_ns):
            if self._emits_finals or self._shown.is_followed:
                for key in sorted(self._shown.by_number[start_ns]):
                    if self._emits_finals:
                        self._emit((start_ns, key), is_closed=True)
                    self._shown.note((start_ns, key))
            del self._shown.by_number[start_ns]
        for slice_ns in self._timers.taken(self._timers.ending, final_ns):
            keys = self._panes.drop(slice_ns)
            if self._panes.is_followed:
                for key in keys:
                    self._panes.note((slice_ns, key))
        self._panes.settled(self._closed_ns)

    # -- state -------------------------------------------------------------------------------------

    def figures(self) -> Figures:
        return {
            "windows": self._panes.count,
            "not_final": sum(len(keys) for keys in self._shown.by_number.values()),
            **super().figures(),
        }

    def loaded(self) -> None:
        self._closed_ns = self._frontier.goal_ns
        for slice_ns in self._panes.by_number:
            self._timers.expect(slice_ns, self._closed_ns)
        for start_ns in self._shown.by_number:
            self._timers.expect_final(start_ns)
