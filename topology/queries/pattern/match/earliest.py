"""Bounds how early a match that ends with the newest event may start.

MATCHES ALL from start events uses the bound. An event in order that can end a match adds the
matches that end with it and changes no others. Without a bound, their starts would be searched for
in the whole window.

The bound is found by going back from the end to the first component. A step under NEXT takes the
first event for its component. So the previous member cannot be earlier than the component's entry
before the one taken. A STRICT step takes the very next event. Only the starts of the last few
events then remain.

There is no bound if a condition between events may pass over the first event. Nor is there one for
a group under NEXT, which may extend over the whole window. Then all starts of the window are
searched. The bound is by time, so it may be earlier than necessary, but never later.

Cost: a bisection for each step.
"""

from __future__ import annotations

from typing import Final

from topology.queries.pattern.match.evaluation import Place
from topology.queries.pattern.match.tactics.rules import RunRules
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.store.index import BEFORE_ALL_NS
from topology.queries.pattern.tree.syntax import UNBOUNDED

MAX_STEPS_BACK: Final = 64
"""The maximum number of events to go back; for longer counted groups this would cost too much."""


class EarliestStart:
    """A bound on the starts of matches that end with the newest event.

    `_steps` has, for each alternative, the components whose steps lead back to the first, starting
    with the last. A step is paired with True if it is STRICT. `_steps` is None if one of the
    alternatives has no bound.
    """

    def __init__(self, layouts: list[RunRules]) -> None:
        found = [_steps_back(layout) for layout in layouts]
        known = [steps for steps in found if steps is not None]
        self._steps = known if len(known) == len(found) else None

    def before(self, place: Place, entry: Entry, since_ns: int) -> int:
        """Return the earliest instant at which a match that ends with this entry may start.

        The entry is the newest one. The result is never before `since_ns`.
        """
        if self._steps is None:
            return since_ns
        earliest_ns = entry.time_ns
        for number, steps in enumerate(self._steps):
            reached_ns = entry.time_ns
            for j, is_strict in steps:
                index = place.everything if is_strict else place.components[number][j]
                # The last entry before that time is one step back.
                at = index.count_before(reached_ns)
                reached_ns = index.times[at - 1] if at else BEFORE_ALL_NS
                if reached_ns <= since_ns:
                    return since_ns
            earliest_ns = min(earliest_ns, reached_ns)
        return earliest_ns


def _steps_back(layout: RunRules) -> list[tuple[int, bool]] | None:
    """Return the steps from the last component back to the first, or None if there is no bound."""
    if not layout.alternative.is_linear:
        return None
    steps: list[tuple[int, bool]] = []
    for j in reversed(range(layout.count)):
        part = layout.components[j]
        if part.maximum == UNBOUNDED or part.maximum > MAX_STEPS_BACK:
            return None
        if part.is_group:
            if part.loop != "strict":
                return None
            steps += [(j, True)] * (part.maximum - 1)
        if j == 0:
            break
        if part.edge == "strict":
            steps.append((j, True))
        elif part.edge == "next" and not (part.is_optional or part.is_group or layout.tests[j]):
            steps.append((j, False))
        else:
            return None
    return steps if len(steps) <= MAX_STEPS_BACK else None
