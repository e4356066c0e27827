"""Examples: when the log says that two producers may send under one name."""

from __future__ import annotations

import logging

import pytest
from aiokafka.structs import TopicPartition
from prometheus_client import CollectorRegistry

from agents.watch.metrics import Metrics
from agents.watch.partition_metrics import PartitionMetrics
from agents.watch.two_producers import TOLD_EVERY_S, TwoProducers
from topology.config import parse
from topology.config.stages import operators
from topology.flow.stage import Stage
from topology.model.event import Event
from topology.model.outcome import GAP, OLD_EPOCH, Duplicate, Late, Report

ONE_STREAM = "streams: {default: {clock: {unsynced: trust}}}\ntopics: {partitions: 1}\n"
MS = 1_000_000


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def event(epoch: int, seq: int, at_ns: int = 0) -> Event:
    return Event("default", "s1", epoch, seq, at_ns, at_ns)


def late(reason: str) -> Report:
    return Late(0, event(3, 7), reason)


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
    ("report", "says"),
    [
        (late(OLD_EPOCH), "s1/3/7 of default came after a higher epoch began"),
        (Duplicate(0, event(3, 7), conflict=True), "s1/3/7 of default came twice, and differs"),
        (late(GAP), ""),
        (Duplicate(0, event(3, 7)), ""),
    ],
)
def test_what_is_a_sign(report: Report, says: str, caplog: pytest.LogCaptureFixture) -> None:
    TwoProducers("stage reorder, partition 3").saw([report])
    assert len(told(caplog)) == bool(says)
    assert all(says in line for line in told(caplog))


def test_it_is_told_at_once_and_then_once_a_minute_with_its_count(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    two = TwoProducers("here", clock)
    for _ in range(10):
        two.saw([late(OLD_EPOCH), late(OLD_EPOCH)])
    clock.now_s = TOLD_EVERY_S
    two.saw([])
    clock.now_s = 2 * TOLD_EVERY_S
    two.saw([])
    assert [line.split(" of an old")[0] for line in told(caplog)] == [
        "here: 2 event(s)",
        "here: 18 event(s)",
    ]


def test_two_live_epochs_of_a_source_are_seen_in_the_metrics_and_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Two hosts send in turn, each with an epoch of its own; the higher one counts."""
    registry = CollectorRegistry()
    source = TopicPartition("raw", 0)
    metrics = PartitionMetrics(Metrics(registry), "reorder+merge", source, ["default"])
    stage = Stage(parse(ONE_STREAM), operators())
    with caplog.at_level(logging.WARNING):
        for seq in range(20):
            for epoch in (41, 40):
                metrics.said(stage.on_batch([event(epoch, seq, (seq + 1) * MS)], (seq + 1) * MS))
    labels = {"stage": "reorder+merge", "stream": "default", "partition": "0"}
    late_ = registry.get_sample_value(
        "inorder_records_late_total", {**labels, "reason": "old_epoch"}
    )
    assert late_ == 20
    assert ["two producers" in line for line in told(caplog)] == [True]
