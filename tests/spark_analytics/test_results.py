"""Oracle: results folded by Spark match a dictionary. Examples: bad records, control records, and
every field of a result.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from inorder.contract import retraction_headers
from inorder.engine import parse
from inorder.records import RetractRecord, record_of
from spark_analytics import results
from spark_analytics.jobs.definitions import JOBS
from spark_analytics.jobs.work import Options
from tests.sinks.written import HEAD, WRITTEN
from tests.spark_analytics.marks import SPARK
from tests.spark_analytics.records import GivenTopics, Record, frame
from topology.base.result import (
    DetectorResult,
    MatchSetResult,
    Member,
    MemberRange,
    Overflow,
    Result,
)
from topology.records.json_lines import encode_line, make_result_line

pytestmark = SPARK

IDS = 30
NO_HEADERS = "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>)"
"""Headers as Spark's Kafka source gives them for a record without any."""


def seeded_results(seed: int) -> list[dict[str, object]]:
    """Return the revisions of each id, some of them repeated, in any order."""
    dice = random.Random(seed)
    said: list[dict[str, object]] = []
    for number in range(IDS):
        count = dice.randrange(1, 6)
        for revision in range(count):
            op = "emit" if revision == 0 else dice.choice(["update", "update", "retract"])
            said.append(
                {
                    "id": f"id{number}",
                    "query": f"q{number % 2}",
                    "op": op,
                    "revision": revision,
                    "final": revision == count - 1 and number % 3 > 0,
                    "confidence": dice.choice(["confirmed", "uncertain"]),
                    "start": number,
                    "end": number + 10,
                    "values": {"v": dice.randrange(100)},
                    "at": 1_000 * number + 10 * revision,
                }
            )
    said += dice.sample(said, 20)
    dice.shuffle(said)
    return said


def records(said: list[dict[str, object]]) -> list[Record]:
    return [
        Record(str(one["id"]).encode(), json.dumps(one).encode(), [], offset, 0, topic="r")
        for offset, one in enumerate(said)
    ]


def test_latest_revision_is_current(spark: SparkSession) -> None:
    said = seeded_results(4)
    newest: dict[object, dict[str, object]] = {}
    for one in said:
        known = newest.get(one["id"])
        if known is None or int(str(one["revision"])) > int(str(known["revision"])):
            newest[one["id"]] = one
    read = results.decode(frame(spark, records(said)))
    got = {
        row.id: (row.revision, row.op, json.loads(row["values"]), row.current)
        for row in results.latest(read.events).collect()
    }
    assert got == {
        key: (one["revision"], one["op"], one["values"], one["op"] != "retract")
        for key, one in newest.items()
    }
    # A fold of two parts gives the same.
    half = results.latest(read.events.where("offset < 40"))
    other = results.latest(read.events.where("offset >= 40"))
    both = results.latest(half.unionByName(other).drop("current"))
    assert {row.id: row.revision for row in both.collect()} == {k: v[0] for k, v in got.items()}


def test_tombstone_retracts_result(spark: SparkSession) -> None:
    """Rows of tombstones match those of whole retracts; `line` has the fields of the headers."""
    said = [{**one, "stream": "s"} for one in seeded_results(9)]
    rows = [
        Record(row.key, None, retraction_headers(one), row.offset, 0, topic="r")
        if one["op"] == "retract"
        else row
        for one, row in zip(said, records(said), strict=True)
    ]
    whole = results.latest(results.decode(frame(spark, records(said))).events)
    read = results.decode(frame(spark, rows))
    assert read.bad.count() == read.control.count() == 0
    found = results.latest(read.events)
    columns = [
        "id",
        "query",
        "op",
        "revision",
        "final",
        "confidence",
        "start",
        "end",
        "at",
        "stream",
    ]
    assert sorted(found.select(*columns).collect()) == sorted(whole.select(*columns).collect())
    gone = found.where(~F.col("current")).collect()
    assert gone
    for row in gone:
        assert isinstance(record_of(row.line), RetractRecord)


def test_control_records_are_recognized(spark: SparkSession) -> None:
    """A control record is recognized by its header, whatever its value, or by its missing value. An
    overflow can be recognized by its value alone.
    """
    overflow = Overflow(7, "pitch", "q", Member("b", "s1", 0, 5, 3), 2)
    said = encode_line(make_result_line(overflow))
    fields = {"id": "a", "query": "q", "op": "emit", "revision": 0}
    good = json.dumps(fields).encode()
    rows = [
        Record(b"q", said, [("kind", b"overflow")], 0, 0),
        Record(b"q", said, [], 1, 0),
        Record(b"", None, [("kind", b"frontier")], 2, 0),
        Record(b"", b"{", [("x", b"y"), ("kind", b"frontier")], 3, 0),
        Record(b"", good, [("kind", None)], 4, 0),
        Record(b"", good, [("kind", b"\xff")], 5, 0),
        Record(b"a", None, [], 6, 0),
        Record(b"a", good, [("x", b"y")], 7, 0),
        Record(b"a", b"{", [], 8, 0),
        Record(b"a", json.dumps(fields | {"id": ""}).encode(), [], 9, 0),
        Record(b"a", json.dumps(fields | {"revision": -1}).encode(), [], 10, 0),
        Record(b"a", json.dumps(fields | {"op": "delete"}).encode(), [], 11, 0),
    ]
    bare = frame(spark, [Record(b"a", good, [], 12, 0)]).withColumn("headers", F.expr(NO_HEADERS))
    read = results.decode(frame(spark, rows).unionByName(bare))
    bad = [(row.offset, row.reason) for row in read.bad.orderBy("offset").collect()]
    words = ["result_unreadable", "id_missing", "revision_missing", "op_unknown"]
    assert bad == list(enumerate(words, start=8))
    assert sorted(row.offset for row in read.events.collect()) == [7, 12]
    kinds = [(row.offset, row.kind) for row in read.control.orderBy("offset").collect()]
    assert kinds == list(enumerate(["overflow", "overflow", "frontier", "frontier", "", "", ""]))
    found = results.overflows(read.control).orderBy("offset").collect()
    assert [row.offset for row in found] == [0, 1]
    for row in found:
        assert (row.query, row.shown, row.at, row.stream) == ("q", 2, 7, "pitch")
        assert json.loads(row.event) == json.loads(said)["event"]
        assert row.line.encode() == said


AS_TEXT = ("key", "values", "low", "high", "expected", "ranges", "joined")
RANGE = MemberRange("a", 3, Member("a", "s1", 0, 1, 10), Member("a", "s2", 1, 2**62, 20))
SETS: list[Result] = [
    MatchSetResult(**HEAD | {"values": {}}, count=2**62, ranges=[RANGE], joined=[RANGE], key=[1]),
    DetectorResult(**HEAD, members=[RANGE.first], key="k"),
]


def test_every_field_is_read(spark: SparkSession) -> None:
    lines = [make_result_line(each) for each in (*WRITTEN, *SETS)]
    said = [Record(b"k", encode_line(line), [], at, 0) for at, line in enumerate(lines)]
    rows = results.decode(frame(spark, said)).events.orderBy("offset").collect()
    for row, line in zip(rows, lines, strict=True):
        assert_read(row, line)


def assert_read(row: Row, line: dict[str, Any]) -> None:
    read = row.asDict(recursive=True)
    assert line.keys() <= read.keys()
    for name, value in line.items():
        if name in AS_TEXT:
            found = read[name] if isinstance(value, str) else json.loads(read[name])
        elif name == "events":
            found = [{k: v for k, v in e.items() if v is not None} for e in read[name]]
        else:
            found = read[name]
        assert found == value, name
    assert json.loads(row.line) == line
    absent = {name for name, value in read.items() if value is None}
    assert absent.isdisjoint(line.keys())


WINDOW = "w: {window: tumbling 1s, aggregate: {n: count()}}"
PATTERN = "p: {pattern: 'PATTERN SEQ(A a, B b) WITHIN 1 s'}"
JOIN = "j: {join: interval 1s, sides: {a: {}, b: {}}}"


@pytest.mark.parametrize(
    ("queries", "read", "tables"),
    [
        ([WINDOW], {"results.windows"}, {"windows", "windows-current"}),
        ([PATTERN, JOIN], {"results.matches", "results.joins"}, {"joins", "overflows-matches"}),
    ],
)
def test_only_needed_topics_are_read(
    spark: SparkSession, queries: list[str], read: set[str], tables: set[str]
) -> None:
    topology = parse(f"streams: {{default: {{}}}}\nqueries: {{{', '.join(queries)}}}")
    topics = GivenTopics(spark)
    found = JOBS["events"](topics, topology, Options())
    assert {topic for topic in topics.asked if topic.startswith("results.")} == read
    assert tables <= {part.name for table in found for part in table.list_written()}
