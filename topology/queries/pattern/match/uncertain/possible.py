"""UNCERTAIN POSSIBLE: finds the matches of every world, for any choice of event times.

A *world* is a choice of event times within their errors. A match belongs to the unit of its last
event by corrected timestamp under skip-till-any, and otherwise of its first. That event may be of
any component. Sets of events are built component by component, and abandoned as soon as a rule
gives NO. A complete set without a NO is possible. Index ranges are wider than the window by twice
the largest error, on both sides.

- MATCHES ALL and ONE: each possible set is a separate result. With ONE, a possible walk is no
  result if a certain walk of another branch of OR surely ends first.
- MATCHES MAXIMAL: the possible sets of a unit that no other contains. So the match of a world is
  part of one of them (its *hull*), which has all events that may belong to it. Groups that are free
  are taken as a whole and not tried event by event.

There is no false negative: the matches of every world are among these, or part of one (MAXIMAL).
There may be false positives, because doubts that exclude each other are not noticed.

If a set can be ruled out only by single events, each by itself, a new event has two effects. It may
rule out existing sets, and it adds sets that contain it. So existing sets are tested against it,
and only sets with it are searched for (`_finds_apart`). If a set may be abandoned before it is
complete, because of its steps (`Plan.prunes`), all sets are searched for. If several alternatives
find the same match (`match.twins`), everything is found again, because the existing results have
only one of them.

Cost: exponential in the length of a group that is not free; bounded as for all tactics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from topology.queries.pattern.compile.grading import NO, YES
from topology.queries.pattern.match.evaluation import Evaluation, Place, Search, StepBudget
from topology.queries.pattern.match.layout import Clause, Layout
from topology.queries.pattern.match.match import Match, in_order
from topology.queries.pattern.match.tactics.maximal import select_maximal
from topology.queries.pattern.match.twins import Twins
from topology.queries.pattern.match.uncertain.case import Case, can_be_together, can_join_members
from topology.queries.pattern.match.uncertain.forbidding import grade_blocked, grade_other_choice
from topology.queries.pattern.match.uncertain.grade import grade_validity
from topology.queries.pattern.match.uncertain.order import grade_before_by_key, within
from topology.queries.pattern.store.entry import Entry, key_of
from topology.queries.pattern.store.index import EntryIndex
from topology.queries.pattern.tree.free_groups import is_free

Bound = list[tuple[Entry, ...]]
Known = dict[tuple[int, tuple[Sequence[Entry], ...]], bool]


class Possible:
    def __init__(self, layouts: Sequence[Layout]) -> None:
        self._plans = [Plan(layout) for layout in layouts]
        self._twins = Twins(layouts)
        self._limit = layouts[0].query.limit
        self._span_ns = layouts[0].span_ns
        mode, untils = layouts[0].matches, (until for each in layouts for until in each.untils)
        self.each_apart = (
            (mode == "all" or (mode == "one" and len(layouts) == 1))
            and not any(layout.is_strict for layout in layouts)
            and not any(until is not None for until in untils)
            and not self._twins.may_be
        )
        self._finds_apart = self.each_apart and not any(plan.prunes for plan in self._plans)

    def _rules_out(self, place: Place, match: Match, new_entry: Entry) -> bool:
        layout = self._plans[match.alternative].layout
        alone = Case(layout, place, match.bound, new_entry)
        return any(forbids(alone) == YES for forbids in (grade_blocked, grade_other_choice))

    def evaluate(
        self,
        place: Place,
        anchor: Entry,
        error_ns: int,
        before: Sequence[Match] = (),
        new_entry: Entry | None = None,
    ) -> Evaluation:
        """Return the possible matches of a unit.

        `before`: all matches found before the event `new_entry` arrived, with the same largest
        error. `new_entry` is given only if each event is tested by itself (`each_apart`).
        """
        known: Known = {}
        found: list[Match] = []
        if new_entry is not None:
            for match in before:
                is_possible = not self._rules_out(place, match, new_entry)
                known[match.alternative, match.bound] = is_possible
                if is_possible and self._finds_apart:
                    found.append(match)
        sought = new_entry if self._finds_apart else None
        budget = StepBudget(self._limit)
        sure: list[Match] = []
        for plan in self._plans:
            search = SetSearch(plan, place, anchor, error_ns, budget, known, sought)
            search.run()
            found += select_maximal(search.found) if plan.takes_largest else search.found
            sure += search.sure
        if self._plans[0].layout.matches == "one":
            found = [match for match in found if not _is_beaten(match, sure)]
        if self._twins.may_be:
            found = self._twins.merge(found)
        matches = in_order(found)
        return Evaluation(
            matches[: self._limit],
            overflow=len(matches) > self._limit or budget.is_spent,
            hi_ns=anchor.time_ns + self._span_ns + 2 * error_ns,
            waits=frozenset(),
            steps=budget.steps,
        )


def _is_beaten(match: Match, sure: Sequence[Match]) -> bool:
    """Return whether a certain walk of another alternative, from the same start, ends first."""
    return any(
        other.alternative != match.alternative
        and other.first is match.first
        and _is_start_certain(other)
        and _is_start_certain(match)
        and _ends_before(other, match)
        for other in sure
    )


def _is_start_certain(match: Match) -> bool:
    """Return whether the first member is the first in every world.

    Otherwise the match has another start in some world.
    """
    first = match.first
    return all(
        entry is first or grade_before_by_key(first, entry) == YES
        for entries in match.bound
        for entry in entries
    )


def _ends_before(one: Match, other: Match) -> bool:
    """Return whether `one` ends before `other` in every world.

    If both end with the same event, the order of the alternatives decides.
    """
    last, ends = other.last, [entry for entries in one.bound for entry in entries]
    if any(entry is not last and grade_before_by_key(entry, last) != YES for entry in ends):
        return False
    return last not in ends or one.alternative < other.alternative


class Plan:
    """The order in which the sets of an alternative are built.

    Attributes:
        free: The free groups of MAXIMAL, which are chosen last and together.
        order: The other components, in the order in which they are chosen.
        prunes: Whether a set may be abandoned because of its steps before it is complete.
        due: The clauses that can be tested once each component has its events.
    """

    def __init__(self, layout: Layout) -> None:
        parts = layout.components
        self.layout = layout
        self.takes_largest = layout.matches == "maximal"
        self.free = [
            part.index
            for part in parts
            if self.takes_largest and part.is_group and is_free(layout.alternative, part)
        ]
        self.order = [part.index for part in parts if part.index not in self.free]
        self.prunes = layout.alternative.is_linear and any(
            "any" not in (part.edge, part.loop) for part in parts
        )
        self.due: list[list[Clause]] = [[] for _ in parts]
        for clause in layout.clauses:
            if clause.aliases and not any(j in self.free for j in clause.aliases):
                self.due[max(clause.aliases, key=self.order.index)].append(clause)


class SetSearch(Search):
    """A search for the possible sets of one alternative and anchor.

    `sure` are the found matches that are valid in every world, without regard to MAXIMAL. `known`
    maps a set of an alternative to whether it is possible. `new_entry` is an event other than the
    anchor that each set must contain; None if there is no such event.
    """

    def __init__(
        self,
        plan: Plan,
        place: Place,
        anchor: Entry,
        error_ns: int,
        budget: StepBudget,
        known: Known,
        new_entry: Entry | None,
    ) -> None:
        most = budget.most if plan.takes_largest else plan.layout.query.limit
        super().__init__(plan.layout, place, budget, most + 1)
        self._plan = plan
        self._anchor = anchor
        self._error_ns = error_ns
        self._known = known
        self._new_entry = new_entry
        self._is_for = -1
        self._bound: Bound = [()] * plan.layout.count
        self.sure: list[Match] = []

    def run(self) -> None:
        indexes, new_entry, places = (
            self.place.components[self.layout.number],
            self._new_entry,
            [-1],
        )
        if new_entry is not None:
            places = [j for j, index in enumerate(indexes) if index.find(new_entry) >= 0]
        for owner, index in enumerate(indexes):
            if index.find(self._anchor) >= 0:
                for self._is_for in places:
                    self._choose(0, owner)

    # -- one component after the other ----------------------------------------------------------

    def _choose(self, at: int, owner: int) -> None:
        """Choose events for `order[at]` and later ones; the anchor is of component `owner`."""
        plan = self._plan
        if at == len(plan.order):
            self._choose_free(owner)
            return
        j = plan.order[at]
        for entries in self._find_choices(j, owner):
            if self.is_over:
                break
            self._bound[j] = entries
            if all(plan.layout.grade_clause(clause, self._bound) for clause in plan.due[j]):
                self._choose(at + 1, owner)
        self._bound[j] = ()

    def _find_choices(self, j: int, owner: int) -> Iterator[tuple[Entry, ...]]:
        layout = self.layout
        if layout.minimum[j] == 0 and j != owner and j != self._is_for:
            yield ()
        candidates = self._find_candidates(j, owner)
        if layout.maximum[j] == 1:
            for entry in candidates:
                passed = self._find_skipped((entry,), j, entry.high_ns)
                if passed is None:
                    yield (entry,)
                elif entry.time_ns - self._error_ns > passed.high_ns:
                    break  # All later entries pass over it too.
            return
        yield from self._find_groups(j, owner, candidates)

    def _find_groups(
        self, j: int, owner: int, candidates: Sequence[Entry]
    ) -> Iterator[tuple[Entry, ...]]:
        """Yield all subsets of the candidates, in the order of keys, that may still be possible."""
        layout = self.layout
        lows_ns = [entry.low_ns for entry in reversed(candidates)]
        later_ns = list(accumulate(lows_ns, min))[::-1]
        waiting: list[tuple[tuple[Entry, ...], int]] = [((), 0)]
        while waiting and not self.is_over:
            group, since = waiting.pop()
            has_all = j != owner or self._anchor in group
            has_all = has_all and (j != self._is_for or self._new_entry in group)
            if has_all and len(group) >= max(1, layout.minimum[j]):
                yield group
            if len(group) >= layout.maximum[j]:
                continue
            for at in range(len(candidates) - 1, since - 1, -1):
                longer = (*group, candidates[at])
                close = all(within(candidates[at], one, layout.within_ns) for one in group)
                if close and self._find_skipped(longer, j, later_ns[at]) is None:
                    waiting.append((longer, at + 1))

    def _find_candidates(self, j: int, owner: int) -> list[Entry]:
        if j == owner and self.layout.maximum[j] == 1:
            cut = [self._anchor]
        else:
            cut = self._cut(j, owner)
        if j != owner:
            cut = [e for e in cut if can_be_together(self.layout, self._anchor, owner, e, j)]
        self.budget.steps += len(cut)
        return [entry for entry in cut if can_join_members(self.layout, self._bound, entry, j)]

    def _cut(self, j: int, owner: int) -> list[Entry]:
        layout, anchor = self.layout, self._anchor
        index = self.place.components[layout.number][j]
        span_ns = layout.within_ns + 2 * self._error_ns
        if layout.by_end:
            low, high = index.count_before(anchor.time_ns - span_ns), index.behind(anchor.key)
        else:
            low, high = index.position(anchor.key), index.count_up_to(anchor.time_ns + span_ns)
        cut = index.entries[low:high]
        if j == self._is_for and layout.maximum[j] == 1:
            return [entry for entry in cut if entry is self._new_entry]
        if self._new_entry is not None and j != self._is_for:
            cut = [entry for entry in cut if entry is not self._new_entry]
        return cut

    def _find_skipped(self, entries: tuple[Entry, ...], j: int, later_ns: int) -> Entry | None:
        """Return an entry that the step into the last of `entries` surely and wrongly passes over.

        Return None if there is none. Choices after these entries are at `later_ns` or later.
        """
        layout = self.layout
        if not self._plan.prunes:
            return None
        bound = [*self._bound]
        bound[j] = entries
        if sum(map(len, bound)) < 2:
            return None
        case, newest = Case(layout, self.place, bound), entries[-1]
        edges = case.edges(j, newest)
        if layout.matches == "one":
            parts = layout.components[: j + 1]
            ways = [k for k, part in enumerate(parts) if "strict" not in (part.edge, part.loop)]
        else:
            ways = [j] if edges == {"next"} else []
        for k in ways:
            for other in self._find_passed(case, case.component_index(k), newest, later_ns):
                if case.grade_fit(other, k) == YES:
                    return other
        if edges == {"strict"}:
            for other in self._find_passed(case, case.place.everything, newest, later_ns):
                if any(grade_before_by_key(one, other) == YES for one in case.members):
                    return other
        return None

    def _find_passed(
        self, case: Case, index: EntryIndex, newest: Entry, later_ns: int
    ) -> Iterator[Entry]:
        """Yield non-members that are surely before `newest`, with no member between."""
        for other in case.find_around(index, case.first.time_ns, newest.time_ns):
            self.budget.steps += 1
            before_all = other.high_ns < later_ns or other.high_ns == other.low_ns == later_ns
            if (
                not before_all
                or other in case.slots_of
                or grade_before_by_key(other, newest) != YES
            ):
                continue
            if all(
                one is newest
                or NO in (grade_before_by_key(other, one), grade_before_by_key(one, newest))
                for one in case.members
            ):
                yield other

    # -- groups taken as a whole ----------------------------------------------------------------

    def _choose_free(self, owner: int) -> None:
        """Choose the largest sets of events for the free groups, given the other choices."""
        plan = self._plan
        if not plan.free:
            self._record_match()
            return
        nodes: list[tuple[int, Entry]] = []
        for j in plan.free:
            nodes += [(j, e) for e in self._find_candidates(j, owner) if self._may_fit(e, j)]
        layout = self.layout
        together = [[can_be_together(layout, e, i, o, j) for j, o in nodes] for i, e in nodes]
        for clique in find_cliques(together, self.budget):
            chosen = [nodes[at] for at in clique]
            if owner in plan.free and (owner, self._anchor) not in chosen:
                continue
            for j in plan.free:
                self._bound[j] = tuple(sorted((e for k, e in chosen if k == j), key=key_of))
            if all(len(self._bound[j]) >= plan.layout.minimum[j] for j in plan.free):
                self._record_match()
        for j in plan.free:
            self._bound[j] = ()

    def _may_fit(self, entry: Entry, j: int) -> bool:
        bound: list[Sequence[Entry]] = [*self._bound]
        bound[j] = (entry,)
        layout = self.layout
        return all(
            layout.grade_clause(clause, bound) for clause in layout.clauses if j in clause.aliases
        )

    def _record_match(self) -> None:
        layout = self.layout
        if not any(self._bound):
            return
        self.budget.steps += 1
        is_possible = self._known.get((layout.number, tuple(self._bound)))
        if is_possible is not None:
            if is_possible:
                self.found.append(Match(layout.number, tuple(self._bound)))
            return
        grade = grade_validity(Case(layout, self.place, self._bound), is_nominal=False)
        if grade > NO:
            match = Match(layout.number, tuple(self._bound))
            self.found.append(match)
            if grade == YES:
                self.sure.append(match)


def find_cliques(together: Sequence[Sequence[bool]], budget: StepBudget) -> Iterator[list[int]]:
    """Yield the maximal sets of nodes in which every two nodes go together.

    These are maximal cliques (Bron and Kerbosch, 1973), found with a pivot; a set is the bits of an
    integer. `together` is symmetric. Without nodes, the only clique is empty. Ordered events form
    few cliques. At worst there are 3^(n/3), so each step counts against the budget.
    """
    count = len(together)
    beside = [
        sum(1 << other for other in range(count) if other != node and together[node][other])
        for node in range(count)
    ]
    waiting = [(0, (1 << count) - 1, 0)]
    while waiting and not budget.is_spent:
        budget.steps += 1
        chosen, open_, closed = waiting.pop()
        if not open_:
            if not closed:
                yield list(_iter_bits(chosen))
            continue
        pivot = max(_iter_bits(open_ | closed), key=lambda node: (beside[node] & open_).bit_count())
        for node in _iter_bits(open_ & ~beside[pivot]):
            bit = 1 << node
            waiting.append((chosen | bit, open_ & beside[node], closed & beside[node]))
            open_ &= ~bit
            closed |= bit


def _iter_bits(nodes: int) -> Iterator[int]:
    while nodes:
        lowest = nodes & -nodes
        yield lowest.bit_length() - 1
        nodes ^= lowest
