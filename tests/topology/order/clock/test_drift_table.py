"""Examples for the table of clock reports. A time is a plain number."""

from __future__ import annotations

import pytest

from topology.base.sample import Declared, Sample
from topology.order.clock.drift_table import KEPT, MAX_DECLARED, MAX_SAMPLES, DriftTable
from topology.records.clock_words import MAX_DECLARED_ERROR_NS, MAX_OFFSET_NS, read_report

EVER = (-1, -1)


def sample(arrival: int, source: str = "s", offset: int = 0) -> Sample:
    return Sample(source, 1, 2, 3, 4, arrival, offset)


def table_of(*arrivals: int) -> DriftTable:
    table = DriftTable()
    for arrival in arrivals:
        table.add(sample(arrival))
    return table


def arrivals(words: list[Sample]) -> list[int]:
    return [word.arrival_ns for word in words]


def test_after_selects_by_place_and_time() -> None:
    track = table_of(10, 20, 30).acquire_track("s")
    assert arrivals(track.after(EVER, 20)) == [10, 20]
    assert arrivals(track.after((10, 0), 29)) == [20]
    assert arrivals(track.after((30, 0), 99)) == []
    after = track.next_sample_after((10, 0))
    assert after is not None
    assert after.arrival_ns == 20


def test_equal_arrivals_sort_by_offset() -> None:
    table = DriftTable()
    table.add(sample(10, offset=1))
    table.add(sample(10, offset=2))
    track = table.acquire_track("s")
    assert [word.offset for word in track.after((10, 1), 10)] == [2]


def test_repeated_sample_counts_once() -> None:
    table = table_of(10, 20)
    version = table.acquire_track("s").version
    table.add(sample(10))
    table.add(sample(20))
    track = table.acquire_track("s")
    assert arrivals(track.samples) == [10, 20]
    assert track.version == version


def test_newest_samples_are_kept() -> None:
    table = table_of(*range(2 * KEPT))
    table.dropped = []
    table.forget_before(KEPT + 10)
    assert arrivals(table.acquire_track("s").samples) == list(range(KEPT, 2 * KEPT))
    assert len(table.dropped) == KEPT


def test_samples_after_the_bound_are_kept() -> None:
    table = table_of(*range(2 * KEPT))
    table.forget_before(7)
    assert arrivals(table.acquire_track("s").samples) == list(range(7, 2 * KEPT))


@pytest.mark.slow
def test_samples_and_offsets_are_bounded() -> None:
    table = table_of(*range(MAX_SAMPLES + 3))
    for at in range(MAX_DECLARED + 2):
        table.add(Declared("s", at, 0, 0, at, at))
    track = table.acquire_track("s")
    assert arrivals(track.samples) == list(range(3, MAX_SAMPLES + 3))
    assert [word.at_ns for word in track.declared] == list(range(2, MAX_DECLARED + 2))


def test_unused_sources_are_bounded() -> None:
    table = DriftTable(max_sources=2)
    used = table.acquire_track("used")
    for arrival, source in enumerate(("a", "b", "c")):
        table.add(sample(arrival, source))
    assert [name for name in ("used", "a", "b", "c") if name in table] == ["used", "b", "c"]
    table.add(sample(0, "used"))
    assert [name for name in ("used", "a", "b", "c") if name in table] == ["used", "c"]
    assert arrivals(used.samples) == [0]


def test_leave_drops_sources_without_report() -> None:
    table = table_of(10)
    for source in ("s", "silent"):
        table.acquire_track(source)
        table.release_track(source)
    assert ("s" in table, "silent" in table) == (True, False)


def test_bad_reports_are_refused() -> None:
    times = {"t1": 1, "t2": 2, "t3": 3, "t4": 4}
    assert read_report("s", times, 5, 6) == Sample("s", 1, 2, 3, 4, 5, 6)
    told = {**times, "server": "b", "segment": 2, "mono": -3}
    assert read_report("s", told, 5, 6) == Sample("s", 1, 2, 3, 4, 5, 6, "b", 2, -3)
    assert read_report("s", {"at": 1, "offset": -2, "error": 3}, 5, 6) == Declared(
        "s", 1, -2, 3, 5, 6
    )
    assert read_report("s", {"at": 1, "offset": None}, 5, 6) == Declared("s", 1, None, 0, 5, 6)
    for bad in (
        {},
        {"t1": 1},
        {**times, "t4": 1.0},
        {**times, "t4": 1 << 63},
        {**times, "server": 7},
        {**times, "server": "x" * 65},
        {**times, "segment": -1},
        {**times, "mono": "3"},
        {"at": 1},
        {"offset": 1, "error": 1},
        {"at": 1, "offset": 1, "error": -1},
        {"at": 1, "offset": MAX_OFFSET_NS + 1, "error": 0},
        {"at": 1, "offset": -MAX_OFFSET_NS - 1, "error": 0},
        {"at": 1, "offset": 0, "error": MAX_DECLARED_ERROR_NS + 1},
        {"at": True, "offset": 1, "error": 1},
    ):
        assert isinstance(read_report("s", bad, 5, 6), str), bad
