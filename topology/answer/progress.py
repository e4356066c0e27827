"""Tracks the progress of a query's streams, for windows and joins alike.

Each stream has a frontier. All streams share the query's quality target, if there is one
(`topology.answer.quality_target`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from topology.answer.frontier import NOT_YET, Frontier
from topology.answer.quality_target import QualityTarget
from topology.base.event import BYE, HEARTBEAT, PASSED, WATERMARK, Event
from topology.base.native import mypyc_attr
from topology.base.operator import NEVER, Figures


@mypyc_attr(allow_interpreted_subclasses=True)
class QueryProgress:
    """The frontiers of a query, and its quality `target` if it has one.

    If `ordered`, the query reads events as MERGE emits them, and each event in order raises the
    frontier of its stream.
    """

    def __init__(
        self, frontiers: Sequence[Frontier], target: QualityTarget | None, *, ordered: bool
    ) -> None:
        self._all = list(frontiers)
        self.beginnings = [frontier.beginning for frontier in frontiers]
        self._ordered = ordered
        self.target = target

    def observe(self, event: Event, frontier: Frontier, *, is_taken: bool) -> None:
        """Record an event of the frontier's stream; `is_taken`: the query uses the event."""
        if self._ordered and not event.late:
            frontier.observe(event)
        if self.target is None:
            return
        if is_taken:
            self.target.observe(event, speaks=not event.late)
        elif not event.late:
            self.target.observe_other(event)

    def observe_control(self, event: Event, frontier: Frontier) -> bool:
        """Process a control event; return False if it changes nothing."""
        if event.kind == WATERMARK:
            frontier.announce(event)
            return True
        if event.kind == PASSED:
            frontier.observe(event)
            return True
        if self.target is None or event.kind not in (HEARTBEAT, BYE):
            return False
        self.target.observe_other(event)
        return True

    @property
    def is_waiting(self) -> bool:
        """Whether the target has windows to close."""
        return self.target is not None and self.target.is_waiting

    def settle(self, now_ns: int) -> None:
        """Apply the progress made in the instant that has ended."""
        if self.target is not None:
            passed_ns = min([frontier.passed_ns for frontier in self._all])
            self.target.settle(now_ns, passed_ns if self._ordered else NOT_YET)
        for frontier in self._all:
            frontier.settle()

    def due_ns(self) -> int:
        """Return the next instant at which `settle` must be called even if nothing arrives."""
        return NEVER if self.target is None else self.target.due_ns()

    def seal(self) -> None:
        for frontier in self._all:
            frontier.seal()

    def end(self, now_ns: int) -> None:
        if self.target is not None:
            self.target.end(now_ns)
        for frontier in self._all:
            frontier.end()

    def figures(self) -> Figures:
        return {} if self.target is None else self.target.figures()

    def explain(self) -> dict[str, Any]:
        return {} if self.target is None else {"quality": self.target.explain()}
