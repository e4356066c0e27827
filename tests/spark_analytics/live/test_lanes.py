"""Examples: how far time may go when partitions are read unevenly, what a line's number is, and
what becomes of a record that comes after its time."""

from __future__ import annotations

from random import Random

import pytest

from cli.spark.live.reading import parcels_of
from spark_analytics.live.group import LiveGroup, ToldLine, TooManyWait
from spark_analytics.live.lanes import (
    BEFORE_EVERYTHING_NS,
    CLOCK,
    RAW,
    Lane,
    LaneName,
    Lanes,
    Stretch,
    Waiting,
    restored,
)
from tests.spark_analytics.live import logs
from tests.spark_analytics.records import MS
from topology.config import parse

A, B = LaneName(RAW, "raw", 0), LaneName(RAW, "raw", 1)
HEARD = LaneName(CLOCK, "heard", 0)
LONG_AGO = -1_000


def lanes(*names: LaneName) -> Lanes:
    return Lanes({name: Lane() for name in names})


def stretch(name: LaneName, *arrivals: int) -> Stretch:
    runs = [each for arrival in arrivals for each in (arrival, 1)] if name.rank == RAW else []
    return Stretch(name, 0, len(arrivals), arrivals[-1], runs)


def test_time_goes_as_far_as_the_slowest_partition() -> None:
    known = lanes(A, B)
    known.add(stretch(A, 10, 90))
    known.add(stretch(B, 20, 30))
    assert known.time_ns(LONG_AGO) == 30
    known.add(stretch(B, 40, 200))
    assert known.time_ns(LONG_AGO) == 90, "what A had, it has"


def test_a_quiet_partition_was_at_its_end() -> None:
    known = lanes(A, B)
    known.add(stretch(A, 10, 90))
    assert known.time_ns(70) == 70
    assert known.time_ns(120) == 120, "nothing came at all"


def test_time_never_goes_back() -> None:
    known = lanes(A)
    known.let_go(50, 0)
    assert known.time_ns(LONG_AGO) == 50
    known.add(stretch(A, 20))  # overtaken
    assert known.time_ns(LONG_AGO) == 50
    assert known.begin_of(A) == 50


def test_lines_are_numbered_as_a_dump_has_them() -> None:
    """By arrival, clocks first, then by partition; also over what is let go in between."""
    known = lanes(HEARD, A, B)
    known.add(stretch(HEARD, 10))
    known.add(stretch(A, 10, 10, 20))
    known.add(stretch(B, 5, 10, 30))
    mine = [
        Waiting(10, HEARD, 0, ()),
        Waiting(10, A, 0, ()),
        Waiting(10, A, 1, ()),
        Waiting(20, A, 2, ()),
    ]
    assert [number for _, number in known.numbered(mine)] == [2, 3, 4, 6]
    known.let_go(15, 1)
    again = restored(known.saved())
    for each in (known, again):
        assert [number for _, number in each.numbered(mine[3:])] == [6]
        assert [number for _, number in each.numbered([Waiting(30, B, 2, ())])] == [7]


def test_nothing_is_known_of_a_partition_that_was_never_read() -> None:
    known = lanes(A, B)
    known.add(stretch(A, 10))
    assert known.time_ns(BEFORE_EVERYTHING_NS) == BEFORE_EVERYTHING_NS


TOPOLOGY = f"streams: {{a: {{input: {logs.RAW}, clock: {{unsynced: trust}}}}}}\n"


def taken(live: LiveGroup, ms: int, quiet_ms: int, partition: int = 0) -> list[ToldLine]:
    """One event that arrives at `ms`."""
    line = {"source": "s", "seq": ms, "ts": ms * MS, "stream": "a", "type": "A", "payload": {}}
    record = logs.values_of(logs.record(line, ms, ms, partition, logs.RAW))
    parcels = [parcel for group, parcel in parcels_of(parse(TOPOLOGY), iter([record])) if not group]
    Random(0).shuffle(parcels)
    return live.take(parcels, quiet_ms * MS)


def test_a_record_that_comes_after_its_time_is_overtaken() -> None:
    """It counts as arriving when time had been told, and is told of."""
    live = LiveGroup(parse(TOPOLOGY), 0, [A, B])
    taken(live, 1_000, 2_000)
    live.rest(5_000 * MS)
    told = taken(live, 4_000, 6_000, partition=1)
    (line,) = [each.line for each in told if each.table == "overtaken"]
    assert (line["source"], line["arrival"], line["at"]) == ("s", 4_000 * MS, 5_000 * MS)


def test_what_waits_for_a_slow_partition_is_bounded() -> None:
    live = LiveGroup(parse(TOPOLOGY), 0, [A, B], max_waiting=2)
    for ms in (1, 2):
        assert taken(live, ms, 0) == []
    with pytest.raises(TooManyWait, match=r"3 lines wait for raw/1, .* raise --max-waiting"):
        taken(live, 3, 0)
