"""Examples: rounds of time sync with a known offset and skew, bad reports, and time errors."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import SparkSession

from spark_analytics import clocks, decode
from spark_analytics.aggregates import Windows
from tests.spark_analytics.marks import SPARK
from tests.spark_analytics.records import BEGIN_NS, MS, Record, S, frame, ordered_records
from topology.base.event import Event
from topology.config import HeaderConfig

pytestmark = SPARK

OFFSET_NS = -3 * S
SKEW_PPM = 40
TRIP_NS = 2 * MS


def one_round(number: int) -> dict[str, object]:
    """Return the round at second `number`, of a clock with an offset and a skew.

    The way there is short, and the way back takes the rest, except in the third round.
    """
    true_ns = BEGIN_NS + number * S
    offset_ns = OFFSET_NS + number * SKEW_PPM * 1_000
    there_ns = MS // 2 if number != 3 else MS // 4
    back_ns = TRIP_NS - MS // 2 if number != 3 else MS // 4
    return {
        "t1": true_ns - offset_ns,
        "t2": true_ns + there_ns,
        "t3": true_ns + there_ns,
        "t4": true_ns + there_ns + back_ns - offset_ns,
        "server": "a",
    }


def record(said: object, offset: int, key: bytes | None = b"s") -> Record:
    value = None if said is None else json.dumps(said).encode()
    return Record(key, value, [], offset, 0, topic="clock")


@pytest.mark.parametrize(
    "windows", [Windows("tumbling", "1 day"), Windows("session", "2 seconds")], ids=lambda w: w.kind
)
def test_offsets_and_skew_are_found(spark: SparkSession, windows: Windows) -> None:
    sent = [record(one_round(number), number) for number in range(50)]
    words = clocks.split_records(frame(spark, sent))
    for row in words.rounds.orderBy("offset").collect():
        true_ns = OFFSET_NS + row.offset * SKEW_PPM * 1_000
        assert row.low_ns <= true_ns <= row.high_ns
        assert row.high_ns - row.low_ns == row.round_trip_ns == 2 * row.half_ns
    summed = clocks.summarize_rounds(words.rounds, windows).collect()
    assert len(summed) == 1
    row = summed[0]
    assert (row.rounds, row.source, row.server, row.segment) == (50, "s", "a", 0)
    assert row.high_ns - row.low_ns == MS // 2  # the shortest round is the third
    assert row.skew_ppm == pytest.approx(SKEW_PPM, abs=2.0)


def test_bad_reports_are_set_aside(spark: SparkSession) -> None:
    backwards = one_round(1) | {"t4": 0, "t1": 10**18}
    sent = [
        record({"at": 5, "offset": 7, "error": 1}, 0),
        record({"at": 6, "offset": None}, 1),
        record(None, 2),
        record(one_round(1), 3, key=None),
        record({"t1": 1}, 4),
        record("no word", 5),
        record(backwards, 6),
        record({"t1": -(1 << 63), "t2": (1 << 63) - 1, "t3": 0, "t4": 0}, 7),
    ]
    words = clocks.split_records(frame(spark, sent))
    declared = words.declared.orderBy("offset").select("at_ns", "offset_ns", "error_ns").collect()
    assert [tuple(row) for row in declared] == [(5, 7, 1), (6, None, None)]
    bad = [(row.offset, row.reason) for row in words.bad.orderBy("offset").collect()]
    reasons = ["source_missing", "round_incomplete", "word_unreadable"]
    reasons += ["round_contradicts"] * 2
    assert bad == list(zip([3, 4, 5, 6, 7], reasons, strict=True))
    assert words.rounds.count() == 0


def test_offsets_and_errors_are_summed_up(spark: SparkSession) -> None:
    events = []
    for number in range(10):
        event = Event("default", "s", 0, number, BEGIN_NS + number * 100 * MS, 0)
        event.ref_time_ns = event.ts_ns + 5 * MS + number
        event.error_ns = (30 if number >= 8 else 1) * MS
        event.segment = number // 5
        events.append(event)
    rows = decode.select_sound(
        decode.decode_ordered(frame(spark, ordered_records(events)), HeaderConfig())
    )
    found = clocks.summarize_timestamps(rows, Windows("tumbling", "1 day"), 20 * MS).collect()
    assert len(found) == 1
    row = found[0]
    assert (row.n, row.beyond_max_error, row.quarantined) == (10, 2, 0.2)
    assert (row.first_segment, row.last_segment) == (0, 1)
    assert (row.least_offset_ns, row.greatest_offset_ns) == (5 * MS, 5 * MS + 9)
    assert row.error_ns == [MS, 30 * MS, 30 * MS, 30 * MS]
