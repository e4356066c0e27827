"""Computes tumbling and sliding windows, which have a fixed size and fixed times.

Each key has one pane per slice of time (`slices`). A window combines its panes, so the cost of an
event does not depend on how many windows the event belongs to. A window is emitted when the
frontier has passed its end, and again at the end of each instant that changed it. It is forgotten,
pane by pane, when it is final. A window exists if an event may belong to it.

Bounds: at most `max_windows` panes. At the bound the oldest panes whose windows have all been
emitted are given up (`given_up`), as if `correct_for` were shorter. If there are none, an event
that would open a pane is left out (`refused`). So one key too many does not affect other keys and
windows. Events for final windows are counted in `expired`.

A query that began in the middle of the stream keeps windows that started earlier, but does not emit
them (`topology.answer.query.beginning`).

Plain events (`run`) are processed in batches, and plain windows that close together are emitted in
one loop. The results of these windows are not stored while their panes do not change.

Cost: O(aggregates) per event, for each slice that it may be in. An emitted window costs
O(aggregates), and O(slices of the window) more if it slides (`panes`). In addition, m uncertain
events cost O(m log m). Memory: one pane per key and slice, and as much again for the sums of
sliding windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from topology.answer.frontier import NOT_YET, Frontier
from topology.base.event import Event
from topology.base.operator import Figures, Plain
from topology.queries.window.cells import Makers, Values
from topology.queries.window.kind import WindowKind
from topology.queries.window.local_slices import LocalSlices
from topology.queries.window.panes import Pane, Panes
from topology.queries.window.reading import Columns
from topology.queries.window.results import (
    CURRENT,
    Current,
    WindowEmitter,
    current_of,
    make_plain_result,
)
from topology.queries.window.run import Room
from topology.queries.window.settings import TUMBLING, Window, WindowQuery
from topology.queries.window.slices import Slices, SliceTimers
from topology.queries.window.unsure.measure import Measured
from topology.state.saved import FLAG
from topology.state.tables import Grid, NumberAndKey, NumberedTable

MAX_TOUCHED_SLICES: Final = 1_000
"""The number of slices at which an event blurs the pane of its corrected timestamp.

An event that may be in fewer slices is added to all of them.
"""

AS_ITS_PANE: Final = (current_of(0, 0), current_of(0, 1))
"""Placeholders for the current results of unchanged tumbling windows, uncertain and certain.

Such a window was emitted once, and its pane has not changed after that. The digest of its result
can be computed from the pane, and is rarely needed.
"""


class Shown(Grid[Current]):
    """The current results that are not final, by the start and the key of their windows."""

    def __init__(self, panes: Panes, slices: Slices) -> None:
        super().__init__("shown/", CURRENT)
        self._panes = panes
        self._slices = slices

    def own(self, start_ns: int, key: str) -> Current | None:
        """Return the current result of a window; replace a placeholder by a real result."""
        current = self.find((start_ns, key))
        if current in AS_ITS_PANE:
            current = self.by_number[start_ns][key] = self._make_result(start_ns, key, current)
        return current

    def _make_result(self, start_ns: int, key: str, current: Current | None) -> Current:
        """Return the current result that a placeholder stands for (`AS_ITS_PANE`)."""
        measured = self._panes.measure(start_ns, key)
        assert measured is not None
        span_ns = start_ns, self._slices.end(start_ns)
        return make_plain_result(span_ns, measured, is_sure=current is AS_ITS_PANE[True])

    def peek(self, key: NumberAndKey) -> Plain:
        current = self.find(key)
        if current in AS_ITS_PANE:
            current = self._make_result(*key, current)
        return None if current is None else self.kind.dump(current)


class Spans(WindowKind):
    """The tumbling or sliding windows of one query."""

    def __init__(
        self, query: WindowQuery, makers: Makers, frontier: Frontier, emitter: WindowEmitter
    ) -> None:
        super().__init__(query, makers, frontier, emitter)
        windows = query.window
        self._slices = slices_of(windows)
        self._panes = Panes(makers, self._measure, self._slices)
        self._has_plain_panes = (
            makers.is_tallied and windows.kind == TUMBLING and not self._early_ns
        )
        self._zone_ns = query.zone_ns

        self._shown = Shown(self._panes, self._slices)
        self._changed: NumberedTable[bool] = NumberedTable("touched/", FLAG)
        self._touched = self._changed.rows
        self.tables = [self._panes, self._shown, self._changed]
        self._closed_ns = NOT_YET
        self._emitted_ns = NOT_YET  # The latest end of a window that was due.
        self._timers = SliceTimers(self._slices)

    # -- Input -------------------------------------------------------------------------------------

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
        pane = self._ensure_pane(slice_ns, key)
        if pane is None:
            return
        pane.add(values, event)
        if self._mark_changed(slice_ns, key):
            self.expired += 1

    def room(self, ref_time_ns: int) -> Room | None:
        """Return the limits of plain events (`run`) in the slice that contains the instant.

        The result is None if no event in the slice can be plain.
        """
        slice_ns = self._slices.at(ref_time_ns)
        if self._touched or slice_ns not in self._panes.by_number:
            return None
        end_ns = self._slices.after(slice_ns)
        limit_ns = min(end_ns, self._timers.next_due_ns(self._frontier))
        vacancies = self._max_windows - self._panes.count
        if self._frontier.watermark_ns >= limit_ns or vacancies <= 0:
            return None
        return Room(slice_ns, end_ns, limit_ns, vacancies)

    def take(self, slice_ns: int, found: dict[str, Columns]) -> None:
        """Add the plain events of a slice, by key."""
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
            pane = self._ensure_pane(slice_ns, key)
            if pane is None:
                continue
            span_ns = slice_ns, self._slices.after(slice_ns)
            if too_many and not pane.blurred:
                pane.blur(span_ns)
            pane.add_unsure(event, values, span_ns, self._max_edge_events)
            expired = self._mark_changed(slice_ns, key) or expired
        if expired:
            self.expired += 1

    def _ensure_pane(self, slice_ns: int, key: str) -> Pane | None:
        """Return the pane that an event changes, or None if the event is expired or refused."""
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
            self._timers.arm_slice(slice_ns, self._closed_ns)
        return self._panes.open(slice_ns, key)

    def _make_room(self) -> None:
        oldest_ns = self._timers.ending.next_ns
        if oldest_ns <= self._frontier.closed_ns:
            self._emit_all(self._list_closed(), is_closed=True)
            before = self._panes.count
            self._frontier.force_final(oldest_ns)
            self.settle()
            self.given_up += before - self._panes.count

    def _mark_changed(self, slice_ns: int, key: str) -> bool:
        """Mark a changed pane and its windows, and return whether any of these windows is final.

        A marked pane is saved, and its marked windows are emitted again. An event for a final
        window counts as expired.
        """
        self._panes.note((slice_ns, key))
        closed_ns = self._closed_ns
        if slice_ns < self._emitted_ns:
            self._panes.drop_sums(key)
        is_early = self._early_ns > 0
        if not is_early and self._slices.after(slice_ns) > closed_ns:
            return False
        expired = False
        for start_ns in self._slices.windows(slice_ns):
            end_ns = self._slices.end(start_ns)
            if end_ns <= self._frontier.final_ns:
                expired = True
            elif (end_ns <= closed_ns or is_early) and (start_ns, key) not in self._touched:
                self._touched[start_ns, key] = True
                self._changed.note((start_ns, key))
        return expired

    # -- Emission ----------------------------------------------------------------------------------

    def settle(self) -> None:
        frontier = self._frontier
        due: list[tuple[int, str]] = []
        if self._touched:
            due = self._list_closed()
        if frontier.goal_ns > self._closed_ns:
            before_ns, self._closed_ns = self._closed_ns, frontier.goal_ns
            closing = self._timers.take_closing(before_ns, self._closed_ns)
            if self._has_plain_panes and not self._touched:
                for start_ns in sorted(closing):
                    self._close(start_ns)
            else:
                due += self._closing(closing, before_ns)
        if due:
            self._emit_all(due, is_closed=True)
        final_ns, timers = frontier.final_ns, self._timers
        if final_ns >= timers.emitted.next_ns or final_ns >= timers.ending.next_ns:
            self._forget_final()

    def _closing(self, starts: Iterable[int], before_ns: int) -> list[tuple[int, str]]:
        """Return the windows to emit: those with these starts, which ended after `before_ns`."""
        return [(start, key) for start in starts for key in self._panes.keys(start)]

    def is_due(self, frontier: Frontier) -> bool:
        return self._timers.is_due(frontier.goal_ns, frontier.final_ns)

    def emit_early(self) -> None:
        self._emit_all(self._touched, is_closed=False)

    @property
    def has_fresh(self) -> bool:
        return bool(self._touched)

    def _list_closed(self) -> list[tuple[int, str]]:
        """Return the closed windows that have changed since they were emitted."""
        end = self._slices.end
        return [window for window in self._touched if end(window[0]) <= self._closed_ns]

    def _emit_all(self, windows: Iterable[tuple[int, str]], *, is_closed: bool) -> None:
        for window in sorted(windows):
            self._changed.forget(window)
            self._emit(window, is_closed=is_closed)

    def _close(self, start_ns: int) -> None:
        """Emit the windows that start at `start_ns`, by key; plain ones are emitted together."""
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
        """Emit closing windows without an earlier result; the results equal those of `_emit`."""
        if not keys or start_ns < self._beginning.since_ns:
            return
        panes = self._panes.by_number[start_ns]
        values = [self._makers.values(panes[key]) for key in keys]
        end_ns = self._slices.end(start_ns)
        self._emitted_ns = max(self._emitted_ns, end_ns)
        is_final = end_ns <= self._frontier.final_ns
        is_sure = self._emitter.emit_plain(keys, values, start_ns, end_ns, is_final=is_final)
        if not is_final:
            self._store_shown(start_ns, keys, AS_ITS_PANE[is_sure])

    def _store_shown(self, start_ns: int, keys: Sequence[str], current: Current) -> None:
        shown = self._shown.by_number.get(start_ns)
        if shown is None:
            shown = self._shown.by_number[start_ns] = {}
            self._timers.arm_final(start_ns)
        for key in keys:
            shown[key] = current
            if self._shown.is_followed:
                self._shown.note((start_ns, key))

    def _emit(self, window: tuple[int, str], *, is_closed: bool) -> None:
        start_ns, key = window
        end_ns = self._slices.end(start_ns)
        self._emitted_ns = max(self._emitted_ns, end_ns)
        if start_ns < self._beginning.since_ns:
            return
        measured = self._measure_window(start_ns, key)
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
            self._forget_shown(start_ns, key)
        else:
            self._store_shown(start_ns, (key,), current)

    def _measure_window(self, start_ns: int, key: str) -> Measured | None:
        return self._panes.measure(start_ns, key)

    def _forget_shown(self, start_ns: int, key: str) -> None:
        if self._shown.by_number.get(start_ns, {}).pop(key, None) is not None:
            self._shown.note((start_ns, key))

    # -- Cleanup -----------------------------------------------------------------------------------

    def _forget_final(self) -> None:
        """Forget final windows; before that, emit them as final if the query asks for finals."""
        final_ns = self._frontier.final_ns
        for start_ns in sorted(self._timers.emitted.due(final_ns + 1)):
            if self._emits_finals or self._shown.is_followed:
                for key in sorted(self._shown.by_number[start_ns]):
                    if self._emits_finals:
                        self._emit((start_ns, key), is_closed=True)
                    self._shown.note((start_ns, key))
            del self._shown.by_number[start_ns]
        slices = sorted(self._timers.ending.due(final_ns + 1))
        self._keep_past(slices)
        for slice_ns in slices:
            keys = self._panes.drop(slice_ns)
            if self._panes.is_followed:
                for key in keys:
                    self._panes.note((slice_ns, key))
        self._panes.forget_closed(self._closed_ns)

    def _keep_past(self, slices: Sequence[int]) -> None:
        """Note that these slices are dropped next; plain windows need nothing of them."""

    # -- State -------------------------------------------------------------------------------------

    def figures(self) -> Figures:
        return {
            "windows": self._panes.count,
            "not_final": sum(len(keys) for keys in self._shown.by_number.values()),
            **super().figures(),
        }

    def load(self) -> None:
        self._closed_ns = self._frontier.goal_ns
        for slice_ns in self._panes.by_number:
            self._timers.arm_slice(slice_ns, self._closed_ns)
        for start_ns in self._shown.by_number:
            self._timers.arm_final(start_ns)


def slices_of(windows: Window) -> Slices:
    """Return the slices of windows with a fixed size."""
    return LocalSlices(windows) if windows.is_local else Slices(windows.size_ns, windows.step_ns)
