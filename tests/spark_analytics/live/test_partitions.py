"""Examples: how long transaction markers hold back time, and records that arrive after their time.
The law in test_live_law.py covers how far time can advance and the numbers of lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from spark_analytics.live.group import (
    LiveGroup,
    OutputLine,
    PartitionParcel,
    TooManyWait,
    overtaken_line,
)
from spark_analytics.live.partitions import (
    BEFORE_EVERYTHING_NS,
    HIDDEN,
    MOST_HIDDEN,
    RAW,
    Partition,
    PartitionLines,
    PartitionName,
    Partitions,
    restore,
)
from spark_analytics.live.reading import parcels_of
from tests.spark_analytics.live import logs
from tests.spark_analytics.records import MS
from topology.base.sample import Declared
from topology.config import parse
from topology.records.packed import pack_as_read

A, B = PartitionName(RAW, "raw", 0), PartitionName(RAW, "raw", 1)
LONG_AGO = -1_000


def partitions(*names: PartitionName) -> Partitions:
    return Partitions({name: Partition() for name in names})


def stretch(name: PartitionName, *arrivals: int) -> PartitionLines:
    runs = [each for arrival in arrivals for each in (arrival, 1)]
    return PartitionLines(name, 0, len(arrivals), arrivals[-1], runs)


def test_time_never_goes_back() -> None:
    known = partitions(A)
    known.release(50, 0)
    assert known.time_ns(LONG_AGO) == 50
    known.add(stretch(A, 20))  # This line arrives after its time.
    assert known.time_ns(LONG_AGO) == 50
    assert known.begin_of(A) == 50


def test_markers_hold_time_for_some_batches() -> None:
    """B has only aborted transactions, one in each batch. A restart in between changes nothing."""
    known = partitions(A, B)
    found = []
    for batch in range(1, 2 * MOST_HIDDEN):
        known.add(stretch(A, 10 * batch))
        known.record_hidden()
        found.append(known.time_ns(10 * batch - 2))
        known = restore(known.save())
    assert found[: MOST_HIDDEN - 1] == [BEFORE_EVERYTHING_NS] * (MOST_HIDDEN - 1)
    assert found[MOST_HIDDEN - 1 :] == [10 * batch - 2 for batch in range(1, MOST_HIDDEN + 1)]


@pytest.mark.parametrize(("line", "held_ns"), [(True, 3), (False, 10 * (MOST_HIDDEN - 1) - 2)])
def test_line_or_quiet_batch_resets_count(line: bool, held_ns: int) -> None:
    """Between batches of markers comes a line of the partition, or a batch without markers."""
    known = partitions(A, B)
    found = []
    for batch in range(1, 2 * MOST_HIDDEN):
        known.add(stretch(A, 10 * batch))
        if batch == MOST_HIDDEN - 1 and line:
            known.add(stretch(B, 3))
        elif batch != MOST_HIDDEN - 1:
            known.record_hidden()
        found.append(known.time_ns(10 * batch - 2))
        known.release(found[-1], 0)
    assert found[MOST_HIDDEN - 2 :] == [held_ns] * MOST_HIDDEN + [10 * MOST_HIDDEN - 2]


def test_older_state_starts_count_at_zero() -> None:
    saved, clocks_released, advanced_ns = partitions(A, B).save()
    again = restore(([each[:-1] for each in saved], clocks_released, advanced_ns))
    assert [partition.hidden for partition in again.partitions.values()] == [[], []]


TOPOLOGY = f"streams: {{a: {{input: {logs.RAW}, clock: {{unsynced: trust}}}}}}\n"


MARKS = (PartitionParcel(HIDDEN, 0, 0, b""),)


def take_event(
    live: LiveGroup,
    ms: int,
    quiet_ms: int,
    partition: int = 0,
    marks: Sequence[PartitionParcel] = (),
) -> list[OutputLine]:
    """Return the output of one event that arrives at `ms`."""
    line = {"source": "s", "seq": ms, "ts": ms * MS, "stream": "a", "type": "A", "payload": {}}
    record = logs.values_of(logs.record(line, ms, ms, partition, logs.RAW))
    parcels = [parcel for group, parcel in parcels_of(parse(TOPOLOGY), iter([record])) if not group]
    parcels += marks
    Random(0).shuffle(parcels)
    return live.take(parcels, quiet_ms * MS)


def test_record_after_its_time_is_reported() -> None:
    """A late record counts as arriving at the time that was already reached."""
    live = LiveGroup(parse(TOPOLOGY), 0, [A, B])
    take_event(live, 1_000, 2_000)
    live.rest(5_000 * MS)
    found = take_event(live, 4_000, 6_000, partition=1)
    (line,) = [each.line for each in found if each.table == "overtaken"]
    assert (line["source"], line["arrival"], line["at"]) == ("s", 4_000 * MS, 5_000 * MS)


def test_late_report_names_its_source() -> None:
    word = pack_as_read(Declared("s", 1, 2, 3, arrival_ns=4, offset=5))
    line = overtaken_line(word, 9)
    assert (line["source"], line["seq"], line["arrival"], line["at"]) == ("s", None, 4, 9)


@pytest.mark.parametrize(
    ("marks", "says"),
    [
        ((), ".* raise --max-waiting"),
        (MARKS, ".* in the last 3 batches, .* transaction markers.* to 8 times"),
    ],
    ids=["a slow partition", "marks of transactions alone"],
)
def test_waiting_lines_are_bounded(marks: Sequence[PartitionParcel], says: str) -> None:
    live = LiveGroup(parse(TOPOLOGY), 0, [A, B], max_waiting=2)
    for ms in (1, 2):
        assert take_event(live, ms, 0, marks=marks) == []
    with pytest.raises(TooManyWait, match=f"3 lines wait for raw/1, {says}"):
        take_event(live, 3, 0, marks=marks)
