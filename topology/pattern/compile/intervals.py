"""Values and truths in doubt: what the operators make of a number known between two ends.

Source: patterns.md 7. Beside the values of `topology.pattern.compile.values` there is
`ValueInterval`, and `ANYTHING`, of which nothing is known, not even that it is not NULL; as a truth
it means that it may be so or not. Results are sound and not always the narrowest: an event that is
named twice counts as two (`a.time - a.time` is not 0), and `%`, sqrt, stddev and divisors around 0
give up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from topology.pattern.compile import values


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
