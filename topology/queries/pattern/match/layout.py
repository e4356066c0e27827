"""Prepares an alternative for finding its matches and for grading them.

Every condition is compiled twice. The plain form uses corrected timestamps and has the result true
or not. The graded form has three values, for times that are known as intervals. With an error of 0
both forms agree. The tactics use the plain form, which costs a third.

A binding has the slots of the components, followed by those of the negations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, cast

from topology.queries.pattern.compile.closures import Binding
from topology.queries.pattern.compile.expression import Condition
from topology.queries.pattern.compile.grading import YES, compile_grade
from topology.queries.pattern.compile.scope import Environment, Scope
from topology.queries.pattern.match.match import Match
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.tree.mentions import (
    find_aliases,
    find_mentions,
    looks_at_time,
    looks_back,
)
from topology.queries.pattern.tree.normal_form import (
    Alternative,
    Blocker,
    Component,
    NormalForm,
    Predicate,
    tests_null,
)
from topology.queries.pattern.tree.syntax import UNBOUNDED, Expr

NO_MAXIMUM: Final = 1 << 62

GREEDY_LOOP: Final = 0
SUCCESSOR: Final = 1
LOOP: Final = 2
"""The ranks of components that could take the same event in a walk; the lowest rank takes it."""

Graded = Callable[[Binding], int]


class Clause:
    """A compiled predicate of an alternative.

    Attributes:
        settled_at: The only component whose steps test it; -1 if that depends on the run.
        looks_back: Whether it reads events before another event.
        in_doubt: Whether its result by corrected timestamps may be wrong. That is so if it looks
            back, at times, or at the order in a group.
        for_each: Whether it makes a statement about each element of a group. If a match fails it,
            every larger match fails it too.
    """

    def __init__(self, predicate: Predicate, alternative: Alternative, scope: Scope) -> None:
        self.condition = Condition(predicate.expr, scope)
        self.graded: Graded = compile_grade(predicate.expr, scope)
        self.aliases = tuple(sorted(predicate.aliases))
        self.whole = tuple(sorted(predicate.whole))
        self.skips_absent = predicate.skips_absent
        self.names_optional = any(alternative.components[a].is_optional for a in self.aliases)
        static = alternative.is_linear and not self.whole and not self.names_optional
        self.settled_at = self.aliases[-1] if static and self.aliases else -1
        self.looks_at_time = looks_at_time(predicate.expr)
        over_groups = not scope.groups.isdisjoint(self.aliases)
        by_order = over_groups and _looks_at_groups(predicate.expr)
        self.looks_back = looks_back(predicate.expr)
        self.in_doubt = self.looks_at_time or by_order or self.looks_back
        self.for_each = not by_order


class GroupEnd:
    """The UNTIL condition of a group.

    `alone` grades whether an event ends the group, from that event alone. It is None if the
    condition also reads other events.
    """

    def __init__(self, part: Component, expr: Expr, scope: Scope) -> None:
        self.condition = Condition(expr, scope, vacuous=None)
        self.looks_at_time = looks_at_time(expr)
        plain = find_aliases(expr) == {part.alias} and not _looks_at_groups(expr)
        self.alone: Graded | None = compile_grade(expr, scope) if plain else None


class Tie:
    """A condition on a negated event.

    Attributes:
        needed: The components that must be present for the condition to apply; empty if it asks for
            NULL.
        is_own: Whether it names no other alias. The index has then tested it already, by corrected
            timestamps.
    """

    def __init__(self, expr: Expr, blocker: Blocker, scope: Scope) -> None:
        others = find_aliases(expr) - {blocker.alias}
        slots = () if tests_null(expr) else sorted(scope.slots[alias] for alias in others)
        self.needed = tuple(slots)
        self.is_own = not others
        self.condition = Condition(expr, scope)
        self.graded: Graded = compile_grade(expr, scope)


class NegationGap:
    """A negation, and the gap in which its event must not occur.

    Attributes:
        left: All components before the gap, not only the nearest.
        right: All components after the gap.
        at_start: Whether a match may start with the gap, because all of `left` may be absent.
        at_end: Whether a match may end with the gap, because all of `right` may be absent.
        after: One entry for each FOR before this negation. It has all components before that FOR,
            and how long after the last of them that FOR ends.
        over: Such entries for this negation's own FOR, which give the end of its gap. It is empty
            if nothing precedes the FOR.
        ties: The conditions that relate the negated event to the match. A condition is ignored if
            it names an alias that the alternative lacks, unless it asks for NULL.
        own: The conditions on the negated event alone.
        looks_at_time: Whether the filter of its index reads the event's own time.
    """

    def __init__(self, number: int, blocker: Blocker, layout: Layout, scope: Scope) -> None:
        self.number = number
        self.slot = layout.count + number
        self.strict = blocker.strict
        self.for_ns = blocker.for_ns
        self.after = [
            (tuple(sorted(at.union(*(layout.before[j] for j in at)))), ns)
            for at, ns in blocker.after
        ]
        left = blocker.left.union(*(layout.before[j] for j in blocker.left))
        right = blocker.right.union(*(layout.after[j] for j in blocker.right))
        self.left = tuple(sorted(left))
        self.right = tuple(sorted(right))
        self.at_start = layout.alternative.may_lack(left)
        self.at_end = layout.alternative.may_lack(right)
        self.limit = None if blocker.for_ns else blocker.limit
        self.over: list[tuple[tuple[int, ...], int]] = []
        if blocker.for_ns and left:
            self.over = [(at, ns + blocker.for_ns) for at, ns in ((self.left, 0), *self.after)]
        ties = [
            Tie(expr, blocker, scope)
            for expr in blocker.predicates
            if tests_null(expr) or find_aliases(expr) <= scope.slots.keys()
        ]
        self.ties = [tie for tie in ties if not tie.is_own]
        self.own = [tie for tie in ties if tie.is_own]
        self.looks_at_time = any(
            looks_at_time(expr) and find_aliases(expr) <= {blocker.alias}
            for expr in blocker.predicates
        )


class Layout:
    """An alternative with the data that the tactics and the grading need.

    Attributes:
        before: The components before each component.
        after: The components after each component.
        starts: The components that can be first, because all before them may be absent.
        ends: The components that can be last, because all after them may be absent.
        goes_on: Whether a match may end with a greedy group, so a later event may forbid it.
        looks_ahead: Whether `goes_on` is true or a match may end with a negation.
        is_strict: Whether a step or a negation is STRICT, so that events of any type may matter.
        lasting: The ends of all timed absences (`NegationGap.over`).
        limits: The values of `Blocker.limit` that are set.
    """

    def __init__(
        self, form: NormalForm, alternative: Alternative, environment: Environment
    ) -> None:
        parts = alternative.components
        scope = Scope.of(alternative, environment)
        self.query = form.query
        self.node = form.node
        self.alternative = alternative
        self.number = alternative.number
        self.components = parts
        self.count = len(parts)
        self.slots = len(parts) + len(alternative.blockers)
        self.matches = form.query.matches
        self.by_key = form.query.ties == "key"
        self.within_ns = form.query.within_ns
        self.span_ns = form.span_ns
        self.splits_by_time = ("time",) in form.same
        self.minimum = [part.minimum for part in parts]
        self.maximum = [NO_MAXIMUM if p.maximum == UNBOUNDED else p.maximum for p in parts]
        self.before = [tuple(sorted(part.before)) for part in parts]
        self.after = [tuple(p.index for p in parts if j in p.before) for j in range(len(parts))]
        self.starts = [p.index for p in parts if alternative.may_lack(p.before)]
        self.ends = [j for j in range(len(parts)) if alternative.may_lack(self.after[j])]
        self.goes_on = any(parts[j].greedy for j in self.ends)
        self.clauses = [Clause(each, alternative, scope) for each in alternative.predicates]
        self.untils = [None if p.until is None else GroupEnd(p, p.until, scope) for p in parts]
        self.gaps = [
            NegationGap(k, each, self, scope) for k, each in enumerate(alternative.blockers)
        ]
        self.lasting = [over for gap in self.gaps for over in gap.over]
        self.limits = [gap.limit for gap in self.gaps if gap.limit]
        self.looks_ahead = self.goes_on or any(gap.at_end for gap in self.gaps)
        self.has_strict_step = any("strict" in (part.edge, part.loop) for part in parts)
        self.is_strict = self.has_strict_step or any(gap.strict for gap in self.gaps)

    @property
    def by_end(self) -> bool:
        """Whether its units are end events; otherwise they are start events."""
        return self.query.strategy == "any"

    def over_ns(self, match: Match) -> Iterator[int]:
        """Yield the time at which each timed absence (FOR) of a match is over."""
        for left, length_ns in self.lasting:
            yield from (match.bound[j][-1].time_ns + length_ns for j in left if match.bound[j])

    def settled_ns(self, match: Match) -> int:
        """Return when a match is final if only timed absences and limits keep it open."""
        over = [ns - 1 for ns in self.over_ns(match)]
        window_ns = match.first.time_ns + self.within_ns
        for j, length_ns in self.limits:
            over.append(min(window_ns, match.bound[j][0].time_ns + length_ns - 1))
        return max([match.last.time_ns, *over])

    def make_binding(self, bound: Sequence[Sequence[Entry]]) -> Binding:
        return [*bound, *[()] * (self.slots - self.count)]

    def grade_clause(self, clause: Clause, bound: Sequence[Sequence[Entry]]) -> int:
        if clause.skips_absent and not all(bound[j] for j in clause.aliases):
            return YES
        return clause.graded(self.make_binding(bound))


def _looks_at_groups(expr: Expr) -> bool:
    """Return whether the expression has an index or an aggregate, or reads a whole group."""
    return any(mention.how != "plain" for mention in find_mentions(expr))


def as_binding(bound: list[list[Entry]]) -> Binding:
    """Return the lists as a binding; the caller must put only lists into it."""
    return cast(Binding, bound)
