"""An oracle for times that are intervals: which matches are possible, and which are certain.

Source: patterns.md 7, rule by rule, for MATCHES ALL with TIES STRICT. An event happened anywhere in
[low, high], independent of all others. Rules have three values: NO, MAYBE, YES. A match is possible
if none is NO, and certain if all are YES. A match of several alternatives has the best grade of
them.

It handles linear alternatives of single events, in which the event before a step is known. It also
handles any alternative whose steps are all ANY, with groups and AND. It refuses all others, and
UNTIL, GREEDY and partitions (`Unsuited`). Conditions are those of `grading`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, permutations, product

from tests.topology.queries.pattern.oracle import AlternativeOracle, Binding, Run, binding_of
from topology.queries.pattern.compile import closures
from topology.queries.pattern.compile.grading import MAYBE, NO, YES, compile_grade
from topology.queries.pattern.compile.scope import Scope
from topology.queries.pattern.match.match import Match, in_order
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.tree.normal_form import Alternative, Blocker, Component, NormalForm
from topology.queries.pattern.tree.syntax import UNBOUNDED, Expr


class Unsuited(Exception):
    """An error for a query whose meaning the rules do not define if times are intervals."""


def possible_and_certain(
    form: NormalForm, entries: Sequence[Entry]
) -> tuple[list[Match], list[Match]]:
    """Return the possible matches, and which of them are certain; entries must be distinct."""
    found: dict[Binding, tuple[int, Match]] = {}
    for alternative in form.alternatives:
        oracle = UncertainOracle(form, alternative, sorted(entries, key=lambda one: one.key))
        for match in oracle.candidates():
            graded = oracle.grade(match)
            known, _ = found.get(binding_of(form, match), (NO, match))
            if graded > known:
                found[binding_of(form, match)] = graded, match
    certain = [match for graded, match in found.values() if graded == YES]
    return in_order([match for _, match in found.values()]), in_order(certain)


# -- order of two -----------------------------------------------------------------------------


def before(one: Entry, other: Entry) -> int:
    """Return whether one event happened earlier."""
    if one.high_ns < other.low_ns:
        return YES
    return NO if other.high_ns <= one.low_ns else MAYBE


def before_by_key(one: Entry, other: Entry) -> int:
    """Return whether one event is earlier in the order of keys, whose rest decides ties."""
    if (one.high_ns, one.key[1:]) < (other.low_ns, other.key[1:]):
        return YES
    return NO if (other.high_ns, other.key[1:]) < (one.low_ns, one.key[1:]) else MAYBE


def is_within(one: Entry, other: Entry, length_ns: int) -> int:
    """Return whether the other event comes at most this long after the first."""
    if other.high_ns - one.low_ns <= length_ns:
        return YES
    return MAYBE if other.low_ns - one.high_ns <= length_ns else NO


def negated(grade: int) -> int:
    return YES - grade


class UncertainOracle(AlternativeOracle):
    def __init__(self, form: NormalForm, alternative: Alternative, entries: list[Entry]) -> None:
        if form.same:
            raise Unsuited("partitions: oracle each by itself")
        if form.query.matches != "all" or form.query.skip != "none" or form.query.ties == "key":
            raise Unsuited("only MATCHES ALL, without SKIP, with TIES STRICT")
        super().__init__(form, alternative, entries, entries)
        self.graded: dict[int, Callable[[closures.Binding], int]] = {}
        """Conditions by the identity of their expressions."""
        if any(part.until or part.greedy for part in self.components):
            raise Unsuited("UNTIL, GREEDY")
        self.free = all(part.edge == part.loop == "any" for part in self.components)
        single = alternative.is_linear and not any(part.is_group for part in self.components)
        if not (self.free or single):
            raise Unsuited("a group or AND with steps that are not ANY")

    def candidates(self) -> Iterator[Match]:
        """Yield every choice of events by type and own conjuncts, none twice."""
        choices = [list(self._choices(part)) for part in self.components]
        for bound in product(*choices):
            members = [entry for entries in bound for entry in entries]
            if members and len(set(members)) == len(members):
                yield Match(self.alternative.number, bound)

    def _choices(self, part: Component) -> Iterator[tuple[Entry, ...]]:
        fitting = [entry for entry in self.events if self._suits(part, entry) >= MAYBE]
        most = len(fitting) if part.maximum == UNBOUNDED else min(part.maximum, len(fitting))
        for count in range(part.minimum, most + 1):
            yield from combinations(fitting, count)

    def _suits(self, part: Component, entry: Entry) -> int:
        """Return the grade of an event for a component, by its type and own conjuncts."""
        if part.types and entry.type not in part.types:
            return NO
        binding = self._binding(((part.index, entry),))
        return min((self._held(expr, binding) for expr in part.own), default=YES)

    def grade(self, match: Match) -> int:
        run = tuple(match.label())
        grade = min(self._suits(self.components[j], entry) for j, entry in run)
        grade = min(grade, self._order(match), self._window(run), self._conditions(run))
        if grade > NO and not self.free:
            grade = min(grade, self._contiguity(match))
        for blocker in self.alternative.blockers:
            grade = min(grade, negated(self._blocked(run, blocker))) if grade else NO
        return grade

    # -- order, window, conditions ------------------------------------------------------------

    def _order(self, match: Match) -> int:
        """Return the grade of the order, from all ordered pairs and not from neighbours alone.

        It is then NO if a chain has no room: the low of an earlier event is not below the high of a
        later one.
        """
        return min(
            (
                before(one, entry)
                for part in self.components
                for entry in match.bound[part.index]
                for k in part.before
                for one in match.bound[k]
            ),
            default=YES,
        )

    def _window(self, run: Run) -> int:
        pairs = permutations([entry for _, entry in run], 2)
        within_ns = self.query.within_ns
        return min((is_within(early, late, within_ns) for early, late in pairs), default=YES)

    def _conditions(self, run: Run) -> int:
        binding = self._binding(run)
        return min(
            (
                self._held(predicate.expr, binding)
                for predicate in self.alternative.predicates
                if not self._is_idle(predicate, binding)
            ),
            default=YES,
        )

    def _held(self, expr: Expr, binding: closures.Binding) -> int:
        if id(expr) not in self.graded:
            self.graded[id(expr)] = compile_grade(expr, Scope(self.slots, self.groups))
        return self.graded[id(expr)](binding)

    # -- contiguity ---------------------------------------------------------------------------

    def _contiguity(self, match: Match) -> int:
        """Return the grade of the steps of a linear alternative, whose run is in order."""
        grade = YES
        run: Run = ()
        members: Run = tuple((j, entries[0]) for j, entries in enumerate(match.bound) if entries)
        for j, entry in members:
            edge = self.components[j].edge
            if run and edge != "any":
                grade = min(grade, negated(self._passed_over(run, self.components[j], entry)))
            run = (*run, (j, entry))
        return grade

    def _passed_over(self, run: Run, part: Component, entry: Entry) -> int:
        """Return whether an event between the two forbids the step."""
        last, grade = run[-1][1], NO
        for other in self.everything:
            if other in (last, entry):
                continue
            if part.edge == "strict":
                between = min(before_by_key(last, other), before_by_key(other, entry))
            else:
                between = min(before(last, other), before_by_key(other, entry))
                between = min(between, self._eligible(run, part, other))
            grade = max(grade, between)
        return grade

    def _eligible(self, run: Run, part: Component, entry: Entry) -> int:
        """Return the grade of an event for a component, apart from its order and window."""
        if any(entry is other for _, other in run):
            return NO
        longer = (*run, (part.index, entry))
        binding = self._binding(longer)
        grades = [
            self._held(predicate.expr, binding)
            for predicate in self.alternative.predicates
            if self._is_due(longer, predicate) and not self._is_idle(predicate, binding)
        ]
        return min([self._suits(part, entry), *grades])

    # -- negation -----------------------------------------------------------------------------

    def _blocked(self, run: Run, blocker: Blocker) -> int:
        low, high = self._sides(run, blocker)
        if not low and not high:
            return NO
        return max(
            (
                min(
                    self._satisfied(run, blocker, entry),
                    self._between(run, blocker, low, high, entry),
                    self._next(low, high, entry) if blocker.strict else YES,
                )
                for entry in self.events
                if not blocker.types or entry.type in blocker.types
            ),
            default=NO,
        )

    def _between(
        self, run: Run, blocker: Blocker, low: list[Entry], high: list[Entry], entry: Entry
    ) -> int:
        within, members = self.query.within_ns, [one for _, one in run]
        delays = [(one, ns) for at, ns in blocker.after for one in self._at_or_before(run, at)]
        begun = [before(one, entry) for one in low]
        begun += [negated(is_within(one, entry, ns)) for one, ns in delays]
        if blocker.for_ns is not None and low:
            over = [(one, blocker.for_ns - 1) for one in low]
            over += [(one, ns + blocker.for_ns - 1) for one, ns in delays]
            return min(max(is_within(one, entry, ns) for one, ns in over), *begun)
        if blocker.for_ns is not None:
            inside = max(is_within(entry, one, blocker.for_ns - 1) for one in high)
            return min(inside, *(before(entry, one) for one in high))
        above = begun or [is_within(entry, one, within) for one in members]
        below = [before(entry, one) for one in high]
        below = below or [is_within(one, entry, within) for one in members]
        return min(above + below)

    def _at_or_before(self, run: Run, components: frozenset[int]) -> list[Entry]:
        parts = self.alternative.components
        all_before = components.union(*(parts[j].before for j in components))
        return [entry for j, entry in run if j in all_before]

    def _next(self, low: list[Entry], high: list[Entry], entry: Entry) -> int:
        """Return whether the event is directly after the left side, or before the right."""
        grade = YES
        for other in self.everything:
            if other is entry:
                continue
            if low and other not in low:
                behind = min(before_by_key(one, other) for one in low)
                grade = min(grade, negated(min(behind, before_by_key(other, entry))))
            elif not low and other not in high:
                ahead = min(before_by_key(other, one) for one in high)
                grade = min(grade, negated(min(ahead, before_by_key(entry, other))))
        return grade

    def _satisfied(self, run: Run, blocker: Blocker, entry: Entry) -> int:
        asked, binding = self._asked(run, blocker, entry)
        return min((self._held(expr, binding) for expr in asked), default=YES)
