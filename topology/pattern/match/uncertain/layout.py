"""An alternative as its matches are graded by: its conditions in three values.

Conditions on `.time` of one component alone are taken out of what indexes are kept by
(`timed_apart`): an event that fails one by its reference time may hold it by its true one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from topology.pattern.compile import expression
from topology.pattern.compile.expression import Binding, Condition
from topology.pattern.compile.grading import YES, grade
from topology.pattern.compile.scope import Environment, Scope
from topology.pattern.match.tactics.rules import NO_MAXIMUM
from topology.pattern.store.entry import Entry
from topology.pattern.tree import syntax
from topology.pattern.tree.normal_form import (
    Alternative,
    Blocker,
    Component,
    NormalForm,
    Predicate,
    asks_for_null,
)
from topology.pattern.tree.syntax import Expr
from topology.pattern.tree.walk import aliases, walk

Graded = Callable[[Binding], int]


class Clause:
    """A predicate. `in_doubt`: it looks at times, or at the order in a group, so that what holds
    by reference times may not hold. `for_each`: it says something of each element, and what
    fails it fails it in any larger match."""

    __slots__ = (
        "aliases",
        "for_each",
        "grade",
        "in_doubt",
        "looks_at_time",
        "skips_absent",
        "whole",
    )

    def __init__(self, predicate: Predicate, graded: Graded, groups: frozenset[int]) -> None:
        self.aliases = predicate.aliases
        self.whole = predicate.whole
        self.skips_absent = predicate.skips_absent
        self.grade = graded
        by_order = _looks_at_groups(predicate.expr) and not groups.isdisjoint(predicate.aliases)
        self.looks_at_time = looks_at_time(predicate.expr)
        self.in_doubt = self.looks_at_time or by_order
        self.for_each = not by_order

    def is_idle(self, binding: Sequence[Sequence[Entry]]) -> bool:
        return self.skips_absent and not all(binding[j] for j in self.aliases)


class Gap:
    """A negation: all components on either side, and its conditions with the slots they name;
    one that names an alias the alternative lacks is left out, unless it asks for NULL.
    `looks_at_time`: its index is kept by a condition on its own time."""

    __slots__ = ("clauses", "left", "looks_at_time", "right", "slot", "strict")

    def __init__(self, blocker: Blocker, slot: int, layout: Layout, scope: Scope) -> None:
        self.slot = slot
        self.strict = blocker.strict
        self.left = frozenset(blocker.left).union(*(layout.before[j] for j in blocker.left))
        self.right = frozenset(blocker.right).union(*(layout.after[j] for j in blocker.right))
        self.looks_at_time = any(
            looks_at_time(expr) and aliases(expr) <= {blocker.alias} for expr in blocker.predicates
        )
        self.clauses: list[tuple[list[int], bool, Graded]] = []
        for expr in blocker.predicates:
            named = [scope.slots.get(alias) for alias in aliases(expr)]
            slots = [slot for slot in named if slot is not None]
            if asks_for_null(expr) or len(slots) == len(named):
                self.clauses.append((slots, asks_for_null(expr), grade(expr, scope)))


class Until:
    """Of a group. `alone`: it says of an event whether it ends the group, whatever went before."""

    __slots__ = ("alone", "condition", "looks_at_time")

    def __init__(self, part: Component, expr: Expr, scope: Scope) -> None:
        self.looks_at_time = looks_at_time(expr)
        self.condition: Condition = expression.until(expr, scope)
        plain = aliases(expr) == {part.alias} and not _looks_at_groups(expr)
        self.alone = grade(expr, scope) if plain else None


class Layout:
    __slots__ = (
        "after",
        "before",
        "by_key",
        "by_start",
        "clauses",
        "components",
        "count",
        "gaps",
        "matches",
        "maximum",
        "minimum",
        "number",
        "slots",
        "splits_by_time",
        "untils",
        "within_ns",
    )

    def __init__(
        self,
        form: NormalForm,
        alternative: Alternative,
        environment: Environment,
    ) -> None:
        parts = alternative.components
        scope = Scope.of(alternative, environment)
        self.number = alternative.number
        self.components = parts
        self.count = len(parts)
        self.slots = len(parts) + len(alternative.blockers)
        self.matches = form.query.matches
        self.by_start = form.query.strategy != "any"
        self.by_key = form.query.ties == "key"
        self.within_ns = form.query.within_ns
        self.splits_by_time = ("time",) in form.same
        self.minimum = [part.minimum for part in parts]
        self.maximum = [NO_MAXIMUM if p.maximum == syntax.UNBOUNDED else p.maximum for p in parts]
        self.before = [part.before for part in parts]
        self.after = [frozenset(p.index for p in parts if j in p.before) for j in range(len(parts))]
        self.clauses = [
            Clause(predicate, grade(predicate.expr, scope), scope.groups)
            for predicate in alternative.predicates
        ]
        self.untils = [None if p.until is None else Until(p, p.until, scope) for p in parts]
        self.gaps = [
            Gap(blocker, self.count + k, self, scope)
            for k, blocker in enumerate(alternative.blockers)
        ]

    def binding(self, bound: Sequence[Sequence[Entry]]) -> Binding:
        return [*bound, *[()] * (self.slots - self.count)]

    def grade(self, clause: Clause, bound: Sequence[Sequence[Entry]]) -> int:
        binding = self.binding(bound)
        return YES if clause.is_idle(binding) else clause.grade(binding)


def looks_at_time(expr: Expr) -> bool:
    return any(
        (isinstance(part, syntax.Ref | syntax.Aggregate) and part.path == ("time",))
        or (isinstance(part, syntax.Same) and ("time",) in part.paths)
        for part in walk(expr)
    )


def _looks_at_groups(expr: Expr) -> bool:
    """Is an index in it, an aggregate, or what sees a group as a whole?"""
    for part in walk(expr):
        match part:
            case syntax.Ref(index=syntax.Each() | syntax.At()):
                return True
            case syntax.Aggregate() | syntax.Test() | syntax.Same():
                return True
    return False


def timed_apart(form: NormalForm) -> NormalForm:
    """The same, with conditions on the time of one component alone among the predicates."""
    alternatives = tuple(_timed_apart(alternative) for alternative in form.alternatives)
    return replace(form, alternatives=alternatives)


def _timed_apart(alternative: Alternative) -> Alternative:
    components, predicates = [], list(alternative.predicates)
    for part in alternative.components:
        timed = tuple(e for e in part.own if looks_at_time(e) and not asks_for_null(e))
        own = tuple(expr for expr in part.own if expr not in timed)
        components.append(replace(part, own=own) if timed else part)
        about = frozenset((part.index,))
        predicates += [Predicate(expr, about, frozenset(), skips_absent=True) for expr in timed]
    if len(predicates) == len(alternative.predicates):
        return alternative
    return replace(alternative, components=tuple(components), predicates=tuple(predicates))
