"""End to end: queries that choose how they answer, their workers killed in mid-flow. Each changes
its way, and what stands at last equals what the events of the ordered topic come to."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.workloads import crowd
from benchmarks.workloads.rows import Row
from tests.end_to_end import matches
from tests.end_to_end.matches import in_one_go
from tests.end_to_end.oracle import check
from tests.end_to_end.setting import Setting, settle
from tests.end_to_end.standing import StandingResults
from tests.end_to_end.test_detectors import FUNCTIONS, content, expected_of
from tests.end_to_end.trouble import Trouble, play, stop_all
from tests.end_to_end.windows import StandingWindows, windows_of
from tests.end_to_end.worker import Worker, running
from tests.services import SharedKafka

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(240)]

EVENTS = 8_000
SLOWER = 5
SOURCES = f"[{', '.join(f's{number:02}' for number in range(20))}]"
FOLLOWS = """PATTERN SEQ(_ a, _+ b[], _ c)
    WHERE a.source = 's01' AND b.source = 's02' AND c.source = 's03'
    WITHIN 150 ms USING skip_till_any MATCHES MAXIMAL"""
AUTO = "answer: auto, speculate: {withdrawn: 1%}"
QUERIES = f"""queries:
  tumbling: {{window: tumbling 500ms, aggregate: {{n: count()}}, {AUTO}}}
  sliding: {{window: sliding 500ms every 250ms, aggregate: {{n: count()}}, {AUTO}}}
  rise: {{pattern: {json.dumps(FOLLOWS)}, {AUTO}}}
  follows: {{detector: follows, {AUTO}}}
"""
"""One changed of a hundred is more than is allowed, and of the first ones nobody knows that none
will be: so each leaves the way in which it begins."""
CHOOSING = {"tumbling", "sliding", "rise", "follows"}
TIMEOUT_S = 60.0


class Standing(StandingResults):
    """What matches and detectors tell, on one topic."""

    kind = "match"

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting, setting.topology.topics.matches)

    @property
    def found(self) -> list[Any]:
        return sorted(
            (line["query"], *content(line["values"]))
            for line in self.lines.values()
            if line["query"] == "follows"
        )

    @property
    def matched(self) -> set[matches.Content]:
        return {matches.content_of(line) for line in self.lines.values() if line["query"] == "rise"}


def test_whenever_they_change_the_same_stands_under_kills(
    kafka: SharedKafka, tmp_path: Path
) -> None:
    setting = settle(
        kafka.bootstrap,
        tmp_path,
        stages="reorder, merge, window+pattern, detector",
        partitions=2,
        stream=f"merge: {{newcomers: 0s, idle_after: 500ms, expected_sources: {SOURCES}}}",
        more=f"correct_for: 5s\n{QUERIES}",
        functions=FUNCTIONS,
    )
    changed: set[str] = set()
    script = [
        (0.3, _look(changed)),
        (0.3, Trouble.kill_stages),
        (0.7, _look(changed)),
        (0.7, Trouble.kill_worker),
        (0.9, _look(changed)),
        (1.0, _await_changes(changed)),
    ]
    play(setting, tmp_path, _rows(), 1.0, script)
    verdict = check(setting)
    assert not verdict.faults, verdict
    expected, found = in_one_go(setting), expected_of(setting, ["follows"])
    assert len(expected) > 100
    assert len(found) > 100
    worker = Worker("last", setting.path, setting.bootstrap, tmp_path)
    standing, standing_windows = Standing(setting), StandingWindows(setting)
    with running(worker):
        worker.wait_ready()
        deadline_s = time.monotonic() + TIMEOUT_S
        while (standing.matched, standing.found) != (expected, found):
            standing.read()
            assert time.monotonic() < deadline_s, (
                f"{len(standing.matched)} matches of {len(expected)},"
                f" {len(standing.found)} found of {len(found)}"
            )
            time.sleep(0.1)
        standing_windows.await_expected(windows_of(setting))
        stop_all([worker])
    print(f"{len(expected)} matches, {len(found)} found, {standing.corrections} corrections")
    standing.close()
    standing_windows.close()


def _rows() -> list[Row]:
    """As many, in more time: more windows, and more spans to choose in."""
    rows = crowd(EVENTS, seed=5).rows
    first_ns = rows[0].ts_ns
    return [
        row._replace(
            ts_ns=first_ns + (row.ts_ns - first_ns) * SLOWER,
            arrival_ns=first_ns + (row.arrival_ns - first_ns) * SLOWER,
        )
        for row in rows
    ]


def _look(changed: set[str]) -> Callable[[Trouble], None]:
    """Which queries have changed their way."""

    def look(trouble: Trouble) -> None:
        for worker in trouble.workers:
            for family in worker.families() if worker.http else ():
                changed.update(
                    sample.labels["query"]
                    for sample in family.samples
                    if sample.name == "inorder_answer_changes_total" and sample.value
                )

    return look


def _await_changes(changed: set[str]) -> Callable[[Trouble], None]:
    """Until all have."""
    look = _look(changed)

    def wait(trouble: Trouble) -> None:
        deadline_s = time.monotonic() + TIMEOUT_S
        while changed != CHOOSING:
            assert time.monotonic() < deadline_s, f"{CHOOSING - changed} have not"
            time.sleep(0.2)
            look(trouble)

    return wait
