"""Oracle: results folded by Spark against a dictionary. Example: bad records, and courses."""

from __future__ import annotations

import json
import random

from pyspark.sql import SparkSession

from spark_analytics import results
from tests.spark_analytics.marks import SPARK
from tests.spark_analytics.records import Record, frame

pytestmark = SPARK

IDS = 30


def seeded_results(seed: int) -> list[dict[str, object]]:
    """Each id's revisions, some of them again, in any order."""
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


def test_the_latest_truth_stands(spark: SparkSession) -> None:
    said = seeded_results(4)
    newest: dict[object, dict[str, object]] = {}
    for one in said:
        known = newest.get(one["id"])
        if known is None or int(str(one["revision"])) > int(str(known["revision"])):
            newest[one["id"]] = one
    read = results.decoded(frame(spark, records(said)))
    got = {
        row.id: (row.revision, row.op, json.loads(row["values"]), row.standing)
        for row in results.latest(read.events).collect()
    }
    assert got == {
        key: (one["revision"], one["op"], one["values"], one["op"] != "retract")
        for key, one in newest.items()
    }
    # Folded batch by batch, in any cut, it is the same.
    half = results.latest(read.events.where("offset < 40"))
    other = results.latest(read.events.where("offset >= 40"))
    both = results.latest(half.unionByName(other).drop("standing"))
    assert {row.id: row.revision for row in both.collect()} == {k: v[0] for k, v in got.items()}

    course = {row.id: row for row in results.histories(read.events).collect()}
    for key, one in newest.items():
        own = {int(str(o["revision"])): o for o in said if o["id"] == key}
        row = course[key]
        assert row.revisions == len(own)
        assert row.retracts == sum(o["op"] == "retract" for o in own.values())
        assert row.standing == (one["op"] != "retract")
        assert row.to_final_ns == (10 * (len(own) - 1) if one["final"] else None)
    queries = results.by_query(results.histories(read.events)).collect()
    assert sum(row.standing + row.retracted for row in queries) == IDS
    assert sum(row.not_final for row in queries) == sum(not o["final"] for o in newest.values())


def test_what_is_no_result_is_aside(spark: SparkSession) -> None:
    good = {"id": "a", "query": "q", "op": "emit", "revision": 0}
    values: list[bytes | None] = [
        json.dumps(good).encode(),
        None,
        b"{",
        json.dumps(good | {"id": ""}).encode(),
        json.dumps(good | {"revision": -1}).encode(),
        json.dumps(good | {"op": "delete"}).encode(),
    ]
    rows = [Record(b"a", value, [], offset, 0) for offset, value in enumerate(values)]
    read = results.decoded(frame(spark, rows))
    bad = [(row.offset, row.reason) for row in read.bad.orderBy("offset").collect()]
    words = ["result_unreadable", "id_missing", "revision_missing", "op_unknown"]
    assert bad == list(zip([2, 3, 4, 5], words, strict=True))
    assert [row.offset for row in read.events.collect()] == [0]
    assert [row.offset for row in read.control.collect()] == [1]
