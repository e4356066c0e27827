"""End to end: windows and matches through Kafka, workers killed in mid-flow, equal those of the
events on the ordered topic. One cut of the stages is met here, the others in `make chaos`.
"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from benchmarks.workloads import crowd
from tests.end_to_end import windows
from tests.end_to_end.matches import Content, Standing, in_one_go
from tests.end_to_end.oracle import assert_sound
from tests.end_to_end.records import contract, send
from tests.end_to_end.setting import Settles
from tests.end_to_end.trouble import Trouble, play
from tests.end_to_end.windows import StandingWindows, windows_of
from tests.end_to_end.worker import at_work
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


def chaotic(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.chaos)


ALL_FUSED = "reorder+merge+window+pattern"


@pytest.mark.parametrize(
    ("stages", "partitions", "answer", "asked"),
    [
        ("reorder, merge, window+pattern", 2, "early", windows.QUERIES),
        chaotic(ALL_FUSED, 1, "early", windows.QUERIES),
        chaotic("reorder+merge+pattern, window", 1, "speculate", windows.QUERIES),
        chaotic("reorder, merge+window, pattern", 2, "early", windows.PROMISED),
        chaotic(ALL_FUSED, 1, "early", windows.PROMISED),
    ],
    ids=["split", "fused", "patterns before the merge", "split, promised", "fused, promised"],
)
def test_results_under_kills(
    settles: Settles, stages: str, partitions: int, answer: str, asked: str
) -> None:
    more = f"{QUERIES.replace('{pattern:', f'{{answer: {answer}, pattern:')}{asked}"
    setting = settles(
        stages=stages,
        partitions=partitions,
        stream="merge: {quiet_after: 5s}",  # the last results wait for it
        more=more,
    )
    script = [(0.3, Trouble.kill_stages), (0.7, Trouble.kill_worker)]
    play(setting, crowd(EVENTS, seed=5).rows, SPEED, script)
    assert_sound(setting)
    expected, expected_windows = in_one_go(setting), windows_of(setting)
    assert len(expected) > 1_000
    with (
        at_work(setting, name="last"),
        Standing(setting) as standing,
        StandingWindows(setting) as standing_windows,
    ):
        standing.await_expected(expected)
        standing_windows.await_expected(expected_windows)
    print(f"{len(expected)} matches, {standing.corrections} corrections;")
    print(f"{len(standing_windows.lines)} windows, {standing_windows.corrections} updates")


ABSENT_S, QUIET_AFTER_S = 3, 2
GONE = f"PATTERN SEQ(_ a, !_ n) WHERE n.source = a.source WITHIN {ABSENT_S} s EMIT EAGER"


@pytest.mark.parametrize(
    ("stages", "partitions"),
    [
        ("reorder+merge+pattern", 1),
        chaotic("reorder, merge, pattern", 2),
    ],
    ids=["fused", "split"],
)
def test_an_absence_is_told_though_nobody_sends_anything(
    settles: Settles, stages: str, partitions: int
) -> None:
    """And none for what was sent while no worker read it."""
    setting = settles(
        stages=stages,
        partitions=partitions,
        stream=f"merge: {{quiet_after: {QUIET_AFTER_S}s}}",
        more=f"queries: {{gone: {{pattern: {json.dumps(GONE)}}}}}\n",
    )
    sources = "a", "b", "c"
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

    with Standing(setting) as standing:
        with at_work(setting, name="one"):
            all_send()
            standing.await_expected(gone())
        while len(sent_ns) * PAUSE_S < 2 * ABSENT_S + QUIET_AFTER_S:
            all_send()
            time.sleep(PAUSE_S)
        with at_work(setting, name="two"):
            standing.await_expected(gone())
    assert standing.corrections == 0
    for line in standing.lines.values():
        is_last = line["events"][0]["seq"] in (0, len(sent_ns) - 1)
        assert line["at"] - line["start"] > (ABSENT_S + QUIET_AFTER_S * is_last) * S
        assert not line["final"]
