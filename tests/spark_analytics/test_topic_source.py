"""End to end: topics read as format `inorder`, in batch and as a stream. A batch matches a replay
of the dumped topic, and a stopped stream resumes. Law: micro-batches are bounded and fair.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from confluent_kafka import TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from agents.kafka.brokers import BrokersUnavailable
from benchmarks.workloads import crowd
from spark_analytics.backfill.kinds import TABLE_OF
from spark_analytics.executors import setting as executors
from spark_analytics.history import GOES_ON, InorderSource
from spark_analytics.topic_source import Cluster, share, topic_rows
from tests import seeds
from tests.end_to_end.records import FLUSH_TIMEOUT_S, contract, new_producer, send
from tests.end_to_end.replaying import dump
from tests.end_to_end.setting import FUSED, Setting, settle
from tests.end_to_end.topics import admin_of, delete_topics
from tests.services import SharedKafka
from tests.spark_analytics.backfill.outputs import replayed
from tests.spark_analytics.marks import SPARK
from tests.spark_analytics.topics import in_order, write_ordered
from topology.base.event import DATA, Event
from topology.records.json_lines import encode_line, make_event_line

pytestmark = [*SPARK]

ROWS = crowd(300).rows
QUERY = "queries: {n: {stream: default, window: tumbling 10s, aggregate: {n: count()}}}"
MOST = 150
"""The most offsets of a micro-batch."""
ANSWER_S = 30.0
NOBODY = "127.0.0.1:1"


@pytest.mark.parametrize("seed", seeds.seeds_of_today(20))
def test_law_batch_is_bounded(seed: int) -> None:
    rng = Random(seed)
    begins = {str(number): rng.randrange(50) for number in range(rng.randrange(1, 6))}
    ends = {number: at + rng.choice((0, 1, rng.randrange(90))) for number, at in begins.items()}
    ends |= {"9": rng.randrange(3)}
    most = rng.randrange(1, 120)
    left = sum(ends.values()) - sum(begins.values())
    while left:
        after = share(begins, ends, most)
        assert all(begins.get(each, 0) <= after[each] <= ends[each] for each in ends)
        taken = sum(after.values()) - sum(begins.values())
        assert taken == min(most, left)
        begins, left = after, left - taken
    assert share(begins, ends, most) == ends


def asked(spark: SparkSession, setting: Setting, **options: str) -> dict[str, str]:
    spark.dataSource.register(InorderSource)
    return {"topology": str(setting.path), "brokers": setting.bootstrap, **options}


def loaded(spark: SparkSession, setting: Setting, topic: str, **options: str) -> DataFrame:
    return spark.read.format("inorder").options(**asked(spark, setting, **options)).load(topic)


def streamed(spark: SparkSession, setting: Setting, topic: str, folder: Path) -> StreamingQuery:
    options = asked(spark, setting, max_per_batch=str(MOST), trigger=GOES_ON)
    rows = spark.readStream.format("inorder").options(**options).load(topic)
    paths = {"path": str(folder / "rows"), "checkpointLocation": str(folder / "checkpoint")}
    return rows.writeStream.format("parquet").options(**paths).start()


def finish(query: StreamingQuery) -> StreamingQuery:
    """Wait until the query has read everything, and then stop it."""
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    return query


@pytest.fixture
def setting(kafka: SharedKafka, tmp_path: Path) -> Setting:
    return settle(kafka.bootstrap, tmp_path, stages=FUSED)


def lines_in(rows: DataFrame) -> list[str]:
    return [row.line for row in rows.orderBy("position").collect()]


def expected_lines(events: list[Event]) -> list[str]:
    """Return the lines of events whose values `write_ordered` writes."""
    lines = [make_event_line(event) for event in events if event.kind == DATA]
    return [encode_line({**each, "payload": {"v": each["seq"]}}).decode() for each in lines]


@pytest.mark.kafka
def test_input_topic_matches_a_replay(
    kafka: SharedKafka, spark: SparkSession, tmp_path: Path
) -> None:
    setting = settle(kafka.bootstrap, tmp_path, stages=FUSED, more=QUERY, others=("other",))
    send(
        setting,
        [
            (r.source, b'{"v": 1}', contract(r.source, r.seq, r.ts_ns, stream=stream))
            for number, r in enumerate(ROWS)
            for stream in (("default", "other")[number % 2],)
        ],
    )
    aborted = new_producer(kafka.bootstrap, **{"transactional.id": setting.raw})
    aborted.init_transactions(FLUSH_TIMEOUT_S)
    aborted.begin_transaction()
    aborted.produce(setting.raw, b"{}", headers=list(contract("nobody", 0, ROWS[0].ts_ns)))
    aborted.flush(FLUSH_TIMEOUT_S)
    aborted.abort_transaction(FLUSH_TIMEOUT_S)
    dump(setting, tmp_path / "raw.jsonl")
    wanted, _ = replayed(setting.path, tmp_path / "raw.jsonl")
    assert {"event", "window"} <= {kind for _, kind in wanted}
    for kind in ("event", "window"):
        found: dict[tuple[str, str], list[str]] = {}
        rows = loaded(spark, setting, setting.raw, table=TABLE_OF[kind]).orderBy("position")
        for row in rows.collect():
            found.setdefault((row.stream, kind), []).append(row.line)
        assert found == {key: lines for key, lines in wanted.items() if key[1] == kind}


@pytest.mark.kafka
def test_stopped_stream_resumes(spark: SparkSession, setting: Setting, tmp_path: Path) -> None:
    """A stream whose next offsets or whose topic were deleted fails with the reason."""
    events = in_order(setting, ROWS)
    count = 0
    for end in (200, len(events)):
        write_ordered(setting, events[count:end])
        count = end
        query = finish(streamed(spark, setting, setting.ordered, tmp_path))
        assert max(each.numInputRows for each in query.recentProgress) <= MOST
        rows = spark.read.parquet(str(tmp_path / "rows"))
        assert lines_in(rows) == expected_lines(events[:end])
    whole = loaded(spark, setting, setting.ordered)
    assert lines_in(whole) == expected_lines(events)
    assert rows.dtypes == whole.dtypes
    write_ordered(setting, events)
    place = TopicPartition(setting.ordered, 0, -1)
    admin = admin_of(setting.bootstrap)
    admin.delete_records([place])[place].result(ANSWER_S)
    fails(streamed(spark, setting, setting.ordered, tmp_path), "retention has removed the offsets")
    delete_topics(setting.bootstrap, setting.ordered)
    fails(streamed(spark, setting, setting.ordered, tmp_path), "has no topic ordered-")


@pytest.mark.kafka
def test_available_now_reads_all(spark: SparkSession, setting: Setting, tmp_path: Path) -> None:
    """A bound is refused here: Spark asks a Python source for the end only once, so the rest would
    stay unread.
    """
    events = in_order(setting, ROWS)
    paths = {"path": str(tmp_path / "rows"), "checkpointLocation": str(tmp_path / "checkpoint")}
    count = 0
    for end in (200, len(events)):
        write_ordered(setting, events[count:end])
        count = end
        bounds = ({"max_per_batch": str(MOST)}, {}) if end == 200 else ({},)
        for bound in bounds:
            stream = spark.readStream.format("inorder").options(**asked(spark, setting, **bound))
            writer = stream.load(setting.ordered).writeStream.format("parquet").options(**paths)
            query = writer.trigger(availableNow=True).start()
            if bound:
                fails(query, 'leave max_per_batch out, or add option."trigger", "processingTime"')
            else:
                query.awaitTermination()
        assert lines_in(spark.read.parquet(paths["path"])) == expected_lines(events[:end])


@pytest.mark.kafka
def test_failed_batch_is_read_again(spark: SparkSession, setting: Setting, tmp_path: Path) -> None:
    events = in_order(setting, ROWS)
    write_ordered(setting, events)
    seen: list[int] = []

    def write(rows: DataFrame, batch: int) -> None:
        rows.write.mode("overwrite").parquet(str(tmp_path / "rows" / f"batch={batch}"))
        seen.append(batch)
        if seen == [0, 1]:
            raise ConnectionError("the power is gone")

    options = asked(spark, setting, max_per_batch=str(MOST), trigger=GOES_ON)
    rows = spark.readStream.format("inorder").options(**options).load(setting.ordered)
    writer = rows.writeStream.foreachBatch(write)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    fails(writer.start(), "the power is gone")
    finish(writer.start())
    assert seen[:3] == [0, 1, 1]
    assert lines_in(spark.read.parquet(str(tmp_path / "rows"))) == expected_lines(events)


def fails(query: StreamingQuery, why: str) -> None:
    with pytest.raises(Exception, match=why):
        query.processAllAvailable()
    query.stop()


@pytest.mark.parametrize(
    ("topic", "options", "why"),
    [
        ("nowhere", {}, r"load\(nowhere\): the topology has the input topics raw and the ordered"),
        ("ordered", {"table": "windows"}, "option table: ordered has only ordered events"),
        ("raw", {"table": "nothing"}, "option table: nothing is not one of events, gaps"),
    ],
)
def test_unreadable_topic_is_refused(
    topic: str, options: dict[str, str], why: str, tmp_path: Path
) -> None:
    source = source_of(tmp_path, path=topic, **options)
    with pytest.raises(ValueError, match=why):
        source.reader(source.schema())


def source_of(folder: Path, **options: str) -> InorderSource:
    """Return the source as Spark makes it, for a topology without brokers."""
    path = folder / "t.yaml"
    path.write_text("streams: {s: {input: raw, output: ordered}}")
    return InorderSource({"topology": str(path), "brokers": NOBODY, **options})


def test_unreachable_brokers_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.kafka.brokers.TIMEOUT_S", 1.0)
    with pytest.raises(BrokersUnavailable, match=f"no broker answers at {NOBODY}"):
        next(topic_rows(Cluster(NOBODY), executors.Setting("streams: {s: {input: raw}}"), ["raw"]))


def test_stream_of_input_topic_is_refused(tmp_path: Path) -> None:
    source = source_of(tmp_path, path="raw")
    with pytest.raises(ValueError, match="a stream can read only topics that workers have put in"):
        source.streamReader(source.schema())
