"""MATCHES ONE: finds the match of a start by one walk in each alternative.

The walk goes through the events in the order of keys, and takes each event that is eligible for an
open component. If several components could take it, a successor is preferred to a loop (with
GREEDY, a loop to a successor). Then the lower position in the text decides. A STRICT step takes the
very next event or none.

The walk skips events that cannot matter: a bisection finds the next eligible entry of each open
component, and the earliest of these is taken. A group that no condition reads takes all its entries
up to the next eligible one of another component in one slice.

A walk is a match if all components have their minimum, the remaining predicates hold and no
negation forbids it. This is tested only at the end of the walk, and there is no second try. With
several alternatives, the match is the valid walk that ends first. If two end with the same event,
the lower number decides.

Cost: O(components²) and a bisection for each entry or slice taken. If predicates decide which
entries are eligible, the entries looked at are added. Each is looked at once for each component,
and again if an entry that the predicates read changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from topology.queries.pattern.match.evaluation import Evaluation, Place, StepBudget
from topology.queries.pattern.match.layout import GREEDY_LOOP, LOOP, SUCCESSOR, Clause
from topology.queries.pattern.match.tactics.blockers import gaps_at_end
from topology.queries.pattern.match.tactics.rules import RunRules
from topology.queries.pattern.store.entry import Entry, Key
from topology.queries.pattern.store.index import BEFORE_ALL_NS, EntryIndex


class Route:
    """An alternative, with the properties of its walks that are known beforehand.

    Attributes:
        cuts: Whether each component is a group that may take its entries in one slice.
        depends: For each component, those that decide which entries are eligible for it, and -1 if
            these are not all known beforehand.
        is_cut_short: Whether an event that a walk does not take may end the walk earlier. It may
            then end with the same event as a walk of another alternative, and be preferred to it.
    """

    def __init__(self, rules: RunRules) -> None:
        self.rules = rules
        named = {j for clause in rules.clauses for j in clause.aliases}
        self.cuts = [
            part.is_group and part.until is None and j not in named and not rules.has_strict_step
            for j, part in enumerate(rules.components)
        ]
        self.depends = [frozenset(_dependencies_of(tests)) for tests in rules.tests]
        self.is_cut_short = rules.has_strict_step or any(rules.untils)


def _dependencies_of(tests: Sequence[Clause]) -> Iterator[int]:
    for clause in tests:
        yield from clause.aliases
        if clause.settled_at < 0:
            yield -1


class Walk:
    """A walk from a start.

    Attributes:
        last: The last entry taken.
        open: The components that could still take newer entries, once the walk is over.
        closed_ns: The time of the newest entry that closed a component. Either a STRICT step could
            not take this entry, or UNTIL ended the group with it.
    """

    def __init__(self, route: Route, place: Place, start: Entry, budget: StepBudget) -> None:
        self.route = route
        self._rules = route.rules
        self._place = place
        self._indexes = place.components[route.rules.number]
        self._budget = budget
        self.start = start
        self._until_ns = start.time_ns + route.rules.within_ns
        self._reach_ns = start.time_ns + route.rules.span_ns
        # For each component, no entry before this position is eligible.
        self._ahead = [0] * route.rules.count
        self.bound = route.rules.empty()
        self.open: list[int] = []
        self.closed_ns = BEFORE_ALL_NS
        self.last = start

    @property
    def is_complete(self) -> bool:
        return self._rules.is_complete(self.bound)

    def run(self) -> bool:
        """Take entries until none is left, or return False if the walk cannot even start."""
        if not self._begin():
            return False
        while not self._budget.is_spent and self._step():
            pass
        return True

    def _begin(self) -> bool:
        for j in self.route.rules.starts:
            self._budget.steps += 1
            if self._indexes[j].find(self.start) >= 0 and self._fits(j, self.start):
                self._take(j, self.start)
                return True
        return False

    def _fits(self, j: int, entry: Entry) -> bool:
        """Return whether the predicates hold with the entry, which is not taken yet."""
        rules, bound = self._rules, self.bound
        return not rules.is_ender(bound, j, entry) and rules.would_hold(bound, j, entry)

    def _take(self, j: int, entry: Entry) -> None:
        self.bound[j].append(entry)
        self.last = entry
        for i, depends in enumerate(self.route.depends):
            if i == j or j in depends or -1 in depends:
                self._ahead[i] = 0

    def _step(self) -> bool:
        """Take the next entry or slice, or return False if there is none."""
        rules = self._rules
        self.open = []
        self.closed_ns = BEFORE_ALL_NS
        best: Entry | None = None
        best_j = -1
        best_rank = LOOP
        stop: Key | None = None  # The next eligible entry of any component other than the best.
        for j in range(rules.count):
            if not rules.is_open(self.bound, j):
                continue
            entry = self._find_candidate(j)
            if entry is None:
                continue
            rank = self._rank_of(j)
            if best is None or (entry.key, rank) < (best.key, best_rank):
                stop = best.key if best is not None else None
                best, best_j, best_rank = entry, j, rank
            elif stop is None or entry.key < stop:
                stop = entry.key
        if best is None:
            return False
        if self.route.cuts[best_j] and self.bound[best_j]:
            self._cut(best_j, best, stop)
        else:
            self._take(best_j, best)
        return True

    def _rank_of(self, j: int) -> int:
        if not self.bound[j]:
            return SUCCESSOR
        return GREEDY_LOOP if self._rules.components[j].greedy else LOOP

    def _cut(self, j: int, first: Entry, stop: Key | None) -> None:
        """Take all entries of the group from `first` up to the next one of another component."""
        index = self._indexes[j]
        group = self.bound[j]
        low = index.position(first.key)
        high = index.count_up_to(self._until_ns)
        if stop is not None:
            high = min(high, index.position(stop))
        missing = self._rules.minimum[j] - len(group)
        most = missing if missing > 0 else self._rules.maximum[j] - len(group)
        high = max(low + 1, min(high, low + most))
        group += index.entries[low:high]
        self.last = group[-1]
        self._ahead[j] = 0
        self._budget.steps += 1

    def _find_candidate(self, j: int) -> Entry | None:
        """Return the next entry that is eligible for the open component, or None if there is none.

        The component is added to `open` if a newer entry could be eligible.
        """
        rules = self._rules
        index = self._indexes[j]
        low = max(rules.begin(self.bound, j, index, self.last), self._ahead[j])
        if rules.edge(self.bound, j) == "strict":
            entry = self._find_strict_next(j, index, low)
            return None if entry is None or self._is_ended(j, entry) else entry
        high = index.count_up_to(self._until_ns)
        self._budget.steps += 1
        while low < high and not self._fits(j, index.entries[low]):
            low += 1
            self._budget.steps += 1
        self._ahead[j] = low
        entry = index.entries[low] if low < high else None
        if self._is_ended(j, entry):
            return None
        self.open.append(j)
        return entry

    def _is_ended(self, j: int, entry: Entry | None) -> bool:
        """Return whether UNTIL ends the group before the entry (None: before the window's end)."""
        until = self._until_ns if entry is None else entry
        ender = self._rules.find_group_end(self.bound, j, self._place, until, self._budget)
        if ender is not None:
            self.closed_ns = max(self.closed_ns, ender.time_ns)
        return ender is not None

    def _find_strict_next(self, j: int, index: EntryIndex, low: int) -> Entry | None:
        following = self._place.entry_after(self.last)
        self._budget.steps += 1
        if following is None:
            if not self._is_ended(j, None):
                self.open.append(j)
            return None
        self.closed_ns = max(self.closed_ns, following.time_ns)
        if index.find(following) < low:
            return None
        if following.time_ns > self._until_ns or not self._fits(j, following):
            return None
        return following

    # -- after the walk -------------------------------------------------------------------------

    @property
    def decided_ns(self) -> int:
        """The instant after which no event changes the entries that the walk takes."""
        if self.closed_ns > BEFORE_ALL_NS and not self.open:
            return min(self._reach_ns, max(self.last.time_ns, self.closed_ns))
        return self.last.time_ns if self.is_complete and not self.open else self._reach_ns

    def waits(self) -> list[tuple[int, int]]:
        """Return the components of which at least one must get a newer entry to change the result.

        Each is given as (alternative, component). These are the open components that lack entries
        or, if the walk is complete, all open ones.
        """
        complete = self.is_complete
        minimum = self._rules.minimum
        return [
            (self.route.rules.number, j)
            for j in self.open
            if complete or len(self.bound[j]) < minimum[j]
        ]


class One:
    """The tactic of MATCHES ONE.

    A unit's `waits` are those of its walks (`Walk.waits`), and the negations at the end of its
    match. While none of them gets a new entry, the result stays the same. So a unit is evaluated
    about as often as it has components.
    """

    def __init__(self, layouts: Sequence[RunRules]) -> None:
        self._routes = [Route(rules) for rules in layouts]
        self._span_ns = layouts[0].span_ns
        self._limit = layouts[0].query.limit

    def evaluate(self, place: Place, anchor: Entry) -> Evaluation:
        budget = StepBudget(self._limit)
        until_ns = anchor.time_ns + self._span_ns
        evaluation = Evaluation(hi_ns=anchor.time_ns)
        waits: list[tuple[int, int]] = []
        best: Walk | None = None
        before: list[Walk] = []
        unsettled = False
        for route in self._routes:
            walk = Walk(route, place, anchor, budget)
            if not walk.run():
                continue
            before.append(walk)
            waits += walk.waits()
            evaluation.hi_ns = max(evaluation.hi_ns, walk.decided_ns)
            match = route.rules.match(walk.bound, place, anchor, walk.last, budget)
            if match is None and walk.is_complete:
                # Another event may arrive before the one that a STRICT negation at the end looks
                # at.
                unsettled |= any(gap.strict for gap in gaps_at_end(route.rules, walk.bound))
            if match is not None and (best is None or walk.last.key < best.last.key):
                best = walk
                evaluation.matches = [match]
        if best is not None:
            rules = best.route.rules
            ends = [(rules.number, gap.slot) for gap in gaps_at_end(rules, best.bound)]
            waits = waits + ends if best.open else ends
            evaluation.hi_ns = until_ns if waits else best.decided_ns
            for walk in before[: before.index(best)]:
                if walk.last.key > best.last.key and walk.route.is_cut_short:
                    evaluation.hi_ns = max(evaluation.hi_ns, walk.last.time_ns)
        if unsettled:
            evaluation.hi_ns = until_ns
        if budget.is_spent:
            evaluation.matches = []
            evaluation.overflow = True
        evaluation.waits = frozenset(waits)
        evaluation.steps = budget.steps
        return evaluation
