"""End to end: a backfill of an archive that the job `archive` wrote, compared with a replay of the
dumped topics.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Literal

import pytest
from pyspark.sql import SparkSession

from agents.stage.arrangement import make_input_inlet
from agents.stage.arrival import NS_PER_MS, ArrivalClock
from inorder.signing_keys import SigningKey, signing_key
from spark_analytics import archive
from spark_analytics.backfill import archived
from spark_analytics.jobs.running import rename_offset
from spark_analytics.jobs.work import Table
from spark_analytics.tables.catalog import Format
from spark_analytics.tables.lake import open_lake
from spark_analytics.tables.output import LakeOutput
from spark_analytics.tables.shapes import PLACE
from tests.cli.invoking import json_lines
from tests.spark_analytics.answers import assert_refused
from tests.spark_analytics.backfill.outputs import assert_replayed, backfill
from tests.spark_analytics.live import logs
from tests.spark_analytics.marks import SPARK
from tests.spark_analytics.records import Record, frame
from topology.config import HeaderConfig, parse

pytestmark = [*SPARK]

TOPOLOGY = """\
streams: {a: {input: raw}, b: {input: raw, clock: {unsynced: estimate, sync: udp}}}
topics: {clock: heard, partitions: 2}
queries:
  n: {stream: a, window: tumbling 1s, aggregate: {n: count()}}
  near: {join: interval 50ms, sides: {x: {stream: a}, y: {stream: b}}, outer: full}
"""
NAMES = HeaderConfig().names()
BEGIN_MS = 1_700_000_000_000


def topics(seed: int, folder: Path) -> list[Record]:
    """Return two partitions of events, some bad and some with equal times, and one of clock
    reports.
    """
    log = logs.log(Random(seed), folder, 300)
    return [
        each._replace(offset=offset) for part in log.values() for offset, each in enumerate(part)
    ]


def dumped(
    records: Sequence[Record], path: Path, text: str = TOPOLOGY, masters: tuple[bytes, ...] = ()
) -> Path:
    return json_lines(path, logs.dumped(parse(text), records, masters))


def archive_of(spark: SparkSession, records: Sequence[Record], folder: Path) -> Path:
    for topic in sorted({record.topic for record in records}):
        own = [record for record in records if record.topic == topic]
        rows = archive.place(frame(spark, own), HeaderConfig())
        archive.write(rows.where("offset < 50"), f"{folder}/{topic}", 0)
        archive.write(rows.where("offset >= 50"), f"{folder}/{topic}", 1)
    return folder


def lake_of(spark: SparkSession, kind: Format, records: Sequence[Record], folder: Path) -> Path:
    """Write an archive as the job `archive` does when it dies after a batch and writes that batch
    again.
    """
    table = Table(archive.TABLE, frame(spark, records).select(*archive.COLUMNS), PLACE)
    for _ in range(2):
        output = LakeOutput(open_lake(spark, kind, str(folder), "archive"), [table])
        output.write(rename_offset(table.rows), table.name, PLACE, 0)
    return folder


def partitions_of_sources(records: Sequence[Record]) -> dict[str, dict[str, list[str]]]:
    """Return the partitions with records of each source, by stream.

    Records of an unknown stream belong to `default`.
    """
    found: dict[str, dict[str, set[str]]] = {}
    for record in records:
        if record.topic == "raw":
            headers = {name: (value or b"").decode() for name, value in record.headers}
            stream = headers[NAMES.stream]
            of_stream = found.setdefault(stream if stream in "ab" else "default", {})
            of_stream.setdefault(headers[NAMES.source], set()).add(record.log)
    return {
        stream: {source: sorted(lies) for source, lies in of.items()}
        for stream, of in found.items()
    }


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("kind", ["parquet", "iceberg", "delta"])
def test_archive_matches_its_dump(
    spark: SparkSession, tmp_path: Path, kind: Literal["parquet"] | Format
) -> None:
    records = topics(5, tmp_path)
    other = Record(b"k", b"v", [], 0, BEGIN_MS, topic="events.ordered")
    if kind == "parquet":
        source = archive_of(spark, records, tmp_path / "archive")
    else:
        source = lake_of(spark, kind, [*records, other], tmp_path / "archive")
    answer = backfill(tmp_path, source, text=TOPOLOGY).well()
    assert "records of heard, raw have the producer's time" in answer.err
    wanted = assert_replayed(tmp_path, dumped(records, tmp_path / "dumped.jsonl"))
    assert {"event", "dead", "window", "join"} <= {kind for _, kind in wanted}


def test_grown_archive_is_resumed(spark: SparkSession, tmp_path: Path) -> None:
    """A first run reads less of some partitions than of others. A resume with another input or with
    a new query is refused.
    """
    records = topics(6, tmp_path)
    ends = {"raw/0": 90, "raw/1": 40, "heard/0": 15}
    cut = [each for each in records if each.offset < ends[each.log]]
    source = archive_of(spark, cut, tmp_path / "archive")
    backfill(tmp_path, source, "--no-to-end", text=TOPOLOGY).well()
    known = json.loads((tmp_path / "out" / "_state" / "current.json").read_bytes())
    read = [each for each in records if each.offset <= known["offsets"].get(each.log, -1)]
    assert known["sources"] == partitions_of_sources(read)
    assert 0 < len(read) < len(cut) - 20
    (tmp_path / "files.jsonl").write_text("")
    for path, says in (
        (tmp_path / "files.jsonl", "is not an archive, but an earlier run has read one"),
        (source / "raw", "raw: contains no records of heard, which an earlier run has read"),
    ):
        assert_refused(backfill(tmp_path, path, "--resume"), 3, says)
    assert known == json.loads((tmp_path / "out" / "_state" / "current.json").read_bytes())
    archive_of(spark, records, source)
    come = TOPOLOGY + "  m: {stream: b, window: tumbling 500ms, aggregate: {n: count()}}\n"
    refused = backfill(tmp_path, source, "--resume", "--no-to-end", text=come)
    assert_refused(refused, 2, "with another topology (queries.m); resume with that one, or run")
    backfill(tmp_path, source, "--resume", "--no-to-end", text=TOPOLOGY).well()
    backfill(tmp_path, source, "--resume").well()
    assert_replayed(tmp_path, dumped(records, tmp_path / "dumped.jsonl"))


def test_places_lists_partitions_of_sources(spark: SparkSession) -> None:
    """A record that names no stream belongs to the only stream of its topic. With `keyed_by:
    stream`, the partitions are listed by stream alone.
    """

    def sent(topic: str, partition: int, source: str, stream: str = "") -> Record:
        named = [(NAMES.source, source.encode())]
        named += [(NAMES.stream, stream.encode())] if stream else []
        return Record(b"k", b"v", named, 0, BEGIN_MS, partition, topic)

    raw = [sent("raw", 0, "s0", "a"), sent("raw", 1, "s1", "a"), sent("raw", 1, "s2", "b")]
    rows = frame(spark, [*raw, sent("own", 1, "s3")])
    text = "streams: {a: {input: raw}, b: {input: raw}, c: {input: own}, default: {input: raw}}\n"
    assert archived.find_places(rows, parse(text)) == {
        "a": {"s0": ["raw/0"], "s1": ["raw/1"]},
        "b": {"s2": ["raw/1"]},
        "c": {"s3": ["own/1"]},
    }
    by_stream = text.replace(": raw}", ": raw, keyed_by: stream}")
    by_stream = by_stream.replace(": own}", ": own, keyed_by: stream}")
    assert archived.find_places(rows, parse(by_stream))["a"] == {"": ["raw/0", "raw/1"]}


def test_gap_or_repeat_of_offsets_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    records = [each for each in topics(5, tmp_path) if (each.partition, each.offset) != (1, 7)]
    source = archive_of(spark, records, tmp_path / "archive")
    refused = backfill(tmp_path, source, text=TOPOLOGY)
    assert_refused(refused, 3, "raw/1 lacks the offsets 7 to 7")
    twice = backfill(tmp_path, [source, source / "raw"], "--holes", "pass")
    assert_refused(twice, 3, "raw/0 has the offset 0 twice")
    assert not (tmp_path / "out").exists()
    backfill(tmp_path, source, "--holes", "pass").well()


def test_archive_named_as_glob_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "a[1]"
    (source / "raw" / "stream=a").mkdir(parents=True)
    for path in (source, source / "raw"):
        refused = backfill(tmp_path, path, text=TOPOLOGY)
        assert_refused(refused, 3, "Spark treats [ ] in a path as part of a pattern")


def test_archive_of_other_topics_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    other = [each._replace(topic="strange") for each in topics(5, tmp_path)]
    source = archive_of(spark, other, tmp_path / "archive")
    two = "streams: {a: {input: raw}, b: {input: strange}}\n"
    lacking = backfill(tmp_path, source, text=two)
    told = "contains no records of clock.offsets, raw, which the topology reads"
    assert_refused(lacking, 3, told)
    for path in (source, source / "strange"):
        assert_refused(backfill(tmp_path, path, text=TOPOLOGY), 3, "strange")


SIGNED = "streams: {a: {input: raw, signed: true, reorder: {start: zero}}}\n"
NEW, OLD = bytes(range(32)), bytes(range(1, 33))
KEYS = {
    "press-7": signing_key(NEW, "source", "press-7"),
    "oven-2": signing_key(OLD, "prefix", "oven-"),
}


def signed_records() -> list[Record]:
    """Return each number of two sources, signed with the source's own key or with the key of its
    prefix.

    Forged records come before it: unsigned, signed by another source's key, with another value, and
    with a repeated header.
    """
    found: list[Record] = []

    def add(
        source: str, seq: int, *, by: str | None, value: bytes = b"1", twice: bool = False
    ) -> None:
        headers: list[tuple[str, bytes | None]] = [
            (NAMES.source, source.encode()),
            (NAMES.seq, b"%d" % seq),
            (NAMES.ts, b"%d" % (BEGIN_MS * NS_PER_MS + seq)),
            (NAMES.stream, b"a"),
        ]
        if by is not None:
            signature = SigningKey.parse(KEYS[by]).signature(NAMES, headers, b"1")
            headers.append((NAMES.sig, signature))
        if twice:
            headers.append((NAMES.seq, b"%d" % (seq + 1)))
        offset = len(found)
        found.append(Record(b"k", value, headers, offset, BEGIN_MS + offset, topic="raw"))

    for seq in range(4):
        for source, other in (("press-7", "oven-2"), ("oven-2", "press-7")):
            add(source, seq, by=None)
            add(source, seq, by=other)
            add(source, seq, by=source, value=b"2")
            add(source, seq, by=source, twice=True)
            add(source, seq, by=source)
    return found


def test_signatures_are_checked_as_in_worker(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file contains two master keys, the newest first. Without the file, nothing is read."""
    records = signed_records()
    source = archive_of(spark, records, tmp_path / "archive")
    told = "stream a is signed; name the file of the master keys"
    assert_refused(backfill(tmp_path, source, text=SIGNED), 2, told)
    masters = tmp_path / "masters"
    masters.write_text(f"# the newest first\n{NEW.hex()}\n{OLD.hex()}\n")
    masters.chmod(0o600)
    monkeypatch.setenv("INORDER_MASTER_KEYS_FILE", str(masters))
    assert_refused(backfill(tmp_path, source), 2, told)  # The executors do not have the variable.
    assert not (tmp_path / "out").exists()
    monkeypatch.setitem(spark.sparkContext.environment, "INORDER_MASTER_KEYS_FILE", str(masters))
    backfill(tmp_path, source).well()
    dump = dumped(records, tmp_path / "dumped.jsonl", SIGNED, (NEW, OLD))
    lines = assert_replayed(tmp_path, dump)
    inlet = make_input_inlet(parse(SIGNED), "raw", (NEW, OLD))  # A worker uses this reader.
    clock = ArrivalClock(0)
    judged = [
        inlet.read(
            [archived.Record("raw", 0, r.offset, r.key, r.value, r.headers, r.stamp_ms)], clock
        )
        for r in records
    ]
    assert sum(len(each.events) for each in judged) == 8
    events = [json.loads(line) for line in lines["a", "event"]]
    assert sorted((e["source"], e["seq"]) for e in events) == sorted(
        (event.source, event.seq) for each in judged for event in each.events
    )
    dead = [json.loads(line) for line in lines["a", "dead"]]
    assert [(each["source"], each["seq"]) for each in dead] == [
        (letter.source, letter.seq) for each in judged for letter in each.dead
    ]
    reasons = Counter(letter.reason for each in judged for letter in each.dead)
    assert reasons == {"unsigned": 8, "forged": 24}
