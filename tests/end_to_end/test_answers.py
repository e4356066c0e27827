"""End to end: a window, a pattern and a detector with `answer: final`, their workers killed in
mid-flow. The last results equal those of the ordered topic's events.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Set
from typing import Any

import pytest

from benchmarks.workloads import crowd
from benchmarks.workloads.rows import Row
from tests.end_to_end import matches
from tests.end_to_end.matches import in_one_go
from tests.end_to_end.oracle import assert_sound
from tests.end_to_end.setting import Settles
from tests.end_to_end.standing import StandingResults
from tests.end_to_end.test_detectors import FUNCTIONS, content, expected_of
from tests.end_to_end.trouble import Trouble, play
from tests.end_to_end.windows import StandingWindows, windows_of
from tests.end_to_end.worker import at_work

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

EVENTS = 7_000
SLOWER = 5
SOURCES = f"[{', '.join(f's{number:02}' for number in range(20))}]"
FOLLOWS = """PATTERN SEQ(_ a, _+ b[], _ c)
    WHERE a.source = 's01' AND b.source = 's02' AND c.source = 's03'
    WITHIN 150 ms USING skip_till_any MATCHES MAXIMAL"""
QUERIES = f"""queries:
  tumbling: {{window: tumbling 500ms, aggregate: {{n: count()}}, answer: final}}
  sliding: {{window: sliding 500ms every 250ms, aggregate: {{n: count()}}}}
  rise: {{pattern: {json.dumps(FOLLOWS)}, answer: final}}
  follows: {{detector: follows, answer: final}}
"""


class Standing(StandingResults):
    """What matches and detectors tell, on one topic, with how often it does."""

    kind = "match"

    def poll(self) -> Set[tuple[Any, int]]:
        self.read()
        return Counter(map(told, self.lines.values())).items()


def told(line: dict[str, Any]) -> Any:
    if line["query"] == "follows":
        return (line["query"], *content(line["values"]))
    return matches.content_of(line)


def test_results_are_exact_under_kills(settles: Settles) -> None:
    setting = settles(
        stages="reorder, merge+window+pattern+detector",
        partitions=2,
        stream="merge: {new_source_allowance: 0s, idle_after: 500ms, quiet_after: 5s,"
        f" expected_sources: {SOURCES}}}",
        more=f"correct_for: 5s\n{QUERIES}",
        functions=FUNCTIONS,
    )
    script = [(0.3, Trouble.kill_stages), (0.7, Trouble.kill_worker)]
    play(setting, _rows(), 1.0, script)
    assert_sound(setting)
    expected, found = in_one_go(setting), expected_of(setting, ["follows"])
    assert len(expected) > 100
    assert len(found) > 100
    with (
        at_work(setting, name="last"),
        Standing(setting) as standing,
        StandingWindows(setting) as standing_windows,
    ):
        standing.await_same(standing.poll, Counter([*expected, *found]).items())
        standing_windows.await_expected(windows_of(setting))
    print(f"{len(expected)} matches, {len(found)} found, {standing.corrections} corrections")


def _rows() -> list[Row]:
    """As many, in more time: more windows."""
    rows = crowd(EVENTS, seed=5).rows
    first_ns = rows[0].ts_ns
    return [
        row._replace(
            ts_ns=first_ns + (row.ts_ns - first_ns) * SLOWER,
            arrival_ns=first_ns + (row.arrival_ns - first_ns) * SLOWER,
        )
        for row in rows
    ]
