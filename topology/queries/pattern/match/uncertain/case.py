"""Grades a match among the events around it: is it a match in all worlds, in some, or in none?

A *world* is a choice of event times within their errors. The grade is sound at both ends: YES is
true in every world, NO is false in every world.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from topology.queries.pattern.compile.grading import MAYBE, NO, YES
from topology.queries.pattern.match.evaluation import Place
from topology.queries.pattern.match.layout import Layout
from topology.queries.pattern.match.uncertain.order import (
    grade_before,
    grade_before_by_key,
    grade_within,
    is_order_certain,
    negate,
    within,
)
from topology.queries.pattern.store.entry import Entry, key_of
from topology.queries.pattern.store.index import EntryIndex
from topology.queries.pattern.tree.syntax import Edge

T = TypeVar("T")


def can_join_members(
    layout: Layout, bound: Sequence[Sequence[Entry]], entry: Entry, j: int
) -> bool:
    """Return whether the event may be in one match with these members, as component `j`.

    It must be none of the members, and its order and distance to each must be possible.
    """
    return all(
        can_be_together(layout, one, i, entry, j)
        for i, entries in enumerate(bound)
        for one in entries
    )


def can_be_together(layout: Layout, one: Entry, i: int, other: Entry, j: int) -> bool:
    """Return whether `one`, of component `i`, and `other`, of `j`, may be in one match."""
    if one is other or not within(one, other, layout.within_ns):
        return False
    earlier = grade_before_by_key if layout.by_key else grade_before
    if i in layout.before[j]:
        return earlier(one, other) > NO
    return j not in layout.before[i] or earlier(other, one) > NO


class Case:
    """A match, or a part of one that is being built, among the events around it.

    Attributes:
        bound: The members by component.
        only: The only event around the match that is considered; None means all events.
        slots_of: The component of each member.
        error_ns: The largest error of a member.
    """

    def __init__(
        self,
        layout: Layout,
        place: Place,
        bound: Sequence[Sequence[Entry]],
        only: Entry | None = None,
    ) -> None:
        self.layout = layout
        self.place = place
        self.bound = bound
        self.only = only
        self.members = [entry for entries in bound for entry in entries]
        self.slots_of = {entry: j for j, entries in enumerate(bound) for entry in entries}
        self.first = min(self.members, key=key_of)
        self.last = max(self.members, key=key_of)
        self.error_ns = max([entry.event.error_ns for entry in self.members])

    def component_index(self, j: int) -> EntryIndex:
        return self.place.components[self.layout.number][j]

    def find_around(
        self, index: EntryIndex, low_ns: int, high_ns: int, beside: Entry | None = None
    ) -> list[Entry]:
        """Return the entries whose event time may be between those of two members.

        The members have the corrected timestamps `low_ns` and `high_ns`. Instead of a member, one
        of the two may be the entry `beside`.
        """
        error_ns = self.error_ns
        if beside is not None and beside.event.error_ns > error_ns:
            error_ns = beside.event.error_ns
        low_ns -= error_ns
        high_ns += error_ns
        only = self.only
        if only is None:
            return index.find_overlapping(low_ns, high_ns)
        if only.high_ns < low_ns or only.low_ns > high_ns:
            return []
        return [only] if index.find(only) >= 0 else []

    def find_passed(self, index: EntryIndex, entry: Entry) -> list[Entry]:
        """Return the non-members that may be between the first member and the entry."""
        around = self.find_around(index, self.first.time_ns, entry.time_ns, entry)
        return [one for one in around if one is not entry and one not in self.slots_of]

    # -- the requirements on the match itself ----------------------------------------------------

    def order(self) -> int:
        """Grade whether the members are in the order of their components.

        All ordered pairs are compared, not only neighbours. So the grade is NO if no choice of
        event times gives this order, because then some earlier event cannot be before some later
        one.
        """
        layout, worst = self.layout, YES
        for j, entries in enumerate(self.bound):
            if not entries:
                continue
            low_ns = min(entry.low_ns for entry in entries)
            for i in layout.before[j]:
                for one in self.bound[i]:
                    if one.high_ns >= low_ns:
                        worst = min(worst, min(self._before(one, other) for other in entries))
        return worst

    def _before(self, one: Entry, other: Entry) -> int:
        return grade_before_by_key(one, other) if self.layout.by_key else grade_before(one, other)

    def window(self) -> int:
        within_ns, members = self.layout.within_ns, self.members
        low_ns = min(entry.low_ns for entry in members)
        high_ns = max(entry.high_ns for entry in members)
        if high_ns - low_ns <= within_ns:
            return YES
        early = [entry for entry in members if entry.low_ns < high_ns - within_ns]
        late = [entry for entry in members if entry.high_ns > low_ns + within_ns]
        return min(grade_within(one, other, within_ns) for one in late for other in early)

    def conditions(self, *, is_nominal: bool) -> int:
        """Grade the conditions; `is_nominal` says that they hold by corrected timestamps."""
        layout, worst = self.layout, YES
        if layout.splits_by_time and len(self.members) > 1:
            worst = MAYBE if any(e.low_ns < e.high_ns for e in self.members) else YES
        for clause in layout.clauses:
            if clause.in_doubt or not is_nominal:
                worst = min(worst, layout.grade_clause(clause, self.bound))
                if worst == NO:
                    break
        return worst

    # -- the next step ---------------------------------------------------------------------------

    def edges(self, j: int, entry: Entry) -> set[Edge]:
        """Return the possible contiguities of the step into a member, or into one more entry."""
        part = self.layout.components[j]
        return self.choose_by_position(j, entry, part.edge, part.loop)

    def choose_by_position(self, j: int, entry: Entry, first: T, loop: T) -> set[T]:
        """Return `loop` if another member of component `j` is before the entry, else `first`.

        Return both if that is uncertain.
        """
        others = [grade_before_by_key(one, entry) for one in self.bound[j] if one is not entry]
        looped = max(others, default=NO)
        return {first} if looped == NO else {loop} if looped == YES else {first, loop}

    def grade_fit(self, entry: Entry, j: int) -> int:
        """Grade whether, after the earlier members, the component is open and the entry fits.

        The entry is in the index of component `j`, but is no member of it. If no member is before
        the entry, the entry fits only if it is the match's start for another component.
        """
        layout = self.layout
        firsts = [self.bound[k][0] for k in layout.after[j] if self.bound[k]]
        if any(grade_before_by_key(one, entry) == YES for one in firsts):
            return NO
        sure, open_ = self._members_before(entry)
        if not any(sure) and not any(open_) and entry not in self.slots_of:
            return NO
        grade = min(
            YES if any(sure) or entry is self.first else MAYBE,
            self._grade_open(sure, open_, j),
            self._grade_place(entry, sure, open_, j),
        )
        if grade > NO:
            grade = min(grade, self._grade_predicates(entry, sure, open_, j))
        if grade > NO and layout.untils[j] is not None:
            grade = min(grade, negate(self._grade_ended(entry, sure, open_, j)))
        return grade

    def _members_before(self, entry: Entry) -> tuple[list[list[Entry]], list[list[Entry]]]:
        """Return the members that are surely, and those that are possibly, before the entry."""
        sure: list[list[Entry]] = []
        open_: list[list[Entry]] = []
        for entries in self.bound:
            surely, maybe = [], []
            for one in entries:
                grade = NO if one is entry else grade_before_by_key(one, entry)
                if grade == YES:
                    surely.append(one)
                elif grade == MAYBE:
                    maybe.append(one)
            sure.append(surely)
            open_.append(maybe)
        return sure, open_

    def _grade_open(self, sure: list[list[Entry]], open_: list[list[Entry]], j: int) -> int:
        layout, grade = self.layout, YES
        for i in layout.before[j]:
            if len(sure[i]) < layout.minimum[i]:
                enough = len(sure[i]) + len(open_[i]) >= layout.minimum[i]
                grade = min(grade, MAYBE if enough else NO)
        if len(sure[j]) >= layout.maximum[j]:
            return NO
        if len(sure[j]) + len(open_[j]) >= layout.maximum[j]:
            grade = min(grade, MAYBE)
        for k in layout.after[j]:
            grade = min(grade, NO if sure[k] else MAYBE if open_[k] else YES)
        return grade

    def _grade_place(
        self, entry: Entry, sure: list[list[Entry]], open_: list[list[Entry]], j: int
    ) -> int:
        """Grade whether the entry is after the earlier components and within the window.

        Equal times are not in order, unless the layout orders by key.
        """
        layout, grade = self.layout, YES
        for i in range(layout.count):
            for one in sure[i]:
                grade = min(grade, grade_within(entry, one, layout.within_ns))
                if i in layout.before[j]:
                    grade = min(grade, self._before(one, entry))
            for one in open_[i]:
                is_within = grade_within(entry, one, layout.within_ns) == YES
                apart = i not in layout.before[j] or self._before(one, entry) == YES
                grade = min(grade, YES if is_within and apart else MAYBE)
        return grade

    def _grade_predicates(
        self, entry: Entry, sure: list[list[Entry]], open_: list[list[Entry]], j: int
    ) -> int:
        """Grade the predicates that are due once the entry is taken."""
        layout, grade = self.layout, YES
        bound = [*sure]
        bound[j] = [*sure[j], entry]
        for clause in layout.clauses:
            if j not in clause.aliases and not any(a in layout.before[j] for a in clause.aliases):
                continue
            if any(open_[a] for a in clause.aliases):
                grade = min(grade, MAYBE)
                continue
            due = min(
                self._grade_due(bound, open_, a, a in clause.whole, j) for a in clause.aliases
            )
            if due != NO:
                held = layout.grade_clause(clause, bound)
                grade = min(grade, held if due == YES else max(held, MAYBE))
        return grade

    def _grade_due(
        self, bound: list[list[Entry]], open_: list[list[Entry]], a: int, whole: bool, j: int
    ) -> int:
        """Grade whether component `a` is closed or, unless it is needed as a whole, bound."""
        after = self.layout.after[a]
        if j in after or any(bound[k] for k in after) or (bound[a] and not whole):
            return YES
        return MAYBE if any(open_[k] for k in after) else NO

    # -- UNTIL ----------------------------------------------------------------------------------

    def enders(self, j: int) -> EntryIndex:
        return self.place.enders[self.layout.number, j]

    def grade_ended_by(
        self, j: int, found: Sequence[tuple[Entry, int]], asked: Sequence[Entry]
    ) -> int:
        """Grade whether one of these entries ends the group of component `j`.

        `found` pairs each entry with a grade: whether the entry is in the group's range. `asked`
        are the entries on which UNTIL is tested if it reads more than the event itself.
        """
        layout, until = self.layout, self.layout.untils[j]
        if until is None:
            return NO
        if until.alone is not None:
            worst = NO
            for entry, inside in found:
                binding: list[Sequence[Entry]] = [()] * layout.slots
                binding[j] = [entry]
                worst = max(worst, min(inside, until.alone(binding)))
            return worst
        if until.looks_at_time or not is_order_certain(
            [*self.members, *(entry for entry, _ in found)]
        ):
            return MAYBE
        for entry in asked:  # The members before the entry are chosen by corrected timestamps.
            bound = [[one for one in entries if one.key < entry.key] for entries in self.bound]
            bound[j].append(entry)
            if until.condition.holds_newest(layout.make_binding(bound), j) is True:
                return YES
        return NO

    def _grade_ended(
        self, entry: Entry, sure: list[list[Entry]], open_: list[list[Entry]], j: int
    ) -> int:
        """Grade whether the entry, or another event since the group began, ends the group."""
        begun = [*sure[j], *open_[j]]
        found = [(entry, YES)]
        if begun:
            since_ns = min(one.time_ns for one in begun)
            for other in self.find_around(self.enders(j), since_ns, entry.time_ns, entry):
                since = max(grade_before_by_key(one, other) for one in begun)
                since = min(since, grade_before_by_key(other, entry), YES if sure[j] else MAYBE)
                if other is not entry and since:
                    found.append((other, since))
        later = [one for one, _ in found if one is entry or one.key > begun[-1].key]
        return self.grade_ended_by(j, found, later)
