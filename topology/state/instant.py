"""Defines operators that make their decisions at the end of an instant.

The order of events within one instant has no meaning. So windows, joins, patterns and a buffer
ordered by time decide once the instant is over. It ends before the first event of a later instant,
or when time passes. Then the timers that are due fire, each at its own time. So the division into
batches has no effect (`topology.base.operator`).

A subclass defines what an event does (`_take`) and what happens at the end of an instant
(`_decide`). It also defines when the next timer is due (`_next_due_ns`) and what it does (`_fire`).
`_now_ns` and `_instant_open` are part of its state.

REORDER and MERGE do the same in their own loops, which skip instants in which nothing can be
decided. Cost: two calls for each instant.
"""

from __future__ import annotations

from collections.abc import Sequence

from topology.base.event import Event
from topology.base.native import mypyc_attr
from topology.base.operator import NEVER
from topology.base.outcome import Step
from topology.state.saved_operator import SavedOperator


@mypyc_attr(allow_interpreted_subclasses=True)
class InstantOperator(SavedOperator):
    """An operator that makes its decisions at the end of an instant.

    No further event will have an instant before `_now_ns`. `_instant_open` is True if the operator
    has input of the instant `_now_ns` for which it has not made its decisions yet.
    """

    def __init__(self, now_ns: int = 0) -> None:
        self._now_ns = now_ns
        self._instant_open = False

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        step = self._begin(events, now_ns)
        for event in events:
            if event.at_ns > self._now_ns:
                self._pass_time(event.at_ns, step)
            self._take(event, step)
        if now_ns > self._now_ns:
            self._pass_time(now_ns, step)
        self._finish(step)
        return step

    def on_time(self, now_ns: int) -> Step:
        step = self._begin((), now_ns)
        if now_ns >= self._now_ns:
            self._pass_time(now_ns + 1, step)
            self._now_ns = now_ns
        self._finish(step)
        return step

    def next_deadline_ns(self) -> int | None:
        if self._instant_open:
            return self._now_ns
        due_ns = self._next_due_ns()
        return due_ns if due_ns < NEVER else None

    def _pass_time(self, until_ns: int, step: Step) -> None:
        """End the open instant, then fire the timers that are due before `until_ns`."""
        if self._instant_open:
            self._instant_open = False
            self._decide(step)
        while (due_ns := self._next_due_ns()) < until_ns:
            if due_ns > self._now_ns:
                self._now_ns = due_ns
            self._fire(due_ns, step)
        self._now_ns = until_ns

    # -- for subclasses ----------------------------------------------------------------------------

    def _begin(self, events: Sequence[Event], now_ns: int) -> Step:
        """Return the step for a batch's results; by default, a step that emits all its events."""
        return Step(now_ns, list(events))

    def _take(self, event: Event, step: Step) -> None:
        """Process an event of the instant `_now_ns`; open the instant if a decision is needed."""
        raise NotImplementedError

    def _decide(self, step: Step) -> None:
        """Make the decisions that are due at the end of the instant `_now_ns`."""
        raise NotImplementedError

    def _next_due_ns(self) -> int:
        """Return the time at which the next timer is due; NEVER by default."""
        return NEVER

    def _fire(self, due_ns: int, step: Step) -> None:
        """Fire the timer that is due at `due_ns`.

        `due_ns` is before `_now_ns` if the timer was set only after it was due.
        """
        self._decide(step)

    def _finish(self, step: Step) -> None:
        """Complete the step at the end of a call. The default does nothing."""
