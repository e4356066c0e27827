"""Values as windows use them, and sums that do not depend on the order of arrival.

A number is a float that is finite, or an int no larger than these; a truth value is none.
A scalar is a number, a text of at most `MAX_TEXT_CHARS`, or a truth value. Whatever else a
payload holds is no value for an aggregate: it is left out there, and counted. What has to differ
from others (`distinguished`), as keys do, is no float beyond 64 bit: JSON's readers make these of
integers that they cannot hold, and of several next to each other one.

Sums are kept as integers in units of 2^-shift, which holds every double exactly: adding,
merging and weighing are exact in any order, and only the last division rounds, to the
nearest double. Cost: an addition of integers of about a hundred bits for values of like
size, of two thousand bits at worst.
"""

from __future__ import annotations

from math import isqrt, ldexp
from operator import truediv
from sys import float_info
from typing import Any, Final

MAX_TEXT_CHARS: Final = 1_024
WEIGHT_BITS: Final = 32
WHOLE_WEIGHT: Final = 1 << WEIGHT_BITS
"""The weight of an event that certainly belongs to a window."""

_LARGEST_FLOAT: Final = float_info.max
_LARGEST: Final = int(_LARGEST_FLOAT)
_FIRST_MERGED: Final = float(1 << 64)
_LAST_MERGED: Final = float(-1 << 63)
_FITS: Final = 1 << 63
_ROOT_BITS: Final = 64
_ESCAPE: Final = "\x00"


def number(value: Any) -> Any:
    """The value, or None if it is not a number that can be reckoned with."""
    kind = type(value)
    if kind is float:
        # Neither NaN nor -0.0.
        return (value or 0.0) if -_LARGEST_FLOAT <= value <= _LARGEST_FLOAT else None
    return value if kind is int and -_LARGEST <= value <= _LARGEST else None


def scalar(value: Any) -> Any:
    """The value, or None if it cannot be distinguished from others or kept at small cost."""
    kind = type(value)
    if kind is str:
        return value if len(value) <= MAX_TEXT_CHARS and is_text(value) else None
    return value if kind is bool else number(value)


def distinguished(value: Any) -> Any:
    """The scalar, or None if others may have become the same number."""
    is_merged = type(value) is float and not _LAST_MERGED < value < _FIRST_MERGED
    return None if is_merged else scalar(value)


def is_text(value: str) -> bool:
    """Return whether UTF-8 can carry it: whether it has no half of a pair of surrogates."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def text_of(value: Any) -> str:
    """A text that represents a scalar: equal texts for equal values, and only for them. A
    float that is whole is the integer, as senders do not agree on how they write it."""
    if type(value) is str:
        return value if not value.startswith(_ESCAPE) else f"{_ESCAPE}s{value}"
    if type(value) is bool:
        return f"{_ESCAPE}{'t' if value else 'f'}"
    if type(value) is float and not value.is_integer():
        return f"{_ESCAPE}r{value!r}"
    return f"{_ESCAPE}i{int(value):x}"


def scalar_of(text: str) -> Any:
    """What `text_of` was given."""
    if not text.startswith(_ESCAPE):
        return text
    kind, rest = text[1], text[2:]
    if kind == "s":
        return rest
    if kind == "r":
        return float(rest)
    return json_number(int(rest, 16)) if kind == "i" else kind == "t"


def json_number(value: Any) -> Any:
    """Return a scalar as JSON can carry it: an integer beyond 64 bit as the nearest float."""
    return value if type(value) is not int or -_FITS <= value < _FITS else quotient(value, 1)


def quotient(total: int, divisor: int) -> float | None:
    """The double nearest to total / divisor; None beyond the range of doubles."""
    try:
        # Not `/`, for which the compiler makes doubles of both first, and so rounds twice.
        return float(truediv(total, divisor))
    except OverflowError:
        return None


def root(total: int, divisor: int) -> float | None:
    """The square root of total / divisor (>= 0), never falling as that rises."""
    if total <= 0:
        return 0.0
    # So many bits that a double's 53 are right whatever the size of the ratio.
    bits = max(0, 2 * _ROOT_BITS - total.bit_length() + divisor.bit_length())
    bits += bits & 1
    whole = isqrt((total << bits) // divisor)
    try:
        return ldexp(whole, -bits // 2)
    except OverflowError:
        return None
