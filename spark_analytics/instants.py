"""Nanoseconds as Spark's timestamps, and what a header says as nanoseconds.

Expressions only; none of them can fail on data, whatever `spark.sql.ansi.enabled` says:
what cannot be read is null.
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
    """Rounded down to microseconds. Every long is a timestamp: 1677 to 2262."""
    # Not ns - pmod(ns): that overflows at the smallest long.
    rest = F.pmod(time_ns, F.lit(1000))
    below = F.when((time_ns < 0) & (rest != 0), F.lit(1)).otherwise(F.lit(0))
    return F.timestamp_micros(_div(time_ns, F.lit(1000)) - below)


def to_ns(time: Column) -> Column:
    """A timestamp as nanoseconds; null beyond 1677 to 2262."""
    return F.try_multiply(F.unix_micros(time), F.lit(1000).cast("long"))


def integer(text: Column) -> Column:
    """A long from plain ASCII digits, with a minus or without; else null."""
    return _spelled(text, _INTEGER)


def digits(text: Column) -> Column:
    """A long from plain ASCII digits; else null."""
    return _spelled(text, _DIGITS)


def header_time_ns(text: Column, unit: str) -> Column:
    """A stamp of the header contract: an integer in `unit`, or RFC 3339. Null if it is
    neither, or no long of nanoseconds, or the smallest, whose negative is none."""
    number = integer(text)
    in_ns = F.try_multiply(number, F.lit(UNIT_NS[unit]).cast("long"))
    in_ns = F.when(number > F.lit(-(2**63)), in_ns)
    return F.when(number.isNotNull(), in_ns).when(text.isNotNull(), rfc3339_ns(text))


def rfc3339_ns(text: Column) -> Column:
    """Exact to the nanosecond; leap seconds and times without an offset are null, and so are those
    of which a long does not hold the nanoseconds and their negative."""
    return F.try_subtract(F.lit(0).cast("long"), (-_instant(text)).try_cast("long"))


def is_rfc3339(text: Column) -> Column:
    """Return whether it is a time, be it one that no long holds."""
    return _instant(text).isNotNull()


def _instant(text: Column) -> Column:
    """Return the nanoseconds as a decimal."""

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
    # As a decimal: no long holds all years.
    time_ns = (minutes * 60 + second).cast("decimal(20,0)") * NS_PER_S + fraction_ns
    return F.when(text.rlike(_RFC3339) & sane, time_ns)


def _spelled(text: Column, pattern: str) -> Column:
    """Spark reads more as a number than the contract allows. What is spelled as Spark itself would
    spell the number needs no regular expression, which costs more than all the rest."""
    number = text.try_cast("long")
    is_usual = number.cast("string") == text
    if pattern == _DIGITS:
        is_usual &= number >= 0
    return F.when(is_usual | text.rlike(pattern), number)


def _div(dividend: Column, divisor: Column) -> Column:
    """Whole numbers divided towards zero, without a detour over doubles."""
    return F.call_function("div", dividend, divisor)
