"""Values of expressions and what the operators make of them; nothing here raises.

None is NULL. Numbers are int and float together (compared by value, exactly), then there are
text and flags (True, False); a flag is no number. What has no meaning is NULL: an operand that
is NULL or of another type, two types in one comparison, an order of flags, a division by
zero, NaN, and an int beyond `MAX_INT`. Infinity is a number. Everything else a payload may hold
(lists, objects) is neither equal to nor smaller than anything.

    a / b    an int if two ints divide without remainder, else a float
    a % b    takes the sign of a
    stddev   of the whole population: 0 for one value
    sum, avg, min, max, stddev leave NULLs (and what is of another type) out, and are NULL if
    nothing remains; sums of floats are rounded once, so no order of the group matters
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any, Final

MAX_INT: Final = 1 << 1024
"""Beyond what a float can hold; keeps products of products from growing without end."""

Two = Callable[[Any, Any], Any]

NUMBER: Final = "number"
TEXT: Final = "text"
FLAG: Final = "flag"
VALUE_TYPES: Final[dict[type, str]] = {int: NUMBER, float: NUMBER, str: TEXT, bool: FLAG}
ORDERED: Final[dict[type, str]] = {int: NUMBER, float: NUMBER, str: TEXT}

COMPARISONS: Final[dict[str, tuple[Two, dict[type, str]]]] = {
    "=": (operator.eq, VALUE_TYPES),
    "!=": (operator.ne, VALUE_TYPES),
    "<": (operator.lt, ORDERED),
    "<=": (operator.le, ORDERED),
    ">": (operator.gt, ORDERED),
    ">=": (operator.ge, ORDERED),
}
"""Sign to the test, and to the types of values it is for; both operands must be of one."""


def known(value: Any) -> Any:
    """NaN is NULL."""
    return None if type(value) is float and math.isnan(value) else value


def is_number(value: Any) -> bool:
    return type(value) is int or type(value) is float


def compare(sign: str, left: Any, right: Any) -> bool | None:
    test, types = COMPARISONS[sign]
    value_type = types.get(type(left))
    if value_type is None or value_type is not types.get(type(right)):
        return None
    return bool(test(left, right))


def all_of(values: Iterable[bool | None]) -> bool | None:
    """AND: False beats unknown."""
    result: bool | None = True
    for value in values:
        if value is False:
            return False
        if value is None:
            result = None
    return result


def any_of(values: Iterable[bool | None]) -> bool | None:
    """OR: True beats unknown."""
    result: bool | None = False
    for value in values:
        if value is True:
            return True
        if value is None:
            result = None
    return result


def truth(value: Any) -> bool | None:
    """A value where a test is due: only a flag is one."""
    return value if type(value) is bool else None


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


def arithmetic(operation: Two, left: Any, right: Any) -> Any:
    if not (is_number(left) and is_number(right)):
        return None
    try:
        return _bounded(operation(left, right))
    except (ArithmeticError, ValueError):
        return None


def _bounded(result: Any) -> Any:
    if type(result) is int:
        return result if -MAX_INT < result < MAX_INT else None
    return known(result)


def negative(value: Any) -> Any:
    return -value if is_number(value) else None


# -- functions --------------------------------------------------------------------------------


def _abs(value: Any) -> Any:
    return abs(value) if is_number(value) else None


def _sqrt(value: Any) -> Any:
    if not is_number(value) or value < 0:
        return None
    try:
        return math.sqrt(value)
    except OverflowError:
        return None


def _lower(value: Any) -> Any:
    return value.lower() if type(value) is str else None


def _upper(value: Any) -> Any:
    return value.upper() if type(value) is str else None


def _length(value: Any) -> Any:
    return len(value) if type(value) is str else None


def _coalesce(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "abs": _abs,
    "sqrt": _sqrt,
    "lower": _lower,
    "upper": _upper,
    "length": _length,
    "coalesce": _coalesce,
}
"""They take one argument, but for coalesce."""


def like(pattern: str) -> Callable[[Any], bool | None]:
    """`%` any characters, `_` one; both cases differ. Never more than the product of the two
    lengths: each piece between two `%` is taken where it first fits."""
    pieces = pattern.split("%")

    def test(value: Any) -> bool | None:
        if type(value) is not str:
            return None
        if len(pieces) == 1:
            return len(value) == len(pattern) and _fits(pattern, value, 0)
        head, tail = pieces[0], pieces[-1]
        at, end = len(head), len(value) - len(tail)
        if at > end or not (_fits(head, value, 0) and _fits(tail, value, end)):
            return False
        for piece in pieces[1:-1]:
            while at + len(piece) <= end and not _fits(piece, value, at):
                at += 1
            at += len(piece)
            if at > end:
                return False
        return True

    return test


def _fits(piece: str, text: str, at: int) -> bool:
    return all(sign in ("_", text[at + i]) for i, sign in enumerate(piece))


# -- aggregates -------------------------------------------------------------------------------


def count(values: Sequence[Any]) -> int:
    return sum(value is not None for value in values)


def _sum(values: Sequence[Any]) -> Any:
    numbers = _numbers(values)
    return _total(numbers) if numbers else None


def _avg(values: Sequence[Any]) -> Any:
    numbers = _numbers(values)
    return arithmetic(_quotient, _total(numbers), len(numbers)) if numbers else None


def _stddev(values: Sequence[Any]) -> Any:
    numbers = _numbers(values)
    mean = _avg(numbers)
    if mean is None:
        return None
    distances = [arithmetic(operator.sub, number, mean) for number in numbers]
    squares = [arithmetic(operator.mul, distance, distance) for distance in distances]
    if None in squares:
        return None
    return _sqrt(arithmetic(_quotient, _total(squares), len(squares)))


def _extreme(best: Callable[[Sequence[Any]], Any]) -> Callable[[Sequence[Any]], Any]:
    """The extreme of numbers or of texts; a group that has both has neither."""

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
    "min": _extreme(min),
    "max": _extreme(max),
    "stddev": _stddev,
}


def _numbers(values: Sequence[Any]) -> list[Any]:
    return [value for value in values if is_number(value)]


def _total(numbers: Sequence[Any]) -> Any:
    if all(type(number) is int for number in numbers):
        return _bounded(sum(numbers))
    try:
        return known(math.fsum(numbers))
    except (OverflowError, ValueError):  # at the end, or on the way in this order
        infinite = [n for n in numbers if type(n) is float and math.isinf(n)]
    if infinite:
        return known(sum(infinite))
    try:
        return float(sum(map(Fraction, numbers)))
    except OverflowError:
        return None
