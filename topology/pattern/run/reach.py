"""Which units an event can change, where times are not exact.

By reference times an event changes units at most a window away. The grade alone can change of a
match further away, and only where the true times of the event and of a member may be no more than a
window apart. What counts is the errors that these have: one event whose clock was a second off must
not have all matches of the next seconds graded again for every event.

That is so because a grade rests on the members and on each other event by itself. Not so for STRICT
and UNTIL, where a third event may stand between the two, and for POSSIBLE, which looks for matches
that reference times do not make: there everything counts that the largest error met leaves open.

Cost: O(members) for each match that is looked at.

Proved by: tests/topology/pattern/run/test_reach.py
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from topology.pattern.match.match import Match
from topology.pattern.run.compiled import Compiled
from topology.pattern.run.ledger import Unit
from topology.pattern.store.entry import Entry, Key


def within_reach(
    query: Compiled, units: Mapping[Key, Unit], entry: Entry, anchors: list[Entry]
) -> list[Entry]:
    """Those of the anchors whose units the event can change."""
    if query.possible is not None or query.shape.strict or query.untils:
        return anchors
    within_ns = query.within_ns
    return [
        anchor
        for anchor in anchors
        if abs(anchor.time_ns - entry.time_ns) <= within_ns
        or _is_in_doubt(units.get(anchor.key), entry, within_ns)
    ]


def _is_in_doubt(unit: Unit | None, entry: Entry, within_ns: int) -> bool:
    if unit is None:
        return False
    low_ns, high_ns = entry.low_ns - within_ns, entry.high_ns + within_ns
    return any(_meets(found.match, low_ns, high_ns) for found in unit.found.values())


def _meets(match: Match, low_ns: int, high_ns: int) -> bool:
    """Members and event have an interval each; do theirs, taken together, meet it?"""
    groups: Sequence[Sequence[Entry]] = match.bound
    return any(one.high_ns >= low_ns for group in groups for one in group) and any(
        one.low_ns <= high_ns for group in groups for one in group
    )
