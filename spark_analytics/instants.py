"""Convert nanoseconds to Spark's timestamps, and header texts to nanoseconds.

All functions build expressions. None of them can fail on data, with or without
`spark.sql.ansi.enabled`; an unreadable value is null.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from inorder.contract import UNIT_NS

NS_PER_S: Final = 1_000_000_000

_RFC3339: Final = (
    r"\A([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})"
    r"(?:\.([0-9]{1,9}))?(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))\z"
)
_INTEGER: Final = r"\A-?[0-9]+\z"
_DIGITS: Final = r"\A[0-9]+\z"


def to_timestamp(time_ns: Column) -> Column:
    """Return nanoseconds as a timestamp, rounded down to microseconds.

    Every long is a valid timestamp, from 1677 to 2262.
    """
    # `ns - pmod(ns)` would overflow at the smallest long.
    rest = F.pmod(time_ns, F.lit(1000))
    below = F.when((time_ns < 0) & (rest != 0), F.lit(1)).otherwise(F.lit(0))
    return F.timestamp_micros(_divide(time_ns, F.lit(1000)) - below)


def to_ns(time: Column) -> Column:
    """Return a timestamp as nanoseconds; null outside 1677 to 2262."""
    return F.try_multiply(F.unix_micros(time), F.lit(1000).cast("long"))


def parse_integer(text: Column) -> Column:
    """Read a long from ASCII digits with an optional minus; null for any other text."""
    return _parse_matching(text, _INTEGER)


def digits(text: Column) -> Column:
    """Read a long from ASCII digits; null for any other text."""
    return _parse_matching(text, _DIGITS)


def parse_header_time_ns(text: Column, unit: str) -> Column:
    """Read a timestamp of the header contract: an integer in `unit`, or RFC 3339.

    The result is null for any other text, or if the nanoseconds do not fit in a long. The smallest
    long is null too, since its negative does not fit.
    """
    number = parse_integer(text)
    in_ns = F.try_multiply(number, F.lit(UNIT_NS[unit]).cast("long"))
    in_ns = F.when(number > F.lit(-(2**63)), in_ns)
    return F.when(number.isNotNull(), in_ns).when(text.isNotNull(), rfc3339_ns(text))


def rfc3339_ns(text: Column) -> Column:
    """Read an RFC 3339 time, exact to the nanosecond.

    Leap seconds and times without an offset are null. So are times whose nanoseconds, or their
    negative, do not fit in a long.
    """
    return F.try_subtract(F.lit(0).cast("long"), (-_parse_instant(text)).try_cast("long"))


def is_rfc3339(text: Column) -> Column:
    """Return whether the text is an RFC 3339 time, even one that does not fit in a long."""
    return _parse_instant(text).isNotNull()


def _parse_instant(text: Column) -> Column:
    """Return the nanoseconds of an RFC 3339 time as a decimal; null for any other text."""

    def part(group: int) -> Column:
        return F.regexp_extract(text, _RFC3339, group)

    def number(group: int) -> Column:
        return F.coalesce(part(group).try_cast("long"), F.lit(0))

    day = F.datediff(part(1).try_cast("date"), F.lit("1970-01-01").cast("date")).cast("long")
    hour, minute, second = number(2), number(3), number(4)
    east_hour, east_minute = number(7), number(8)
    sane = (hour < 24) & (minute < 60) & (second < 60) & (east_hour < 24) & (east_minute < 60)
    west = F.when(part(6) == "-", F.lit(1)).otherwise(F.lit(-1))
    minutes = (day * 24 + hour) * 60 + minute + west * (east_hour * 60 + east_minute)
    fraction_ns = F.rpad(part(5), 9, "0").try_cast("long")
    # A long cannot hold the nanoseconds of all years, so this is a decimal.
    time_ns = (minutes * 60 + second).cast("decimal(20,0)") * NS_PER_S + fraction_ns
    return F.when(text.rlike(_RFC3339) & sane, time_ns)


def _parse_matching(text: Column, pattern: str) -> Column:
    """Return the text as a long if it matches the pattern.

    Spark accepts more texts as numbers than the contract allows. A text that equals Spark's own
    spelling of the number skips the regular expression, which costs more than all the rest.
    """
    number = text.try_cast("long")
    is_usual = number.cast("string") == text
    if pattern == _DIGITS:
        is_usual &= number >= 0
    return F.when(is_usual | text.rlike(pattern), number)


def _divide(dividend: Column, divisor: Column) -> Column:
    """Divide whole numbers, rounding towards zero, without converting to doubles."""
    return F.call_function("div", dividend, divisor)
