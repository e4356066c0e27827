"""Converts the content of a mapped `ts` to an instant in nanoseconds.

A number is a multiple of `unit_ns` and is converted exactly. A float is read as its shortest
decimal text. Fractions of a nanosecond are rounded half to even. A text is a number, or RFC 3339
with `T` or a space. A time without a zone is a fault unless a zone is configured. In that zone, a
local time that occurs twice has two instants (`Twice`), and one that clocks skip is a fault. Time
zones come from the machine's own table.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from inorder import rfc3339
from inorder.contract import MAX_INT64
from topology.wire.reasons import HUGE, SKIPPED, UNREADABLE, ZONELESS
from topology.wire.values import Timestamp

_NUMBER: Final = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?")
_ZONELESS: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9:]{8}(\.[0-9]{1,9})?")
_EXACT: Final = Context(prec=120)
_MOST_DIGITS_LEFT: Final = 30
"""The largest decimal exponent of a number; a larger number is not a time in any unit."""

NS_PER_S: Final = 1_000_000_000


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


def zone_meant(name: str, otherwise: str) -> str:
    """Return the zone whose name ends like this one, such as Europe/Vienna, or `otherwise`."""
    city = name.rpartition("/")[2].replace(" ", "_").lower()
    found = [each for each in available_timezones() if each.rpartition("/")[2].lower() == city]
    return min(found, default=otherwise)


def instant_ns(value: object, unit_ns: int, zone: ZoneInfo | None) -> int | Twice | str:
    """Return the instant in nanoseconds since the epoch, or its fault (`topology.wire.reasons`).

    A value is faulty if it is not a time, or if the time or its negative does not fit int64.
    """
    ns = _read_ns(value, unit_ns, zone)
    if isinstance(ns, str):
        return ns
    ends = ns if isinstance(ns, Twice) else (ns, ns)
    return ns if ends[0] >= -MAX_INT64 and ends[1] <= MAX_INT64 else HUGE


def _read_ns(value: object, unit_ns: int, zone: ZoneInfo | None) -> int | Twice | str:
    if isinstance(value, Timestamp):
        return _in_zone(value.ns, zone) if value.is_local else value.ns
    if isinstance(value, int) and not isinstance(value, bool):
        return value * unit_ns
    if isinstance(value, float):
        value = Decimal(repr(value))
    if isinstance(value, Decimal):
        return _rounded(value, unit_ns)
    return _text_ns(value, unit_ns, zone) if isinstance(value, str) else UNREADABLE


def _rounded(value: Decimal, unit_ns: int) -> int | str:
    if not value.is_finite():
        return UNREADABLE
    if value and value.adjusted() > _MOST_DIGITS_LEFT:
        return HUGE
    ns = _EXACT.multiply(value, Decimal(unit_ns))
    return int(ns.to_integral_value(ROUND_HALF_EVEN, _EXACT))


def _text_ns(text: str, unit_ns: int, zone: ZoneInfo | None) -> int | Twice | str:
    if len(text) < _MOST_DIGITS_LEFT and text.isdecimal() and text.isascii():
        return int(text) * unit_ns
    if _NUMBER.fullmatch(text):
        return _rounded(Decimal(text), unit_ns)
    ns = rfc3339.parse_ns(text.encode("utf-8", "replace"))
    if ns is not None:
        return ns
    local_ns = None
    if _ZONELESS.fullmatch(text):
        local_ns = rfc3339.parse_ns(text.encode() + b"Z")
    if local_ns is None:
        return UNREADABLE
    return _in_zone(local_ns, zone)


def _in_zone(local_ns: int, zone: ZoneInfo | None) -> int | Twice | str:
    if zone is None:
        return ZONELESS
    seconds, below_ns = divmod(local_ns, NS_PER_S)
    try:
        shown = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=zone)
        before_s, after_s = _east_s(shown), _east_s(shown.replace(fold=1))
    except (OverflowError, ValueError, OSError):
        return HUGE
    if before_s < after_s:
        return SKIPPED
    early_ns = (seconds - before_s) * NS_PER_S + below_ns
    late_ns = (seconds - after_s) * NS_PER_S + below_ns
    return early_ns if early_ns == late_ns else Twice(early_ns, late_ns)


def _east_s(shown: datetime) -> int:
    offset = shown.utcoffset()
    return 0 if offset is None else round(offset.total_seconds())
