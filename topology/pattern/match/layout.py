"""Lays out an alternative for the search of its matches and for their grading.

Every condition is compiled twice. The plain form uses corrected timestamps and holds or does not.
The graded form has three values, for times that are known as intervals. With an error of 0 both
forms agree. The tactics use the plain form, which costs a third.

A binding has the slots of the components and then those of the negations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, cast

from topology.pattern.compile.closures import Binding
from topology.pattern.compile.expression import Condition
from topology.pattern.compile.grading import YES, grade
from topology.pattern.compile.scope import Environment, Scope
from topology.pattern.match.match import Match
from topology.pattern.store.entry import Entry
from topology.pattern.tree.mentions import aliases, looks_at_time, looks_back, mentions
from topology.pattern.tree.normal_form import (
    Alternative,
    Blocker,
    Component,
    NormalForm,
    Predicate,
    asks_for_null,
)
from topology.pattern.tree.syntax import UNBOUNDED, Expr

NO_MAXIMUM: Final = 1 << 62

GREEDY_LOOP: Final = 0
SUCCESSOR: Final = 1
LOOP: Final = 2
"""The rank of a component to which an event may go. An event that fits several goes to the lowest.
"""

Graded = Callable[[Binding], int]


class Clause:
    """A predicate of an alternative, compiled.

    `settled_at` is the one component whose every step tests it, or -1 if that depends on the run.

    `looks_back`: it asks for events before another event. `in_doubt`: its result by corrected
    timestamps may be wrong. This is so if it looks back, at times, or at the order in a group.

    `for_each`: it makes a statement about each element. If a match fails it, every larger match
    fails it too.
    """

    def __init__(self, predicate: Predicate, alternative: Alternative, scope: Scope) -> None:
        self.condition = Condition(predicate.expr, scope)
        self.graded: Graded = grade(predicate.expr, scope)
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
    """The UNTIL of a group.

    `alone` decides from an event by itself whether it ends the group. It is None if the decision
    depends on earlier events.
    """

    def __init__(self, part: Component, expr: Expr, scope: Scope) -> None:
        self.condition = Condition(expr, scope, vacuous=None)
        self.looks_at_time = looks_at_time(expr)
        plain = aliases(expr) == {part.alias} and not _looks_at_groups(expr)
        self.alone: Graded | None = grade(expr, scope) if plain else None


class Tie:
    """A condition on a negated event.

    It applies only if all components in `needed` are present; there are none if it asks for NULL.
    `is_own`: it names no other alias. The index has then tested it already, by corrected
    timestamps.
    """

    def __init__(self, expr: Expr, blocker: Blocker, scope: Scope) -> None:
        others = aliases(expr) - {blocker.alias}
        slots = () if asks_for_null(expr) else sorted(scope.slots[alias] for alias in others)
        self.needed = tuple(slots)
        self.is_own = not others
        self.condition = Condition(expr, scope)
        self.graded: Graded = grade(expr, scope)


class NegationGap:
    """A negation, and the gap in which its event must not occur.

    `left` and `right` are all components on either side, not only the nearest. If all of a side may
    be absent, the gap may be `at_start` or `at_end` of a match.

    `after` has an entry for each FOR before this negation: all components before that FOR, and how
    long after the last of them it ends. `over` has the same entries for this negation's own FOR,
    which end when that is over. It is empty if nothing precedes the FOR.

    `ties` are the conditions that tie the negated event to the match; `own` are those on the event
    alone. A condition is ignored if it names an alias that the alternative lacks, unless it asks
    for NULL. `looks_at_time`: the condition that filters its index looks at the event's own time.
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
            if asks_for_null(expr) or aliases(expr) <= scope.slots.keys()
        ]
        self.ties = [tie for tie in ties if not tie.is_own]
        self.own = [tie for tie in ties if tie.is_own]
        self.looks_at_time = any(
            looks_at_time(expr) and aliases(expr) <= {blocker.alias} for expr in blocker.predicates
        )


class Layout:
    """An alternative with everything that the tactics and the grading ask of it.

    `before[j]` and `after[j]` are the components before and after component j. `starts` and `ends`
    are the components that can be first and last, because all others before or after them may be
    absent.

    `is_strict`: any event at all may matter to a step or a negation. `goes_on`: a match may end
    with a greedy group. A later event may then forbid the match, as it may with a negation at the
    end (`looks_ahead`).

    `lasting` says when the absences for a time are over. `limits` are those of `Blocker.limit`.
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
        """Yield the time at which each FOR of a match is over."""
        for left, length_ns in self.lasting:
            yield from (match.bound[j][-1].time_ns + length_ns for j in left if match.bound[j])

    def settled_ns(self, match: Match) -> int:
        """Return the time at which a match is final if only its FORs and limits keep it open."""
        over = [ns - 1 for ns in self.over_ns(match)]
        window_ns = match.first.time_ns + self.within_ns
        for j, length_ns in self.limits:
            over.append(min(window_ns, match.bound[j][0].time_ns + length_ns - 1))
        return max([match.last.time_ns, *over])

    def binding(self, bound: Sequence[Sequence[Entry]]) -> Binding:
        return [*bound, *[()] * (self.slots - self.count)]

    def grade(self, clause: Clause, bound: Sequence[Sequence[Entry]]) -> int:
        if clause.skips_absent and not all(bound[j] for j in clause.aliases):
            return YES
        return clause.graded(self.binding(bound))


def _looks_at_groups(expr: Expr) -> bool:
    """Return whether the expression has an index, an aggregate, or looks at a whole group."""
    return any(mention.how != "plain" for mention in mentions(expr))


def as_binding(bound: list[list[Entry]]) -> Binding:
    """Return the lists as a binding; they stay lists if nobody puts other sequences in."""
    return cast(Binding, bound)
