"""End to end: windows through Kafka, workers killed in mid-flow, equal those of the topic."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks.workloads import crowd
from tests.end_to_end.judge import judge
from tests.end_to_end.records import Reader, read_all
from tests.end_to_end.setting import Setting, settle
from tests.end_to_end.trouble import Trouble, play, stop_all
from tests.end_to_end.worker import Worker, running
from tests.services import SharedKafka

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(240)]

EVENTS = 14_000
SPEED = 0.2
TIMEOUT_S = 60.0
SIZE_NS = 500_000_000
STEP_NS = 250_000_000

QUERIES = """queries:
  tumbling: {window: tumbling 500ms, aggregate: {n: count()}, finals: true}
  sliding: {window: sliding 500ms every 250ms, aggregate: {n: count()}}
"""

Counts = dict[tuple[str, int], int]


def expected(setting: Setting) -> Counts:
    """Events of the ordered topic by window; those whose window was final when they came, by the
    complete frontier told before them, do not count. Windows that the topic has not yet passed
    are open."""
    found: Counter[tuple[str, int]] = Counter()
    complete_ns = passed_ns = 0
    for record in read_all(setting.bootstrap, setting.ordered):
        ref_ns = record.number("refTs")
        if record.is_control:
            complete_ns = max(complete_ns, record.number("complete"))
            passed_ns = max(passed_ns, ref_ns)
            continue
        if record.header("late") is None:
            passed_ns = max(passed_ns, ref_ns)
        starts = {("tumbling", ref_ns - ref_ns % SIZE_NS)}
        first = ref_ns - ref_ns % STEP_NS
        starts |= {("sliding", first), ("sliding", first - STEP_NS)}
        found.update(window for window in starts if window[1] + SIZE_NS > complete_ns)
    return {window: n for window, n in found.items() if window[1] + SIZE_NS <= passed_ns}


class Standing:
    """The results topic as one who reads it to its end believes it."""

    def __init__(self, setting: Setting) -> None:
        self._reader = Reader(setting.bootstrap, setting.topology.topics.windows)
        self._taken = 0
        self._revisions: dict[str, int] = {}
        self.lines: dict[str, dict[str, Any]] = {}
        self.updates = 0

    def poll(self) -> Counts:
        self._reader.poll()
        for record in self._reader.records[self._taken :]:
            line = json.loads(record.value or b"")
            assert line["kind"] == "window"
            assert line["revision"] == self._revisions.get(line["id"], -1) + 1, line
            assert line["low"]["n"] <= line["values"]["n"] <= line["high"]["n"]
            self._revisions[line["id"]] = line["revision"]
            self.updates += line["op"] == "update"
            self.lines[line["id"]] = line
        self._taken = len(self._reader.records)
        return {(line["query"], line["start"]): line["values"]["n"] for line in self.lines.values()}

    def await_truth(self, truth: Counts) -> None:
        deadline_s = time.monotonic() + TIMEOUT_S
        while (found := self.poll()) != truth:
            wrong = {key for key in {*found, *truth} if found.get(key) != truth.get(key)}
            assert time.monotonic() < deadline_s, [
                (key, found.get(key), truth.get(key)) for key in sorted(wrong)[:5]
            ]

    def close(self) -> None:
        self._reader.close()


def test_windows_under_kills(kafka: SharedKafka, tmp_path: Path) -> None:
    stages = "reorder+merge, window"
    setting = settle(kafka.bootstrap, tmp_path, stages=stages, partitions=1, more=QUERIES)
    script = [(0.3, Trouble.kill_stages), (0.7, Trouble.kill_worker)]
    play(setting, tmp_path, crowd(EVENTS, seed=8).rows, SPEED, script)
    verdict = judge(setting)
    assert not verdict.faults, verdict
    worker = Worker("last", setting.path, setting.bootstrap, tmp_path)
    standing = Standing(setting)
    with running(worker):
        worker.wait_ready()
        standing.await_truth(expected(setting))
        stop_all([worker])
    print(f"{len(standing.lines)} windows, {standing.updates} updates")
    standing.close()
