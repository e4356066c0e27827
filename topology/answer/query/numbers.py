"""Defines the values that queries use, their texts as keys, and the rounding of exact sums.

A number is a finite float, or an integer whose magnitude does not exceed the largest float; true
and false are not numbers. A scalar is a number, a text of at most `MAX_TEXT_CHARS` characters, or a
truth value. Aggregates skip all other values of a payload, and count how many they skipped.

Keys must be distinguishable (`to_exact_scalar`), so a float outside the 64-bit integer range cannot
be a key. JSON parsers turn integers that need more than 64 bits into floats, and several
neighbouring integers become the same float.

Aggregates add values as integers that represent every double exactly. So results do not depend on
the order of arrival, and only the last step rounds (`divide`, `root`).
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
    """Return the value if it is a number that arithmetic can use, else None."""
    kind = type(value)
    if kind is float:
        # NaN is excluded, and -0.0 becomes 0.0.
        return (value or 0.0) if -_LARGEST_FLOAT <= value <= _LARGEST_FLOAT else None
    return value if kind is int and -_LARGEST <= value <= _LARGEST else None


def to_scalar(value: Any) -> Any:
    """Return the value if it is a scalar, else None."""
    kind = type(value)
    if kind is str:
        return value if len(value) <= MAX_TEXT_CHARS and is_text(value) else None
    return value if kind is bool else number(value)


def to_exact_scalar(value: Any) -> Any:
    """Return the scalar, or None if a JSON parser may have made other integers the same float."""
    is_merged = type(value) is float and not _LAST_MERGED < value < _FIRST_MERGED
    return None if is_merged else to_scalar(value)


def is_text(value: str) -> bool:
    """Return whether UTF-8 can encode the text; it cannot encode unpaired surrogates."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def text_of(value: Any) -> str:
    """Return a text that equals the text of another scalar only if the scalars are equal.

    A whole float has the text of the integer, because senders write such numbers in both ways.
    """
    if type(value) is str:
        return value if not value.startswith(_ESCAPE) else f"{_ESCAPE}s{value}"
    if type(value) is bool:
        return f"{_ESCAPE}{'t' if value else 'f'}"
    if type(value) is float and not value.is_integer():
        return f"{_ESCAPE}r{value!r}"
    return f"{_ESCAPE}i{int(value):x}"


def join_texts(texts: list[str]) -> str:
    """Return a text for several scalars, by their texts; it differs from that of other scalars.

    Each text follows its length, so no sign in it can shift the next one.
    """
    return f"{_ESCAPE}l{''.join([f'{len(text)}:{text}' for text in texts])}"


def scalar_of(text: str) -> Any:
    """Return what `text_of` or `join_texts` was given; a whole float comes back as an integer."""
    if not text.startswith(_ESCAPE):
        return text
    kind, rest = text[1], text[2:]
    if kind == "s":
        return rest
    if kind == "l":
        found: list[Any] = []
        while rest:
            length, _, rest = rest.partition(":")
            found.append(scalar_of(rest[: int(length)]))
            rest = rest[int(length) :]
        return found
    if kind == "r":
        return float(rest)
    return to_json_number(int(rest, 16)) if kind == "i" else kind == "t"


def to_json_number(value: Any) -> Any:
    """Return a scalar as JSON can represent it: an integer beyond 64 bits as the nearest float."""
    return value if type(value) is not int or -_FITS <= value < _FITS else divide(value, 1)


def divide(total: int, divisor: int) -> float | None:
    """Return the double nearest to total / divisor; None beyond the range of doubles."""
    try:
        # Compiled code converts both operands of `/` to doubles first, and so rounds twice.
        return float(truediv(total, divisor))
    except OverflowError:
        return None


def root_of_quotient(total: int, divisor: int) -> float | None:
    """Return the square root of total / divisor (>= 0); it never decreases as the ratio grows."""
    if total <= 0:
        return 0.0
    # This number of bits yields the 53 bits of a double for a ratio of any size.
    bits = max(0, 2 * _ROOT_BITS - total.bit_length() + divisor.bit_length())
    bits += bits & 1
    whole = isqrt((total << bits) // divisor)
    try:
        return ldexp(whole, -bits // 2)
    except OverflowError:
        return None
