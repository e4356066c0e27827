"""End to end: windows and matches through Kafka, workers killed in mid-flow, equal those of the
events on the ordered topic. One cut of the stages is met here, the others in `make chaos`.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from benchmarks.workloads import crowd
from tests.end_to_end import windows
from tests.end_to_end.matches import Content, Standing, in_one_go
from tests.end_to_end.oracle import check
from tests.end_to_end.records import contract, send
from tests.end_to_end.setting import settle
from tests.end_to_end.trouble import Trouble, play, stop_all
from tests.end_to_end.windows import StandingWindows, windows_of
from tests.end_to_end.worker import Worker, running
from tests.services import SharedKafka
from topology.model.operator import NEVER

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

EVENTS = 8_000
SPEED = 0.2
PAUSE_S = 0.5
S = 10**9

RISE = """PATTERN SEQ(_ a, _+ b[], _ c)
    WHERE a.source = 's01' AND b.source = 's02' AND c.source = 's03'
    WITHIN 30 ms USING skip_till_any MATCHES MAXIMAL"""
QUIET = """PATTERN SEQ(_ a, !_ n, _ b)
    WHERE a.source = 's04' AND n.source = 's05' AND b.source = 's06'
    WITHIN 50 ms"""
ALONE = """PATTERN SEQ(_ a, !_ n)
    WHERE a.source = 's07' AND n.source = 's08'
    WITHIN 5 ms"""

QUERIES = f"""queries:
  rise: {{pattern: {json.dumps(RISE)}}}
  quiet: {{pattern: {json.dumps(QUIET)}}}
  alone: {{pattern: {json.dumps(ALONE)}, finals: true}}
"""


@pytest.mark.parametrize(
    ("stages", "partitions", "answer", "asked"),
    [
        ("reorder, merge, window+pattern", 2, "early", windows.QUERIES),
        pytest.param(
            "reorder+merge+window+pattern", 1, "early", windows.QUERIES, marks=pytest.mark.chaos
        ),
        pytest.param(
            "reorder+merge+pattern, window",
            1,
            "speculate",
            windows.QUERIES,
            marks=pytest.mark.chaos,
        ),
        pytest.param(
            "reorder, merge+window, pattern",
            2,
            "early",
            windows.PROMISED,
            marks=pytest.mark.chaos,
        ),
        pytest.param(
            "reorder+merge+window+pattern", 1, "early", windows.PROMISED, marks=pytest.mark.chaos
        ),
    ],
    ids=["split", "fused", "patterns before the merge", "split, promised", "fused, promised"],
)
def test_results_under_kills(
    kafka: SharedKafka, tmp_path: Path, stages: str, partitions: int, answer: str, asked: str
) -> None:
    more = f"{QUERIES.replace('{pattern:', f'{{answer: {answer}, pattern:')}{asked}"
    setting = settle(
        kafka.bootstrap,
        tmp_path,
        stages=stages,
        partitions=partitions,
        stream="merge: {quiet_after: 5s}",  # the last results wait for it
        more=more,
    )
    script = [(0.3, Trouble.kill_stages), (0.7, Trouble.kill_worker)]
    play(setting, tmp_path, crowd(EVENTS, seed=5).rows, SPEED, script)
    verdict = check(setting)
    assert not verdict.faults, verdict
    expected, expected_windows = in_one_go(setting), windows_of(setting)
    assert len(expected) > 1_000
    worker = Worker("last", setting.path, setting.bootstrap, tmp_path)
    standing, standing_windows = Standing(setting), StandingWindows(setting)
    with running(worker):
        worker.wait_ready()
        standing.await_expected(expected)
        standing_windows.await_expected(expected_windows)
        stop_all([worker])
    print(f"{len(expected)} matches, {standing.corrections} corrections;")
    print(f"{len(standing_windows.lines)} windows, {standing_windows.corrections} updates")
    standing.close()
    standing_windows.close()


GONE = "PATTERN SEQ(_ a, !_ n) WHERE n.source = a.source WITHIN 5 s EMIT EAGER"
ABSENT_S, QUIET_AFTER_S = 5, 3


@pytest.mark.parametrize(
    ("stages", "partitions"),
    [
        ("reorder+merge+pattern", 1),
        pytest.param("reorder, merge, pattern", 2, marks=pytest.mark.chaos),
    ],
    ids=["fused", "split"],
)
def test_an_absence_is_told_though_nobody_sends_anything(
    kafka: SharedKafka, tmp_path: Path, stages: str, partitions: int
) -> None:
    """And none for what was sent while no worker read it."""
    setting = settle(
        kafka.bootstrap,
        tmp_path,
        stages=stages,
        partitions=partitions,
        stream=f"merge: {{quiet_after: {QUIET_AFTER_S}s}}",
        more=f"queries: {{gone: {{pattern: {json.dumps(GONE)}}}}}\n",
    )
    standing, sources = Standing(setting), ("a", "b", "c")
    sent_ns: list[int] = []

    def all_send() -> None:
        seq, now_ns = len(sent_ns), time.time_ns()
        sent_ns.append(now_ns)
        send(setting, [(each, b"{}", contract(each, seq, now_ns)) for each in sources])

    def gone() -> set[Content]:
        """Those that were the last for so long."""
        until_ns = [*sent_ns[1:], NEVER]
        seqs = [n for n, ns in enumerate(sent_ns) if until_ns[n] - ns > ABSENT_S * S]
        return {("gone", (("a", each, 0, seq),)) for each in sources for seq in seqs}

    worker, again = (Worker(n, setting.path, setting.bootstrap, tmp_path) for n in ("one", "two"))
    with running(worker, may_start=[again]):
        worker.wait_ready()
        all_send()
        standing.await_expected(gone())
        stop_all([worker])
        while len(sent_ns) * PAUSE_S < 2 * ABSENT_S + QUIET_AFTER_S:
            all_send()
            time.sleep(PAUSE_S)
        again.start()
        again.wait_ready()
        standing.await_expected(gone())
        stop_all([again])
    assert standing.corrections == 0
    for line in standing.lines.values():
        is_last = line["events"][0]["seq"] in (0, len(sent_ns) - 1)
        assert line["at"] - line["start"] > (ABSENT_S + QUIET_AFTER_S * is_last) * S
        assert not line["final"]
    standing.close()
