"""End to end: `inorder spark live` on a real broker, in several runs, killed between them. Its
tables match a replay of the dumped topic.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.workloads import crowd
from spark_analytics.jobs.outputs import read
from spark_analytics.live.run import NAME, ROCKSDB, STORE
from tests.end_to_end.records import FLUSH_TIMEOUT_S, contract, new_producer, send
from tests.end_to_end.replaying import dump
from tests.end_to_end.setting import FUSED, Setting, settle
from tests.services import SharedKafka
from tests.spark_analytics.answers import assert_refused
from tests.spark_analytics.backfill.outputs import Lines, replayed
from tests.spark_analytics.conftest import SETTINGS
from tests.spark_analytics.live.test_live import lines_in
from tests.spark_analytics.marks import SPARK
from tests.spark_analytics.records import MS, S
from tests.spark_analytics.topics import killed, run

pytestmark = [*SPARK, pytest.mark.kafka, pytest.mark.usefixtures("rocksdb")]

ROWS = crowd(900).rows
PART = 300
TO_END = ("--until-caught-up",)
SILENCE_NS = 600 * S
"""How long sources are silent between two bursts, by their timestamps. Without it, a burst half a
minute after the last one would look like a jump of the broker's clock."""


def lines_of_replay(setting: Setting, folder: Path) -> tuple[Lines, int]:
    """Return the lines of a replay, and the arrival time of the last record.

    Later output depends on how long the replay waits.
    """
    lines = folder / "raw.jsonl"
    dump(setting, lines)
    last_ns = json.loads(lines.read_text().splitlines()[-1])["arrival"]
    output, _ = replayed(setting.path, lines)
    return lines_before(output, last_ns), last_ns


def lines_before(output: Lines, at_ns: int) -> Lines:
    kept = {
        key: [line for line in lines if json.loads(line)["at"] < at_ns]
        for key, lines in output.items()
    }
    return {key: lines for key, lines in kept.items() if lines}


def burst(setting: Setting, number: int) -> None:
    rows = ROWS[number * PART : (number + 1) * PART]
    silent_ns = number * SILENCE_NS
    send(setting, [(r.source, b"{}", contract(r.source, r.seq, r.ts_ns + silent_ns)) for r in rows])


def agree(spark: SparkSession, setting: Setting, folder: Path, least: int = PART) -> None:
    wanted, last_ns = lines_of_replay(setting, folder)
    assert sum(len(lines) for lines in wanted.values()) > least
    assert lines_before(lines_in(spark, folder / "live"), last_ns) == wanted
    assert read(spark, str(folder / "live"), "overtaken").count() == 0


@pytest.mark.long
def test_transaction_marker_is_not_idleness(
    kafka: SharedKafka, spark: SparkSession, tmp_path: Path
) -> None:
    """Each batch takes one offset of a partition: a record, or its transaction's marker. The record
    after a marker arrived before most of the other partition's records in that batch.
    """
    setting = settle(kafka.bootstrap, tmp_path, stages=FUSED, others=("other",))
    plain = new_producer(kafka.bootstrap)
    own = {"transactional.id": setting.raw, "enable.idempotence": True}
    committed = new_producer(kafka.bootstrap, **own)
    committed.init_transactions(FLUSH_TIMEOUT_S)

    def say(seqs: range) -> None:
        for seq in seqs:
            headers = contract("p", seq, seq * MS, stream="default")
            plain.produce(setting.raw, b"{}", headers=list(headers), partition=1)
        assert plain.flush(FLUSH_TIMEOUT_S) == 0

    for number in range(3):
        committed.begin_transaction()
        headers = contract("c", number, number * MS, stream="other")
        committed.produce(setting.raw, b"{}", headers=list(headers), partition=0)
        committed.commit_transaction(FLUSH_TIMEOUT_S)
        say(range(2 * number, 2 * number + 2))
    say(range(6, 40))
    run(setting, tmp_path, "live", *TO_END, "--max-per-batch", "9").well()
    agree(spark, setting, tmp_path, least=8)
    other = run(setting, tmp_path, "live", *TO_END, "--checkpoint", str(tmp_path / "another"))
    assert_refused(other, 2, "there is no checkpoint")


def last_of(commits: Path) -> int:
    """Return the newest batch, or -1 before the first."""
    names = [path.name for path in commits.glob("*")]
    return max((int(name) for name in names if name.isdigit()), default=-1)


@pytest.mark.chaos
@pytest.mark.timeout(1_200)  # three starts of Spark, each a minute on a busy machine
def test_killed_job_resumes(kafka: SharedKafka, spark: SparkSession, tmp_path: Path) -> None:
    setting = settle(kafka.bootstrap, tmp_path, stages=FUSED)
    conf = {**SETTINGS, STORE: ROCKSDB}
    commits = tmp_path / "checkpoints" / "live" / NAME / "commits"
    for number in (0, 1):  # one partition is empty: it is known up to a batch's time
        burst(setting, number)
        wanted = last_of(commits) + 3  # A burst is six batches; their output can come in one.

        def has_done(wanted: int = wanted) -> bool:
            return last_of(commits) >= wanted

        killed(
            setting,
            tmp_path,
            "live",
            "--max-per-batch",
            "50",
            until=has_done,
            conf=conf,
        )
    burst(setting, 2)
    run(setting, tmp_path, "live", *TO_END).well()
    agree(spark, setting, tmp_path)
