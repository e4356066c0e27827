"""Which units of a run an event can change by what is found of them.

What SKIP then keeps or drops elsewhere, however far, is found by `decide.Selection`.

Cost of an event in order: under skip-till-any one unit, if it can end a
match; for MATCHES ONE and BEST one for each start that waits for such an event; for ALL by start
events one for each start that may lead there (`earliest`), if it can end a match. A late event: one
for each unit in a window.

Where events have errors, one may also put a match in doubt. Mostly it does so by itself
(`doubts_apart`): then the units are those that reference times name, whatever the errors, and what
it may put in doubt is asked of `SureUnits`, without a new evaluation. Where it does not, and for
POSSIBLE, one unit more is evaluated for each match that is not decided yet.

By reference times an event changes units at most a window away. For a match further away only its
grade can change, and only where the true times of the event and of a member may be no more than a
window apart. What counts is the errors that these have: one event whose clock was a second off must
not have all matches of the next seconds graded again for every event.

That is so because a grade rests on the members and on each other event by itself. Not so for STRICT
and UNTIL, where a third event may lie between the two, and for POSSIBLE, which looks for matches
that reference times do not make: there every unit counts that the largest error met may reach.

`SureUnits` has the units with a sure match by when its members may have happened, in lists by the
length of that stretch: one match of an event whose clock was a second off must not have every event
look at a second of them. A unit costs it O(log n) and a move of references; a question two bisects
for each length, by powers of two, and at most twice the units that it finds of one.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from typing import Final

from topology.model.result import CONFIRMED
from topology.pattern.match.compiled import Slot
from topology.pattern.match.match import Bound
from topology.pattern.run.query import PartitionQuery
from topology.pattern.run.unit import MatchUnit
from topology.pattern.store.entry import Entry, Key
from topology.pattern.store.index import BEFORE_ALL_NS
from topology.pattern.tree.syntax import FROM_START

ANY_SLOT: Final[Slot] = (-1, -1)
"""Where those wait that any entry can change."""


class Affected:
    """The units of a query in one partition that an event can change."""

    __slots__ = ("_at", "_doubts_apart", "_waiting")

    def __init__(self, at: PartitionQuery) -> None:
        self._at = at
        self._waiting: dict[Slot, dict[Key, MatchUnit]] = {}
        query = at.query
        self._doubts_apart = (
            query.grading is not None
            and query.possible is None
            and not query.shape.strict
            and not query.untils
            and query.query.emit != "slack"  # what is gathered has not met all that came since
        )

    @property
    def doubts_apart(self) -> bool:
        """There are doubts, and each event casts its own. A SKIP that waits for a target looks at
        what is visible whenever anything of the run is looked at, so there all is as ever."""
        if not self._doubts_apart or self._at.doubt.margin_ns <= 0:
            return False
        return self._at.wiring.target_ns is None or not self._at.query.shape.skips

    @property
    def possible_apart(self) -> bool:
        """All units that an event can change are evaluated, and each by itself rules a possible
        match out."""
        query = self._at.query
        is_apart = query.possible is not None and query.possible.each_apart
        return is_apart and query.query.emit != "slack"

    def concerns(self, filters: Sequence[int]) -> bool:
        """Does the query look at entries of these filters at all?"""
        return not self._at.wiring.filters.isdisjoint(filters)

    def by(self, entry: Entry, filters: Sequence[int], *, in_order: bool) -> list[Entry]:
        """The anchors of the units that the entry, now in the indexes of these filters, can
        change."""
        query, shape = self._at.query, self._at.query.shape
        mine = self._at.wiring.filters.intersection(filters)
        if not mine and not shape.strict:
            return []
        is_in_doubt, doubts_apart = self._at.doubt.margin_ns > 0, self.doubts_apart
        if not in_order or (is_in_doubt and query.possible is not None):
            anchors = self._late(entry)
        else:
            anchors = self._in_order(entry, mine)
            if is_in_doubt and not doubts_apart:
                affected = {anchor.key: anchor for anchor in (*anchors, *self._undecided(entry))}
                anchors = [affected[key] for key in sorted(affected)]
        if not is_in_doubt or query.possible is not None or shape.strict or query.untils:
            return anchors
        span_ns, known = query.span_ns, self._at.units.get
        return [
            anchor
            for anchor in anchors
            if abs(anchor.time_ns - entry.time_ns) <= span_ns
            or (not doubts_apart and _is_in_doubt(known(anchor.key), entry, span_ns))
        ]

    @property
    def span_ns(self) -> int:
        """How far apart a match and what forbids it may be, by reference times."""
        return self._at.query.span_ns + self._at.doubt.margin_ns

    @property
    def open_ns(self) -> int:
        """How long after its anchor a unit may still change."""
        shape = self._at.query.shape
        opens = not shape.by_end or shape.looks_ahead or shape.skips
        return self.span_ns if opens else self._at.doubt.margin_ns

    def _in_order(self, entry: Entry, mine: frozenset[int]) -> list[Entry]:
        wiring, shape = self._at.wiring, self._at.query.shape
        if shape.by_end:
            if shape.looks_ahead and mine & wiring.blockers:
                return self.anchors(entry.time_ns - self.span_ns, entry.time_ns)
            return [entry] if mine & wiring.anchors else []
        if self._at.query.query.matches in FROM_START:
            woken = self._woken(mine, entry)
            if mine & wiring.anchors:
                woken.append(entry)
            return woken
        if mine & wiring.enders or (shape.has_end_negation and mine & wiring.blockers):
            return self.anchors(self._earliest_ns(entry), entry.time_ns)
        return []

    def _earliest_ns(self, entry: Entry) -> int:
        """Starts before it have no match that ends with this entry, nor one that it forbids."""
        since_ns, earliest = entry.time_ns - self.span_ns, self._at.query.earliest
        if earliest is None or (self._at.doubt.margin_ns and not self.doubts_apart):
            return since_ns
        since_ns = entry.time_ns - self._at.query.within_ns
        return earliest.before(self._at.place, entry, since_ns)

    def _undecided(self, entry: Entry) -> list[Entry]:
        """Units with a match that an event of this time can still change."""
        time_ns, known = entry.time_ns, self._at.units.get
        since_ns = time_ns - self.span_ns - self._at.doubt.margin_ns
        return [
            anchor
            for anchor in self.anchors(since_ns, -BEFORE_ALL_NS)
            if (unit := known(anchor.key)) is not None and unit.is_undecided(time_ns)
        ]

    def _late(self, entry: Entry) -> list[Entry]:
        shape, time_ns, span_ns = self._at.query.shape, entry.time_ns, self.span_ns
        margin_ns = self._at.doubt.margin_ns
        if shape.by_end:
            since_ns = time_ns - (span_ns if shape.looks_ahead else margin_ns)
            until_ns = time_ns + (2 if shape.looks_back else 1) * span_ns
        else:
            reaches_back = shape.has_start_negation or shape.looks_back
            since_ns = time_ns - span_ns
            until_ns = time_ns + (span_ns if reaches_back else margin_ns)
        anchors = self.anchors(since_ns, until_ns)
        if margin_ns and self._at.query.possible is not None:
            return anchors  # a bound may be from before errors were so large
        looks_further = margin_ns > 0 and not self.doubts_apart
        known = self._at.units.get
        return [
            anchor
            for anchor in anchors
            if (unit := known(anchor.key)) is None
            or time_ns <= unit.hi_ns
            or anchor is entry
            or (looks_further and unit.is_undecided(time_ns))
        ]

    def around(self, entry: Entry) -> list[Entry]:
        """The anchors of all units that it may have a part in, whatever that is."""
        reach_ns = self._at.query.reach_ns + 3 * self._at.doubt.margin_ns
        return self.anchors(entry.time_ns - reach_ns, entry.time_ns + reach_ns)

    def anchors(self, since_ns: int, until_ns: int) -> list[Entry]:
        """The anchors of all units there may be in this time, these instants included."""
        cuts = []
        for number in self._at.wiring.anchors:
            index = self._at.indexes[number]
            low, high = index.before_time(since_ns), index.up_to_time(until_ns)
            cuts.append(index.entries[low:high])
        if len(cuts) == 1:
            return cuts[0]
        found = {entry.key: entry for cut in cuts for entry in cut}
        return [found[key] for key in sorted(found)]

    # -- starts that wait (MATCHES ONE, BEST) -------------------------------------------------

    def wait(self, unit: MatchUnit, waits: frozenset[Slot] | None) -> None:
        """From now on an entry for one of these slots changes the unit; None: any entry."""
        for slot in (ANY_SLOT,) if unit.waits is None else unit.waits:
            self._waiting.get(slot, {}).pop(unit.anchor.key, None)
        unit.waits = waits
        for slot in (ANY_SLOT,) if waits is None else waits:
            self._waiting.setdefault(slot, {})[unit.anchor.key] = unit

    def _woken(self, filters: Iterable[int], entry: Entry) -> list[Entry]:
        """The starts whose walk goes on with this entry; those too old for it wait no more."""
        slots = {slot for number in filters for slot in self._at.wiring.slots_of.get(number, ())}
        since_ns = entry.time_ns - self.span_ns
        found: dict[Key, Entry] = {}
        for slot in (ANY_SLOT, *sorted(slots)):
            for key, unit in list(self._waiting.get(slot, {}).items()):
                if unit.anchor.time_ns < since_ns:
                    self.wait(unit, frozenset())
                else:
                    found[key] = unit.anchor
        return [found[key] for key in sorted(found)]


# -- times that are not exact ----------------------------------------------------------------------


def _is_in_doubt(unit: MatchUnit | None, entry: Entry, span_ns: int) -> bool:
    if unit is None:
        return False
    low_ns, high_ns = entry.low_ns - span_ns, entry.high_ns + span_ns
    return any(_meets(found.match.bound, low_ns, high_ns) for found in unit.found.values())


def _meets(bound: Bound, low_ns: int, high_ns: int) -> bool:
    """Members and event have an interval each; do theirs, taken together, meet it?"""
    return any(one.high_ns >= low_ns for entries in bound for one in entries) and any(
        one.low_ns <= high_ns for entries in bound for one in entries
    )


# -- units that may be put in doubt ----------------------------------------------------------------

Stretch = tuple[int, int, Key, MatchUnit]
"""From, until, and whose: a unit and the key of its anchor."""


class SureUnits:
    """The units of one run with a match that is sure, by when its members may have happened."""

    __slots__ = ("_by_length", "_stretches")

    def __init__(self) -> None:
        self._stretches: dict[Key, Stretch] = {}
        self._by_length: dict[int, list[Stretch]] = {}

    def note(self, unit: MatchUnit) -> None:
        """What is found of it may be something else than it was, or as sure no more."""
        key = unit.anchor.key
        known, stretch = self._stretches.get(key), _stretch_of(unit)
        if stretch == known:
            return
        if known is not None:
            self.drop(key)
        if stretch is not None:
            self._stretches[key] = stretch
            insort(self._by_length.setdefault(_bits(stretch), []), stretch)

    def drop(self, key: Key) -> None:
        """The unit of this anchor is no more."""
        stretch = self._stretches.pop(key, None)
        if stretch is None:
            return
        bits = _bits(stretch)
        alike = self._by_length[bits]
        del alike[bisect_left(alike, stretch)]
        if not alike:
            del self._by_length[bits]

    def around(self, entry: Entry, within_ns: int) -> list[MatchUnit]:
        """Those with a member that may have happened at most so long before or after it."""
        low_ns, high_ns = entry.low_ns - within_ns, entry.high_ns + within_ns
        found: list[MatchUnit] = []
        for bits, alike in self._by_length.items():
            at = bisect_left(alike, (low_ns - (1 << bits), low_ns, ()))
            end = bisect_left(alike, (high_ns + 1, high_ns, ()), at)
            found += [unit for _, until_ns, _, unit in alike[at:end] if until_ns >= low_ns]
        return found


def _stretch_of(unit: MatchUnit) -> Stretch | None:
    """None if nothing of it is sure."""
    sure = [found.match.bound for found in unit.found.values() if found.confidence == CONFIRMED]
    members = [entry for bound in sure for entries in bound for entry in entries]
    if not members:
        return None
    low_ns = min([entry.low_ns for entry in members])
    return low_ns, max([entry.high_ns for entry in members]), unit.anchor.key, unit


def _bits(stretch: Stretch) -> int:
    return (stretch[1] - stretch[0]).bit_length()
