"""Guess how times are written, from the values of a field.

The values are times if nearly all are from the year 2000 to a year after now when they are read in
one way. A time of the format and ISO 8601 are tried first. Then follow numbers in s, ms, us or ns
with `.` or `,` as decimal sign, forms with a name, and patterns. A pattern follows from the first
text. If it may have the day or the month first, the values decide: a form that reads more of them
is the better one. If several read as many, all of them are named (`TimesSeen.forms`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import islice
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from inorder.contract import MAX_INT64, UNIT_NS, TimeUnit
from recordings.plausible import OLDEST_NS, YEAR_NS
from topology.records.mapping import DecimalSign
from topology.records.time_forms import NAMED, Moment, make_time_form, parse_iso
from topology.records.times import TimeReading, Twice, read_instant_ns
from topology.records.values import Timestamp

UNITS: Final[tuple[TimeUnit, ...]] = ("s", "ms", "us", "ns")
LOOKED_AT: Final = 20
"""The number of values by which the form of a field's values is recognized."""

NEARLY_ALL: Final = 0.9
FIXED: Final = (*NAMED, "%a %b %d %H:%M:%S %Y", "%Y%m%d%H%M%S", "%Y%m%d%H%M%S%f", "%Y%m%d%H%M")
"""The forms that are tried on every text, and on integers."""

_UTC: Final = ZoneInfo("UTC")
_AMOUNT: Final = re.compile(r"-?[0-9]{1,19}(?:\.[0-9]{1,9})?")
_WITH_COMMA: Final = re.compile(r"-?[0-9]{1,19},[0-9]{1,9}")
_DATES: Final = (
    (r"[0-9]{1,2}([./-])[0-9]{1,2}\1[0-9]{4}", ("%d{0}%m{0}%Y", "%m{0}%d{0}%Y")),
    (r"[0-9]{4}([./])[0-9]{1,2}\1[0-9]{1,2}", ("%Y{0}%m{0}%d",)),
    (r"[0-9]{2}([./-])[0-9]{2}\1[0-9]{2}", ("%d{0}%m{0}%y", "%m{0}%d{0}%y", "%y{0}%m{0}%d")),
    (r"[0-9]{1,2}([ ./-])[A-Za-z]{3,9}\1[0-9]{4}", ("%d{0}%b{0}%Y",)),
    (r"[A-Za-z]{3,9}( )[0-9]{1,2}, [0-9]{4}", ("%b{0}%d, %Y",)),
)
_CLOCK: Final = re.compile(
    r"(,? |T)[0-9]{1,2}:[0-9]{2}(:[0-9]{2}(?:([.,])[0-9]+)?)?(?:( ?)[AaPp][Mm])?"
    r"(?:( ?)(?:Z|UTC|GMT|[+-][0-9:]+))?"
)


class TimesSeen(NamedTuple):
    """The values of a field as times.

    Attributes:
        unit: The unit of numbers, None for times that state it.
        without_zone: Whether the times have no zone.
        ns: The times, None for a value that is none.
        forms: The forms that read the values equally well; none for numbers and ISO 8601.
        decimal: The decimal sign of numbers that are text.
    """

    unit: TimeUnit | None
    without_zone: bool
    ns: list[int | None]
    forms: tuple[str, ...] = ()
    decimal: DecimalSign = "."


def guess_times(values: Sequence[object], now_ns: int) -> TimesSeen | None:
    """Return the values as times, or None if they are none."""
    some = [*islice((value for value in values if value is not None), LOOKED_AT)]
    if any(isinstance(value, Timestamp) for value in some):
        is_local = any(isinstance(value, Timestamp) and value.is_local for value in some)
        ns = [value.ns if isinstance(value, Timestamp) else None for value in values]
        return _accept_if_likely(TimesSeen(None, is_local, ns), now_ns)
    moments = [moment for value in some if isinstance(moment := _parse_iso(value), Moment)]
    if moments:
        is_local = any(each.east_s is None for each in moments)
        seen = TimesSeen(None, is_local, [_parse_iso_ns(value) for value in values])
        if found := _accept_if_likely(seen, now_ns):
            return found
    has_comma = any(isinstance(value, str) and _WITH_COMMA.fullmatch(value) for value in some)
    return _guess_in_units(values, now_ns, "," if has_comma else ".") or _guess_in_form(
        values, now_ns
    )


def to_decimal(value: object, sign: DecimalSign = ".") -> Decimal | None:
    """Return the number that a value is, or None."""
    if isinstance(value, str):
        value = value.replace(",", ".") if sign == "," else value
        return Decimal(value) if _AMOUNT.fullmatch(value) else None
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    found = Decimal(str(value))
    return found if found.is_finite() and abs(found) <= MAX_INT64 else None


def _accept_if_likely(seen: TimesSeen, now_ns: int) -> TimesSeen | None:
    likely = sum(n is not None and OLDEST_NS <= n <= now_ns + YEAR_NS for n in seen.ns)
    return seen if seen.ns and likely >= NEARLY_ALL * len(seen.ns) else None


def _parse_iso(value: object) -> Moment | str | None:
    return parse_iso(value) if isinstance(value, str) else None


def _parse_iso_ns(value: object) -> int | None:
    return (
        _parse_ns(value, TimeReading(zone=_UTC)) if isinstance(_parse_iso(value), Moment) else None
    )


def _parse_ns(value: object, how: TimeReading, near_ns: int = 0) -> int | None:
    found = read_instant_ns(value, how, near_ns)
    return None if isinstance(found, str | Twice) else found


def _guess_in_units(values: Sequence[object], now_ns: int, sign: DecimalSign) -> TimesSeen | None:
    there = (value for value in values if value is not None)
    some = [to_decimal(value, sign) for value in islice(there, LOOKED_AT)]
    if not any(_is_near(each, UNIT_NS[unit], now_ns) for unit in UNITS for each in some):
        return None
    amounts = [to_decimal(value, sign) for value in values]
    for unit in UNITS:
        ns = [None if each is None else int(each * UNIT_NS[unit]) for each in amounts]
        seen = TimesSeen(unit, without_zone=False, ns=ns, decimal=sign)
        if found := _accept_if_likely(seen, now_ns):
            return found
    return None


def _is_near(number: Decimal | None, unit_ns: int, now_ns: int) -> bool:
    return number is not None and OLDEST_NS <= number * unit_ns <= now_ns + YEAR_NS


def _guess_in_form(values: Sequence[object], now_ns: int) -> TimesSeen | None:
    first = next((value for value in values if isinstance(value, str | int)), None)
    found = [
        seen
        for text in dict.fromkeys(_forms_of(str(first)))
        if (seen := _accept_if_likely(_read(values, text, now_ns), now_ns))
    ]
    if not found:
        return None
    faults = [each.ns.count(None) for each in found]
    best = [each for each, count in zip(found, faults, strict=True) if count == min(faults)]
    return best[0]._replace(forms=tuple(form for each in best for form in each.forms))


def _read(values: Sequence[object], text: str, now_ns: int) -> TimesSeen:
    form = make_time_form(text)
    how = TimeReading(zone=_UTC, form=form)
    ns = [_parse_ns(value, how, now_ns) for value in values]
    return TimesSeen(None, not form.has_zone, ns, (text,))


def _forms_of(text: str) -> Iterator[str]:
    """Yield the forms that a text may have."""
    yield from (form for form in FIXED if make_time_form(form).pattern.fullmatch(text))
    for pattern, orders in _DATES:
        date_ = re.match(pattern, text)
        clock = date_ and _CLOCK.fullmatch(text, date_.end())
        if not (date_ and clock):
            continue
        before, seconds, sign, before_half, before_zone = clock.groups()
        rest = f"{before}{'%H' if before_half is None else '%I'}:%M"
        rest += "" if seconds is None else ":%S"
        rest += "" if sign is None else f"{sign}%f"
        rest += "" if before_half is None else f"{before_half}%p"
        rest += "" if before_zone is None else f"{before_zone}%z"
        yield from (order.format(date_[1]) + rest for order in orders)
