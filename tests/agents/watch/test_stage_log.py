"""Examples: what a stage tells in its log of its own accord."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from aiokafka.structs import TopicPartition
from prometheus_client import CollectorRegistry

from agents.watch.metrics import Metrics
from agents.watch.stage_log import StageLog

A = TopicPartition("raw", 0)
STAGE = "reorder"


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


class Told:
    """A log whose clock the test turns, and what it has said."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog
        caplog.set_level(logging.INFO, "agents.watch.stage_log")
        self.clock = Clock()
        self.metrics = Metrics(CollectorRegistry())
        self.log = StageLog(self.metrics, self.clock)

    def stands(self, seconds: int, *reasons: str) -> None:
        for _ in range(seconds):
            self.clock.now_s += 1.0
            self.log.stands(reasons)

    def take(self) -> list[str]:
        found = [f"{record.levelname} {record.getMessage()}" for record in self._caplog.records]
        self._caplog.clear()
        return found

    def fields(self) -> dict[str, Any]:
        found: dict[str, Any] = self._caplog.records[-1].fields  # type: ignore[attr-defined]
        return found


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Told:
    return Told(caplog)


def test_it_owns_partitions_or_none(told: Told) -> None:
    told.log.owns({TopicPartition("raw", 10), TopicPartition("raw", 9)})
    told.log.owns([])
    assert told.take() == ["INFO owns raw/9, raw/10", "INFO owns no partition"]


def test_a_restore_is_told_every_five_seconds_while_it_lasts(told: Told) -> None:
    for second in range(12):
        told.clock.now_s = 1_000.0 + second
        told.log.restoring(A, 10 * second, 1_000)
    told.log.restored(A)
    for second in range(4):
        told.clock.now_s = 1_100.0 + second
        told.log.restoring(A, second, 20)
    assert told.take() == [
        "INFO raw/0: restoring, 50 of 1000 records are read",
        "INFO raw/0: restoring, 100 of 1000 records are read",
    ]


def test_ready_and_not_ready_are_told_when_they_last(told: Told) -> None:
    told.stands(8, "no place in the consumer group")
    assert told.take() == []  # it starts
    told.stands(5)
    assert told.take() == ["INFO ready"]
    told.stands(1, "no place in the consumer group")
    told.stands(5)
    assert told.take() == []  # a rebalance
    told.stands(62, "raw/0: nothing heard", "raw/1: nothing heard")
    again = "WARNING not ready: raw/0: nothing heard; raw/1: nothing heard"
    assert told.take() == [again, again]
    told.stands(2)
    assert told.take() == ["INFO ready"]


def test_a_stage_that_never_gets_ready_says_why(told: Told) -> None:
    told.stands(12, "raw/0: restoring, 7 records to read")
    assert told.take() == ["WARNING not ready: raw/0: restoring, 7 records to read"]


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


def test_a_line_a_minute_tells_what_the_minute_brought(told: Told) -> None:
    count(told.metrics, 600)
    for _ in range(119):
        told.clock.now_s += 1.0
        told.log.minute(lambda: told.clock.now_s - 0.5)
    assert told.take() == [
        (
            "INFO 60 s: 600 in, 10.0/s, 595 out, lag 12, held 30, late 5 (gap 4, merge 1),"
            " dead 1 (ts_unreadable 1), duplicate 0, last checkpoint 0.5 s ago"
        )
    ]
    count(told.metrics, 1_200)
    told.clock.now_s += 1.0
    told.log.minute(lambda: None)
    fields = told.fields()
    assert (fields["in"], fields["per_second"], fields["out"]) == (1_200, 20.0, 1_195)
    assert fields["late"] == {"gap": 4, "merge": 1}
    assert fields["checkpoint_age_s"] is None
    told.take()
    told.clock.now_s += 60.0
    told.log.minute(lambda: None)
    assert told.take() == [
        (
            "INFO 60 s: 0 in, 0.0/s, 0 out, lag 12, held 30, late 0, dead 0, duplicate 0,"
            " no checkpoint yet"
        )
    ]
