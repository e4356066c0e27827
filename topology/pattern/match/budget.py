"""The work that one evaluation may do.

Proved by: tests/topology/pattern/test_tactics_work.py
"""

from __future__ import annotations

from topology.pattern.match.evaluation import MAX_STEPS, STEPS_PER_MATCH


class StepBudget:
    """Counts `steps`: entries and cuts looked at. When it is spent the search stops and the unit
    overflows, so that a query that explodes costs a bounded time for each event."""

    __slots__ = ("most", "steps")

    def __init__(self, limit: int) -> None:
        self.steps = 0
        self.most = max(MAX_STEPS, STEPS_PER_MATCH * limit)

    @property
    def is_spent(self) -> bool:
        return self.steps > self.most
