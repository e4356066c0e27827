"""Oracle: windows of a stream, stopped and restarted in mid-flow, match the same function in batch.
The batch matches a count by hand.
"""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_analytics import decode, payload
from spark_analytics.aggregates import Measures, Windows, aggregate, drop_marked, select_stream
from spark_analytics.jobs.outputs import Folder, read
from spark_analytics.jobs.running import JobFailed, Running
from spark_analytics.jobs.work import Table
from tests.spark_analytics.marks import SPARK
from tests.spark_analytics.records import (
    BEGIN_NS,
    MS,
    S,
    frame,
    ordered_records,
    stream_of,
    watermark,
    write_parts,
)
from topology.base.event import Event
from topology.config import HeaderConfig

pytestmark = SPARK

SOURCES = 4
WINDOWS = {
    "tumbling": Windows("tumbling", "1 second"),
    "sliding": Windows("sliding", "2 seconds", "500 milliseconds"),
    "session": Windows("session", "60 milliseconds"),
}
MEASURES = Measures(sums=("payload.v",), quantiles=("payload.v",), ranks=(0.0, 0.5, 1.0))


def seeded_events(seed: int, count: int) -> list[Event]:
    """Return events in order, some of them marked late, with ties, idle stretches and watermarks.

    The last watermark is after all windows. An event of another stream lags by an hour.
    """
    dice = random.Random(seed)
    now_ns, events = BEGIN_NS, []
    for number in range(count):
        now_ns += dice.choice([0, 1, 10 * MS, 40 * MS, 200 * MS])
        source = f"s{dice.randrange(SOURCES)}"
        event = Event("default", source, 0, number, now_ns, now_ns)
        event.at_ns = now_ns + dice.randrange(500 * MS)
        if dice.random() < 0.1:
            event.late = "merge_wait"
            event.ref_time_ns = now_ns - dice.randrange(3 * S)
        events.append(event)
        if dice.random() < 0.05:
            events.append(watermark(now_ns, now_ns))
        if dice.random() < 0.05:
            events.append(Event("other", "s0", 0, number, BEGIN_NS - 500 * S + number, now_ns))
    events.append(watermark(now_ns + 100 * S, now_ns))
    return events


def windowed(records: DataFrame, windows: Windows) -> DataFrame:
    rows = decode.decode_ordered(records, HeaderConfig())
    rows = payload.with_payload(rows, payload.schema_of("v BIGINT"))
    own = drop_marked(select_stream(decode.select_sound(rows), "default"))
    return aggregate(own, windows, ("stream", "source"), MEASURES)


def row_values(rows: DataFrame) -> list[tuple[object, ...]]:
    names = [
        "start_time",
        "end_time",
        "source",
        "n",
        "rate",
        "sum_payload_v",
        "quantiles_payload_v",
    ]
    return sorted((tuple(row) for row in rows.select(names).collect()), key=repr)


def test_batch_counts_only_events_in_time(spark: SparkSession) -> None:
    """Late events, watermarks and events of other streams are not counted."""
    events = seeded_events(1, 400)
    rows = windowed(frame(spark, ordered_records(events)), WINDOWS["tumbling"])
    counts: dict[tuple[int, str], list[int]] = defaultdict(list)
    for event in events:
        if event.stream == "default" and not event.kind and not event.late:
            counts[event.ref_time_ns // S, event.source].append(event.seq)
    got = {
        (int(row.start_time.timestamp()), row.source): (
            row.n,
            row.rate,
            row.sum_payload_v,
            row.quantiles_payload_v,
        )
        for row in rows.collect()
    }
    assert got == {
        key: (
            len(seqs),
            float(len(seqs)),
            sum(seqs),
            [min(seqs), sorted(seqs)[(len(seqs) - 1) // 2], max(seqs)],
        )
        for key, seqs in counts.items()
    }


def test_resumed_stream_matches_batch(spark: SparkSession, tmp_path: Path) -> None:
    """No delay is needed, since the topic is in order. Tumbling windows are streamed in
    test_end_to_end.py.
    """
    streamed = {kind: WINDOWS[kind] for kind in ("sliding", "session")}
    records = ordered_records(seeded_events(2, 300))
    write_parts(spark, records[:150], tmp_path / "in", 1)
    output = Folder(str(tmp_path / "out"))

    def run() -> None:
        tables = [
            Table(
                kind, windowed(stream_of(spark, tmp_path / "in"), windows), ("start_time", "source")
            )
            for kind, windows in streamed.items()
        ]
        Running(tables, output, "", str(tmp_path / "checkpoint"), None).wait()

    run()
    before = {kind: len(row_values(read(spark, output.path, kind))) for kind in streamed}
    later = tmp_path / "later"
    write_parts(spark, records[150:], later, 1)
    (later / "part=000").rename(tmp_path / "in" / "part=009")
    run()
    for kind, windows in streamed.items():
        got = row_values(read(spark, output.path, kind))
        assert 0 < before[kind] < len(got)
        assert got == row_values(windowed(frame(spark, records), windows))


def test_unmarked_late_row_fails_job(spark: SparkSession, tmp_path: Path) -> None:
    """MERGE did not write this topic: rows are out of order and not marked late. Spark drops rows
    by the watermark of the batch before the last.
    """
    times = [BEGIN_NS, BEGIN_NS + 60 * S, BEGIN_NS + 1, BEGIN_NS + 2]
    events = [Event("default", "s", 0, seq, time, time) for seq, time in enumerate(times)]
    write_parts(spark, ordered_records(events), tmp_path / "in", 4)
    rows = windowed(stream_of(spark, tmp_path / "in"), WINDOWS["tumbling"])
    table = Table("windows", rows, ("start_time", "source"))
    output = Folder(str(tmp_path / "out"))
    running = Running([table], output, "", str(tmp_path / "checkpoint"), None)
    with pytest.raises(JobFailed, match="(1|2) rows were below the watermark"):
        running.wait()
