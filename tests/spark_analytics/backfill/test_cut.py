"""Law: with Spark, several runs over unevenly archived logs return the records in the order of one
run. Examples: the time up to which a run reads.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_analytics.backfill import archived, cut, log_order
from spark_analytics.backfill.cut import Cut, Left, LogEnd
from tests.spark_analytics.records import Record, frame
from topology.config import parse

S = 1_000_000_000
NOTHING = cut.read({}, None)
ACTIVATION_NS = 40_000_000


def records(rng: Random) -> list[Record]:
    """Return two logs of events and one of clock reports, some of which apply later than they
    arrive.
    """
    found: list[Record] = []
    offsets = {("heard", 0): 0, ("raw", 0): 5, ("raw", 1): 0}
    ms = 1_000
    for _ in range(80):
        ms += rng.choice((0, 0, 1, 7))
        topic, partition = log = rng.choice(sorted(offsets))
        at = ms - (5 if rng.random() < 0.1 else 0)  # The clock of a new leader is behind.
        says = {"t1": 1} if topic == "raw" or rng.random() < 0.5 else {"offset": 1}
        value = json.dumps(says).encode()
        found.append(Record(b"k", value, [], offsets[log], at, partition, topic))
        offsets[log] += 1
    return found


def grow_unevenly(rng: Random, whole: list[Record], at_least: dict[str, int]) -> list[Record]:
    """Return the archived beginning of each log, which is never shorter than before."""
    for log in sorted({each.log for each in whole}):
        own = [each.offset for each in whole if each.log == log]
        at_least[log] = max(at_least.get(log, 0), rng.randrange(max(own) + 2))
    return [each for each in whole if each.offset < at_least[each.log]]


def read(
    spark: SparkSession, held: list[Record], before: Cut, *, to_end: bool
) -> tuple[list[Any], Cut]:
    """Do one run like `archived.take`."""
    rows = log_order.select_beyond(frame(spark, held), before.offsets)
    ends = log_order.find_log_ends(rows, before)
    assert cut.find_overtaking_log(before, ends) is None
    lines = log_order.select_new(rows, before, "heard", ACTIVATION_NS)
    after = cut.behind(before, ends, {}, None)
    if not to_end and (until_ns := cut.find_complete_ns(before, ends)) is not None:
        after = cut.behind(before, ends, log_order.split_lines(lines, until_ns).left, until_ns)
        lines = lines.where(lines["due_ns"] < until_ns)
    found = [
        (row.topic, row.partition, row.offset, row.arrival_ms)
        for row in log_order.in_order(lines, "heard").collect()
    ]
    noted = json.loads(json.dumps(after.record()))
    return found, cut.read(after.offsets, noted)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_uneven_logs_keep_order_of_one_run(spark: SparkSession) -> None:
    rng = Random(1)
    whole = records(rng)
    wanted, _ = read(spark, whole, NOTHING, to_end=True)
    found: list[Any] = []
    stood, at_least = NOTHING, {"heard/0": 12, "raw/0": 12, "raw/1": 12}
    for _ in range(2):
        more, stood = read(spark, grow_unevenly(rng, whole, at_least), stood, to_end=False)
        found += more
    assert 0 < len(found) < len(whole)
    more, _ = read(spark, whole, stood, to_end=True)
    assert found + more == wanted


def test_slowest_log_limits_others() -> None:
    ends = {"raw/0": LogEnd(0, 9, 5_000, 1), "raw/1": LogEnd(0, 3, 2_000, 1)}
    assert cut.find_complete_ns(NOTHING, ends) == 2 * S
    left = {"raw/0": Left(4, 2_001)}
    stood = cut.behind(NOTHING, ends, left, 2 * S)
    assert stood.offsets == {"raw/0": 3, "raw/1": 3}
    assert stood.seen == {"raw/0": 9, "raw/1": 3}
    # A log without new records has reached no later time than before.
    assert cut.find_complete_ns(stood, {"raw/0": LogEnd(4, 20, 9_000, 5_000)}) == 2 * S


def test_idle_log_delays_others_by_an_hour() -> None:
    ends = {"raw/0": LogEnd(0, 9, 3_605_000, 1), "raw/1": LogEnd(0, 3, 2_000, 1)}
    assert cut.find_complete_ns(NOTHING, ends) == 5 * S
    assert cut.find_complete_ns(NOTHING, {}) is None


def test_time_never_goes_back() -> None:
    stood = Cut({"raw/0": 3}, {"raw/0": 3}, {"raw/0": 5_000}, 5 * S)
    ends = {"raw/0": LogEnd(4, 5, 6_000, 5_500), "raw/1": LogEnd(0, 0, 5_100, 5_100)}
    assert cut.find_complete_ns(stood, ends) == 5_100_000_000
    assert cut.find_complete_ns(stood, {**ends, "raw/2": LogEnd(0, 0, 4_000, 4_000)}) == 5 * S


def test_record_before_cut_is_found() -> None:
    stood = Cut({"raw/0": 3}, {"raw/0": 3}, {"raw/0": 5_000}, 5 * S)
    late, due = LogEnd(0, 0, 4_999, 4_999), LogEnd(0, 0, 5_000, 5_000)
    assert cut.find_overtaking_log(stood, {"raw/0": due, "raw/1": late}) == "raw/1"
    assert cut.find_overtaking_log(stood, {"raw/0": due, "raw/1": due}) is None
    # A record that an earlier run saw and left does not count.
    assert cut.find_overtaking_log(stood, {"heard/0": LogEnd(0, 0, 4_999, None)}) is None


def test_missing_offsets_are_a_hole() -> None:
    stood = cut.read({"raw/0": 3, "raw/1": 7}, None)
    goes_on, new = LogEnd(4, 9, 5_000, 4_000), LogEnd(50, 60, 5_000, 4_000)
    assert cut.find_offset_gap(stood, {"raw/0": goes_on, "raw/2": new}) is None
    assert cut.find_offset_gap(stood, {"raw/0": goes_on, "raw/1": LogEnd(9, 9, 1, 1)}) == (
        "raw/1",
        8,
        8,
    )


def test_deleted_seen_records_are_a_hole() -> None:
    """If the deletion were ignored, the last run would skip these records and report that it is
    complete.
    """
    stood = Cut({"raw/0": 3, "raw/1": 7}, {"raw/0": 3, "raw/1": 9}, {}, 5)
    assert cut.find_offset_gap(stood, {"raw/0": LogEnd(4, 9, 5_000, 4_000)}) == ("raw/1", 8, 9)
    assert cut.find_offset_gap(stood, {"raw/1": LogEnd(8, 8, 5_000, None)}) == ("raw/1", 9, 9)
    assert cut.find_offset_gap(stood, {"raw/1": LogEnd(8, 9, 5_000, None)}) is None
    assert stood.topics == {"raw"}


def test_producer_times_give_a_warning() -> None:
    stamped, unstamped = LogEnd(0, 1, 5, 5), LogEnd(0, 1, 5, 5, is_stamped=False)
    plain = parse("streams: {a: {input: raw}}")
    assert archived.warn_of_unstamped({"raw/0": stamped}, plain) is None
    found = archived.warn_of_unstamped({"raw/0": stamped, "raw/1": unstamped}, plain)
    assert found is not None
    assert "records of raw have the producer's time (CreateTime)" in found
