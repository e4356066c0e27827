"""Textual forms of times: examples, and an oracle, which is Python's own datetime."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

import pytest

from topology.records.mapping import Fields
from topology.records.reasons import SKIPPED, UNREADABLE, YEARLESS, ZONELESS
from topology.records.time_forms import make_time_form
from topology.records.times import TimeReading, Twice, read_instant_ns, reading_of
from topology.records.where import Where

S = 10**9
AT = 1_748_931_214 * S  # 2025-06-03T06:13:34Z
LEAP = 1_483_228_800 * S  # 2017-01-01T00:00:00Z
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TRIALS = 400


def read(
    value: object, form: str = "", zone: str = "", near_ns: int = 0, sign: str = "."
) -> object:
    fields = Fields(Where("key"), ts_unit="s", ts_zone=zone, ts_format=form, decimal=sign)  # type: ignore[arg-type]
    return read_instant_ns(value, reading_of(fields), near_ns)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("20250603T061334Z", AT),
        ("2025-06-03T09:13:34+0300", AT),
        ("2025-06-03T09:13:34+03", AT),
        ("2025-06-03 09:13:34 +03:00", AT),
        ("2025-06-03 06:13:34 UTC", AT),
        ("2025-06-03t06:13:34 gmt", AT),
        ("2025-06-03T06:13:34,25Z", AT + S // 4),
        ("2025-06-03T06:13Z", AT - 34 * S),
        ("2025-06-03T06Z", AT - 34 * S - 13 * 60 * S),
        ("2025-06-03T06:13,5Z", AT - 4 * S),
        ("2025-154T06:13:34Z", AT),
        ("2025-W23-2T06:13:34Z", AT),
        ("2025154T061334Z", AT),
        ("2025W232T061334Z", AT),
        ("2025-06-03T06:13:34.1234567891Z", AT + 123_456_789),
        ("2025-06-03T06:13:34.0000000025Z", AT + 2),
        ("2025-06-03T06:13:34.0000000035Z", AT + 4),
        ("2025-06-03T06:13:34.9999999999Z", AT + S),
        ("2025-06-02T24:00Z", AT - 34 * S - 13 * 60 * S - 6 * 3_600 * S),
        ("2016-12-31T23:59:60Z", LEAP),
        ("2016-12-31T23:59:60.5Z", LEAP + S // 2),
        ("2017-01-01T08:59:60+09:00", LEAP),
        ("20161231T235960Z", LEAP),
    ],
)
def test_iso_8601_text_is_read(text: str, expected: int) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "2025-02-30T06:13:34Z",
        "2025-06-03T24:01Z",
        "2025-06-03T25:00Z",
        "2025-06-03T06:60Z",
        "2025-06-03T06:13:60Z",  # No leap second can be there.
        "2025-06-03T06:13:61Z",
        "2025-366T06:13:34Z",
        "2025-W53-1T06:13:34Z",
        "2025-06-03T06:13:34+24:00",
        "2025-06-03T061334Z",  # The text mixes both forms.
        "20250603T06:13:34Z",
        "2025-06-03",
        "2025-06-03T",
        "0000-06-03T06:13:34Z",
        "2025-06-03T06:13:34.Z",
        "２０２５-06-03T06:13:34Z",
        "03/06/2025 06:13:34",
        "Tue, 03 Jun 2025 06:13:34 GMT",
        "Jun  3 06:13:34",
    ],
)
def test_other_texts_are_faults(text: str) -> None:
    assert read(text, zone="UTC") == UNREADABLE


def test_local_iso_8601_needs_a_zone() -> None:
    assert read("20250603T061334") == ZONELESS
    assert read("20250603T081334", zone="Europe/Berlin") == AT
    assert read("2017-01-01T00:59:60", zone="Europe/Berlin") == LEAP
    assert read("2016-12-31T23:59:60", zone="Europe/Berlin") == UNREADABLE
    assert read("2016-12-31T23:59:60") == ZONELESS
    assert read("20250330T0230", zone="Europe/Berlin") == SKIPPED
    assert isinstance(read("20251026T0230", zone="Europe/Berlin"), Twice)


@pytest.mark.parametrize(
    ("form", "value", "expected"),
    [
        ("rfc2822", "Tue, 03 Jun 2025 06:13:34 GMT", AT),
        ("rfc2822", "3 Jun 2025 09:13 +0300 (MSK)", AT - 34 * S),
        ("rfc2822", "Tue, 3 Jun 2025 02:13:34 EDT", AT),
        ("rfc2822", "Mon, 03 Jun 2025 06:13:34 GMT", UNREADABLE),  # That day was a Tuesday.
        ("apache", "[03/Jun/2025:09:13:34 +0300]", AT),
        ("apache", "03/Jun/2025:06:13:34.250 +0000", AT + S // 4),
        ("apache", "[03/Jun/2025:06:13:34 +0000", UNREADABLE),
        ("dotnet", "/Date(1748931214000)/", AT),
        ("dotnet", r"\/Date(1748931214250+0300)\/", AT + S // 4),
        ("dotnet", "1748931214000", UNREADABLE),
        ("%d.%m.%Y %H:%M:%S", "03.06.2025 06:13:34", AT),
        ("%d.%m.%Y %H:%M:%S", "3.6.2025 6:13:34", AT),
        ("%d.%m.%Y %H:%M:%S", "30.02.2025 06:13:34", UNREADABLE),
        ("%d.%m.%Y %H:%M:%S", "2025-06-03T06:13:34Z", UNREADABLE),
        ("%m/%d/%Y %I:%M:%S %p", "06/03/2025 06:13:34 AM", AT),
        ("%m/%d/%Y %I:%M:%S %p", "06/03/2025 12:13:34 am", AT - 6 * 3_600 * S),
        ("%m/%d/%Y %I:%M:%S %p", "06/03/2025 13:13:34 PM", UNREADABLE),
        ("%d.%m.%y", "03.06.25", AT - 34 * S - 13 * 60 * S - 6 * 3_600 * S),
        ("%a %b %e %T %Y", "Tue Jun  3 06:13:34 2025", AT),
        ("%d %B %Y %R %z", "3 june 2025 09:13 +03", AT - 34 * S),
        ("%j/%Y %H,%M", "154/2025 06,13", AT - 34 * S),
        ("%Y%m%d%H%M%S", 20250603061334, AT),
        ("%Y%m%d%H%M%S", "20250603061334", AT),
        ("%Y%m%d%H%M%S%f", 20250603061334250, AT + S // 4),
        ("%Y%m%d%H%M%S", 20250230061334, UNREADABLE),
        ("%Y%m%d%H%M%S", 1748931214, UNREADABLE),
        ("%d%m%Y", 3062025, UNREADABLE),  # It could be the 3rd or the 30th.
        ("%Y-%m-%d", True, UNREADABLE),
    ],
)
def test_each_form_reads_its_text(form: str, value: object, expected: object) -> None:
    assert read(value, form, "UTC") == expected


def test_missing_year_is_next_to_arrival() -> None:
    new_year = 1_767_225_600 * S  # 2026-01-01T00:00:00Z
    assert read("Jun  3 06:13:34", "syslog", "UTC", AT + 5 * S) == AT
    assert read("Dec 31 23:59:59.5", "syslog", "UTC", new_year + S) == new_year - S // 2
    assert read("Jan  1 00:00:01", "syslog", "UTC", new_year - S) == new_year + S
    assert read("Feb 29 00:00:00", "syslog", "UTC", AT) == 1_709_164_800 * S
    assert read("Feb 29 00:00:00", "syslog", "UTC", AT + 365 * 86_400 * S) == UNREADABLE
    assert read("Jun  3 06:13:34", "syslog", "UTC") == YEARLESS
    assert read("Jun  3 06:13:34", "syslog", near_ns=AT) == ZONELESS


def test_decimal_sign_can_be_a_comma() -> None:
    assert read("1748931214,25", sign=",") == AT + S // 4
    assert read("1748931214", sign=",") == AT
    assert read("1748931214.25", sign=",") == UNREADABLE
    assert read("1748931214,25") == UNREADABLE
    assert read("2025-06-03T06:13:34.25Z", sign=",") == AT + S // 4


@pytest.mark.parametrize(
    ("form", "fault"),
    [
        ("iso", "is not a form"),
        ("%H:%M", "names no day"),
        ("%Y-%m", "names no day"),
        ("%d.%m.%Y %q", "has %q"),
        ("%d.%m.%Y %", "has %,"),
        ("%d.%d.%m", "has %d twice"),
        ("%d %m %b", "a part of the date twice"),
        ("%d.%m.%Y %I:%M", "no hour of the day"),
        ("%d.%m.%Y %M", "names no hour"),
        ("%d.%m.%Y %H:%S", "leaves out"),
    ],
)
def test_bad_form_has_its_fault(form: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault) as raised:
        make_time_form(form)
    assert "; " in str(raised.value)


def test_form_has_its_granularity() -> None:
    forms = ("syslog", "dotnet", "%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M", "%F %T.%f")
    assert [make_time_form(each).granularity_ns for each in forms] == [S, S // 1_000, S, 60 * S, 1]


# -- the oracle ------------------------------------------------------------------------------------

Spelling = tuple[str, str, int]
"""A form, the time in it, and the ns that it drops."""


def spellings(at: datetime, below_ns: int, zone: timezone) -> Iterator[Spelling]:
    """Yield spellings of the instant in many forms; `below_ns` is its part below a second."""
    local = at.astimezone(zone)
    basic, extended = f"{local:%z}", f"{local:%z}"[:3] + ":" + f"{local:%z}"[3:]
    decimals = f"{below_ns:09d}"
    for date_, clock in (
        ("%Y-%m-%d", "%H:%M:%S"),
        ("%G-W%V-%u", "%H:%M:%S"),
        ("%Y-%j", "%H:%M:%S"),
    ):
        for offset in (basic, extended):
            for sign in ".,":
                yield "", f"{local:{date_}T{clock}}{sign}{decimals}{offset}", 0
    for date_ in ("%Y%m%d", "%GW%V%u", "%Y%j"):
        yield "", f"{local:{date_}T%H%M%S},{decimals}{basic}", 0
    yield "", f"{at:%Y-%m-%d %H:%M:%S}.{decimals}000 UTC", 0
    yield "", f"{at:%Y%m%dT%H%M%S}Z", below_ns
    yield "", f"{at:%Y-%m-%dT%H:%M}Z", below_ns + at.second * S
    yield "rfc2822", format_datetime(local), below_ns
    yield "apache", f"[{local:%d/%b/%Y:%H:%M:%S} {basic}]", below_ns
    yield "dotnet", f"/Date({(at - EPOCH) // timedelta(milliseconds=1)})/", below_ns
    for form in ("%d.%m.%Y %H:%M:%S %z", "%m/%d/%Y %I:%M:%S %p %z", "%j of %Y, %H %M %S %z"):
        yield form, local.strftime(form), below_ns
    yield "%A, %d %B %Y, %H:%M:%S.%f %z", f"{local:%A, %d %B %Y, %H:%M:%S}.{decimals} {basic}", 0


def test_spellings_match_datetime() -> None:
    rng = random.Random(74)
    seen = 0
    for _ in range(TRIALS):
        seconds, below_ns = rng.randrange(-6 * 10**9, 9 * 10**9), rng.randrange(S)
        zone = timezone(timedelta(minutes=rng.randrange(-14 * 60, 14 * 60)))
        for form, text, dropped_ns in spellings(EPOCH + timedelta(seconds=seconds), below_ns, zone):
            expected = seconds * S + below_ns - dropped_ns
            assert read(text, form) == expected, (form, text)
            seen += 1
    assert seen > 20 * TRIALS


def test_local_times_match_datetime() -> None:
    rng = random.Random(75)
    forms: list[tuple[str, Callable[[datetime], object]]] = [
        ("%Y%m%d%H%M%S", lambda at: int(f"{at:%Y%m%d%H%M%S}")),
        ("%d.%m.%Y %H:%M:%S", lambda at: f"{at:%d.%m.%Y %H:%M:%S}"),
        ("syslog", lambda at: f"{at:%b} {at.day:2} {at:%H:%M:%S}"),
    ]
    for _ in range(TRIALS):
        at = EPOCH + timedelta(seconds=rng.randrange(4 * 10**9))
        zone = "America/Denver"
        plain = TimeReading(zone=reading_of(Fields(Where("key"), ts_zone=zone)).zone)
        local = at.astimezone(plain.zone)
        expected = read_instant_ns(f"{local:%Y-%m-%d %H:%M:%S}", plain)
        late_ns = int((at - EPOCH).total_seconds() + rng.randrange(-(10**6), 10**6)) * S
        for form, write in forms:
            assert read(write(local), form, zone, late_ns) == expected, (form, local)
