"""Turns a waiting strategy into decisions to close windows.

A window of length l begins every f. Window k covers (k f - l, k f], or [k f - l, k f) with
`closed="left"`, moved later by `offset`. Its *bound* is the last instant in it. The windows close
in order, each when its bound passes. Empty windows close too. With `only_filled` they do not count,
because a quality target should not be met by windows without a result. An event with an uncertain
time may belong to several windows (`take`). No window closes before the arrival clock has reached
its bound. It closes at most `cap_ns` later, for the reason `cap`. The first window to close is the
earliest one with the first event.

With `patient` a window that lacks only idle sources still waits until `cap_ns`. This is for sources
that may be silent for a shorter time and then send events of the window.

The decisions of an instant are made when it is over: at the first later instant, or in `on_time`.
`on_batch(events, now_ns)` takes events with `at_ns` <= `now_ns` in order. The division into batches
changes nothing.

There are two kinds of decisions:

* `Closing` is one window, or a run of windows up to `through` that closed at one instant for one
  reason. So a jump of the clock costs O(1).
* `Missed` is an event that arrived after windows that may contain it had closed.

A closed window is resolved, as missed or not, once the strategy's confirmed frontier has passed it
and another one is to be closed. At most `max_pending` windows wait for this; beyond that the oldest
counts as missed. A window that closed because of an idle source or the cap counts for no quality
target, resolved or not. Such windows that missed an event are counted in `missed_apart`.

The owner of the windows stores their contents, and closes them according to the decisions. Cost:
O(1) and the cost of the strategy for each event and window; O(l / f) for a late event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from topology.answer.waiting.policy import (
    BEFORE_ALL,
    CAP,
    CONFIRMED,
    END,
    IDLE,
    PROBABLE,
    PROMISED,
    SlackPolicy,
)
from topology.answer.waiting.runs import FILLED, RUNS, Filled, Runs
from topology.base.event import Event
from topology.base.native import mypyc_attr
from topology.base.operator import NEVER
from topology.state.saved import BIG, FLAG, INT, TEXT, Saved, Shape, list_of, optional

MAX_PENDING: Final = 100_000


class Closing(NamedTuple):
    """The windows `number` .. `through`, which closed at `at_ns` for the reason `by`."""

    number: int
    through: int
    bound_ns: int
    at_ns: int
    by: str


class Missed(NamedTuple):
    """An event that arrived after its windows `first` .. `last` had closed."""

    first: int
    last: int
    at_ns: int
    event: Event


Decision = Closing | Missed


DRIVER: Final = Shape(
    "waiting.driver",
    1,
    _now_ns=BIG,
    _due_ns=BIG,
    _announced_ns=BIG,
    _open=FLAG,
    _next=optional(INT),
    _next_pending=INT,
    _pending=list_of(TEXT, deque),
    missed=INT,
    _missed=list_of(INT, set),
    missed_apart=INT,
    _apart=RUNS,
    filled=optional(FILLED),
    _empty=list_of(INT, set),
)


@mypyc_attr(allow_interpreted_subclasses=True)
class WindowDriver(Saved):
    """The windows of a query, closed by a strategy.

    The owner saves the strategy separately.
    """

    SHAPE = DRIVER

    def __init__(
        self,
        policy: SlackPolicy,
        every_ns: int,
        length_ns: int | None = None,
        *,
        closed: Literal["left", "right"] = "right",
        cap_ns: int | None = None,
        offset_ns: int = 0,
        only_filled: bool = False,
        max_pending: int = MAX_PENDING,
        patient: bool = False,
    ) -> None:
        self._length_ns = every_ns if length_ns is None else length_ns
        self.policy = policy
        self._announced_ns = BEFORE_ALL
        self._every_ns = every_ns
        self._shift_ns = (1 if closed == "left" else 0) - offset_ns
        self._early_ns = 0  # A window may close this long before its end.
        self._cap_ns = NEVER if cap_ns is None else cap_ns
        self._max_pending = max_pending
        self._patient = patient
        self._now_ns = -NEVER
        self._open = False  # Whether the instant `_now_ns` is not over.
        self._due_ns = NEVER
        # The number of the next window to close; None before the first event.
        self._next: int | None = None
        self._next_pending = 0  # The number of the next window to be resolved.
        # The reasons why windows closed, from the window `_next_pending` on.
        self._pending: deque[str] = deque()
        self._missed: set[int] = set()  # The most recently closed windows that missed an event.
        self.missed = 0  # The number of all windows that missed an event.
        self._apart = Runs()  # The resolved windows that count for no quality target.
        self.missed_apart = 0
        self.filled = Filled() if only_filled else None
        self._empty: set[int] = set()  # The windows without an event that are not resolved.

    @property
    def is_waiting(self) -> bool:
        """Whether there is an open window that counts."""
        return self._next is not None and (self.filled is None or self.filled.first is not None)

    def announce(self, bound_ns: int, now_ns: int) -> None:
        """Record that no further event at or below the bound will arrive.

        The windows up to the bound may then close, whatever the strategy waits for.
        """
        if bound_ns > self._announced_ns:
            self._announced_ns = bound_ns
            self.open_instant(now_ns)

    # -- events and time ---------------------------------------------------------------------------

    def on_batch(self, events: Sequence[Event], now_ns: int) -> list[Decision]:
        decisions: list[Decision] = []
        for event in events:
            self.take(event, event.ref_time_ns, decisions)
        if now_ns > self._now_ns:
            self._advance_time(now_ns, decisions)
        return decisions

    def take(
        self,
        event: Event,
        until_ns: int,
        decisions: list[Decision],
        more_ns: int = 0,
        *,
        speaks: bool = True,
    ) -> None:
        """Take an event whose time is between its timestamp and `until_ns`.

        Windows up to `more_ns` later count as filled too. If `speaks`, the strategy observes the
        event, which shows how far its source has advanced.
        """
        if event.at_ns > self._now_ns:
            self._advance_time(event.at_ns, decisions)
        if speaks:
            self.policy.observe(event, event.at_ns)
        self._open = True
        ts_ns = event.ref_time_ns
        first = self._first_window_of(ts_ns)
        if self._next is None:
            self._next = self._next_pending = first
        last = self._last_window_of(until_ns)
        if self.filled is not None:
            last_filled = self._last_window_of(until_ns + more_ns)
            if last_filled >= self._next:
                self.filled.add(max(first, self._next), last_filled)
        if first < self._next:
            last = min(self._next - 1, last)
            decisions.append(Missed(first, last, self._now_ns, event))
            self._record_missed(first, last)
            self.policy.late(ts_ns, self.bound_ns(self._next - 1) - ts_ns)

    def open_instant(self, now_ns: int) -> None:
        """Open the instant `now_ns`, because the strategy has received something besides an event.

        The caller must have made the decisions that were due before `now_ns`.
        """
        self._now_ns = max(self._now_ns, now_ns)
        self._open = True

    def on_time(self, now_ns: int) -> list[Decision]:
        decisions: list[Decision] = []
        if now_ns >= self._now_ns:
            self._advance_time(now_ns + 1, decisions)
            self._now_ns = now_ns
        return decisions

    def next_deadline_ns(self) -> int | None:
        if self._open:
            return self._now_ns
        return self._due_ns if self._due_ns < NEVER else None

    def on_end(self, now_ns: int) -> list[Decision]:
        """Close all windows up to the last one with an event, and return the decisions."""
        decisions = self.on_time(now_ns)
        newest_ns = self.policy.newest_ns()
        self.policy.end()
        if self._next is not None:
            last = self._first_window_of(newest_ns)
            if last >= self._next:
                self._close(last, END, decisions)
            self._resolve(NEVER)
        self._due_ns = NEVER
        return decisions

    def _advance_time(self, until_ns: int, decisions: list[Decision]) -> None:
        if self._open:
            self._open = False
            self._close_due(decisions)
        while self._due_ns < until_ns:
            self._now_ns = self._due_ns
            self._close_due(decisions)
        self._now_ns = until_ns

    # -- windows -----------------------------------------------------------------------------------

    def bound_ns(self, number: int) -> int:
        """Return the last instant in the window."""
        return number * self._every_ns - self._shift_ns

    def _first_window_of(self, ts_ns: int) -> int:
        """Return the first window that contains `ts_ns`."""
        return -(-(ts_ns + self._shift_ns) // self._every_ns)

    def _last_window_of(self, ts_ns: int) -> int:
        return -(-(ts_ns + self._shift_ns + self._length_ns) // self._every_ns) - 1

    def _record_missed(self, first: int, last: int) -> None:
        # Only the newest `max_pending` windows are visited, because older ones are not pending. An
        # event with a wrong time may miss any number of windows.
        for number in range(max(first, last + 1 - self._max_pending), last + 1):
            if number in self._missed:
                continue
            self._missed.add(number)
            self._empty.discard(number)
            self.missed += 1
            if number >= self._next_pending:
                by = self._pending[number - self._next_pending]
                self.policy.note_resolved(missed=True, by=by)
                self.missed_apart += by not in PROMISED
            elif number in self._apart:
                self.missed_apart += 1
            else:
                # The window was resolved as complete, but the source's events are not in order.
                self.policy.note_resolved(missed=True, by=CONFIRMED, windows=0)
        if len(self._missed) > 2 * self._max_pending:
            self._missed = set(sorted(self._missed)[self._max_pending :])

    def _close_due(self, decisions: list[Decision]) -> None:
        """Close the windows that may close at `_now_ns`, and set the time of the next decision."""
        now_ns = self._now_ns
        policy = self.policy
        self._due_ns = NEVER
        if self._next is None or not self._is_due(now_ns):
            return
        confirmed_ns = max(policy.confirmed_ns(now_ns), self._announced_ns)
        self._resolve(confirmed_ns)
        while self._is_due(now_ns):
            number = self._next
            bound_ns = number * self._every_ns - self._shift_ns
            if self._patient and self._waits_for_idle(self._find_first_counted(), now_ns):
                self._due_ns = self.bound_ns(self._find_first_counted()) + self._cap_ns
                return
            if bound_ns <= confirmed_ns:
                until_ns = min(confirmed_ns, now_ns + self._early_ns)
                last = (until_ns + self._shift_ns) // self._every_ns
                if self._patient:
                    last = self._find_last_whole(last, now_ns)
                is_certain = policy.certain or self.bound_ns(last) <= self._announced_ns
                by = CONFIRMED if is_certain else PROBABLE
                if policy.ignores_idle(self.bound_ns(last), now_ns):
                    by = IDLE
                self._close(last, by, decisions, is_sure=True)
            elif policy.passes(bound_ns, now_ns):
                by = IDLE if policy.ignores_idle(bound_ns, now_ns) else PROBABLE
                last = self._find_first_counted() if by == IDLE else number
                if last > number and not policy.passes(self.bound_ns(last), now_ns):
                    last = number  # Otherwise empty windows close with the next filled one.
                self._close(last, by, decisions)
            elif now_ns >= bound_ns + self._cap_ns:
                # This bound does not pass now, so no later one does.
                last = (now_ns - self._cap_ns + self._shift_ns) // self._every_ns
                self._close(last, CAP, decisions)
            else:
                due_ns = policy.deadline_ns(bound_ns, now_ns)
                self._due_ns = bound_ns + self._cap_ns
                if due_ns is not None and due_ns < self._due_ns:
                    self._due_ns = due_ns
                return

    def _is_due(self, now_ns: int) -> bool:
        """Return whether the next window that counts has ended.

        Empty windows before it that do not count may close together with it.
        """
        if self.filled is not None and self.filled.first is None:
            return False
        earliest_ns = self.bound_ns(self._find_first_counted()) - self._early_ns
        if now_ns < earliest_ns:
            self._due_ns = earliest_ns
            return False
        return True

    def _find_first_counted(self) -> int:
        assert self._next is not None
        if self.filled is None or self.filled.first is None:
            return self._next
        return max(self._next, self.filled.first)

    def _waits_for_idle(self, number: int, now_ns: int) -> bool:
        """Return whether a window lacks only idle sources, and must wait for them."""
        bound_ns = self.bound_ns(number)
        is_over = bound_ns <= self._announced_ns or now_ns >= bound_ns + self._cap_ns
        return not is_over and self.policy.ignores_idle(bound_ns, now_ns)

    def _find_last_whole(self, last: int, now_ns: int) -> int:
        """Return the last window, up to `last`, that need not wait for an idle source.

        A binary search finds it, because if one window waits, so do all later ones. There may be
        more windows than `bisect` accepts.
        """
        low, high = min(self._find_first_counted(), last), last
        while low < high:
            middle = (low + high + 1) // 2
            if self._waits_for_idle(middle, now_ns):
                high = middle - 1
            else:
                low = middle
        return low

    def _close(
        self, last: int, by: str, decisions: list[Decision], *, is_sure: bool = False
    ) -> None:
        """Close all windows up to `last`.

        If `is_sure`, no more events of these windows are expected, so they are resolved at once as
        complete. Otherwise their outcome is open.
        """
        assert self._next is not None
        first, bound_ns, now_ns = self._next, self.bound_ns(last), self._now_ns
        windows = filled = last + 1 - first
        if self.filled is not None:
            filled = self.filled.close(last, by, now_ns, self._every_ns, self._shift_ns)
        decisions.append(Closing(first, last, bound_ns, now_ns, by))
        self._next = last + 1
        if is_sure:
            self._next_pending = self._next
            if by not in PROMISED:
                self._apart.add(first, last)
            if filled:
                self.policy.note_closed(bound_ns, now_ns, by, filled)
                self.policy.note_resolved(missed=False, by=by, windows=filled)
            return
        if not filled and windows == 1:
            # An empty window counts until it is certain that it missed nothing.
            self._empty.add(last)
        self._pending.extend([by] * min(windows, self._max_pending))
        self._next_pending = max(self._next_pending, self._next - len(self._pending))
        self.policy.note_closed(bound_ns, now_ns, by, windows)
        while len(self._pending) > self._max_pending:
            self._resolve_oldest(missed=True)

    def _resolve(self, confirmed_ns: int) -> None:
        pending = self._pending
        while pending and self._next_pending * self._every_ns - self._shift_ns <= confirmed_ns:
            self._resolve_oldest(missed=False)

    def _resolve_oldest(self, missed: bool) -> None:
        """Resolve the oldest window that is closed and not resolved."""
        number = self._next_pending
        by = self._pending.popleft()
        self._next_pending = number + 1
        if by not in PROMISED:
            self._apart.add(number, number)
        if number in self._empty:
            self._empty.discard(number)
            self.policy.note_void(by)
        elif number not in self._missed:
            self.policy.note_resolved(missed=missed, by=by)

    def fresh(self, field: str) -> Filled:
        return Filled()
