"""MATCHES BEST: finds the match of a start that a backtracking regular expression finds first.

docs/guides/patterns.md has examples ("The best match"). The best match is the least of the matches
that ALL finds for the start, ordered by the choices that lead to them (`preference`). In a group,
continuing is preferred to what follows; if its count is reluctant, what follows is preferred. For
an optional part, presence is preferred, or absence if it is reluctant. The branches of an OR are
preferred in the order of the text. A late event may change the best match, which keeps its id, or
leave none.

The search is that of ALL (`search`), but it tries preferred choices first and stops at the first
match. That match is the least of its alternative. The result is the least of all alternatives.

A match is settled (`Evaluation.hi_ns`) if no preferred match can still be formed. For this, each
step that was tried before must already have found the event that it had to take. A STRICT step may
instead have found an event that it could not take. Otherwise the match is settled when its window
ends. With SKIP or time errors that is always so (`Compiled.settles`).

Cost: that of the search up to the first match. It is linear if each step but one leaves no choice.
At worst the search covers all preferred runs; the budget bounds it.
"""

from __future__ import annotations

from collections.abc import Sequence

from topology.queries.pattern.match.evaluation import Evaluation, Place, StepBudget
from topology.queries.pattern.match.match import Match
from topology.queries.pattern.match.preference import Preference
from topology.queries.pattern.match.tactics.rules import RunRules
from topology.queries.pattern.match.tactics.search import STOP, Branch, RunSearch
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.store.index import EntryIndex


class BestSearch(RunSearch):
    """A search for the least match of a start in one alternative.

    Attributes:
        met_ns: The time of the latest event that was looked at.
        is_open: Whether an event newer than all present ones may lead to a preferred match.
        is_strictly: Whether a STRICT step has no event after it yet, so that any newer event may
            lead to a preferred match.
    """

    def __init__(self, rules: RunRules, place: Place, budget: StepBudget, anchor: Entry) -> None:
        super().__init__(rules, place, budget, anchor, 1, [False] * rules.count)
        self._reluctant = [part.reluctant for part in rules.components]
        self.met_ns = anchor.time_ns
        self.is_open = False
        self.is_strictly = False

    def _set_ceilings(self, latest_ns: int) -> bool:
        is_possible = super()._set_ceilings(latest_ns)
        self.is_open = not is_possible
        return is_possible

    def _find_choices(self) -> list[int]:
        rules, bound = self._rules, self._bound
        sooner: list[int] = []
        later: list[int] = []
        for j in range(rules.count):
            if rules.is_open(bound, j):
                is_late = self._reluctant[j] and len(bound[j]) >= rules.minimum[j]
                (later if is_late else sooner).append(j)
        return [*later, STOP, *reversed(sooner)]

    def _push(self, j: int, entry: Entry) -> None:
        self.met_ns = max(self.met_ns, entry.time_ns)
        super()._push(j, entry)

    def _on_exhausted(self, branch: Branch) -> None:
        j = branch.open[-1]
        if j == STOP:
            return
        edge = self._rules.edge(self._bound, j)
        if edge == "any" or (edge == "next" and not branch.found):
            self.is_open = True

    def _narrow_to_next(self, branch: Branch, index: EntryIndex, following: Entry | None) -> None:
        if following is None:
            self.is_open = self.is_strictly = True
        else:
            self.met_ns = max(self.met_ns, following.time_ns)
            if index.find(following) >= branch.high:
                self.is_open = True
        super()._narrow_to_next(branch, index, following)


class BestFinder:
    """An alternative, with the data that its searches share.

    `branch` has its branch of the OR at the beginning of the pattern, and is empty without such an
    OR. `ends` are the slots through which newer events may change a match.
    """

    def __init__(self, rules: RunRules) -> None:
        self.rules = rules
        self.preference = Preference(rules)
        self.branch = rules.components[0].branches[:1]
        slots = [*rules.ends, *(gap.slot for gap in rules.gaps)]
        self.ends = {(rules.number, slot) for slot in slots}


class Best:
    """The tactic of MATCHES BEST.

    A unit waits for the events that can end a match. It waits for any event if a STRICT step has no
    event after it yet.
    """

    def __init__(self, layouts: Sequence[RunRules]) -> None:
        self._finders = [BestFinder(rules) for rules in layouts]
        self._span_ns = layouts[0].span_ns
        self._limit = layouts[0].query.limit

    def evaluate(self, place: Place, anchor: Entry) -> Evaluation:
        budget = StepBudget(self._limit)
        found: list[Match] = []
        waits: set[tuple[int, int]] | None = set()
        met_ns, until_ns = anchor.time_ns, anchor.time_ns + self._span_ns
        for number, finder in enumerate(self._finders):
            if not any(place.components[number][j].find(anchor) >= 0 for j in finder.rules.starts):
                continue
            if found and finder.branch > self._finders[found[0].alternative].branch:
                break  # The alternatives that follow are not preferred either.
            search = BestSearch(finder.rules, place, budget, anchor)
            search.find_all()
            found += search.found
            met_ns = max(met_ns, search.met_ns)
            if search.is_strictly:
                waits = None
            elif waits is not None and (search.is_open or finder.rules.looks_ahead):
                waits |= finder.ends
        if len(found) > 1:
            found = [min(found, key=lambda one: self._finders[one.alternative].preference.of(one))]
        return Evaluation(
            [] if budget.is_spent else found,
            overflow=budget.is_spent,
            hi_ns=until_ns if waits != set() else min(met_ns, until_ns),
            waits=None if waits is None else frozenset(waits),
            steps=budget.steps,
        )
