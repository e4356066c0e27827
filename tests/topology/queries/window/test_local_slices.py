"""Oracle: windows of local time begin where zoneinfo shows it, minute by minute around each change.

Examples follow: days, shifts and hours in which clocks are set forward or back.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from pydantic import ValidationError

from topology.answer.query.zone import digest_rules
from topology.config import TopologyError, parse
from topology.queries.window.local_slices import LocalSlices
from topology.queries.window.settings import Aggregate, Window, WindowQuery

MIN_NS = 60 * 10**9
YEARS = (2009, 2019)
ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",  # It skips midnight, and sets back at midnight.
    "America/Havana",  # It shows midnight twice.
    "America/St_Johns",  # It is set at one minute past midnight.
    "Australia/Lord_Howe",  # It is set by half an hour.
    "Antarctica/Troll",  # It is set by two hours.
    "Africa/Casablanca",  # It is set four times a year.
    "Pacific/Apia",  # It skips a day.
    "Asia/Pyongyang",
    "Asia/Kathmandu",
    "Asia/Kolkata",
)
WINDOWS = (
    "tumbling 1d",
    "tumbling 1w from 06:00",
    "tumbling 8h from 06:00",
    "tumbling 8h from 02:30",
    "tumbling 2h",
    "tumbling 1h",
    "tumbling 1h from 00:30",
    "tumbling 15min",
)


def windows(text: str, zone: str) -> Window:
    topology = parse(
        f"queries: {{q: {{window: {text} in {zone}, aggregate: {{n: count()}}}}}}\n"
        "streams: {default: {}}"
    )
    return topology.queries_of(WindowQuery)["q"].window


def local_min(zone: ZoneInfo, at_min: int) -> int:
    """Return the local time, in minutes after 1970."""
    shown = datetime.fromtimestamp(at_min * 60, zone).replace(tzinfo=UTC)
    return int(shown.timestamp()) // 60


def changes(zone: ZoneInfo) -> Iterator[int]:
    """Return the hours after which the clock is set, in minutes after 1970."""
    first, last = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) // 60 for year in YEARS)
    east = [(at, local_min(zone, at) - at) for at in range(first, last, 60)]
    return (at for (at, one), (_, other) in pairwise(east) if one != other)


def brute(shown: list[int], step: int, first: int) -> list[int]:
    """Return the indexes in `shown` at which a window begins."""
    back = max(before + 1 - now for before, now in pairwise(shown))
    found, newest = [], (shown[0] - first) // step
    for at, (before, now) in enumerate(pairwise(shown), 1):
        number = (now - first) // step
        is_first = number > newest
        if back >= step:
            is_first = (now - first) % step == 0 or number > (before - first) // step
        if is_first:
            found.append(at)
        newest = max(newest, number)
    return found


@pytest.mark.parametrize("name", ZONES)
def test_starts_match_zoneinfo(name: str) -> None:
    zone = ZoneInfo(name)
    for change in changes(zone):
        begin = change - 2 * 60
        shown = [local_min(zone, begin + at) for at in range(28 * 60)]
        for text in WINDOWS:
            asked = windows(text, name)
            slices = LocalSlices(asked)
            right = brute(shown, asked.step_ns // MIN_NS, asked.from_ns // MIN_NS)
            asked_at = {*range(0, len(shown), 17), *right, *(at - 1 for at in right)}
            found = {slices.at((begin + at) * MIN_NS) for at in asked_at}
            starts = [each // MIN_NS - begin for each in sorted(found)]
            assert starts[0] <= 0
            assert starts[1:] == [at for at in right if at], (text, change)


@pytest.mark.parametrize("name", ZONES)
@pytest.mark.parametrize("text", ["tumbling 1d", "tumbling 8h from 06:00", "tumbling 1h"])
def test_ten_years_have_no_gaps(name: str, text: str) -> None:
    slices, zone = LocalSlices(windows(text, name)), ZoneInfo(name)
    begin, end = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) * 10**9 for year in YEARS)
    start_ns, dates = slices.at(begin), []
    while start_ns < end:
        end_ns = slices.end(start_ns)
        assert slices.at(start_ns) == slices.at(end_ns - 1) == start_ns
        assert [*slices.windows(start_ns)] == [start_ns]
        dates.append(datetime.fromtimestamp(start_ns // 10**9, zone).date())
        start_ns = end_ns
    if text == "tumbling 1d":
        steps = {later - earlier for earlier, later in pairwise(dates)}
        skips_a_day = {timedelta(2)} if name == "Pacific/Apia" else set()
        assert steps == {timedelta(1)} | skips_a_day


@pytest.mark.parametrize("name", ["Europe/Berlin", "Antarctica/Troll", "America/Havana"])
@pytest.mark.parametrize(
    "text", ["sliding 7d every 1d", "sliding 24h every 1h", "sliding 4h every 2h"]
)
def test_sliding_windows_are_whole_slices(name: str, text: str) -> None:
    asked = windows(text, name)
    slices, steps = LocalSlices(asked), asked.size_ns // asked.step_ns
    for change in [*changes(ZoneInfo(name))][:2]:
        starts = [slices.at((change - 10 * 1440) * MIN_NS)]
        while starts[-1] < (change + 10 * 1440) * MIN_NS:
            starts.append(slices.after(starts[-1]))
        for at in range(steps, len(starts) - steps):
            assert slices.end(starts[at]) == starts[at + steps]
            assert [*slices.windows(starts[at])] == starts[at - steps + 1 : at + 1]
            ends = [starts[each + steps] for each in range(at - steps + 1, at + 1)]
            assert slices.last_end(starts[at]) == ends[-1]
            for after_ns in (ends[0] - 1, ends[0], ends[-1] - 1, ends[-1]):
                later = [each for each in ends if each > after_ns]
                assert (
                    slices.first_end(starts[at], after_ns)
                    == (later or ends)[-1 if not later else 0]
                )


def lengths(text: str, zone: str, day: str) -> list[float]:
    """Return the lengths of the windows that begin on this day, in hours."""
    slices = LocalSlices(windows(text, zone))
    date = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone))
    first, last = (int((date + timedelta(each)).timestamp()) * 10**9 for each in (0, 1))
    starts = sorted({slices.at(at) for at in range(first, last, 15 * MIN_NS)})
    return [(slices.end(at) - at) / 3_600e9 for at in starts if at >= first]


@pytest.mark.parametrize(
    ("text", "day", "hours"),
    [
        ("tumbling 1d", "2026-03-29", [23]),
        ("tumbling 1d", "2026-10-25", [25]),
        ("tumbling 8h from 06:00", "2026-03-28", [8, 8, 7]),
        ("tumbling 8h from 06:00", "2026-10-24", [8, 8, 9]),
        ("tumbling 1h", "2026-03-29", [1] * 23),
        ("tumbling 1h", "2026-10-25", [1] * 25),
        ("tumbling 2h", "2026-03-29", [2, 1, *[2] * 10]),
    ],
)
def test_window_has_true_length_on_change(text: str, day: str, hours: list[float]) -> None:
    assert lengths(text, "Europe/Berlin", day) == hours


def test_weeks_begin_on_monday() -> None:
    for zone in ("UTC", "Asia/Kolkata"):
        start_ns = LocalSlices(windows("tumbling 1w", zone)).at(1_700_000_000 * 10**9)
        begun = datetime.fromtimestamp(start_ns // 10**9, ZoneInfo(zone))
        assert (begun.isoweekday(), begun.hour, begun.minute) == (1, 0, 0)


def test_session_gap_can_be_in_weeks() -> None:
    for text in ("session 1w", "session 7d"):
        settings = WindowQuery.model_validate({"window": text, "aggregate": {"n": "count()"}})
        assert settings.window == Window("session", 7 * 1440 * MIN_NS)


def test_far_times_have_windows() -> None:
    slices = LocalSlices(windows("tumbling 1d", "Europe/Berlin"))
    for time_ns in (-(1 << 63), (1 << 63) - 1, -(10**20), 10**20):
        start_ns = slices.at(time_ns)
        assert start_ns <= time_ns < slices.end(start_ns)


def test_zones_with_same_rules_are_equal() -> None:
    assert digest_rules("Europe/Berlin") != digest_rules("Europe/London") != ""
    assert digest_rules("Europe/Berlin") == digest_rules("Arctic/Longyearbyen")
    assert digest_rules("") == ""


REFUSED = {
    "session 5s in Europe/Berlin": "a session window begins with an event",
    "count 5 from 06:00": "a count window begins with an event",
    "tumbling 5h in Europe/Berlin": "would begin at other times each day",
    "sliding 7d every 2d in UTC": "is not a whole number of its steps",
    "tumbling 1month": "windows of months or years, which are not built",
    "tumbling 1 month in UTC": "windows of months or years, which are not built",
    "tumbling 1d in Berlin": "write its name, like Europe/Berlin",
    "tumbling 1d from 6:00": "write it like 06:00",
    "tumbling 1d in": "like tumbling 8h from 06:00 in Europe/Berlin",
    "tumbling 1d in Europe/Berlin from 06:00": "like tumbling 8h from 06:00 in Europe/Berlin",
    "tumbling 1.5w": "`1.5w` is not a number of weeks; write whole ones, like 1w",
    "session 1week": "`1week` is not a number of weeks; write whole ones, like 1w",
}


@pytest.mark.parametrize("text", REFUSED)
def test_other_windows_are_refused(text: str) -> None:
    topology = f"queries: {{q: {{window: {text}, aggregate: {{n: count()}}}}}}"
    with pytest.raises(TopologyError, match=REFUSED[text]):
        parse(f"{topology}\nstreams: {{default: {{}}}}")


@pytest.mark.parametrize(
    "text", [*WINDOWS, "sliding 4w every 1w from 06:00", "sliding 1w every 1d"]
)
def test_windows_survive_their_text(text: str) -> None:
    asked = windows(text, "Europe/Berlin")
    assert windows(str(asked).partition(" in ")[0], "Europe/Berlin") == asked
    assert WindowQuery(window=asked, aggregate={"n": Aggregate("count")}).window == asked


def test_window_without_text_is_refused() -> None:
    hour_ns = 60 * MIN_NS
    for window in (Window("tumbling", hour_ns, from_ns=1), Window("tumbling", hour_ns, zone="x")):
        with pytest.raises(ValidationError):
            WindowQuery(window=window, aggregate={"n": Aggregate("count")})
