"""How far the streams of a query have come, for windows and joins alike.

A stream has a frontier; all share one quality target, where the query has one
(`topology.answer.quality_target`): what it closes is closed on each stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from topology.answer.frontier import NOT_YET, Frontier
from topology.answer.quality_target import QualityTarget
from topology.model.event import BYE, HEARTBEAT, PASSED, WATERMARK, Event
from topology.model.native import mypyc_attr
from topology.model.operator import NEVER, Figures


@mypyc_attr(allow_interpreted_subclasses=True)
class QueryProgress:
    """The frontiers of a query and its `target`, None without quality. If `ordered`, the query
    reads events as MERGE emits them, so that each in order raises the frontier of its stream."""

    def __init__(
        self, frontiers: Sequence[Frontier], target: QualityTarget | None, *, ordered: bool
    ) -> None:
        self._all = list(frontiers)
        self._ordered = ordered
        self.target = target

    def hear(self, event: Event, frontier: Frontier, *, is_taken: bool) -> None:
        """Learn from a data event of the frontier's stream; the query takes it, or leaves it."""
        if self._ordered and not event.late:
            frontier.hear(event)
        if self.target is None:
            return
        if is_taken:
            self.target.hear(event, speaks=not event.late)
        elif not event.late:
            self.target.hear_of(event)

    def heed(self, event: Event, frontier: Frontier) -> bool:
        """Learn from a control event; return False if nothing follows from it."""
        if event.kind == WATERMARK:
            frontier.announce(event)
            return True
        if event.kind == PASSED:
            frontier.hear(event)
            return True
        if self.target is None or event.kind not in (HEARTBEAT, BYE):
            return False
        self.target.hear_of(event)
        return True

    @property
    def is_waiting(self) -> bool:
        """Whether the target has something to close."""
        return self.target is not None and self.target.is_waiting

    def settle(self, now_ns: int) -> None:
        """Make count what came; the instant is over."""
        if self.target is not None:
            passed_ns = min([frontier.passed_ns for frontier in self._all])
            self.target.settle(now_ns, passed_ns if self._ordered else NOT_YET)
        for frontier in self._all:
            frontier.settle()

    def due_ns(self) -> int:
        """Return when to settle though nothing arrives."""
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
