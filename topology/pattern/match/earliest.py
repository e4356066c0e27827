"""From when on a start may have a match that ends with the newest event.

MATCHES ALL from start events: an event in order that can end a match brings matches that end with
it, and changes no other. A step under NEXT takes the first event there is for its component, so
what comes before it is no earlier than the one before that; a STRICT step takes the very next
event. Going back so from the end to the first component, only the starts of the last few events are
left, where the whole window would have to be looked through.

A condition between events may pass over the first there is, and a group under NEXT goes back as far
as the window: there is no bound then, and all starts of the window are asked. The bound is by time,
so it may be lower than it could be, never higher.

Cost: a bisect for each step.
"""

from __future__ import annotations

from typing import Final

from topology.pattern.match.evaluation import Place
from topology.pattern.match.layout import Layout
from topology.pattern.match.tactics.rules import RunRules
from topology.pattern.store.entry import Entry
from topology.pattern.store.index import BEFORE_ALL_NS
from topology.pattern.tree.syntax import UNBOUNDED

MAX_STEPS_BACK: Final = 64
"""So many events back are looked at, at most: groups with a count far above would cost more."""


class EarliestStart:
    """`_steps`: for each alternative the components whose steps lead back to the first, the last
    first; True for a STRICT step. None: one of the alternatives has no bound."""

    def __init__(self, layouts: list[Layout]) -> None:
        found = [_steps_back(layout) for layout in layouts]
        known = [steps for steps in found if steps is not None]
        self._steps = known if len(known) == len(found) else None

    def before(self, place: Place, entry: Entry, since_ns: int) -> int:
        """The earliest instant at which a match that ends with this entry, the newest there is, may
        begin; never before `since_ns`."""
        if self._steps is None:
            return since_ns
        earliest_ns = entry.time_ns
        for number, steps in enumerate(self._steps):
            reached_ns = entry.time_ns
            for j, is_strict in steps:
                index = place.everything if is_strict else place.components[number][j]
                at = index.before_time(reached_ns)  # the last entry before is one back
                reached_ns = index.times[at - 1] if at else BEFORE_ALL_NS
                if reached_ns <= since_ns:
                    return since_ns
            earliest_ns = min(earliest_ns, reached_ns)
        return earliest_ns


def _steps_back(layout: Layout) -> list[tuple[int, bool]] | None:
    """None: how far back a match goes is not known."""
    if not layout.alternative.is_linear:
        return None
    tests = RunRules(layout).tests
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
        elif part.edge == "next" and not part.is_optional and not part.is_group and not tests[j]:
            steps.append((j, False))
        else:
            return None
    return steps if len(steps) <= MAX_STEPS_BACK else None
