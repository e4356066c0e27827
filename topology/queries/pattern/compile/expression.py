"""Compiles the expressions of WHERE, UNTIL and RETURN into closures, once for each query.

A *binding* has the entries for the names of an expression, as one list for each slot. Slot j
belongs to component j of an alternative; slot (number of components + k) belongs to its negation k.
A slot is empty if its component is absent or not bound yet. A condition has three values: True,
False, and None for unknown (NULL).

    group.x          the conjunct must be true for every element of the group
    group[i].x       it must be true for every i for which all its indexes [i±k] exist, even if i
                     does not; so `b[i+1] > b[i]` and `b[i] > b[i-1]` mean the same. [..i-k] needs
                     an element i, and at least one element to aggregate
    group[1].x       one element, from the front or (negative) from the end; NULL if it is absent

`group.x` and `group[i].x` in one conjunct are two variables: every element is combined with every
i. The elements of an absent group have NULL attributes, and so has an absent single event.

Cost: compiling is linear in the expression. A test without groups costs one call for each node.
`holds` over a group of n costs n tests (n² with `[..i-k]`), `holds_newest` costs one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

from topology.queries.pattern.compile.attributes import attribute_getter
from topology.queries.pattern.compile.closures import Binding, Compiler, Frame
from topology.queries.pattern.compile.scope import NO_ENVIRONMENT, Environment, Scope
from topology.queries.pattern.compile.values import COMPARISONS, VALUE_TYPES, all_of
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.tree.syntax import Compare, Expr, Ref


class Condition:
    """A conjunct over several entries, or the UNTIL of a group.

    `vacuous`: the value of the condition while an index in it does not exist yet. It is None for
    UNTIL, so that the group does not end. To test UNTIL, append the candidate to the group and call
    `holds_newest` with the group's slot. An unknown parameter or function, or another number of
    arguments, raises ValueError; valid queries have none.

    `needs_whole`: whether it has an aggregate over all of a group, an index other than [1], or
    `[a]`. Such a condition cannot be tested for one element alone.
    """

    def __init__(self, expr: Expr, scope: Scope, vacuous: bool | None = True) -> None:
        compiler = Compiler(scope)
        self._test: Callable[[Binding, Frame], bool | None] = compiler.compile_test(expr)
        self._variables = tuple(compiler.variables.values())
        self._over_slots = frozenset(variable.slot for variable in self._variables)
        self._named = frozenset(compiler.named)
        self._groups = scope.groups
        self._vacuous = vacuous
        self.needs_whole = compiler.needs_whole

    def holds(self, binding: Binding) -> bool | None:
        """Return whether the condition is true for all bound entries; None if this is unknown."""
        if not self._variables:
            return self._test(binding, ())
        return self._test_frames(binding, [var.all(binding[var.slot]) for var in self._variables])

    def holds_newest(self, binding: Binding, slot: int) -> bool | None:
        """Return whether the condition is true for the cases that the slot's last entry adds.

        All other cases must have been tested before. Each slot must be extended in key order. The
        entry that binds the last name of the condition tests all cases. From then on, `holds` is
        True if and only if `holds_newest` was True for each entry.

        If `needs_whole` is set, each entry tests the whole condition again.
        """
        if self.needs_whole or slot not in self._over_slots:
            is_old = slot in self._groups and not self.needs_whole and len(binding[slot]) > 1
            return True if is_old or slot not in self._named else self.holds(binding)
        if len(self._variables) == 1:
            newest = self._variables[0].newest(binding[slot])
            return self._test(binding, newest) if newest else self._vacuous
        held: bool | None = all_of(
            self._test_frames(binding, each) for each in self._newest_domains(binding, slot)
        )
        return held

    def _test_frames(self, binding: Binding, domains: Sequence[Sequence[Any]]) -> bool | None:
        """Return the AND of the test over all frames, or the vacuous value without any frame."""
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

    def _newest_domains(self, binding: Binding, slot: int) -> Iterator[list[Sequence[Any]]]:
        """Yield the domains of the frames that contain the slot's last entry.

        Each item fixes another of the slot's variables to that entry.
        """
        everything: list[Sequence[Any]] = [var.all(binding[var.slot]) for var in self._variables]
        for at, var in enumerate(self._variables):
            if var.slot == slot:
                yield [*everything[:at], var.newest(binding[slot]), *everything[at + 1 :]]


def value(expr: Expr, scope: Scope) -> Callable[[Binding], Any]:
    """Compile a column of RETURN into a function of the binding.

    A column that uses a group without an index, or with [i], is a list. It has a value for each
    element, or for each i, and is empty if the group is absent.
    """
    compiler = Compiler(scope)
    compute = compiler.value(expr)
    variables = list(compiler.variables.values())
    if not variables:
        return lambda binding: compute(binding, ())

    def read_column(binding: Binding) -> list[Any]:
        if not all(binding[var.slot] for var in variables):
            return []
        frames = product(*[var.all(binding[var.slot]) for var in variables])
        return [compute(binding, frame) for frame in frames]

    return read_column


def compile_own_test(
    exprs: Sequence[Expr],
    alias: str,
    environment: Environment = NO_ENVIRONMENT,
) -> Callable[[Entry], bool | None]:
    """Compile a component's own conjuncts into one test of an entry.

    The conjuncts name `alias` alone, without an index or an aggregate. Without
    conjuncts, the test is always True.
    """
    tests = [_compile_conjunct(expr, alias, environment) for expr in exprs]
    if not tests:
        return lambda _: True
    if len(tests) == 1:
        return tests[0]
    return lambda entry: all_of(test(entry) for test in tests)


def _compile_conjunct(
    expr: Expr, alias: str, environment: Environment
) -> Callable[[Entry], bool | None]:
    compiler = Compiler(Scope({alias: 0}, environment=environment))
    quick = _compile_field_comparison(expr, compiler)
    if quick is not None:
        return quick
    test = compiler.compile_test(expr)
    return lambda entry: test([(entry,)], ())


def _compile_field_comparison(
    expr: Expr, compiler: Compiler
) -> Callable[[Entry], bool | None] | None:
    """Compile a conjunct like `a.x < 5` into a test that reads the entry directly.

    This shape is by far the most frequent. The result is None for any other conjunct.
    """
    if not (isinstance(expr, Compare) and isinstance(expr.left, Ref)):
        return None
    constant = compiler.constant_of(expr.right)
    test, types = COMPARISONS[expr.operator]
    value_type = types.get(type(constant))
    if value_type is None:
        return None
    get = attribute_getter(expr.left.path)

    def holds(entry: Entry) -> bool | None:
        found = get(entry)
        if types.get(type(found)) is not value_type:
            return None
        return bool(test(found, constant))

    return holds


def partition(paths: Sequence[tuple[str, ...]]) -> Callable[[Entry], tuple[Any, ...] | None]:
    """Return the function that computes the partition key of an entry.

    The key is None if one of its values is NULL or of a type without equality. Values in equal keys
    are equal by `=` and are printed alike. So 1 and 1.0 are the same (the int), but 1 and TRUE are
    not.
    """
    if len(paths) == 1:
        get_one = attribute_getter(paths[0])
        return lambda entry: _type_tag(get_one(entry))
    gets = [attribute_getter(path) for path in paths]

    def key(entry: Entry) -> tuple[Any, ...] | None:
        found: list[Any] = []
        for get in gets:
            part = _type_tag(get(entry))
            if part is None:
                return None
            found += part
        return tuple(found)

    return key


def _type_tag(part: Any) -> tuple[Any, ...] | None:
    """Return a value and its type, as a part of a key; None for a type without equality."""
    value_type = VALUE_TYPES.get(type(part))
    if value_type is None:
        return None
    return value_type, int(part) if type(part) is float and part.is_integer() else part
