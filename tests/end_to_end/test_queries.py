"""End to end: windows, matches and findings of detectors, through Kafka, with workers killed.

In the end the current results, whichever answer a query asks for, are those of an in-order run over
the events in the ordered topic. One division into stages is tested with all queries, the others in
`make chaos`.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import Any

import pytest

from benchmarks.workloads import crowd
from tests.end_to_end import detectors, windows
from tests.end_to_end.detectors import StandingFindings, findings_of
from tests.end_to_end.matches import Content, absences, in_one_go
from tests.end_to_end.oracle import assert_sound
from tests.end_to_end.records import contract, send
from tests.end_to_end.setting import Setting, Settles
from tests.end_to_end.trouble import Trouble, play
from tests.end_to_end.windows import StandingWindows, windows_of
from tests.end_to_end.worker import at_work
from topology.base.operator import NEVER
from topology.config import DetectorQuery, PatternQuery

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

EVENTS = 8_000
SPEED = 0.2
PAUSE_S = 0.5
S = 10**9

RISE = """PATTERN SEQ(_ a, _+ b[], _ c)
    WHERE a.source = 's01' AND b.source = 's02' AND c.source = 's03'
    WITHIN 30 ms USING skip_till_any MATCHES MAXIMAL"""
# Only the first events of s07 are sent.
QUIET = """PATTERN SEQ(_ a, !_ n, _ b)
    WHERE a.source = 's06' AND n.source = 's07' AND b.source = 's08'
    WITHIN 50 ms"""
ALONE = """PATTERN SEQ(_ a, !_ n)
    WHERE a.source = 's06' AND n.source = 's07'
    WITHIN 5 ms"""

EARLY = f"""correct_for: 5s
queries:
  rise: {{pattern: {json.dumps(RISE)}}}
  quiet: {{pattern: {json.dumps(QUIET)}}}
  alone: {{pattern: {json.dumps(ALONE)}, finals: true}}
"""
FINAL = f"""\
  surely_rises: {{pattern: {json.dumps(RISE)}, answer: final}}
  surely: {{window: tumbling 500ms, aggregate: {{n: count()}}, answer: final}}
"""
SOURCES = f"[{', '.join(f's{number:02}' for number in range(20))}]"
FINAL_SOON = (
    "merge: {new_source_allowance: 0s, idle_after: 500ms, quiet_after: 5s,"
    f" expected_sources: {SOURCES}}}"
)
"""Without this setting and `correct_for` no final result, and no negation at the end, comes
while a test waits."""


def assert_results_under_kills(setting: Setting) -> list[Any]:
    """Assert that current results are those of an in-order run; return the detectors' findings."""
    script = [(0.3, Trouble.kill_stages), (0.7, Trouble.kill_worker)]
    play(setting, crowd(EVENTS, seed=5).rows, SPEED, script)
    assert_sound(setting)
    expected, found = in_one_go(setting), findings_of(setting)
    expected_windows = windows_of(setting)
    assert len(expected) > 1_000
    assert {name for name, _ in expected} == setting.topology.queries_of(PatternQuery).keys()
    with (
        at_work(setting, name="last"),
        StandingFindings(setting) as standing,
        StandingWindows(setting) as standing_windows,
    ):
        standing.await_expected([*expected, *found])
        standing_windows.await_expected(expected_windows)
    print(f"{len(expected)} matches, {len(found)} found, {standing.corrections} corrections;")
    print(f"{len(standing_windows.lines)} windows, {standing_windows.corrections} updates")
    return found


def test_all_results_survive_kills(settles: Settles) -> None:
    """Windows and matches are early and final. Detectors are speculative, read others, or are
    final.
    """
    setting = settles(
        stages="reorder, merge+detector, window+pattern",
        stream=FINAL_SOON,
        more=f"{EARLY}{windows.QUERIES}{FINAL}{detectors.QUERIES}",
        functions=detectors.FUNCTIONS,
    )
    found = Counter(query for query, *_ in assert_results_under_kills(setting))
    assert found.keys() == setting.topology.queries_of(DetectorQuery).keys()
    assert found["follows"] > 100


ALL_FUSED = "reorder+merge+window+pattern"


@pytest.mark.chaos
@pytest.mark.parametrize(
    ("stages", "partitions", "answer", "asked"),
    [
        ("reorder, merge, window+pattern", 2, "early", windows.QUERIES),
        (ALL_FUSED, 1, "early", windows.QUERIES + FINAL),
        ("reorder+merge+pattern, window", 1, "speculate", windows.QUERIES),
        ("reorder, merge+window, pattern", 2, "early", windows.PROMISED),
        (ALL_FUSED, 1, "early", windows.PROMISED),
    ],
    ids=["split", "fused", "patterns before the merge", "split, promised", "fused, promised"],
)
def test_other_layouts_survive_kills(
    settles: Settles, stages: str, partitions: int, answer: str, asked: str
) -> None:
    early = EARLY.replace("{pattern:", f"{{answer: {answer}, pattern:")
    setting = settles(
        stages=stages,
        partitions=partitions,
        stream=FINAL_SOON,
        more=early + asked,
    )
    assert_results_under_kills(setting)


ABSENT_S, QUIET_AFTER_S = 3, 2


@pytest.mark.parametrize(
    ("stages", "partitions"),
    [
        ("reorder+merge+pattern", 1),
        pytest.param("reorder, merge, pattern", 2, marks=pytest.mark.chaos),
    ],
    ids=["fused", "split"],
)
def test_absence_is_reported_in_silence(settles: Settles, stages: str, partitions: int) -> None:
    """Events sent while no worker read them cause no absence."""
    setting = settles(
        stages=stages,
        partitions=partitions,
        stream=f"merge: {{quiet_after: {QUIET_AFTER_S}s}}",
        more=absences(ABSENT_S),
    )
    sources = "a", "b", "c"
    sent_ns: list[int] = []

    def all_send() -> None:
        seq, now_ns = len(sent_ns), time.time_ns()
        sent_ns.append(now_ns)
        send(setting, [(each, b"{}", contract(each, seq, now_ns)) for each in sources])

    def gone() -> set[Content]:
        """Return the events after which their source was silent for longer than `ABSENT_S`."""
        until_ns = [*sent_ns[1:], NEVER]
        seqs = [n for n, ns in enumerate(sent_ns) if until_ns[n] - ns > ABSENT_S * S]
        return {("gone", (("a", each, 0, seq),)) for each in sources for seq in seqs}

    with StandingFindings(setting) as standing:
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
