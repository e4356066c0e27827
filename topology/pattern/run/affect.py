"""Finds the units of a run that an event can change, by the matches in them.

A unit is all matches found from one event, its anchor (`run.unit`). SKIP may then change further
units, also beyond a window (`selection`).

Cost of an event in order:

- Under skip-till-any it affects one unit if it can end a match. If it may forbid earlier matches,
  it affects all units within a window.
- For MATCHES ONE and BEST it affects one unit for each start that waits for such an event.
- For ALL from start events it may affect each start that can lead to the event (`earliest`).

An event out of order affects every unit within a window of it.

If events have time errors, an event may also put a match in doubt. For most queries, each event
does so independently of all others (`doubts_apart`). Then corrected timestamps alone select the
units to evaluate, and `SureUnits` finds those in doubt without an evaluation. Otherwise, all units
with a match that is not yet decided are evaluated too.

By corrected timestamps an event changes only units at most a window away. In a unit further away it
can change only grades, if it may have happened at most a window from a member. Without this check,
one event of a clock that is off by a second would make every event grade a second of matches again.

The check is valid because a grade depends on the members and on each other event separately. It is
not valid for STRICT and UNTIL, because a third event may be between the two. Nor is it for
POSSIBLE, which finds matches that corrected timestamps do not form. For those, every unit within
reach of the largest error counts as affected.

`SureUnits` stores the units with a certain match by the time range of their members. It has one
list for each magnitude of a range's length, by powers of two. So one long range does not widen
every look-up. Storing a unit costs O(log n) and a move of references. A look-up costs two
bisections for each magnitude, and looks at no more than twice the units that it finds.
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
"""The slot under which units wait that any entry can change."""


class Affected:
    """A finder of the units of a query in one partition that an event can change.

    Attributes:
        possible_apart: Whether each event rules out possible matches (UNCERTAIN POSSIBLE)
            independently of all others.
    """

    __slots__ = ("_at", "_doubts_apart", "_waiting", "possible_apart")

    def __init__(self, at: PartitionQuery) -> None:
        self._at = at
        self._waiting: dict[Slot, dict[Key, MatchUnit]] = {}
        query, possible = at.query, at.query.possible
        sees_all = at.wiring.corrects_at_once
        self.possible_apart = sees_all and possible is not None and possible.each_apart
        self._doubts_apart = (
            query.grading is not None
            and possible is None
            and not query.shape.strict
            and not query.untils
            and sees_all
        )

    @property
    def doubts_independently(self) -> bool:
        """Whether events have errors, and each puts matches in doubt independently of the others.

        It is False for a query with SKIP that waits for a quality target. There, each evaluation of
        a unit looks at all visible matches of the run.
        """
        if not self._doubts_apart or self._at.doubt.margin_ns <= 0:
            return False
        return self._at.wiring.target_ns is None or not self._at.query.shape.skips

    def uses_any(self, filters: Sequence[int]) -> bool:
        """Return whether the query uses any of these filters."""
        return not self._at.wiring.filters.isdisjoint(filters)

    def by(self, entry: Entry, filters: Sequence[int], *, in_order: bool) -> list[Entry]:
        """Return the anchors of the units that the entry can change.

        The entry is already in the indexes of these filters.
        """
        query, shape = self._at.query, self._at.query.shape
        mine = self._at.wiring.filters.intersection(filters)
        if not mine and not shape.strict:
            return []
        is_in_doubt, doubts_apart = self._at.doubt.margin_ns > 0, self.doubts_independently
        if not in_order or (is_in_doubt and query.possible is not None):
            anchors = self._find_affected_out_of_order(entry)
        else:
            anchors = self._find_affected_in_order(entry, mine)
            if is_in_doubt and not doubts_apart:
                affected = {
                    anchor.key: anchor for anchor in (*anchors, *self._find_undecided(entry))
                }
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
        """The largest distance from a match to an event that forbids it.

        It is measured by corrected timestamps, so it includes the margin for errors.
        """
        return self._at.query.span_ns + self._at.doubt.margin_ns

    @property
    def open_ns(self) -> int:
        """The time after its anchor's timestamp during which a unit may still change."""
        shape = self._at.query.shape
        opens = not shape.by_end or shape.looks_ahead or shape.skips
        return self.span_ns if opens else self._at.doubt.margin_ns

    def _find_affected_in_order(self, entry: Entry, mine: frozenset[int]) -> list[Entry]:
        wiring, shape = self._at.wiring, self._at.query.shape
        if shape.by_end:
            if shape.looks_ahead and mine & wiring.blockers:
                return self.anchors(entry.time_ns - self.span_ns, entry.time_ns)
            return [entry] if mine & wiring.anchors else []
        if self._at.query.query.matches in FROM_START:
            woken = self._find_woken(mine, entry)
            if mine & wiring.anchors:
                woken.append(entry)
            return woken
        if mine & wiring.enders or (shape.has_end_negation and mine & wiring.blockers):
            return self.anchors(self._find_earliest_ns(entry), entry.time_ns)
        return []

    def _find_earliest_ns(self, entry: Entry) -> int:
        """Return the time before which no start has a match that the entry ends or forbids."""
        since_ns, earliest = entry.time_ns - self.span_ns, self._at.query.earliest
        if earliest is None or (self._at.doubt.margin_ns and not self.doubts_independently):
            return since_ns
        since_ns = entry.time_ns - self._at.query.within_ns
        return earliest.before(self._at.place, entry, since_ns)

    def _find_undecided(self, entry: Entry) -> list[Entry]:
        """Return the anchors of the units with a match that the entry can still change."""
        time_ns, known = entry.time_ns, self._at.units.get
        since_ns = time_ns - self.span_ns - self._at.doubt.margin_ns
        return [
            anchor
            for anchor in self.anchors(since_ns, -BEFORE_ALL_NS)
            if (unit := known(anchor.key)) is not None and unit.is_undecided(time_ns)
        ]

    def _find_affected_out_of_order(self, entry: Entry) -> list[Entry]:
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
            return anchors  # The match may have been found when errors were smaller than now.
        looks_further = margin_ns > 0 and not self.doubts_independently
        known = self._at.units.get
        return [
            anchor
            for anchor in anchors
            if (unit := known(anchor.key)) is None
            or time_ns <= unit.hi_ns
            or anchor is entry
            or (looks_further and unit.is_undecided(time_ns))
        ]

    def find_around(self, entry: Entry) -> list[Entry]:
        """Return the anchors of all units whose matches the entry may affect in any role."""
        reach_ns = self._at.query.reach_ns + 3 * self._at.doubt.margin_ns
        return self.anchors(entry.time_ns - reach_ns, entry.time_ns + reach_ns)

    def anchors(self, since_ns: int, until_ns: int) -> list[Entry]:
        """Return the anchors of all units between these instants (inclusive), ordered by key."""
        cuts = []
        for number in self._at.wiring.anchors:
            index = self._at.indexes[number]
            low, high = index.count_before(since_ns), index.count_up_to(until_ns)
            cuts.append(index.entries[low:high])
        if len(cuts) == 1:
            return cuts[0]
        found = {entry.key: entry for cut in cuts for entry in cut}
        return [found[key] for key in sorted(found)]

    # -- starts that wait (MATCHES ONE, BEST) -------------------------------------------------

    def wait(self, unit: MatchUnit, waits: frozenset[Slot] | None) -> None:
        """Set the slots whose new entries change the unit; None means that any entry does."""
        for slot in (ANY_SLOT,) if unit.waits is None else unit.waits:
            self._waiting.get(slot, {}).pop(unit.anchor.key, None)
        unit.waits = waits
        for slot in (ANY_SLOT,) if waits is None else waits:
            self._waiting.setdefault(slot, {})[unit.anchor.key] = unit

    def _find_woken(self, filters: Iterable[int], entry: Entry) -> list[Entry]:
        """Return the anchors of the waiting units that this entry may change.

        Units whose window ended before the entry stop waiting.
        """
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
    return any(_overlaps(found.match.bound, low_ns, high_ns) for found in unit.found.values())


def _overlaps(bound: Bound, low_ns: int, high_ns: int) -> bool:
    """Return whether the time range of a match's members overlaps low_ns..high_ns."""
    return any(one.high_ns >= low_ns for entries in bound for one in entries) and any(
        one.low_ns <= high_ns for entries in bound for one in entries
    )


# -- units that may be put in doubt ----------------------------------------------------------------

TimeRange = tuple[int, int, Key, MatchUnit]
"""The first and last possible instant of a unit's certain matches, its anchor's key, and the unit.
"""


class SureUnits:
    """The units of one run with a certain match, by the time range of their members."""

    __slots__ = ("_by_length", "_ranges")

    def __init__(self) -> None:
        self._ranges: dict[Key, TimeRange] = {}
        self._by_length: dict[int, list[TimeRange]] = {}

    def note(self, unit: MatchUnit) -> None:
        """Update the unit's time range after its matches or their certainty may have changed."""
        key = unit.anchor.key
        known, range_ = self._ranges.get(key), _range_of(unit)
        if range_ == known:
            return
        if known is not None:
            self.drop(key)
        if range_ is not None:
            self._ranges[key] = range_
            insort(self._by_length.setdefault(_bit_length_of(range_), []), range_)

    def drop(self, key: Key) -> None:
        """Remove the unit whose anchor has this key, if it is here."""
        range_ = self._ranges.pop(key, None)
        if range_ is None:
            return
        bits = _bit_length_of(range_)
        alike = self._by_length[bits]
        del alike[bisect_left(alike, range_)]
        if not alike:
            del self._by_length[bits]

    def find_around(self, entry: Entry, within_ns: int) -> list[MatchUnit]:
        """Return the units whose time range comes within `within_ns` of the entry's own."""
        low_ns, high_ns = entry.low_ns - within_ns, entry.high_ns + within_ns
        found: list[MatchUnit] = []
        for bits, alike in self._by_length.items():
            at = bisect_left(alike, (low_ns - (1 << bits), low_ns, ()))
            end = bisect_left(alike, (high_ns + 1, high_ns, ()), at)
            found += [unit for _, until_ns, _, unit in alike[at:end] if until_ns >= low_ns]
        return found


def _range_of(unit: MatchUnit) -> TimeRange | None:
    """Return the time range of the unit's certain matches, or None if it has none."""
    sure = [found.match.bound for found in unit.found.values() if found.confidence == CONFIRMED]
    members = [entry for bound in sure for entries in bound for entry in entries]
    if not members:
        return None
    low_ns = min([entry.low_ns for entry in members])
    return low_ns, max([entry.high_ns for entry in members]), unit.anchor.key, unit


def _bit_length_of(range_: TimeRange) -> int:
    return (range_[1] - range_[0]).bit_length()
