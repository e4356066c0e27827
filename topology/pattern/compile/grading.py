"""Conditions where times are intervals: surely, maybe, or surely not.

Source: patterns.md 7. `.time` means [low, high] of its event; every other attribute is
known, `.ts` and `.error` too. What looks at the order inside a group (`[i]`, `[1]`, `[..i-1]`, a
user's function) is in doubt wherever that order is. A user's function sees reference times.

Grades are compared as numbers: AND is min, OR is max, NOT is YES - grade. NULL is NO.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise, product
from typing import Any, Final

from topology.pattern.compile import intervals
from topology.pattern.compile.attributes import AbsentEntry, Get, attribute
from topology.pattern.compile.closures import Binding, Compiler, Frame, Value
from topology.pattern.compile.intervals import ANYTHING
from topology.pattern.compile.scope import Scope
from topology.pattern.store.entry import Entry
from topology.pattern.tree import syntax
from topology.pattern.tree.mentions import BY_ORDER, mentions
from topology.pattern.tree.syntax import Expr

NO: Final = 0
MAYBE: Final = 1
YES: Final = 2


def grade(expr: Expr, scope: Scope) -> Callable[[Binding], int]:
    """The conjunct over everything bound, as `Condition.holds` where no time is in doubt."""
    grader = Grader(scope)
    test = grader.test(expr)
    variables = grader.variables
    by_order = _looked_at_by_order(expr, scope)

    def graded(binding: Binding) -> int:
        if not all(is_ordered(binding[slot]) for slot in by_order):
            return MAYBE
        result = YES
        for frame in product(*[variable.all(binding[variable.slot]) for variable in variables]):
            held = test(binding, frame)
            if held is ANYTHING:
                result = MAYBE
            elif held is not True:
                return NO
        return result

    return graded


def is_ordered(group: Sequence[Entry]) -> bool:
    """Is the order of keys that of the true times, whatever they are?"""
    return all(
        (one.high_ns, one.key[1:]) < (other.low_ns, other.key[1:]) for one, other in pairwise(group)
    )


def _looked_at_by_order(expr: Expr, scope: Scope) -> frozenset[int]:
    found = {mention.alias for mention in mentions(expr) if mention.how in BY_ORDER}
    return scope.groups & {scope.slots[alias] for alias in found if alias in scope.slots}


class Grader(Compiler):
    """The compiler, with the operators of `topology.pattern.compile.intervals`."""

    def attribute(self, path: tuple[str, ...]) -> Get:
        return _true_time if path == ("time",) else attribute(path)

    def reducer(self, function: str) -> Callable[[Sequence[Any]], Any]:
        return lambda group: intervals.reduce(function, group)

    def test(self, expr: Expr) -> Value:
        compiled = self.value(expr)
        return lambda binding, frame: intervals.truth(compiled(binding, frame))

    def _same(self, expr: syntax.Same) -> Value:
        gets = [self.attribute(path) for path in expr.paths]

        def test(binding: Binding, _: Frame) -> Any:
            members = [entry for entries in binding for entry in entries]
            return intervals.all_of(
                intervals.compare("=", get(members[0]), get(entry))
                for get in gets
                for entry in members
            )

        return test

    def _call(self, expr: syntax.Call) -> Value:
        certain = super()._call(expr)
        name, arguments = expr.function, [self.value(part) for part in expr.arguments]

        def call(binding: Binding, frame: Frame) -> Any:
            found = [part(binding, frame) for part in arguments]
            if not any(intervals.in_doubt(value) for value in found):
                return certain(binding, frame)
            if name == "coalesce":
                return next(value for value in found if value is not None)
            return intervals.absolute(found[0]) if name == "abs" else ANYTHING

        return call

    def _negative(self, expr: syntax.Negative) -> Value:
        operand = self.value(expr.operand)
        return lambda binding, frame: intervals.negative(operand(binding, frame))

    def _arithmetic(self, expr: syntax.Arithmetic) -> Value:
        left, right, sign = self.value(expr.left), self.value(expr.right), expr.operator
        return lambda binding, frame: intervals.arithmetic(
            sign, left(binding, frame), right(binding, frame)
        )

    def _compare(self, expr: syntax.Compare) -> Value:
        left, right, sign = self.value(expr.left), self.value(expr.right), expr.operator
        return lambda binding, frame: intervals.compare(
            sign, left(binding, frame), right(binding, frame)
        )

    def _in(self, expr: syntax.In) -> Value:
        equal = [syntax.Compare("=", expr.operand, constant) for constant in expr.values]
        test = self._or(syntax.Or(tuple(equal)))
        return _opposite(test) if expr.negated else test

    def _between(self, expr: syntax.Between) -> Value:
        above = syntax.Compare("<=", expr.low, expr.operand)
        return self._and(syntax.And((above, syntax.Compare("<=", expr.operand, expr.high))))

    def _is_null(self, expr: syntax.IsNull) -> Value:
        operand, negated = self.value(expr.operand), expr.negated

        def test(binding: Binding, frame: Frame) -> Any:
            value = operand(binding, frame)
            return value if value is ANYTHING else (value is None) is not negated

        return test

    def _like(self, expr: syntax.Like) -> Value:
        certain, operand = super()._like(expr), self.value(expr.operand)

        def test(binding: Binding, frame: Frame) -> Any:
            doubtful = operand(binding, frame) is ANYTHING
            return ANYTHING if doubtful else certain(binding, frame)

        return test

    def _not(self, expr: syntax.Not) -> Value:
        return _opposite(self.test(expr.operand))

    def _and(self, expr: syntax.And) -> Value:
        parts = [self.test(part) for part in expr.parts]
        return lambda binding, frame: intervals.all_of(part(binding, frame) for part in parts)

    def _or(self, expr: syntax.Or) -> Value:
        parts = [self.test(part) for part in expr.parts]
        return lambda binding, frame: intervals.any_of(part(binding, frame) for part in parts)


def _opposite(test: Value) -> Value:
    return lambda binding, frame: intervals.opposite(test(binding, frame))


def _true_time(entry: Entry | AbsentEntry) -> Any:
    if isinstance(entry, AbsentEntry):
        return None
    return intervals.between(entry.low_ns, entry.high_ns)
