"""Defines operators that make their decisions at the end of an instant.

The order of events within one instant has no meaning. So windows, joins, patterns and a buffer
ordered by time decide once the instant is over. That is before the first event of a later one, or
when time passes. Then timers that are due fire, each at its own time. So the cuts between batches
change nothing (`topology.model.operator`).

A subclass defines what an event means (`_take`) and what happens when an instant is over
(`_decide`). It also defines when a timer is due (`_next_due_ns`) and what happens then (`_fire`).
`_now_ns` and `_instant_open` are part of its state.

REORDER and MERGE do the same in the loop of their hot path, which skips instants in which nothing
can be decided. Cost: two calls for each instant.
"""

from __future__ import annotations

from collections.abc import Sequence

from topology.model.event import Event
from topology.model.kept_operator import KeptOperator
from topology.model.native import mypyc_attr
from topology.model.operator import NEVER
from topology.model.outcome import Step


@mypyc_attr(allow_interpreted_subclasses=True)
class InstantOperator(KeptOperator):
    """An operator that makes its decisions at the end of an instant.

    No further event will have an instant before `_now_ns`. `_instant_open` is True if the operator
    has input of the instant `_now_ns` about which it has not decided yet.
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
        """End the open instant, then fire what is due before `until_ns`."""
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
        """Return the step to which the batch adds its results; by default it emits all events."""
        return Step(now_ns, list(events))

    def _take(self, event: Event, step: Step) -> None:
        """Handle an event of the instant `_now_ns`, and open the instant if the event matters."""
        raise NotImplementedError

    def _decide(self, step: Step) -> None:
        """Do what the end of the instant `_now_ns` requires."""
        raise NotImplementedError

    def _next_due_ns(self) -> int:
        """Return when the next timer is due; NEVER by default."""
        return NEVER

    def _fire(self, due_ns: int, step: Step) -> None:
        """Fire the timer that is due at `due_ns`.

        `due_ns` is before `_now_ns` if the timer became known only after it was due.
        """
        self._decide(step)

    def _finish(self, step: Step) -> None:
        """Complete the step at the end of a call. By default there is nothing to do."""
