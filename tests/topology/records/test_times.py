"""Examples of local times that exist once, twice or never, at both edges of the change."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from inorder.contract import MAX_INT64
from topology.records.reasons import HUGE, SKIPPED, ZONELESS
from topology.records.times import TimeReading, Twice, read_instant_ns, suggest_zone, zone_of
from topology.records.values import Timestamp

H = 3_600 * 10**9
BACK = round(datetime(2022, 11, 6, 8, tzinfo=UTC).timestamp()) * 10**9
AHEAD = round(datetime(2022, 3, 13, 9, tzinfo=UTC).timestamp()) * 10**9
TWICE = Twice(BACK - H, BACK)
IN_DENVER = TimeReading(zone=zone_of("America/Denver"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2022-11-06 00:59:59.999999999", BACK - H - 1),
        ("2022-11-06 01:00:00", TWICE),
        ("2022-11-06T01:59:59.999999999", Twice(BACK - 1, BACK + H - 1)),
        ("2022-11-06 02:00:00", BACK + H),
        ("2022-11-06 01:00:00-07:00", BACK),
        ("2022-03-13 01:59:59.999999999", AHEAD - 1),
        ("2022-03-13 02:00:00", SKIPPED),
        ("2022-03-13 02:59:59.999999999", SKIPPED),
        ("2022-03-13 03:00:00", AHEAD),
        ("2600-01-01 00:00:00", HUGE),
    ],
)
def test_local_text_is_read(text: str, expected: object) -> None:
    assert read_instant_ns(text, IN_DENVER) == expected


def test_local_timestamp_needs_a_zone() -> None:
    local_ns = TWICE.early_ns - 6 * H
    assert read_instant_ns(Timestamp(local_ns, is_local=True), IN_DENVER) == TWICE
    assert read_instant_ns(Timestamp(local_ns), IN_DENVER) == local_ns
    assert read_instant_ns(Timestamp(local_ns, is_local=True), TimeReading()) == ZONELESS
    assert read_instant_ns(Timestamp(MAX_INT64, is_local=True), IN_DENVER) == HUGE


def test_nearest_of_two_instants_is_chosen() -> None:
    assert TWICE.nearest_ns(0) == TWICE.early_ns
    assert TWICE.nearest_ns(BACK - H // 2) == TWICE.early_ns
    assert TWICE.nearest_ns(BACK - H // 2 + 1) == TWICE.late_ns


@pytest.mark.parametrize(
    "name", ["Mars/X", "America", "../etc/passwd", "/etc/passwd", "a\0b", "a\nb", "x" * 300]
)
def test_unknown_zone_is_an_error(name: str) -> None:
    with pytest.raises(ValueError, match="is not a time zone of this machine"):
        zone_of(name)


@pytest.mark.parametrize(
    ("name", "meant"), [("vienna", "Europe/Vienna"), ("US/Sao Paulo", "America/Sao_Paulo")]
)
def test_zone_is_found_by_its_last_name(name: str, meant: str) -> None:
    assert suggest_zone(name, "UTC") == meant
    assert suggest_zone(f"{name}x", "UTC") == "UTC"


def test_empty_zone_is_none() -> None:
    assert zone_of("") is None
