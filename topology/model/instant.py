"""Deciding when the instant is over.

Events of one instant have no order among them that counts. So what windows, joins and patterns
do, and a buffer ordered by time, is decided once the instant is over: before the first event of a
later one, or when time passes. Then what is due fires, each at its own time. How a stretch of
input is cut into batches therefore changes nothing (`topology.model.operator`).

An heir says what an event means (`_take`), what is done when an instant is over (`_decide`), what
is due next though nothing arrives (`_next_due_ns`), and what is done then (`_fire`). `_now_ns` and
`_instant_open` are part of its state.

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
    """`_now_ns`: events of an earlier instant come no more. `_instant_open`: something has come
    in the instant `_now_ns`, and it is not over."""

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

    # -- what an heir says -------------------------------------------------------------------------

    def _begin(self, events: Sequence[Event], now_ns: int) -> Step:
        """What an answer begins with: by default, that the events pass unchanged."""
        return Step(now_ns, list(events))

    def _take(self, event: Event, step: Step) -> None:
        """An event of the instant `_now_ns`; opens it, unless the event says nothing."""
        raise NotImplementedError

    def _decide(self, step: Step) -> None:
        """The instant `_now_ns` is over."""
        raise NotImplementedError

    def _next_due_ns(self) -> int:
        """When there is something to do though nothing arrives; NEVER by default."""
        return NEVER

    def _fire(self, due_ns: int, step: Step) -> None:
        """That is now; `due_ns` lies before `_now_ns` where it could not be known in time."""
        self._decide(step)

    def _finish(self, step: Step) -> None:
        """The answer is complete; by default all is in it."""
