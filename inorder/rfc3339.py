"""Convert between RFC 3339 times and exact nanoseconds since the Unix epoch.

Times have years 1 to 9999, up to nine decimals of a second, and `Z` or a numeric offset. A leap
second is refused, because Unix time has no number for it. All values are integers, so nothing is
rounded.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Final

_TIME: Final = re.compile(
    rb"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})"
    rb"(?:\.([0-9]{1,9}))?(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_SECOND_NS: Final = 1_000_000_000


def parse_ns(text: bytes) -> int | None:
    """Return the nanoseconds since the epoch, or None if `text` is not an RFC 3339 time."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    decimals, sign, offset_hour, offset_minute = found.groups()[6:]
    east_minutes = 0
    if sign is not None:
        if int(offset_hour) > 23 or int(offset_minute) > 59:
            return None
        east_minutes = int(offset_hour) * 60 + int(offset_minute)
        if sign == b"-":
            east_minutes = -east_minutes
    if hour > 23 or minute > 59 or second > 59:
        return None
    try:
        days = date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError:
        return None
    minutes = (days * 24 + hour) * 60 + minute - east_minutes
    fraction_ns = int(decimals.ljust(9, b"0")) if decimals else 0
    return (minutes * 60 + second) * _SECOND_NS + fraction_ns


def format_ns(ts_ns: int) -> str:
    """Return the time as RFC 3339 text in UTC, with all nine decimals."""
    seconds, ns = divmod(ts_ns, _SECOND_NS)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{ns:09d}Z"
