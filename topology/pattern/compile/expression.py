"""Expressions of WHERE, UNTIL and RETURN, compiled once into closures; text is never evaluated.

A *binding* says which entries stand for what: a list by slot. Slot j is component j of an
alternative, slot (number of components + k) its negation k. What is absent, or not yet bound,
is empty. A condition is looked at in three values: True, False, and None for unknown (NULL).

    group.x          the conjunct must hold for every element of the group
    group[i].x       for every i for which all the indexes [i±k] in it exist, whether i itself does
                     or not; so `b[i+1] > b[i]` and `b[i] > b[i-1]` say the same. With [..i-k],
                     which needs an element i and one at least to reduce, i does
    group[1].x       one element, from the front or (negative) from the end; NULL if it is not there

`group.x` and `group[i].x` in one conjunct are two variables: every element with every i. The
elements of an absent group, and an absent single, have NULL attributes.

Cost: compiling is linear in the expression; a test without groups is one call for each of its
nodes. `holds` over a group of n is n tests (n² with `[..i-k]`), `holds_newest` one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

from topology.pattern.compile.attributes import attribute
from topology.pattern.compile.closures import Binding, Compiler, Frame
from topology.pattern.compile.scope import NO_ENVIRONMENT, Environment, Scope
from topology.pattern.compile.values import COMPARISONS, VALUE_TYPES, all_of
from topology.pattern.store.entry import Entry
from topology.pattern.tree.syntax import Compare, Expr, Ref


class Condition:
    """A conjunct over several entries.

    `needs_whole`: it holds an aggregate over all of a group, an index other than [1], or `[a]`
    within OR: nothing can be said of an element alone."""

    def __init__(self, compiler: Compiler, expr: Expr, vacuous: bool | None = True) -> None:
        self._test: Callable[[Binding, Frame], bool | None] = compiler.test(expr)
        self._variables = tuple(compiler.variables)
        self._over_slots = frozenset(variable.slot for variable in compiler.variables)
        self._named = frozenset(compiler.named)
        self._groups = compiler.scope.groups
        self._vacuous = vacuous
        self.needs_whole = compiler.needs_whole

    def holds(self, binding: Binding) -> bool | None:
        """Over everything bound."""
        if not self._variables:
            return self._test(binding, ())
        return self._over(binding, [var.all(binding[var.slot]) for var in self._variables])

    def holds_newest(self, binding: Binding, slot: int) -> bool | None:
        """Only what the last entry of this slot adds, all the rest having been tested.

        Once all that the condition names is bound: `holds` is True iff `holds_newest` was at
        every extension, each slot in key order, since then (at the extension that bound the
        last of them it looks at everything). A condition that needs a group as a whole is
        tested anew each time, and the law is not for it."""
        if self.needs_whole or slot not in self._over_slots:
            is_old = slot in self._groups and not self.needs_whole and len(binding[slot]) > 1
            return True if is_old or slot not in self._named else self.holds(binding)
        if len(self._variables) == 1:
            newest = self._variables[0].newest(binding[slot])
            return self._test(binding, newest) if newest else self._vacuous
        held: bool | None = all_of(self._over(binding, each) for each in self._fresh(binding, slot))
        return held

    def _over(self, binding: Binding, domains: Sequence[Sequence[Any]]) -> bool | None:
        """The test for every frame."""
        test = self._test
        count = unknown = 0
        for frame in product(*domains):
            held = test(binding, frame)
            if held is False:
                return False
            count += 1
            if held is None:
                unknown += 1
        if unknown:
            return None
        return True if count else self._vacuous

    def _fresh(self, binding: Binding, slot: int) -> Iterator[list[Sequence[Any]]]:
        """Frames that have the slot's last entry in them: as the value of one variable or
        another."""
        everything: list[Sequence[Any]] = [var.all(binding[var.slot]) for var in self._variables]
        for at, var in enumerate(self._variables):
            if var.slot == slot:
                yield [*everything[:at], var.newest(binding[slot]), *everything[at + 1 :]]


def condition(expr: Expr, scope: Scope) -> Condition:
    """A parameter or function that is not known is a ValueError; checked trees have none."""
    return Condition(Compiler(scope), expr)


def until(expr: Expr, scope: Scope) -> Condition:
    """UNTIL of a group: ask `holds_newest(binding, slot of the group)` with the candidate as the
    group's last element. Where an index does not exist yet it is unknown: it ends nothing."""
    return Condition(Compiler(scope), expr, vacuous=None)


def value(expr: Expr, scope: Scope) -> Callable[[Binding], Any]:
    """A column of RETURN. One that names a group without index, or with [i], is a list: of its
    value for each element (for each i), empty if the group is absent."""
    compiler = Compiler(scope)
    compute = compiler.value(expr)
    variables = compiler.variables
    if not variables:
        return lambda binding: compute(binding, ())

    def column(binding: Binding) -> list[Any]:
        if not all(binding[var.slot] for var in variables):
            return []
        frames = product(*[var.all(binding[var.slot]) for var in variables])
        return [compute(binding, frame) for frame in frames]

    return column


def own(
    exprs: Sequence[Expr],
    alias: str,
    environment: Environment = NO_ENVIRONMENT,
) -> Callable[[Entry], bool | None]:
    """All of these conjuncts, which name this alias alone and without index or aggregate, on
    one entry; True for none."""
    tests = [_own(expr, alias, environment) for expr in exprs]
    if not tests:
        return lambda _: True
    if len(tests) == 1:
        return tests[0]
    return lambda entry: all_of(test(entry) for test in tests)


def _own(expr: Expr, alias: str, environment: Environment) -> Callable[[Entry], bool | None]:
    compiler = Compiler(Scope({alias: 0}, environment=environment))
    quick = _field_with_constant(expr, compiler)
    if quick is not None:
        return quick
    test = compiler.test(expr)
    return lambda entry: test([(entry,)], ())


def _field_with_constant(expr: Expr, compiler: Compiler) -> Callable[[Entry], bool | None] | None:
    """`a.x < 5`, by far the commonest conjunct, straight from the entry."""
    if not (isinstance(expr, Compare) and isinstance(expr.left, Ref)):
        return None
    constant = compiler.constant(expr.right)
    test, types = COMPARISONS[expr.operator]
    value_type = types.get(type(constant))
    if value_type is None:
        return None
    get = attribute(expr.left.path)

    def holds(entry: Entry) -> bool | None:
        found = get(entry)
        if types.get(type(found)) is not value_type:
            return None
        return bool(test(found, constant))

    return holds


def partition(paths: Sequence[tuple[str, ...]]) -> Callable[[Entry], tuple[Any, ...] | None]:
    """The key on which events of a match agree; None if one of its values is NULL or has no
    equality. Equal keys are equal values by `=`, and alike in print: 1 and 1.0 are one (the
    int), 1 and TRUE two."""
    if len(paths) == 1:
        get_one = attribute(paths[0])
        return lambda entry: _typed(get_one(entry))
    gets = [attribute(path) for path in paths]

    def key(entry: Entry) -> tuple[Any, ...] | None:
        found: list[Any] = []
        for get in gets:
            part = _typed(get(entry))
            if part is None:
                return None
            found += part
        return tuple(found)

    return key


def _typed(part: Any) -> tuple[Any, ...] | None:
    """A value with its type, as keys have it."""
    value_type = VALUE_TYPES.get(type(part))
    if value_type is None:
        return None
    return value_type, int(part) if type(part) is float and part.is_integer() else part
