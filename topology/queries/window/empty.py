"""Computes windows of fixed times that depend on earlier events of their key.

These are windows without events, if the query asks for them (`empty`), and means by time
(`time_avg`, in `aggregates.by_time`). For each key a `KeyPast` has the slices with events that are
kept, and the last one before.

Windows without events follow the last window that contains the key's last event. A window that
begins less than `for` after the first of them is emitted. So it depends on the events near it
alone, not on when they arrived. A late event corrects such a window as any other. Later windows
that the event adds or changes are emitted in the same instant. At the end of the input, a window
without events is emitted if it begins at the watermark or before.

A value that comes from before the window is certain if no event is missing since then. An event
that has not come within `correct_for` is missing for ever, and from then on only values after it
are certain (`Doubt`). With time errors, the bounds of a mean are the smallest and the largest value
that may hold in the window.

Bounds: at most `max_windows` keys, beyond which the events of new keys are left out (`refused`). If
more than `max_windows` results are not final, the oldest become so (`given_up`). A key is forgotten
when its past cannot matter to a window that is not final.

Cost: as in `spans`, without its short path for plain events. In addition, an event in order costs
O(log slices of the key). A late one costs O(own windows up to the next event with the same fields).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from topology.answer.frontier import FOR_EVER, NOT_YET, Frontier
from topology.base.event import Event
from topology.base.operator import Figures
from topology.base.timers import Timers
from topology.queries.window.aggregates.by_time import (
    COURSE,
    POINT,
    Area,
    Course,
    Point,
    earliest_ns,
    find_last_points,
    latest_ns,
)
from topology.queries.window.cells import Makers, Values
from topology.queries.window.results import WindowEmitter
from topology.queries.window.settings import LAST, ZERO, WindowQuery
from topology.queries.window.spans import Spans
from topology.queries.window.unsure.measure import Measured
from topology.state.saved import BIG, FLAG, INT, PLAIN, TEXT, dict_of, list_of, optional, record
from topology.state.tables import Grid, Table

COUNTS: Final = ("count", "distinct")
"""The aggregates that are 0 in each window without events."""

Mean = tuple[Any, Any, Any, bool]
"""A mean by time, its bounds, and whether it is certain."""


class KeyPast:
    """The events of a key that later windows depend on.

    Attributes:
        slices: The kept slices with events by corrected timestamp, and the last one before them.
        error_ns: The largest time error of these events.
        before: For each field of `time_avg`, the last values before the kept slices.
        last: The last window with events before the kept slices, for `empty: last`.
        is_cut: Whether `before` lacks values that may be the last because of their time errors.
    """

    __slots__ = ("before", "error_ns", "is_cut", "last", "slices")

    def __init__(
        self,
        slices: list[int],
        error_ns: int,
        before: list[list[Point]],
        last: Measured | None = None,
        is_cut: bool = False,
    ) -> None:
        self.slices = slices
        self.error_ns = error_ns
        self.before = before
        self.last = last
        self.is_cut = is_cut


class MissingBound:
    """The time up to which events may be missing for ever.

    Attributes:
        is_behind: Whether the completeness frontier is behind the watermark.
        stuck_ns: That frontier, when it was last behind.
        is_lost: Whether events after `stuck_ns` are missing for ever.
        until_ns: The watermark at which such events were last given up.
    """

    __slots__ = ("is_behind", "is_lost", "stuck_ns", "until_ns")

    def __init__(
        self,
        until_ns: int = NOT_YET,
        stuck_ns: int = NOT_YET,
        *,
        is_behind: bool = False,
        is_lost: bool = False,
    ) -> None:
        self.is_behind = is_behind
        self.is_lost = is_lost
        self.stuck_ns = stuck_ns
        self.until_ns = until_ns

    def after(self, frontier: Frontier, changes_for_ns: int) -> MissingBound:
        """Return the doubt after a watermark; events are given up `changes_for_ns` after it."""
        last_ns, complete_ns, is_lost = frontier.announced_ns, frontier.complete_ns, self.is_lost
        if complete_ns < last_ns:
            # Before the first watermark nothing was awaited.
            stuck_ns = complete_ns if complete_ns > NOT_YET else max(self.stuck_ns, last_ns)
            is_lost = is_lost or last_ns - stuck_ns >= changes_for_ns
            return MissingBound(self.until_ns, stuck_ns, is_behind=True, is_lost=is_lost)
        if not self.is_behind:
            return self
        is_lost = is_lost or last_ns - self.stuck_ns >= changes_for_ns
        return MissingBound(last_ns if is_lost else self.until_ns)


def _make_doubt(until_ns: int, stuck_ns: int, is_behind: bool, is_lost: bool) -> MissingBound:
    return MissingBound(until_ns, stuck_ns, is_behind=is_behind, is_lost=is_lost)


_NAMED: Final = dict_of(TEXT, PLAIN)
MEASURED: Final = record(
    Measured, values=_NAMED, low=_NAMED, high=_NAMED, expected=_NAMED, is_sure=FLAG
)
PAST: Final = record(
    KeyPast,
    slices=list_of(INT),
    error_ns=INT,
    before=list_of(list_of(POINT)),
    last=optional(MEASURED),
    is_cut=FLAG,
)
DOUBT: Final = record(_make_doubt, until_ns=BIG, stuck_ns=BIG, is_behind=FLAG, is_lost=FLAG)


class FilledSpans(Spans):
    """The tumbling or sliding windows of a query with `empty` or `time_avg`."""

    def __init__(
        self, query: WindowQuery, makers: Makers, frontier: Frontier, emitter: WindowEmitter
    ) -> None:
        super().__init__(query, makers, frontier, emitter)
        self._has_plain_panes = False
        empty, outputs = query.empty, query.outputs
        self._fill = "" if empty is None else empty.value
        self._for_ns = 0 if empty is None else empty.for_ns
        self._hold_ns = query.hold_ns if makers.timed else 0
        self._changes_for_ns = query.changes_for_ns
        self._most = query.max_recount
        self._fields = len(makers.timed)
        of_cells = query.of_cells
        self._timed = [
            (name, -1 if name in of_cells else makers.timed.index((each.path, each.where)))
            for name, each in outputs.items()
        ]
        """The names of the aggregates in order, with the field of a mean by time, or -1."""
        self._counts = [name for name, each in outputs.items() if each.function in COUNTS]
        nothing = self._measure.plain(makers.row())
        if self._fill == ZERO:
            sums = [name for name, each in outputs.items() if each.function == "sum"]
            nothing = _make_exact({**nothing.values, **dict.fromkeys(sums, 0)}, is_sure=True)
        self._nothing = nothing

        self._pasts: Table[str, KeyPast] = Table("key/", PAST)
        self._courses: Grid[list[Course | None]] = Grid("course/", list_of(optional(COURSE)))
        self._doubts: Table[str, MissingBound] = Table("doubt/", DOUBT)
        self.tables = [*self.tables, self._pasts, self._courses, self._doubts]
        self._doubt = self._doubts.rows[""] = MissingBound()
        self._is_fuller = False
        """Whether results were emitted that may exceed the bound."""
        self._waking: Timers[str] = Timers()
        """The keys, by the end of their next window without events."""
        self._leaving: Timers[str] = Timers()
        """The keys, by the time when they may be forgotten."""
        self._watermark_ns = NOT_YET
        """The watermark before the input ended."""

    # -- Input -------------------------------------------------------------------------------------

    def add(self, event: Event, key: str, values: Values) -> None:
        past = self._pasts.rows.get(key)
        if past is None and len(self._pasts.rows) >= self._max_windows:
            self.refused += 1
            return
        super().add(event, key, values)
        slice_ns = self._slices.at(event.ref_time_ns)
        if self._panes.find((slice_ns, key)) is None:
            return  # The event is refused or expired.
        if past is None:
            past = KeyPast([], 0, [[] for _ in range(self._fields)])
            self._pasts.put(key, past)
        error_ns = max(event.error_ns, self._zone_ns) if self._heeds_errors else 0
        at = bisect_left(past.slices, slice_ns)
        is_new = at == len(past.slices) or past.slices[at] != slice_ns
        if is_new or error_ns > past.error_ns:
            past.error_ns = max(past.error_ns, error_ns)
            if is_new:
                past.slices.insert(at, slice_ns)
            self._pasts.note(key)
            self._arm_timers(key, past)
        of_event = values[-self._fields :] if self._fields else ()
        timed = {field: value for field, value in enumerate(of_event) if value is not None}
        if timed:
            self._insert(event, key, slice_ns, timed, error_ns)
        self._mark_following(past, key, slice_ns, event.ref_time_ns + error_ns, [*timed])

    def _insert(
        self, event: Event, key: str, slice_ns: int, timed: dict[int, Any], error_ns: int
    ) -> None:
        """Insert the event's values, by field."""
        courses = self._courses.find((slice_ns, key))
        if courses is None:
            courses = [None] * self._fields
            self._courses.put((slice_ns, key), courses)
        place = event.ref_time_ns, event.source, event.epoch, event.seq, error_ns
        for field, value in timed.items():
            course = courses[field]
            if course is None:
                course = courses[field] = Course()
            course.insert((*place, value), self._hold_ns, self._most)
        self._courses.note((slice_ns, key))

    def _mark_following(
        self, past: KeyPast, key: str, slice_ns: int, latest_ns: int, timed: list[int]
    ) -> None:
        """Mark the closed windows after the slice that an event with these fields may change."""
        first_ns = self._slices.next_start(slice_ns)
        last_ns = self._slices.first_open(self._closed_ns) - 1
        if first_ns > last_ns:
            return
        slices, error_ns = past.slices, past.error_ns
        # With time errors, the next events may be before this one.
        at = bisect_right(slices, latest_ns + error_ns if error_ns else slice_ns)
        for next_ns in slices[at:]:
            timed = [field for field in timed if self._find_course(next_ns, key, field) is None]
            if not timed:
                until_ns = self._slices.after(next_ns) + error_ns if error_ns else next_ns
                last_ns = min(last_ns, until_ns)
            if next_ns >= last_ns:
                break
        last_ns = min(last_ns, max(first_ns + self._for_ns, latest_ns + self._hold_ns))
        first_ns = max(first_ns, self._slices.first_open(self._frontier.final_ns))
        for start_ns in self._find_all_starts(past, first_ns, last_ns):
            if (start_ns, key) not in self._touched:
                self._touched[start_ns, key] = True
                self._changed.note((start_ns, key))

    def _arm_timers(self, key: str, past: KeyPast) -> None:
        if self._fill and self._closed_ns < FOR_EVER:
            soonest_ns = self._slices.first_open(self._closed_ns)
            start_ns = next(self._silent(past, soonest_ns, FOR_EVER), None)
            if start_ns is not None:
                self._waking.arm(key, self._slices.end(start_ns))
        self._leaving.arm(key, self._find_obsolete_ns(past))

    def _find_obsolete_ns(self, past: KeyPast) -> int:
        """Return the time from which on no window that is not final depends on the past."""
        slice_ns = past.slices[-1]
        silent_ns = self._slices.next_start(slice_ns) + self._for_ns
        held_ns = self._slices.after(slice_ns) + self._hold_ns
        return self._slices.last_end(self._slices.at(max(silent_ns, held_ns))) + past.error_ns

    # -- Windows without events --------------------------------------------------------------------

    def _silent(self, past: KeyPast, first_ns: int, last_ns: int) -> Iterator[int]:
        """Yield the starts from first to last of the key's windows that have no events."""
        slices = past.slices
        for at in range(max(bisect_right(slices, first_ns) - 1, 0), len(slices)):
            begin_ns = self._slices.next_start(slices[at])
            if begin_ns > last_ns:
                return
            until_ns = min(begin_ns + self._for_ns - 1, last_ns)
            if at + 1 < len(slices):
                until_ns = min(until_ns, self._slices.windows(slices[at + 1])[0] - 1)
            yield from self._slices.starts(max(begin_ns, first_ns), until_ns)

    def _find_all_starts(self, past: KeyPast, first_ns: int, last_ns: int) -> list[int]:
        """Return the starts from first to last of the key's windows, with events or without."""
        starts = {*self._silent(past, first_ns, last_ns)} if self._fill else set()
        for slice_ns in past.slices[bisect_left(past.slices, first_ns) :]:
            of_slice = self._slices.windows(slice_ns)
            if of_slice[0] > last_ns:
                break
            starts.update(each for each in of_slice if first_ns <= each <= last_ns)
        return sorted(starts)

    def _is_empty_emitted(self, past: KeyPast, start_ns: int) -> bool:
        """Return whether a window without events is emitted."""
        return bool(self._fill) and next(self._silent(past, start_ns, start_ns), None) is not None

    def _fill_window(self, past: KeyPast, start_ns: int, key: str) -> Measured:
        """Return the values of a window without events."""
        nothing = self._nothing
        if self._fill != LAST:
            return nothing
        slice_ns = past.slices[bisect_left(past.slices, start_ns) - 1]
        before_ns = self._slices.last_start_of(slice_ns)
        last = past.last
        if self._panes.find((slice_ns, key)) is not None:
            last = self._panes.measure(before_ns, key)
        if last is None:
            return nothing
        counts = {name: nothing.values[name] for name in self._counts}
        values, low, high, expected = ({**each, **counts} for each in last[:4])
        is_sure = last.is_sure and self._is_trusted(before_ns)
        if past.error_ns and is_sure:  # An event between may be in a window of its own.
            between = self._slices.within(before_ns, start_ns - 1, 2 * len(self._panes.by_number))
            is_sure = not any(self._panes.find((n, key)) for n in between if n > slice_ns)
        return Measured(values, low, high, expected, is_sure)

    def _is_trusted(self, since_ns: int) -> bool:
        """Return whether all events since then are known, but for those that still may come."""
        return since_ns >= self._beginning.since_ns and since_ns >= self._doubt.until_ns

    # -- Emission ----------------------------------------------------------------------------------

    def settle(self) -> None:
        frontier = self._frontier
        if frontier.watermark_ns < FOR_EVER:
            self._watermark_ns = frontier.watermark_ns
            doubt = self._doubt.after(frontier, self._changes_for_ns)
            if doubt is not self._doubt:
                self._doubt = self._doubts.rows[""] = doubt
                self._doubts.note("")
        self._is_fuller = bool(self._touched)
        super().settle()
        if self._fill and self._is_fuller:
            self._make_room_for_results()
        for key in self._leaving.due(self._frontier.final_ns + 1):
            past = self._pasts.rows.get(key)
            if past is not None and self._find_obsolete_ns(past) > self._frontier.final_ns:
                self._leaving.arm(key, self._find_obsolete_ns(past))
            else:
                self._pasts.forget(key)

    def _make_room_for_results(self) -> None:
        """Make the oldest results final if there are too many that are not."""
        shown, frontier = self._shown.by_number, self._frontier
        count = sum(map(len, shown.values()))
        while count > self._max_windows and self._timers.emitted.next_ns <= frontier.closed_ns:
            frontier.force_final(self._timers.emitted.next_ns)
            self._forget_final()
            left = sum(map(len, shown.values()))
            self.given_up += count - left
            count = left

    def _closing(self, starts: Iterable[int], before_ns: int) -> list[tuple[int, str]]:
        closing = super()._closing(starts, before_ns)
        self._is_fuller = self._is_fuller or bool(closing)
        if self._waking.next_ns > self._closed_ns:
            return closing
        due = {*closing}
        last_ns = self._slices.first_open(self._closed_ns) - 1
        if self._closed_ns >= FOR_EVER:  # The input has ended.
            last_ns = max([self._watermark_ns, *self._panes.by_number])
        for key in self._waking.due(self._closed_ns + 1):
            past = self._pasts.rows.get(key)
            if past is not None:
                first_ns = self._slices.first_open(before_ns)
                due.update((start, key) for start in self._silent(past, first_ns, last_ns))
                self._arm_timers(key, past)
        self._is_fuller = self._is_fuller or bool(due)
        return [*due]

    def is_due(self, frontier: Frontier) -> bool:
        return (
            super().is_due(frontier)
            or frontier.goal_ns >= self._waking.next_ns
            or frontier.final_ns >= self._leaving.next_ns
            or self._is_doubt_changed(frontier)
        )

    def _is_doubt_changed(self, frontier: Frontier) -> bool:
        doubt, after = self._doubt, self._doubt.after(frontier, self._changes_for_ns)
        return doubt.is_behind != after.is_behind or doubt.is_lost != after.is_lost

    def _measure_window(self, start_ns: int, key: str) -> Measured | None:
        measured = super()._measure_window(start_ns, key)
        past = self._pasts.rows.get(key)
        if measured is None:
            if past is None or not self._is_empty_emitted(past, start_ns):
                return None
            measured = self._fill_window(past, start_ns, key)
        return self._with_means(measured, past, start_ns, key) if self._fields else measured

    # -- Means by time -----------------------------------------------------------------------------

    def _with_means(
        self, measured: Measured, past: KeyPast | None, start_ns: int, key: str
    ) -> Measured:
        """Return the values of a window with those of `time_avg`, in the order of the query."""
        means: list[Mean] = [(None, None, None, False)] * self._fields
        if past is not None:
            means = [
                self._compute_mean(past, start_ns, key, field) for field in range(self._fields)
            ]
        values, low, high, expected = (
            {name: cells[name] if field < 0 else means[field][part] for name, field in self._timed}
            for cells, part in zip(measured[:4], (0, 1, 2, 0), strict=True)
        )
        is_sure = measured.is_sure and all(mean[3] for mean in means)
        return Measured(values, low, high, expected, is_sure)

    def _compute_mean(self, past: KeyPast, start_ns: int, key: str, field: int) -> Mean:
        end_ns = self._slices.end(start_ns)
        area, is_blurred, first_ns = Area(), False, end_ns
        point = before = self._find_last_before(past, start_ns, key, field)
        slices = past.slices
        for slice_ns in slices[bisect_left(slices, start_ns) : bisect_left(slices, end_ns)]:
            course = self._find_course(slice_ns, key, field)
            if course is None:
                continue
            if point is not None:
                area.add_held(point, start_ns, course.first_ns, self._hold_ns)
            area.merge(course)
            is_blurred = is_blurred or course.blurred
            first_ns = min(first_ns, course.first_ns)
            point = course.points[-1]
        if point is not None:
            area.add_held(point, start_ns, end_ns, self._hold_ns)
        mean: Any = area.mean
        since_ns = max(start_ns - self._hold_ns, NOT_YET if before is None else before[0])
        is_trusted = first_ns <= start_ns or self._is_trusted(since_ns - past.error_ns)
        if is_blurred or not is_trusted:
            return mean, None, None, False
        if not past.error_ns:
            return mean, mean, mean, True
        low, high, is_sure = self._compute_mean_bounds(past, start_ns, key, field)
        if is_sure:
            return mean, mean, mean, True
        return (mean, None, None, False) if mean is None else (mean, low, high, False)

    def _compute_mean_bounds(
        self, past: KeyPast, start_ns: int, key: str, field: int
    ) -> tuple[Any, Any, bool]:
        """Return the bounds of all values that may hold in the window, and if they are certain."""
        end_ns, slices = self._slices.end(start_ns), past.slices
        found: list[Point] = []
        least_ns = NOT_YET
        for slice_ns in reversed(slices[: bisect_right(slices, end_ns + past.error_ns)]):
            if self._slices.after(slice_ns) + past.error_ns < least_ns:
                break
            course = self._find_course(slice_ns, key, field)
            if course is not None:
                if course.folded:
                    return None, None, False
                found = find_last_points(course.points, start_ns) + found
                passed = [earliest_ns(each) for each in found if latest_ns(each) <= start_ns]
                least_ns = max(passed, default=NOT_YET)
        else:
            if past.is_cut:
                return None, None, False
            found = past.before[field] + found
        held = [each for each in find_last_points(found, start_ns) if earliest_ns(each) < end_ns]
        values = [each[5] for each in held]
        is_sure = all(each[4] == 0 for each in held)
        return min(values, default=None), max(values, default=None), is_sure

    def _find_last_before(self, past: KeyPast, start_ns: int, key: str, field: int) -> Point | None:
        """Return the last value before the instant, by corrected timestamp."""
        for slice_ns in reversed(past.slices[: bisect_left(past.slices, start_ns)]):
            if self._slices.after(slice_ns) + self._hold_ns <= start_ns:
                return None
            course = self._find_course(slice_ns, key, field)
            if course is not None:
                return course.points[-1]
        before = past.before[field]
        return before[-1] if before else None

    def _find_course(self, slice_ns: int, key: str, field: int) -> Course | None:
        courses = self._courses.find((slice_ns, key))
        return None if courses is None else courses[field]

    # -- Cleanup -----------------------------------------------------------------------------------

    def _keep_past(self, slices: Sequence[int]) -> None:
        """Keep of these slices, which are dropped next, what later windows depend on."""
        for slice_ns in slices if self._fill == LAST else ():
            for key in self._panes.by_number[slice_ns]:
                past = self._pasts.rows.get(key)
                if past is not None and slice_ns in past.slices:
                    past.last = self._panes.measure(self._slices.last_start_of(slice_ns), key)
        for slice_ns in slices:
            for key in self._panes.by_number[slice_ns]:
                past = self._pasts.rows.get(key)
                if past is not None:
                    self._keep_past_slice(past, slice_ns, key)

    def _keep_past_slice(self, past: KeyPast, slice_ns: int, key: str) -> None:
        at = bisect_left(past.slices, slice_ns)
        if past.slices[at : at + 1] == [slice_ns]:
            del past.slices[:at]
        self._pasts.note(key)
        courses = self._courses.by_number.get(slice_ns, {}).pop(key, None)
        for field, course in enumerate(courses or ()):
            if course is None:
                continue
            together = past.before[field] + course.points
            last = find_last_points(together, self._slices.after(slice_ns))
            past.before[field] = last[-self._max_edge_events :]
            past.is_cut = past.is_cut or len(last) > self._max_edge_events
            past.is_cut = past.is_cut or (course.folded > 0 and past.error_ns > 0)
        if courses is not None:
            self._courses.note((slice_ns, key))
            if not self._courses.by_number[slice_ns]:
                del self._courses.by_number[slice_ns]

    # -- State -------------------------------------------------------------------------------------

    def figures(self) -> Figures:
        return {**super().figures(), "keys": len(self._pasts.rows)}

    def load(self) -> None:
        super().load()
        self._doubt = self._doubts.rows[""]
        self._watermark_ns = self._frontier.watermark_ns
        for key, past in self._pasts.rows.items():
            self._arm_timers(key, past)


def _make_exact(values: dict[str, Any], *, is_sure: bool) -> Measured:
    return Measured(values, values, values, values, is_sure)
