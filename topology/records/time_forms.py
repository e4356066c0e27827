"""Reads times that are text: ISO 8601, forms that have a name, and patterns of users.

ISO 8601 needs no word, in its basic and its extended form. Dates are by month, by week or by day of
the year. The last part of the time may have decimals, after `,` or `.`. Minutes and seconds may be
absent, and 24:00 is the end of the day. A zone is `Z`, `UTC`, `GMT` or an offset. Second 60 is read
where a leap second may be, before midnight UTC at the end of a month. Decimals beyond nanoseconds
are rounded half to even.

| name      | example                                             |
|-----------|-----------------------------------------------------|
| `rfc2822` | `Tue, 03 Jun 2025 06:13:34 GMT`                     |
| `apache`  | `03/Jun/2025:06:13:34 +0000`, with or without `[]`  |
| `syslog`  | `Jun  3 06:13:34`; the year comes from the arrival  |
| `dotnet`  | `/Date(1748931214000)/`                             |

A pattern has the directives of strptime, in English in every locale. A number has one or two
digits, and its full width beside another number. A blank stands for one or several. `%y` is from
1969 to 2068. A pattern of numbers alone, such as `%Y%m%d%H%M%S`, reads integers, too. The year that
a form lacks is the one in which the time is nearest to the arrival. A weekday must be that of the
date.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Final, NamedTuple

from topology.records.reasons import UNREADABLE, YEARLESS

NS_PER_S: Final = 1_000_000_000
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_DAY_S: Final = 86_400
_PIVOT: Final = 69
"""The first two-digit year that is of the 20th century, as in POSIX."""

_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS: Final = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
_US_EAST_H: Final = {"e": -5, "c": -6, "m": -7, "p": -8}


def _names(of: tuple[str, ...]) -> str:
    return "|".join(f"{name[:3]}(?:{name[3:]})?" for name in of)


_WIDTHS: Final = {"Y": 4, "y": 2, "m": 2, "d": 2, "j": 3, "H": 2, "I": 2, "M": 2, "S": 2, "f": 40}
_OFFSET: Final = "[+-][0-9]{2}(?::?[0-9]{2})?"
_WORDS: Final = {
    "a": _names(_DAYS),
    "b": _names(_MONTHS),
    "p": "am|pm",
    "z": f"Z|UTC|GMT|{_OFFSET}",
}
_LIKE: Final = {"e": "d", "A": "a", "B": "b", "h": "b", "Z": "z"}
_SHORT: Final = {"F": "%Y-%m-%d", "T": "%H:%M:%S", "R": "%H:%M"}
_KNOWN: Final = "%Y %y %m %b %d %j %a %H %I %p %M %S %f %z %F %T %R"
_DIRECTIVE: Final = re.compile("%(.?)", re.DOTALL)
_STEP: Final = re.compile("%.?| +|.", re.DOTALL)


def _make_group(name: str, pattern: str) -> str:
    return f"(?P<{name}>{pattern})"


def _make_digits(name: str, *, is_whole: bool) -> str:
    width = _WIDTHS[name]
    is_open = name == "f" or (name not in "Yy" and not is_whole)
    return _make_group(name, f"[0-9]{{1,{width}}}" if is_open else f"[0-9]{{{width}}}")


def _make_iso(hyphen: str, colon: str) -> re.Pattern[str]:
    two = {name: _make_group(name, "[0-9]{2}") for name in "mdVHMS"}
    day = f"{two['m']}{hyphen}{two['d']}|W{two['V']}{hyphen}(?P<u>[1-7])|(?P<j>[0-9]{{3}})"
    return re.compile(
        f"(?P<Y>[0-9]{{4}}){hyphen}(?:{day})[T ]{two['H']}(?:{colon}{two['M']}"
        f"(?:{colon}{two['S']})?)?(?:[.,]{_make_digits('f', is_whole=False)})?"
        f"(?: ?{_make_group('z', _WORDS['z'])})?",
        re.IGNORECASE | re.ASCII,
    )


_ISO: Final = (_make_iso("-", ":"), _make_iso("", ""))


def _make_named_forms() -> Mapping[str, str]:
    part = {name: _make_group(name, pattern) for name, pattern in _WORDS.items()}
    part |= {name: _make_digits(name, is_whole=False) for name in _WIDTHS}
    zone = _make_group("z", f"{_WORDS['z']}|UT|[ECMP][SD]T")
    clock = f"{part['H']}:{part['M']}:{part['S']}"
    with_decimals = f"{clock}(?:[.,]{part['f']})?"
    date_ = f"{part['d']} +{part['b']} +{part['Y']}"
    short = f"{part['H']}:{part['M']}(?::{part['S']})?"
    return {
        "rfc2822": rf"(?:{part['a']}, *)?{date_} +{short} +{zone}(?: +\([^()]*\))?",
        "apache": (
            rf"(?P<open>\[)?{part['d']}/{part['b']}/{part['Y']}:{with_decimals} {part['z']}"
            r"(?(open)\])"
        ),
        "syslog": f"{part['b']} +{part['d']} {with_decimals}",
        "dotnet": rf"\\?/Date\((?P<ms>-?[0-9]{{1,17}})(?:{_OFFSET})?\)\\?/",
    }


NAMED: Final = _make_named_forms()
"""The regular expressions of the forms that have a name."""


class Moment(NamedTuple):
    """A time as a text states it.

    Attributes:
        local_ns: The time in ns since the epoch, as if its zone were UTC.
        east_s: How far its zone is ahead of UTC; None if the text states no zone.
        is_leap: Whether its second is the 60th, so that `local_ns` is that of the next one.
    """

    local_ns: int
    east_s: int | None
    is_leap: bool


class TimeForm(NamedTuple):
    """A form of times.

    Attributes:
        text: The form as users write it.
        pattern: The regular expression, with a group for each directive.
        granularity_ns: The difference of two times that the form shows, without optional decimals.
        reads_integers: Whether the form has only digits.
    """

    text: str
    pattern: re.Pattern[str]
    granularity_ns: int
    reads_integers: bool

    @property
    def has_year(self) -> bool:
        """Whether a time states its year."""
        return any(name in self.pattern.groupindex for name in ("Y", "y", "ms"))

    @property
    def has_zone(self) -> bool:
        """Whether a time states its zone."""
        return "z" in self.pattern.groupindex or "ms" in self.pattern.groupindex

    def read(self, value: object, near_ns: int) -> Moment | str | None:
        """Return the time, its fault, or None if the value is not of this form.

        `near_ns` is the arrival, from which a missing year is taken, or 0 if it is not known.
        """
        if self.reads_integers and type(value) is int:
            value = str(value)
        found = self.pattern.fullmatch(value) if isinstance(value, str) else None
        return None if found is None else _make_moment(found.groupdict(), near_ns)


def parse_iso(text: str) -> Moment | str | None:
    """Return the time of a text in ISO 8601, its fault, or None if the text has another form."""
    for pattern in _ISO:
        if found := pattern.fullmatch(text):
            return _make_moment(found.groupdict(), 0)
    return None


@cache
def make_time_form(text: str) -> TimeForm:
    """Return the form with this name or pattern.

    Raises:
        ValueError: There is no such form. The message states the fault and the remedy.
    """
    if text in NAMED:
        pattern = NAMED[text]
    elif "%" in text:
        pattern = _compile(text)
    else:
        raise ValueError(f"is not a form of times; write {', '.join(NAMED)}, or %d.%m.%Y %H:%M:%S")
    compiled = re.compile(pattern, re.IGNORECASE | re.ASCII)
    parts = compiled.groupindex
    granularity_ns = NS_PER_S if "S" in parts else 60 * NS_PER_S
    if "ms" in parts:
        granularity_ns = 1_000_000
    elif "f" in parts and text not in NAMED:
        granularity_ns = 1
    only_digits = text not in NAMED and not re.sub("%[YymdjHMSf]", "", text)
    return TimeForm(text, compiled, granularity_ns, only_digits)


def _compile(text: str) -> str:
    text = _DIRECTIVE.sub(lambda found: _SHORT.get(found[1], found[0]), text)
    names: list[str] = []
    parts: list[str] = []
    steps = [(each[0], _LIKE.get(each[0][1:], each[0][1:])) for each in _STEP.finditer(text)]
    for at, (written, name) in enumerate(steps):
        if written[0] != "%" or written == "%%":
            parts.append(" +" if written.isspace() else re.escape(written[0]))
            continue
        if name not in _WIDTHS and name not in _WORDS:
            raise ValueError(f"has {written}, which is not a directive; known are {_KNOWN}")
        if name in names:
            raise ValueError(f"has {written} twice; leave one out")
        names.append(name)
        beside = [*steps[max(0, at - 1) : at], *steps[at + 1 : at + 2]]
        is_whole = any(each[0] == "%" and other in _WIDTHS for each, other in beside)
        is_number = name in _WIDTHS
        part = (
            _make_digits(name, is_whole=is_whole) if is_number else _make_group(name, _WORDS[name])
        )
        parts.append(part)
    _check_names({*names})
    return "".join(parts)


def _check_names(names: set[str]) -> None:
    if "j" not in names and not ("d" in names and names & {"m", "b"}):
        raise ValueError("names no day; write %d and %m, %d and %b, or %j")
    if names >= {"m", "b"} or names >= {"Y", "y"} or ("j" in names and names & {"m", "b", "d"}):
        raise ValueError("names a part of the date twice; leave one out")
    if len(names & {"H", "I"}) > 1 or ("I" in names) != ("p" in names):
        raise ValueError("names no hour of the day; write %H, or %I with %p")
    if names & {"M", "S", "f"} and not names & {"H", "I"}:
        raise ValueError("names no hour; write %H, or %I with %p")
    if ("S" in names and "M" not in names) or ("f" in names and "S" not in names):
        raise ValueError("leaves out a part of the time; write %H, %M, %S and %f in full")


# -- from the parts of a text to a time ------------------------------------------------------------


def _make_moment(parts: Mapping[str, str | None], near_ns: int) -> Moment | str:
    millis = parts.get("ms")
    if millis is not None:
        return Moment(int(millis) * 1_000_000, 0, is_leap=False)
    in_day = _time_in_day(parts)
    east_s = _parse_offset_s(parts.get("z"))
    if in_day is None or isinstance(east_s, str):
        return UNREADABLE
    year = parts.get("Y") or parts.get("y")
    if year is None:
        if not near_ns:
            return YEARLESS
        near = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=near_ns // NS_PER_S)).year
        days = [_number_of_day(parts, each) for each in (near - 1, near, near + 1)]
    elif len(year) == 2:
        days = [_number_of_day(parts, int(year) + (1900 if int(year) >= _PIVOT else 2000))]
    else:
        days = [_number_of_day(parts, int(year))]
    found = [day * _DAY_S * NS_PER_S + in_day[0] for day in days if day is not None]
    if not found:
        return UNREADABLE
    local_ns = min(found, key=lambda each: abs(each - near_ns))
    return Moment(local_ns, east_s, in_day[1])


def _time_in_day(parts: Mapping[str, str | None]) -> tuple[int, bool] | None:
    """Return the time within the day in ns, and whether it is a leap second; None for no time."""
    half = parts.get("p")
    hour, minute, second = (int(parts.get(name) or 0) for name in "HMS")
    if half is not None:
        hour = int(parts.get("I") or 0)
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (half.lower() == "pm")
    decimals = parts.get("f") or "0"
    unit_ns = next((s for n, s in (("S", 1), ("M", 60)) if parts.get(n)), 3_600) * NS_PER_S
    below_ns, rest = divmod(int(decimals) * unit_ns, scale := 10 ** len(decimals))
    below_ns += 2 * rest > scale or (2 * rest == scale and below_ns % 2)
    is_end = hour == 24 and not (minute or second or int(decimals))
    if (hour > 23 and not is_end) or minute > 59 or second > 60:
        return None
    return (hour * 3_600 + minute * 60 + second) * NS_PER_S + below_ns, second == 60


def _number_of_day(parts: Mapping[str, str | None], year: int) -> int | None:
    """Return the number of the day since the epoch, or None if there is no such day."""
    get = parts.get
    try:
        if day_of_year := get("j"):
            found = date(year, 1, 1) + timedelta(days=int(day_of_year) - 1)
            if found.year != year:
                return None
        elif week := get("V"):
            found = date.fromisocalendar(year, int(week), int(get("u") or 0))
        else:
            name = get("b")
            month = _place(name, _MONTHS) + 1 if name else int(get("m") or 0)
            found = date(year, month, int(get("d") or 0))
    except (ValueError, OverflowError):
        return None
    weekday = get("a")
    if weekday is not None and _place(weekday, _DAYS) != found.weekday():
        return None
    return found.toordinal() - _EPOCH_DAY


def _place(name: str, names: tuple[str, ...]) -> int:
    return next(at for at, each in enumerate(names) if each[:3] == name[:3].lower())


def _parse_offset_s(zone: str | None) -> int | str | None:
    """Return how far a zone is ahead of UTC, or None if there is none."""
    if zone is None:
        return None
    if zone[0] not in "+-":
        word = zone.lower()
        is_us = len(word) == 3 and word[0] in _US_EAST_H and word[1] in "sd"
        return 3_600 * (_US_EAST_H[word[0]] + (word[1] == "d")) if is_us else 0
    hours, minutes = int(zone[1:3]), int(zone[3:].removeprefix(":") or 0)
    if hours > 23 or minutes > 59:
        return UNREADABLE
    east_s = hours * 3_600 + minutes * 60
    return -east_s if zone[0] == "-" else east_s
