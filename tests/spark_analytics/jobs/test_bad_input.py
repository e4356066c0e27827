"""End to end: errors in input, topics and checkpoints result in a table or in one clear line."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from agents.kafka.declared import list_needed_topics
from agents.kafka.topics import ensure_topics
from spark_analytics.jobs.outputs import read
from tests.end_to_end.records import FLUSH_TIMEOUT_S, Headers, new_producer
from tests.end_to_end.setting import Setting, fused
from tests.end_to_end.topics import admin_of, delete_topics
from tests.services import SharedKafka
from tests.spark_analytics.answers import assert_refused
from tests.spark_analytics.marks import SPARK
from tests.spark_analytics.records import BEGIN_NS, MS, ordered_records, watermark
from tests.spark_analytics.topics import run
from tests.waiting import wait_until
from topology.base.event import Event

pytestmark = [*SPARK, pytest.mark.kafka]

TIMEOUT_S = 60.0
SCHEMA = ("--schema", "v BIGINT", "--sum", "payload.v")
STAMPS = {"refTs", "err", "segment", "at"}


@pytest.fixture
def setting(kafka: SharedKafka, tmp_path: Path) -> Setting:
    return fused(kafka.bootstrap, tmp_path)


def fill(setting: Setting, count: int = 20) -> list[str]:
    """Write good events, a late one and each kind of bad one, and return their reasons."""
    events = [Event("default", "s", 0, seq, BEGIN_NS + seq * MS, BEGIN_NS) for seq in range(count)]
    events[5].late = "gap"
    sound = ordered_records([*events, watermark(BEGIN_NS + 3_600 * 10**9, BEGIN_NS)])
    like = sound[0]
    sound_headers = dict(like.headers)
    spoilt: list[tuple[str, bytes | None, Headers]] = [
        ("stamp_missing", b'{"v": 1}', [h for h in like.headers if h[0] not in STAMPS]),
        ("stamp_unreadable", b'{"v": 1}', list({**sound_headers, "refTs": b"\xfe"}.items())),
        ("seq_not_integer", b'{"v": 1}', list({**sound_headers, "seqNum": b"one"}.items())),
        ("unknown_stream", b'{"v": 1}', list({**sound_headers, "streamId": b"nobody's"}.items())),
        ("payload_unreadable", b'{"v": "much"}', list(sound_headers.items())),
        ("payload_unreadable", b"\xff\xfe", list(sound_headers.items())),
    ]
    records = [(record.value, list(record.headers)) for record in sound[:-1]]
    records += [(value, headers) for _, value, headers in spoilt]
    records.append((sound[-1].value, list(sound[-1].headers)))
    records[3][1].append(("x-strange", b"\xff"))  # a header that nobody reads
    producer = new_producer(setting.bootstrap)
    for value, headers in records:
        producer.produce(
            setting.ordered, value, b"s", partition=0, headers=dict(headers), timestamp=1
        )
    assert producer.flush(FLUSH_TIMEOUT_S) == 0
    return [reason for reason, _, _ in spoilt]


def make_again(setting: Setting) -> None:
    """Delete the ordered topic, and create it again."""
    delete_topics(setting.bootstrap, setting.ordered)
    ensure_topics(list_needed_topics(setting.topology), setting.bootstrap, 1)
    admin = admin_of(setting.bootstrap)
    wait_until(
        lambda: setting.ordered in admin.list_topics(timeout=TIMEOUT_S).topics, "the topic again"
    )


def test_bad_rows_are_kept_with_reasons(
    spark: SparkSession, setting: Setting, tmp_path: Path
) -> None:
    """A run with another window, job or checkpoint, or on a recreated topic, is refused."""
    reasons = fill(setting)
    run(setting, tmp_path, "rates", *SCHEMA, "--until-caught-up").well()
    tables = str(tmp_path / "rates")
    bad = read(spark, tables, "bad").orderBy("position").collect()
    assert [row.reason for row in bad] == reasons
    assert all(row.detail and row.topic == setting.ordered for row in bad)
    assert [row.seq for row in read(spark, tables, "late").collect()] == [5]
    counted = read(spark, tables, "windows-default").agg({"n": "sum"}).collect()[0][0]
    assert counted == 20 - 1

    again = ("--until-caught-up",)
    other = run(setting, tmp_path, "rates", *SCHEMA, *again, "--window", "session 5s")
    assert_refused(other, 2, "window: tumbling 10s there, session 5s now")
    rates = str(tmp_path / "checkpoints" / "rates")
    clocks = run(setting, tmp_path, "clocks", *again, "--checkpoint", rates)
    assert_refused(clocks, 2, "job: rates there, clocks now")
    astray = str(tmp_path / "elsewhere")
    anew = run(setting, tmp_path, "rates", *SCHEMA, *again, "--checkpoint", astray)
    assert_refused(anew, 2, "there are tables of an earlier run: windows-default, late, bad")
    run(setting, tmp_path, "rates", *SCHEMA, *again).well()

    make_again(setting)
    fill(setting)
    after = run(setting, tmp_path, "rates", *SCHEMA, *again)
    assert_refused(after, 2, "was made with other settings", setting.ordered)


def test_recreated_topic_ends_job(spark: SparkSession, setting: Setting, tmp_path: Path) -> None:
    """Offsets alone would not reveal the new topic: it has more records than the old one."""
    fill(setting)
    commits = tmp_path / "checkpoints" / "rates" / "late" / "commits" / "0"
    failed: list[BaseException] = []

    def act() -> None:
        try:
            wait_until(commits.exists, "the first batch")
            make_again(setting)
            fill(setting, 100)
        except BaseException as error:  # noqa: BLE001 - looked at below
            failed.append(error)

    thread = threading.Thread(target=act)
    thread.start()
    ended = run(setting, tmp_path, "rates", "--every", "100ms", "--table", "late")
    thread.join()
    assert not failed
    assert_refused(ended, 1, setting.ordered, "deleted, or created again")


def test_missing_topic_or_archive_is_named(
    spark: SparkSession, setting: Setting, tmp_path: Path
) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(setting.path.read_text().replace(setting.ordered, "nowhere"))
    topic = run(replace(setting, path=other), tmp_path, "rates", "--batch")
    assert_refused(topic, 2, "has no topic nowhere")
    archive = run(setting, tmp_path, "rates", "--batch", "--archive", str(tmp_path / "none"))
    assert_refused(archive, 2, "there is no archive at")
