"""Conditions where times are intervals: surely, maybe, or surely not.

`.time` means [low, high] of its event; every other attribute is
known, `.ts` and `.error` too. What looks at the order inside a group (`[i]`, `[1]`, `[..i-1]`, a
user's function) is in doubt wherever that order is. A user's function sees reference times.

Beside the values of `topology.pattern.compile.values` there is `ValueInterval`, and `ANYTHING`, of
which nothing is known, not even that it is not NULL; as a truth it means that it may be so or not.
Results are sound and not always the narrowest: an event that is named twice counts as two
(`a.time - a.time` is not 0), and `%`, sqrt, stddev and divisors around 0 give up.

Grades are compared as numbers: AND is min, OR is max, NOT is YES - grade. NULL is NO.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise, product
from typing import Any, Final

from topology.pattern.compile import values
from topology.pattern.compile.attributes import AbsentEntry, Get, attribute
from topology.pattern.compile.closures import Binding, Compiler, Frame, Value
from topology.pattern.compile.scope import Scope
from topology.pattern.store.entry import Entry
from topology.pattern.tree import syntax
from topology.pattern.tree.mentions import BY_ORDER, mentions
from topology.pattern.tree.syntax import Expr


class ValueInterval:
    """Low to high, these included; low < high."""

    __slots__ = ("high", "low")

    def __init__(self, low: Any, high: Any) -> None:
        self.low = low
        self.high = high

    def __repr__(self) -> str:
        return f"[{self.low}, {self.high}]"


class _Anything:
    __slots__ = ()

    def __repr__(self) -> str:
        return "ANYTHING"


ANYTHING: Final = _Anything()


def in_doubt(value: Any) -> bool:
    return value is ANYTHING or type(value) is ValueInterval


def between(low: Any, high: Any) -> Any:
    """A number that is known to lie there; NULL at an end means that it is unknown."""
    if low is None or high is None:
        return ANYTHING
    return low if low == high else ValueInterval(low, high)


def _ends(value: Any) -> tuple[Any, Any] | None:
    """None for what is no number."""
    if type(value) is ValueInterval:
        return value.low, value.high
    return (value, value) if values.is_number(value) else None


def arithmetic(sign: str, left: Any, right: Any) -> Any:
    operation = values.OPERATIONS[sign]
    if not (in_doubt(left) or in_doubt(right)):
        return values.arithmetic(operation, left, right)
    if left is None or right is None:
        return None
    if left is ANYTHING or right is ANYTHING:
        return ANYTHING
    one, other = _ends(left), _ends(right)
    if one is None or other is None:
        return None
    if sign == "%" or (sign == "/" and other[0] <= 0 <= other[1]):
        return ANYTHING
    corners = [values.arithmetic(operation, a, b) for a in one for b in other]
    return ANYTHING if None in corners else between(min(corners), max(corners))


def negative(value: Any) -> Any:
    if type(value) is ValueInterval:
        return ValueInterval(-value.high, -value.low)
    return value if value is ANYTHING else values.negative(value)


def absolute(value: Any) -> Any:
    if type(value) is not ValueInterval:
        return value if value is ANYTHING else values.FUNCTIONS["abs"](value)
    ends = abs(value.low), abs(value.high)
    return between(0 if value.low <= 0 <= value.high else min(ends), max(ends))


def compare(sign: str, left: Any, right: Any) -> Any:
    if not (in_doubt(left) or in_doubt(right)):
        return values.compare(sign, left, right)
    if left is None or right is None:
        return None
    if left is ANYTHING or right is ANYTHING:
        return ANYTHING
    one, other = _ends(left), _ends(right)
    if one is None or other is None:
        return None
    if sign in (">", ">="):
        one, other, sign = other, one, "<" if sign == ">" else "<="
    if sign == "<":
        return _decided(one[1] < other[0], one[0] >= other[1])
    if sign == "<=":
        return _decided(one[1] <= other[0], one[0] > other[1])
    apart = one[1] < other[0] or other[1] < one[0]
    return (sign == "!=") if apart else ANYTHING


def _decided(surely: bool, surely_not: bool) -> Any:
    if surely:
        return True
    return False if surely_not else ANYTHING


# -- truths -----------------------------------------------------------------------------------


def truth(value: Any) -> Any:
    return value if value is ANYTHING else values.truth(value)


def opposite(held: Any) -> Any:
    return (not held) if type(held) is bool else held


def all_of(parts: Iterable[Any]) -> Any:
    """AND: False beats doubt, which beats unknown."""
    found = list(parts)
    if any(part is False for part in found):
        return False
    return ANYTHING if ANYTHING in found else None if None in found else True


def any_of(parts: Iterable[Any]) -> Any:
    """OR: True beats doubt, which beats unknown."""
    return opposite(all_of([opposite(part) for part in parts]))


# -- aggregates -------------------------------------------------------------------------------


def reduce(function: str, group: Sequence[Any]) -> Any:
    if function == "count":
        return ANYTHING if ANYTHING in group else values.count(group)
    if not any(in_doubt(value) for value in group):
        return values.AGGREGATES[function](group)
    if ANYTHING in group or function == "stddev":
        return ANYTHING
    ends = [pair for pair in map(_ends, group) if pair is not None]
    lows, highs = zip(*ends, strict=True)
    of = values.AGGREGATES[function]
    return between(of(lows), of(highs))


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
    """The compiler, with the operators of `topology.pattern.compile.grading`."""

    def attribute(self, path: tuple[str, ...]) -> Get:
        return _true_time if path == ("time",) else attribute(path)

    def negated(self, test: Value) -> Value:
        return lambda binding, frame: opposite(test(binding, frame))

    def reducer(self, function: str) -> Callable[[Sequence[Any]], Any]:
        return lambda group: reduce(function, group)

    def test(self, expr: Expr) -> Value:
        compiled = self.value(expr)
        return lambda binding, frame: truth(compiled(binding, frame))

    def before(self, expr: syntax.Previous) -> Get:
        certain, neighbours = super().before(expr), self.scope.environment.neighbours
        return lambda entry: certain(entry) if neighbours.is_sure(entry, -expr.back) else ANYTHING

    def _same(self, expr: syntax.Same) -> Value:
        gets = [self.attribute(path) for path in expr.paths]

        def test(binding: Binding, _: Frame) -> Any:
            members = [entry for entries in binding for entry in entries]
            return all_of(
                compare("=", get(members[0]), get(entry)) for get in gets for entry in members
            )

        return test

    def _call(self, expr: syntax.Call) -> Value:
        certain = super()._call(expr)
        name, arguments = expr.function, [self.value(part) for part in expr.arguments]

        def call(binding: Binding, frame: Frame) -> Any:
            found = [part(binding, frame) for part in arguments]
            if not any(in_doubt(value) for value in found):
                return certain(binding, frame)
            if name == "coalesce":
                return next(value for value in found if value is not None)
            return absolute(found[0]) if name == "abs" else ANYTHING

        return call

    def _negative(self, expr: syntax.Negative) -> Value:
        operand = self.value(expr.operand)
        return lambda binding, frame: negative(operand(binding, frame))

    def _arithmetic(self, expr: syntax.Arithmetic) -> Value:
        left, right, sign = self.value(expr.left), self.value(expr.right), expr.operator
        return lambda binding, frame: arithmetic(sign, left(binding, frame), right(binding, frame))

    def _compare(self, expr: syntax.Compare) -> Value:
        left, right, sign = self.value(expr.left), self.value(expr.right), expr.operator
        return lambda binding, frame: compare(sign, left(binding, frame), right(binding, frame))

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

    def _and(self, expr: syntax.And) -> Value:
        parts = [self.test(part) for part in expr.parts]
        return lambda binding, frame: all_of(part(binding, frame) for part in parts)

    def _or(self, expr: syntax.Or) -> Value:
        parts = [self.test(part) for part in expr.parts]
        return lambda binding, frame: any_of(part(binding, frame) for part in parts)


def _true_time(entry: Entry | AbsentEntry) -> Any:
    if isinstance(entry, AbsentEntry):
        return None
    return between(entry.low_ns, entry.high_ns)
