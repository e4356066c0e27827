"""Examples: log lines that a stage writes by itself, and the reasons of dead letters."""

from __future__ import annotations

import logging
import pickle
from typing import Any

import pytest
from aiokafka.structs import TopicPartition
from prometheus_client import CollectorRegistry

from agents.watch.deaths import MAX_REASONS, OTHER, Deaths, join_counts
from agents.watch.metrics.worker import Metrics
from agents.watch.stage_log import StageLog
from topology.base.outcome import Malformed

A = TopicPartition("raw", 0)
STAGE = "reorder"


class Told:
    """A stage log with a clock that the test moves, and its log lines."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.caplog = caplog
        caplog.set_level(logging.INFO, "agents.watch.stage_log")
        self.now_s = 1_000.0
        self.metrics = Metrics(CollectorRegistry(), STAGE)
        self.log = StageLog(self.metrics, lambda: self.now_s)

    def note_readiness(self, seconds: int, *reasons: str) -> None:
        for _ in range(seconds):
            self.now_s += 1.0
            self.log.note_readiness(reasons)

    def take(self) -> list[str]:
        found = [f"{record.levelname} {record.getMessage()}" for record in self.caplog.records]
        self.caplog.clear()
        return found

    def fields(self) -> dict[str, Any]:
        found: dict[str, Any] = self.caplog.records[-1].fields  # type: ignore[attr-defined]
        return found


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Told:
    return Told(caplog)


def test_owned_partitions_are_logged(told: Told) -> None:
    told.log.owns({TopicPartition("raw", 10), TopicPartition("raw", 9)})
    told.log.owns([])
    assert told.take() == ["INFO owns raw/9, raw/10", "INFO owns no partition"]


def test_restore_is_logged_every_5_s(told: Told) -> None:
    for second in range(12):
        told.now_s = 1_000.0 + second
        told.log.log_restore(A, 10 * second, 1_000)
    told.log.forget_restore(A)
    for second in range(4):
        told.now_s = 1_100.0 + second
        told.log.log_restore(A, second, 20)
    assert told.take() == [
        "INFO raw/0: restoring, 50 of 1000 records are read",
        "INFO raw/0: restoring, 100 of 1000 records are read",
    ]


def test_lasting_readiness_is_logged(told: Told) -> None:
    told.note_readiness(8, "no place in the consumer group")
    assert told.take() == []  # the stage is starting
    told.note_readiness(5)
    assert told.take() == ["INFO ready"]
    told.note_readiness(1, "no place in the consumer group")
    told.note_readiness(5)
    assert told.take() == []  # a rebalance
    told.note_readiness(62, "raw/0: no report of it", "raw/1: no report of it")
    again = "WARNING not ready: raw/0: no report of it; raw/1: no report of it"
    assert told.take() == [again, again]
    told.note_readiness(2)
    assert told.take() == ["INFO ready"]
    never = Told(told.caplog)
    never.note_readiness(12, "raw/0: restoring, 7 records to read")
    assert never.take() == ["WARNING not ready: raw/0: restoring, 7 records to read"]


def count(metrics: Metrics, events: int) -> None:
    place = (STAGE, "default", "0")
    metrics.records_in.labels(*place).inc(events)
    metrics.emitted.labels(*place).inc(events - 5)
    metrics.late.labels(*place, "gap").inc(3)
    metrics.late.labels(STAGE, "other", "1", "gap").inc(1)
    metrics.late.labels(*place, "merge").inc(1)
    metrics.dead.labels(*place, "ts_unreadable").inc(1)
    metrics.held.labels(*place).set(30)
    metrics.input_lag.labels(STAGE, "0").set(4)
    metrics.input_lag.labels(STAGE, "1").set(8)
    metrics.input_lag_seconds.labels(STAGE, "1").set(3.21)


def test_summary_is_logged(told: Told) -> None:
    count(told.metrics, 600)
    for _ in range(119):
        told.now_s += 1.0
        told.log.log_minute(lambda: told.now_s - 0.5)
    assert told.take() == [
        (
            "INFO 60 s: 600 in, 10.0/s, 595 out, lag 12 (3.2 s), held 30, late 5 (gap 4, merge 1),"
            " dead 1 (ts_unreadable 1), duplicate 0, last checkpoint 0.5 s ago"
        )
    ]
    count(told.metrics, 1_200)
    told.now_s += 1.0
    told.log.log_minute(lambda: None)
    fields = told.fields()
    assert (fields["in"], fields["per_second"], fields["out"]) == (1_200, 20.0, 1_195)
    assert fields["late"] == {"gap": 4, "merge": 1}
    assert fields["checkpoint_age_s"] is None
    told.take()
    told.now_s += 60.0
    told.log.log_minute(lambda: None)
    assert told.take() == [
        (
            "INFO 60 s: 0 in, 0.0/s, 0 out, lag 12 (3.2 s), held 30, late 0, dead 0, duplicate 0,"
            " no checkpoint yet"
        )
    ]


def die(told: Told, dead: int, good: int = 0) -> None:
    """Receive `dead` dead letters and `good` other records."""
    deaths = told.metrics.deaths.setdefault(A, Deaths("raw/0"))
    deaths.read += dead + good
    for _ in range(dead):
        deaths.add(Malformed(0, 7, "source_missing", "header `sourceId` is missing; write it"))
    told.now_s += 1.0
    told.log.dead()


def test_all_dead_is_logged_at_once(told: Told) -> None:
    die(told, 3)
    assert told.take() == [
        (
            "WARNING every record is a dead letter (3), with reason source_missing; raw/0 offset 7:"
            " header `sourceId` is missing; write it"
        )
    ]
    die(told, 4_000)
    assert told.take() == []  # within the minute
    told.now_s += 60.0
    die(told, 100)
    (line,) = told.take()
    assert "every record is a dead letter (4,100)" in line
    die(told, 0)
    assert told.take() == []


def test_mostly_dead_is_logged(told: Told) -> None:
    die(told, 0, good=1_000_000)
    die(told, 5)
    assert told.take() == []
    die(told, 20, good=5)
    (line,) = told.take()
    assert line.startswith("WARNING 25 of 30 records are dead letters, with reason source_missing")
    for _ in range(5):
        told.now_s += 60.0
        die(told, 9, good=100)
    assert told.take() == []


# -- reasons of dead letters -----------------------------------------------------------------------


def deaths(dead: int, read: int, reason: str = "source_missing", log: str = "") -> Deaths:
    found = Deaths(log)
    found.read = read
    for number in range(dead):
        found.add(Malformed(100 + number, 7 + number, reason, "write it"))
    return found


def test_alarm_needs_a_majority() -> None:
    found = deaths(6, 10)
    found.join(deaths(2, 2, "seq_missing"))
    said = "8 of 12 lines are dead letters, most of them with reason source_missing"
    assert found.find_alarm("line") == f"{said}; line 7: write it"
    assert deaths(5, 10).find_alarm() is None
    assert deaths(0, 0).find_alarm() is None


def test_partition_counts_are_joined() -> None:
    parts = [deaths(2, 2, log="raw/0").plain(), deaths(1, 4, log="raw/1").plain()]
    whole = join_counts(parts)
    assert (whole.read, whole.dead) == (6, 3)
    assert join_counts([]).find_alarm() is None
    assert pickle.loads(pickle.dumps(whole)).plain() == whole.plain()


def test_reasons_are_bounded() -> None:
    found = Deaths()
    for number in range(2 * MAX_REASONS):
        found.add(Malformed(0, number, f"r{number}", ""))
    assert (found.dead, len(found.reasons())) == (2 * MAX_REASONS, MAX_REASONS + 1)
    assert found.reasons()[0][0] == OTHER
