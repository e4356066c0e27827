"""Converts the content of a mapped `ts` to an instant in nanoseconds.

A number is a multiple of `unit_ns` and is converted exactly. A float is read as its shortest
decimal text. Fractions of a nanosecond are rounded half to even. A text is a number or ISO 8601
(`topology.records.time_forms`), or has the mapping's own form, which then excludes all others. A
time without a zone is a fault unless a zone is configured. In that zone, a local time that occurs
twice has two instants (`Twice`), and one that clocks skip is a fault. Time zones come from the
machine's own table.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from inorder import rfc3339
from inorder.contract import MAX_INT64, UNIT_NS
from topology.records.mapping import Fields
from topology.records.reasons import HUGE, SKIPPED, UNREADABLE, ZONELESS, describe_mapped_times
from topology.records.time_forms import NS_PER_S, Moment, TimeForm, make_time_form, parse_iso
from topology.records.values import Timestamp

_NUMBER: Final = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?")
_EXACT: Final = Context(prec=120)
_MOST_DIGITS_LEFT: Final = 30
"""The largest decimal exponent of a number; a larger number is not a time in any unit."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_S: Final = 86_400
SWAP_SIGNS: Final = str.maketrans(".,", ",.")
"""Converts a number with a decimal comma, for `str.translate`; one with a point is none then."""


class Twice(NamedTuple):
    """The two instants of a local time that occurs twice, because clocks were set back."""

    early_ns: int
    late_ns: int

    def nearest_ns(self, to_ns: int) -> int:
        """Return the instant that is nearer to `to_ns`, and the earlier one if both are as near."""
        is_early = abs(self.early_ns - to_ns) <= abs(self.late_ns - to_ns)
        return self.early_ns if is_early else self.late_ns


def zone_of(name: str) -> ZoneInfo | None:
    """Return the time zone of this name, or None if the name is empty.

    Raises:
        ValueError: This machine has no time zone of this name.
    """
    try:
        return ZoneInfo(name) if name else None
    except (KeyError, ValueError, TypeError, OSError):
        raise ValueError("is not a time zone of this machine") from None


def suggest_zone(name: str, otherwise: str) -> str:
    """Return the zone whose name ends like this one, such as Europe/Vienna, or `otherwise`."""
    city = name.rpartition("/")[2].replace(" ", "_").lower()
    found = [each for each in available_timezones() if each.rpartition("/")[2].lower() == city]
    return min(found, default=otherwise)


class TimeReading(NamedTuple):
    """How times are read.

    Attributes:
        unit_ns: The unit of numbers.
        zone: The zone of times that state none.
        form: The only form of times, or None for numbers and ISO 8601.
        has_comma: Whether numbers that are text have a decimal comma.
    """

    unit_ns: int = 1
    zone: ZoneInfo | None = None
    form: TimeForm | None = None
    has_comma: bool = False

    def describe(self) -> str:
        """Return a description of the times that are accepted."""
        return describe_mapped_times(self.unit_ns, "" if self.form is None else self.form.text)

    def for_arrival(self, value: object) -> TimeReading:
        """Return how an arrival is read, which may have the form of `ts` or be as without one."""
        form = self.form
        if form is None or (form.has_year and form.pattern.fullmatch(str(value))):
            return self
        return self._replace(form=None)


def reading_of(fields: Fields) -> TimeReading:
    """Return how the times of a mapping are read."""
    form = make_time_form(fields.ts_format) if fields.ts_format else None
    return TimeReading(
        UNIT_NS[fields.ts_unit], zone_of(fields.ts_zone), form, fields.decimal == ","
    )


def read_instant_ns(value: object, how: TimeReading, near_ns: int = 0) -> int | Twice | str:
    """Return the instant in nanoseconds since the epoch, or its fault (`topology.records.reasons`).

    A value is faulty if it is not a time, or if the time or its negative does not fit int64. If it
    lacks the year, `near_ns` is the arrival from which the year is taken, or 0 if there is none.
    """
    ns = _read_ns(value, how, near_ns)
    if isinstance(ns, str):
        return ns
    ends = ns if isinstance(ns, Twice) else (ns, ns)
    return ns if ends[0] >= -MAX_INT64 and ends[1] <= MAX_INT64 else HUGE


def _read_ns(value: object, how: TimeReading, near_ns: int) -> int | Twice | str:
    if isinstance(value, Timestamp):
        return _apply_zone(value.ns, how.zone) if value.is_local else value.ns
    if how.form is not None:
        return _moment_to_ns(how.form.read(value, near_ns), how.zone)
    if isinstance(value, int) and not isinstance(value, bool):
        return value * how.unit_ns
    if isinstance(value, float):
        value = Decimal(repr(value))
    if isinstance(value, Decimal):
        return _round(value, how.unit_ns)
    return _parse_text_ns(value, how) if isinstance(value, str) else UNREADABLE


def _round(value: Decimal, unit_ns: int) -> int | str:
    if not value.is_finite():
        return UNREADABLE
    if value and value.adjusted() > _MOST_DIGITS_LEFT:
        return HUGE
    ns = _EXACT.multiply(value, Decimal(unit_ns))
    return int(ns.to_integral_value(ROUND_HALF_EVEN, _EXACT))


def _parse_text_ns(text: str, how: TimeReading) -> int | Twice | str:
    if len(text) < _MOST_DIGITS_LEFT and text.isdecimal() and text.isascii():
        return int(text) * how.unit_ns
    number = text.translate(SWAP_SIGNS) if how.has_comma else text
    if _NUMBER.fullmatch(number):
        return _round(Decimal(number), how.unit_ns)
    ns = rfc3339.parse_ns(text.encode("utf-8", "replace"))
    return ns if ns is not None else _moment_to_ns(parse_iso(text), how.zone)


def _moment_to_ns(moment: Moment | str | None, zone: ZoneInfo | None) -> int | Twice | str:
    if not isinstance(moment, Moment):
        return UNREADABLE if moment is None else moment
    ns: int | Twice | str
    if moment.east_s is None:
        ns = _apply_zone(moment.local_ns, zone)
    else:
        ns = moment.local_ns - moment.east_s * NS_PER_S
    if moment.is_leap and not (isinstance(ns, int) and _is_first_of_month(ns)):
        return ns if ns == ZONELESS else UNREADABLE
    return ns


def _is_first_of_month(ns: int) -> bool:
    """Return whether the time is in the first second of a month in UTC."""
    days, second = divmod(ns // NS_PER_S, _DAY_S)
    return second == 0 and (_EPOCH + timedelta(days=days)).day == 1


def _apply_zone(local_ns: int, zone: ZoneInfo | None) -> int | Twice | str:
    if zone is None:
        return ZONELESS
    seconds, below_ns = divmod(local_ns, NS_PER_S)
    try:
        shown = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=zone)
        before_s, after_s = _offset_s(shown), _offset_s(shown.replace(fold=1))
    except (OverflowError, ValueError, OSError):
        return HUGE
    if before_s < after_s:
        return SKIPPED
    early_ns = (seconds - before_s) * NS_PER_S + below_ns
    late_ns = (seconds - after_s) * NS_PER_S + below_ns
    return early_ns if early_ns == late_ns else Twice(early_ns, late_ns)


def _offset_s(shown: datetime) -> int:
    offset = shown.utcoffset()
    return 0 if offset is None else round(offset.total_seconds())
