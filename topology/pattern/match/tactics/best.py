"""MATCHES BEST: the match of a start that a backtracking regular expression finds first.

docs/guides/patterns.md has examples ("The best match"). It is the least of the matches that ALL
finds of the start, in the order of the choices that lead to them (`preference`): to go on in a
group before what follows it, or after it where the count is reluctant; what is optional before its
absence, or after it; the branches of an OR by their place in the text. So it is a function of the
set of these matches alone, and a late event changes the least of them, of the same id, or leaves
none.

The search is that of ALL (`search`), which tries what is preferred first and stops at the first
match: that is the least of an alternative. The least of those of all alternatives is taken.

A match is settled (`Evaluation.hi_ns`) where nothing that is preferred to it can still come: each
step that was tried before it has met what it had to take, or, if it is STRICT, what it could not
take. Else the end of the window settles it, as it does always with SKIP (`Compiled.settles`).

Cost: that of the search up to the first match, linear where each step but one leaves no choice, and
at worst all runs that are preferred to it; bounded by the budget.
"""

from __future__ import annotations

from collections.abc import Sequence

from topology.pattern.match.evaluation import Evaluation, Place, StepBudget
from topology.pattern.match.layout import Layout
from topology.pattern.match.match import Match
from topology.pattern.match.preference import Preference
from topology.pattern.match.tactics.rules import RunRules
from topology.pattern.match.tactics.search import STOP, Branch, RunSearch
from topology.pattern.store.entry import Entry
from topology.pattern.store.index import EntryIndex


class BestSearch(RunSearch):
    """The least match of a start in one alternative. `met_ns`: the time of the latest event that
    was looked at; `is_open`: a newer one than all may lead to a match that is preferred;
    `is_strictly`: whatever event that is."""

    def __init__(self, rules: RunRules, place: Place, budget: StepBudget, anchor: Entry) -> None:
        super().__init__(rules, place, budget, anchor, 1, [False] * rules.count)
        self._reluctant = [part.reluctant for part in rules.layout.components]
        self.met_ns = anchor.time_ns
        self.is_open = False
        self.is_strictly = False

    def _set_ceilings(self, latest_ns: int) -> bool:
        is_possible = super()._set_ceilings(latest_ns)
        self.is_open = not is_possible
        return is_possible

    def _choices(self) -> list[int]:
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

    def _give_up(self, branch: Branch) -> None:
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
    """An alternative, with what its searches share. `branch`: that of the OR that the pattern
    begins with, if it does. `ends`: the slots of what newer events may change a match by."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.rules = RunRules(layout)
        self.preference = Preference(layout)
        self.branch = layout.components[0].branches[:1]
        slots = [*layout.ends, *(gap.slot for gap in layout.gaps)]
        self.ends = {(layout.number, slot) for slot in slots}


class Best:
    """The tactic. A unit waits for what can end a match, and for any event where a STRICT step has
    none behind it yet."""

    def __init__(self, layouts: Sequence[Layout]) -> None:
        self._finders = [BestFinder(layout) for layout in layouts]
        self._span_ns = layouts[0].span_ns
        self._limit = layouts[0].query.limit

    def evaluate(self, place: Place, anchor: Entry) -> Evaluation:
        budget = StepBudget(self._limit)
        found: list[Match] = []
        waits: set[tuple[int, int]] | None = set()
        met_ns, until_ns = anchor.time_ns, anchor.time_ns + self._span_ns
        for number, finder in enumerate(self._finders):
            if not any(place.components[number][j].find(anchor) >= 0 for j in finder.layout.starts):
                continue
            if found and finder.branch > self._finders[found[0].alternative].branch:
                break  # nor is any that follows preferred
            search = BestSearch(finder.rules, place, budget, anchor)
            search.go()
            found += search.found
            met_ns = max(met_ns, search.met_ns)
            if search.is_strictly:
                waits = None
            elif waits is not None and (search.is_open or finder.layout.looks_ahead):
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
