"""Defines operators that decide when an instant is over.

Events of one instant have no order among them that counts. So windows, joins, patterns and a buffer
ordered by time decide once the instant is over. That is before the first event of a later one, or
when time passes. Then timers that are due fire, each at its own time. So the cuts between batches
change nothing (`topology.model.operator`).

A subclass defines what an event means (`_take`) and what happens when an instant is over
(`_decide`). It also defines what is due without an arrival (`_next_due_ns`) and what happens then
(`_fire`). `_now_ns` and `_instant_open` are part of its state.

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
    """An operator that decides when an instant is over.

    No event of an instant before `_now_ns` comes any more. `_instant_open` is True if something has
    come in the instant `_now_ns` and it is not over.
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
        """Return the step to fill in. By default the events pass unchanged."""
        return Step(now_ns, list(events))

    def _take(self, event: Event, step: Step) -> None:
        """Handle an event of the instant `_now_ns`, and open the instant if the event matters."""
        raise NotImplementedError

    def _decide(self, step: Step) -> None:
        """Do what the end of the instant `_now_ns` requires."""
        raise NotImplementedError

    def _next_due_ns(self) -> int:
        """Return when something is due without an arrival; NEVER by default."""
        return NEVER

    def _fire(self, due_ns: int, step: Step) -> None:
        """Do what is due now.

        `due_ns` is before `_now_ns` if it could not be known in time.
        """
        self._decide(step)

    def _finish(self, step: Step) -> None:
        """Complete the step. By default nothing is missing."""
