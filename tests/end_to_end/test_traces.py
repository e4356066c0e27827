"""End to end: a worker of two stages sends the budget of each event, and it adds up."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cli.local.poll import wait_until
from tests.end_to_end.records import contract, read_all, send
from tests.end_to_end.setting import SPLIT, settle
from tests.end_to_end.worker import Worker, running
from tests.services import SharedKafka
from tests.sinks.otlp.collector import Received, collecting

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

MS = 1_000_000
EVENTS = 40
TIMEOUT_S = 30.0
BUDGET = ["transit", "unread", "reorder", "clock", "merge", "deliver"]


def test_the_budget_of_each_event_is_its_whole_latency(kafka: SharedKafka, tmp_path: Path) -> None:
    setting = settle(kafka.bootstrap, tmp_path, stages=SPLIT, partitions=1)
    with collecting() as collector:
        options = ("--otlp", collector.url, "--otlp-one-in", "1")
        worker = Worker("a", setting.path, setting.bootstrap, tmp_path, *options)

        def whole() -> list[list[Received]]:
            return [
                spans
                for spans in collector.traces().values()
                if {span.name for span in spans} >= {*BUDGET, "event"}
            ]

        with running(worker):
            worker.wait_ready()
            now_ns = time.time_ns()
            order = [0, 2, 1, *range(3, EVENTS)]
            for source in ("s", "t"):
                headers = [contract(source, seq, now_ns + seq * MS) for seq in order]
                send(setting, [(source, b"{}", each) for each in headers])
            wait_until(lambda: len(whole()) >= EVENTS, TIMEOUT_S, "whole traces")
            assert worker.metrics()["traces:reorder"] >= EVENTS
            assert worker.stop() == 0, worker.log
        ended_ns = time.time_ns()
    ordered = read_all(setting.bootstrap, setting.ordered)
    stamped = {record.name: record for record in ordered if not record.is_control}
    for spans in whole():
        (root,) = (span for span in spans if span.name == "event")
        parts = {span.name: span for span in spans if span.parent == root.span}
        assert sorted(parts) == sorted(BUDGET)
        assert sum(span.took_ns for span in parts.values()) == root.took_ns
        assert {span.resource["inorder.stage"] for span in spans} == {"reorder", "merge"}
        who = [root.attributes[f"inorder.{word}"] for word in ("source", "epoch", "seq")]
        record = stamped[who[0], who[1], who[2]]
        assert root.start_ns == record.number("refTs")
        assert parts["merge"].end_ns == max(record.number("at"), parts["merge"].start_ns)
        assert root.end_ns <= ended_ns
