"""What every search for the matches of a unit has: what it looks through, how much it may cost, and
what it has found.

Proved by: tests/topology/pattern/test_tactics.py, tests/topology/pattern/test_uncertain.py
"""

from __future__ import annotations

from topology.pattern.match.budget import StepBudget
from topology.pattern.match.evaluation import Place
from topology.pattern.match.layout import Layout
from topology.pattern.match.match import Match


class Search:
    """A search in one unit and one alternative goes on until `wanted` matches are `found`, or the
    budget is spent.

    `RunSearch` extends runs entry by entry, `Cutting` takes groups as cuts of an index, `SetSearch`
    puts sets together whose order is not known."""

    __slots__ = ("budget", "found", "layout", "place", "wanted")

    def __init__(self, layout: Layout, place: Place, budget: StepBudget, wanted: int) -> None:
        self.layout = layout
        self.place = place
        self.budget = budget
        self.wanted = wanted
        self.found: list[Match] = []

    @property
    def is_over(self) -> bool:
        return len(self.found) >= self.wanted or self.budget.is_spent
