"""Defines the values of expressions and the operations on them; no operation raises an exception.

None is NULL. The types are numbers, text and flags (True, False). Int and float are one type, and
are compared exactly, by value. A flag is not a number.

An operation without a meaning returns NULL. Examples are operands that are NULL or of the wrong
type, a comparison of two types, an order of flags, and a division by zero. NaN and an int beyond
`MAX_INT` become NULL too. Infinity is a number. All other values of a payload (lists, objects) are
neither equal to nor less than any value.

If times are not exact, there are also `ValueInterval` and `ANYTHING`. The latter is an unknown
value, which may even be NULL. As a truth value, it means that both True and False are possible.

    a / b    an int if two ints divide without remainder, else a float
    a % b    takes the sign of a
    stddev   of the whole population: 0 for one value
    sum, avg, min, max, stddev ignore NULLs (and values of another type), and are NULL if nothing
    remains; a sum of floats is rounded only once, so it does not depend on the order of the group
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any, Final

from topology.queries.pattern.tree.words import COMPARED

MAX_INT: Final = 1 << 1024
"""The magnitude of an int stays below this number, so repeated products cannot grow for ever."""

Two = Callable[[Any, Any], Any]


class ValueInterval:
    """The numbers from low to high, both included. `low` is less than `high`."""

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


def is_uncertain(value: Any) -> bool:
    return value is ANYTHING or type(value) is ValueInterval


def make_interval(low: Any, high: Any) -> Any:
    """Return the interval from low to high, or the number if both are equal.

    If one of them is None, the result is ANYTHING.
    """
    if low is None or high is None:
        return ANYTHING
    return low if low == high else ValueInterval(low, high)


def ends_of(value: Any) -> tuple[Any, Any] | None:
    """Return the lowest and the highest number that a value may be; None if it is not a number."""
    if type(value) is ValueInterval:
        return value.low, value.high
    return (value, value) if is_number(value) else None


NUMBER: Final = "number"
TEXT: Final = "text"
FLAG: Final = "flag"
VALUE_TYPES: Final[dict[type, str]] = {int: NUMBER, float: NUMBER, str: TEXT, bool: FLAG}
ORDERED: Final[dict[type, str]] = {int: NUMBER, float: NUMBER, str: TEXT}

COMPARISONS: Final[dict[str, tuple[Two, dict[type, str]]]] = {
    sign: (test, VALUE_TYPES if sign in {"=", "!="} else ORDERED) for sign, test in COMPARED.items()
}
"""The test of each operator, and the types that it accepts; both operands must have one type."""


def null_if_nan(value: Any) -> Any:
    """Return the value, or NULL if it is NaN."""
    return None if type(value) is float and math.isnan(value) else value


def is_number(value: Any) -> bool:
    return type(value) is int or type(value) is float


def compare(sign: str, left: Any, right: Any) -> Any:
    test, types = COMPARISONS[sign]
    value_type = types.get(type(left))
    if value_type is None or value_type is not types.get(type(right)):
        return None if left is None or right is None else _compare_uncertain(sign, left, right)
    return bool(test(left, right))


def _compare_uncertain(sign: str, left: Any, right: Any) -> Any:
    if left is ANYTHING or right is ANYTHING:
        return ANYTHING
    one, other = ends_of(left), ends_of(right)
    if one is None or other is None:
        return None
    if sign in (">", ">="):
        one, other, sign = other, one, "<" if sign == ">" else "<="
    if sign == "<":
        return _to_three_valued(one[1] < other[0], one[0] >= other[1])
    if sign == "<=":
        return _to_three_valued(one[1] <= other[0], one[0] > other[1])
    apart = one[1] < other[0] or other[1] < one[0]
    return (sign == "!=") if apart else ANYTHING


def _to_three_valued(surely: bool, surely_not: bool) -> Any:
    if surely:
        return True
    return False if surely_not else ANYTHING


def all_of(values: Iterable[Any]) -> Any:
    """Return the AND of truth values: False beats ANYTHING, which beats NULL."""
    result: Any = True
    for value in values:
        if value is False:
            return False
        if value is not True and result is not ANYTHING:
            result = value
    return result


def to_truth(value: Any) -> Any:
    """Return a value as a truth value: NULL unless it is a flag or ANYTHING."""
    return value if type(value) is bool or value is ANYTHING else None


# -- arithmetic -------------------------------------------------------------------------------


def _quotient(a: Any, b: Any) -> Any:
    if type(a) is int and type(b) is int and a % b == 0:
        return a // b
    return a / b


def _remainder(a: Any, b: Any) -> Any:
    if type(a) is int and type(b) is int:
        rest = abs(a) % abs(b)
        return -rest if a < 0 else rest
    return math.fmod(a, b)


OPERATIONS: Final[dict[str, Two]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _quotient,
    "%": _remainder,
}


def apply_operation(operation: Two, left: Any, right: Any) -> Any:
    if not (is_number(left) and is_number(right)):
        return None if left is None or right is None else _apply_uncertain(operation, left, right)
    try:
        return _bound_value(operation(left, right))
    except (ArithmeticError, ValueError):
        return None


def _apply_uncertain(operation: Two, left: Any, right: Any) -> Any:
    if left is ANYTHING or right is ANYTHING:
        return ANYTHING
    one, other = ends_of(left), ends_of(right)
    if one is None or other is None:
        return None
    if operation is _remainder or (operation is _quotient and other[0] <= 0 <= other[1]):
        return ANYTHING
    corners = [apply_operation(operation, a, b) for a in one for b in other]
    return ANYTHING if None in corners else make_interval(min(corners), max(corners))


def _bound_value(result: Any) -> Any:
    if type(result) is int:
        return result if -MAX_INT < result < MAX_INT else None
    return null_if_nan(result)


def negate(value: Any) -> Any:
    if is_number(value):
        return -value
    if type(value) is ValueInterval:
        return ValueInterval(-value.high, -value.low)
    return value if value is ANYTHING else None


# -- functions --------------------------------------------------------------------------------


def _abs(value: Any) -> Any:
    if is_number(value):
        return abs(value)
    if type(value) is ValueInterval:
        ends = abs(value.low), abs(value.high)
        return make_interval(0 if value.low <= 0 <= value.high else min(ends), max(ends))
    return value if value is ANYTHING else None


def _sqrt(value: Any) -> Any:
    if not is_number(value) or value < 0:
        return None
    try:
        return math.sqrt(value)
    except OverflowError:
        return None


def _text_only(function: Callable[[str], Any]) -> Callable[[Any], Any]:
    return lambda value: function(value) if type(value) is str else None


def _coalesce(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "abs": _abs,
    "sqrt": _sqrt,
    "lower": _text_only(str.lower),
    "upper": _text_only(str.upper),
    "length": _text_only(len),
    "coalesce": _coalesce,
}
"""The built-in functions; all but coalesce take one argument."""


def compile_like(pattern: str) -> Callable[[Any], Any]:
    """Compile a pattern of LIKE: `%` matches any characters, `_` matches one; case matters.

    Each piece after a `%` is matched only at the first position that fits. So the cost is at most
    the product of the two lengths.
    """
    pieces = [re.escape(piece).replace("_", ".") for piece in pattern.split("%")]
    pieces[-1] += r"\Z"
    behind = "".join(f"(?>.*?{piece})" for piece in pieces[1:])
    fits = re.compile(pieces[0] + behind, re.DOTALL).match

    def test(value: Any) -> Any:
        if type(value) is not str:
            return value if value is ANYTHING else None
        return fits(value) is not None

    return test


# -- aggregates -------------------------------------------------------------------------------


def count(values: Sequence[Any]) -> int:
    return sum(value is not None for value in values)


def _sum(values: Sequence[Any]) -> Any:
    numbers = _numbers_in(values)
    return _sum_exactly(numbers) if numbers else None


def _avg(values: Sequence[Any]) -> Any:
    numbers = _numbers_in(values)
    return apply_operation(_quotient, _sum_exactly(numbers), len(numbers)) if numbers else None


def _stddev(values: Sequence[Any]) -> Any:
    numbers = _numbers_in(values)
    mean = _avg(numbers)
    if mean is None:
        return None
    distances = [apply_operation(operator.sub, number, mean) for number in numbers]
    squares = [apply_operation(operator.mul, distance, distance) for distance in distances]
    if None in squares:
        return None
    return _sqrt(apply_operation(_quotient, _sum_exactly(squares), len(squares)))


def _make_extreme(best: Callable[[Sequence[Any]], Any]) -> Callable[[Sequence[Any]], Any]:
    """Return an aggregate: the smallest or largest number or text of a group.

    It is NULL for a group with both numbers and texts.
    """

    def of(values: Sequence[Any]) -> Any:
        types = {ORDERED[type(value)] for value in values if type(value) in ORDERED}
        if len(types) != 1:
            return None
        return best([value for value in values if type(value) in ORDERED])

    return of


AGGREGATES: Final[dict[str, Callable[[Sequence[Any]], Any]]] = {
    "count": count,
    "sum": _sum,
    "avg": _avg,
    "min": _make_extreme(min),
    "max": _make_extreme(max),
    "stddev": _stddev,
}


def _numbers_in(values: Sequence[Any]) -> list[Any]:
    return [value for value in values if is_number(value)]


def _sum_exactly(numbers: Sequence[Any]) -> Any:
    if all(type(number) is int for number in numbers):
        return _bound_value(sum(numbers))
    try:
        return null_if_nan(math.fsum(numbers))
    # The sum overflows in this order, or it has opposite infinities.
    except (OverflowError, ValueError):
        infinite = [n for n in numbers if type(n) is float and math.isinf(n)]
    if infinite:
        return null_if_nan(sum(infinite))
    try:
        return float(sum(map(Fraction, numbers)))
    except OverflowError:
        return None
