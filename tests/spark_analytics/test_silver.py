"""Examples: which records go to which table of the job `events`, including after a failure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from inorder import engine
from inorder.contract import retraction_headers
from inorder.engine import Detector
from spark_analytics import silver
from spark_analytics.backfill import kinds
from spark_analytics.jobs.definitions import JOBS
from spark_analytics.jobs.running import JobFailed, Running
from spark_analytics.jobs.watching import Figures
from spark_analytics.jobs.work import JobRefused, Options, Table
from spark_analytics.payload import schema_of
from spark_analytics.tables.catalog import Format
from spark_analytics.tables.lake import Lake, open_lake
from spark_analytics.tables.output import LakeOutput
from tests.sinks.written import HEAD
from tests.spark_analytics.live.test_live import Failing
from tests.spark_analytics.marks import SPARK
from tests.spark_analytics.records import (
    BEGIN_NS,
    GivenTopics,
    Record,
    S,
    ordered_records,
    result,
    stream_of,
    watermark,
    write_parts,
)
from topology.base.event import Event
from topology.base.result import (
    JoinResult,
    MatchResult,
    MatchSetResult,
    Member,
    MemberRange,
    Overflow,
    Partner,
    Result,
    WindowResult,
)
from topology.config import Topology, parse
from topology.records.json_lines import encode_line, make_result_line

pytestmark = SPARK

STREAMS = """\
streams:
  a: {input: raw, output: ordered}
  b: {input: raw, output: ordered}
"""
TOPOLOGY = f"""\
{STREAMS}
queries:
  counted: {{stream: a, window: tumbling 10s, aggregate: {{n: count()}}}}
"""
EVENTS = 120
PARTS = 3
FRONTIER_NS = BEGIN_NS + EVENTS * S // 6


class Files:
    """Topics as folders of Parquet that are streamed, one file per batch.

    An empty topic has a record without a value.
    """

    streaming = True

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.asked: set[str] = set()

    def records(self, *topics: str) -> DataFrame:
        streams = (stream_of(self.spark, self.folder / topic) for topic in topics)
        return reduce(DataFrame.unionByName, streams)


def ordered(count: int = EVENTS) -> list[Record]:
    """Return two streams in order, except for events that are 20 s late, with a watermark and a bad
    record.
    """
    events = []
    for number in range(count):
        event = Event("ab"[number % 2], f"s{number % 3}", 0, number, BEGIN_NS + number * S // 3, 0)
        if number % 17 == 5:
            event.ref_time_ns -= 20 * S
            event.late = "gap"
        events.append(event)
    events.insert(count // 2, watermark(FRONTIER_NS, BEGIN_NS, "a"))
    found = ordered_records(events)
    found.append(found[0]._replace(headers=[], offset=len(found)))
    return found


@pytest.fixture(scope="module")
def topics(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("topics")
    write_parts(spark, ordered(), folder / "ordered", PARTS)
    empty = ("events.late", "events.gaps", "events.dead", "results.windows")
    for topic in (*empty, "raw", topology().topics.clock):
        write_parts(spark, [Record(b"k", None, [], 0, 0)], folder / topic, 1)
    return folder


def tables(spark: SparkSession, topics: Path, job: str, wanted: Options) -> list[Table]:
    return JOBS[job](Files(spark, topics), topology(), wanted)


def topology() -> Topology:
    return parse(TOPOLOGY)


def run(lake: Lake, found: list[Table], checkpoint: Path) -> dict[str, Figures]:
    running = Running(found, LakeOutput(lake, found), "", str(checkpoint), None)
    running.wait()
    return running.watch.figures


def die(lake: Lake, found: list[Table], checkpoint: Path, batch: int) -> Lake:
    """Fail after the commit of that batch, before Spark notes it, and reopen the tables."""
    output = Failing(LakeOutput(lake, found), batch, late=True)
    running = Running(found, output, "", str(checkpoint), None)
    with pytest.raises(JobFailed, match="the disk is full"):
        running.wait()
    return open_lake(lake.spark, lake.kind, lake.place, lake.owner)


@pytest.mark.parametrize("kind", ["iceberg", pytest.param("delta", marks=pytest.mark.spark_long)])
def test_failure_keeps_each_event_once(
    spark: SparkSession, topics: Path, tmp_path: Path, kind: Format
) -> None:
    wanted = Options(schema=schema_of("v BIGINT"))
    lake = open_lake(spark, kind, str(tmp_path / "events"), "events")
    found = tables(spark, topics, "events", wanted)
    lake = die(lake, found, tmp_path / "checkpoint", 1)
    assert lake.read("events").count() == 2 * EVENTS // PARTS + 1
    figures = run(lake, found, tmp_path / "checkpoint")["events"]
    assert 0 < figures.rows < EVENTS
    events = lake.read("events")
    assert events.count() == EVENTS
    assert [row.reason for row in lake.read("bad").collect()] == ["stamp_missing"]
    assert events.where("late").count() == events.where("reason = 'gap'").count() == 7
    first = events.orderBy("position").collect()[0]
    assert (first.stream, first.source, first.ref_ns, first.payload.v) == ("a", "s0", BEGIN_NS, 0)
    (frontier,) = lake.read("frontiers").collect()
    assert frontier.complete_ns == FRONTIER_NS


@pytest.mark.parametrize("in_lake", [False, True])
@pytest.mark.parametrize("job", ["events", "rates", "disorder", "clocks", "archive"])
def test_unknown_table_is_refused(
    spark: SparkSession, topics: Path, job: str, in_lake: bool
) -> None:
    with pytest.raises(JobRefused, match="--table none: the job has only "):
        tables(spark, topics, job, Options(tables=["none"], in_lake=in_lake))


def test_results_keep_their_revisions(spark: SparkSession, tmp_path: Path) -> None:
    """One query upserts: its retract is a tombstone whose headers contain its times."""
    words = [
        result("x", 0, "emit", at=1),
        result("x", 1, "update", at=2),
        result("y", 0, "emit", at=1),
        result("x", 2, "retract", at=5),
        (b"z", b"no result"),
    ]
    said = [Record(*word, [], n, n) for n, word in enumerate(words)]
    gone = retraction_headers({"stream": "a", **orjson.loads(result("t", 1, "retract", at=5)[1])})
    own = [Record(*result("t", 0, "emit", at=1), [], 0, 0), Record(b"t", None, gone, 1, 0)]
    for topic, records in (("results.windows", said), ("results.counted", own)):
        placed = [each._replace(topic=topic) for each in records]
        write_parts(spark, placed, tmp_path / "topics" / topic, 2)
    text = TOPOLOGY.replace("count()}", "count()}, upsert: true")
    source = Files(spark, tmp_path / "topics")
    found = JOBS["events"](source, parse(text), Options(tables=["windows"]))
    lake = open_lake(spark, "iceberg", str(tmp_path / "events"), "events")
    figures = run(lake, found, tmp_path / "checkpoint")
    rows = lake.read("windows_current").orderBy("id").collect()
    assert [(r.id, r.revision, r.current) for r in rows] == [
        ("t", 1, False),
        ("x", 2, False),
        ("y", 0, True),
    ]
    windows = lake.read("windows")
    assert windows.count() == 6
    assert figures["events"].rows == len(words) + len(own)
    stood = silver.as_of(windows, 3).orderBy("id").collect()
    assert [(r.id, r.revision) for r in stood] == [("t", 0), ("x", 1), ("y", 0)]
    assert [row.reason for row in lake.read("bad_windows").collect()] == ["result_unreadable"]


MEMBER = Member("a", "s1", 0, 1, 10)
FOUND: dict[str, list[Result]] = {
    "windows": [
        WindowResult(**HEAD, key=key, low={"v": 1}, high={"w": "x"}) for key in ({"k": [1]}, "7", 7)
    ],
    "matches": [
        MatchResult(**HEAD, members=[MEMBER], key="k"),
        MatchSetResult(**HEAD, count=2, ranges=[MemberRange("a", 3, MEMBER, MEMBER)], key=None),
    ],
    "joins": [JoinResult(**HEAD, partners=[Partner("a", "b", "s1", 0, 1, 10)], probability=0.25)],
}
"""Results by table."""
NOT_THERE = {
    "events": {"position", "line"},
    "late": {"position", "line", "input_line", "by_ns", "at_time", "at_ns"},
    "gaps": {"position", "line"},
    "dead": {"position", "line", "input_line"},
}
"""Columns of a backfill that a topic cannot fill, or that its position replaces."""


def history(spark: SparkSession, table: str, said: Sequence[Result]) -> DataFrame:
    """Return the rows that a backfill writes."""
    lines = [make_result_line(each) for each in said]
    rows = kinds.rows_of(table, lines, range(len(lines)))
    return spark.createDataFrame(pa.Table.from_batches([rows]))


def test_columns_match_the_backfill(spark: SparkSession) -> None:
    """Types are compared for each column, and values for results."""
    queries = """\
queries:
  w: {stream: a, window: tumbling 10s, aggregate: {n: count()}}
  p: {stream: a, pattern: "PATTERN SEQ(A a, B b) WITHIN 1 s"}
  j: {join: interval 1s, sides: {a: {stream: a}, b: {stream: b}}}
"""
    found = {
        f"results.{table}": [
            Record(b"k", encode_line(make_result_line(replace(each, id=str(at)))), [], at, 0)
            for at, each in enumerate(said)
        ]
        for table, said in FOUND.items()
    }

    made: dict[str, DataFrame] = {}
    for table in silver.events_tables(
        GivenTopics(spark, found), parse(STREAMS + queries), Options()
    ):
        made |= {part.name: part.pick(table.rows) for part in table.list_written()}
    made["match_sets"] = made["matches"]
    made["overflows"] = made["overflows-matches"]
    assert made["overflows-joins"].schema == made["overflows"].schema
    for name in kinds.TABLES:
        if name == "duplicates":  # duplicates are counted, but no topic has them
            continue
        theirs = from_arrow_schema(kinds.schema_of(name))
        mine = made[name].schema
        shared = [each for each in theirs.fieldNames() if each in mine.fieldNames()]
        absent = set(theirs.fieldNames()) - set(shared)
        assert absent == NOT_THERE.get(name, {"position"}), name
        assert {each: mine[each].dataType for each in shared} == {
            each: theirs[each].dataType for each in shared
        }, name
        said = [replace(each, id=str(at)) for at, each in enumerate(FOUND.get(name, []))]
        said = [each for each in said if not isinstance(each, MatchSetResult)]
        if said:
            all_rows = made[name].where("kind <> 'match_set'")
            want = history(spark, name, said)
            for mark_ns, count in ((HEAD["at_ns"] - 1, 0), (HEAD["at_ns"], len(said))):
                stood = silver.as_of(all_rows, mark_ns).select(shared).collect()
                assert len(stood) == count
                assert sorted(map(repr, stood)) == sorted(
                    map(repr, silver.as_of(want, mark_ns).select(shared).collect())
                )
    (row,) = made["matches"].where("kind = 'match_set'").collect()
    (theirs_row,) = history(spark, "match_sets", FOUND["matches"][1:]).collect()
    for name in ("count", "ranges", "joined", "key", "start_ns", "end_time", "at_time"):
        assert row[name] == theirs_row[name], name


SET = MatchSetResult(
    **HEAD | {"op": "emit", "revision": 0},
    count=2**62,
    ranges=[MemberRange("a", 3, MEMBER, MEMBER)],
)


def test_match_sets_and_overflows_are_kept(spark: SparkSession) -> None:
    """All revisions of a match set are kept. A detector and a pattern share the topic."""

    said = (SET, replace(SET, op="update", revision=1, joined=SET.ranges))
    values = [encode_line(make_result_line(each)) for each in said]
    values.append(encode_line(make_result_line(Overflow(9, "a", "q", MEMBER, 2))))
    records = [Record(b"k", value, [], n, n) for n, value in enumerate(values)]
    topics = GivenTopics(spark, {"results.matches": records})
    queries = """\
queries:
  p: {stream: a, pattern: "PATTERN SEQ(A a, B b) WITHIN 1 s"}
  d: {stream: a, detector: mine}
"""
    own = {"mine": Detector(lambda state, event: (state, None))}
    both = engine.parse(STREAMS + queries, detectors=own)
    found = silver.events_tables(topics, both, Options())
    assert [table.name for table in found] == ["events", "late", "gaps", "dead", "matches"]
    assert {each for each in topics.asked if each.startswith("results.")} == {"results.matches"}
    rows = {part.name: part.pick(found[-1].rows).collect() for part in found[-1].parts}
    matches = rows["matches"]
    assert [(row.kind, row.revision, row["count"]) for row in matches] == [
        ("match_set", 0, 2**62),
        ("match_set", 1, 2**62),
    ]
    (row,) = rows["matches-current"]
    assert (row.revision, row.current) == (1, True)
    line = json.loads(row.line)
    assert json.loads(row.ranges) == json.loads(row.joined) == line["ranges"] == line["joined"]
    assert [row.joined is None for row in matches] == [True, False]
    (overflow,) = rows["overflows-matches"]
    assert (overflow.query, overflow.shown, overflow.at_ns) == ("q", 2, 9)
    assert json.loads(overflow.event) == json.loads(overflow.line)["event"]
    assert json.loads(overflow.line)["event"]["seq"] == 1
    assert rows["bad-matches"] == []
