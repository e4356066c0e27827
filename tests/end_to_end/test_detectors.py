"""End to end: what a detector tells through Kafka, ahead of the merge, its workers killed in
mid-flow, stands at last as an in-order run over the ordered topic would have it; and so does what
a detector tells that reads others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Set
from typing import Any

import pytest

from agents.user_functions import bring
from benchmarks.workloads import crowd
from tests.end_to_end.oracle import assert_sound
from tests.end_to_end.records import events_of
from tests.end_to_end.setting import Setting, Settles
from tests.end_to_end.standing import StandingResults
from tests.end_to_end.trouble import Trouble, play
from tests.end_to_end.worker import at_work
from tests.topology.detector.chain_oracle import Level, chain_truth
from topology.detector.item import Seen

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

EVENTS = 4_000
SPEED = 0.2

FUNCTIONS = '''
from inorder.engine import Detector, Found


def step(state, event):
    """Who follows on whom, where it is told; and how often that was so."""
    before, count = state
    count += 1
    if before > event.source and event.seq % 3 == 0:
        return (event.source, count % 5), {"follows": before, "count": count, "seq": event.seq}
    return (event.source, count), None


class Runs:
    """Several of like sources in a row; told again as the run grows."""

    def __init__(self):
        self.source, self.length, self.since = -1, 0, 0

    def on_event(self, event):
        kind = int(event.source[1:]) // 5
        if kind != self.source:
            self.source, self.length, self.since = kind, 0, event.time_ns
        self.length += 1
        if self.length >= 2:
            yield Found({"source": self.source, "length": self.length}, id=str(self.since))


def last(state, event):
    """What was told of the runs, each time that one follows on another."""
    if event.type == "runs":
        return event.payload["length"], None
    return state, {"of": event.payload["follows"], "seq": event.payload["seq"], "length": state}


detectors = {"follows": Detector(step, ("", 0)), "runs": Runs, "last": Detector(last, 0)}
'''
QUERIES = """queries:
  follows: {detector: follows, answer: speculate}
  runs: {detector: runs, answer: speculate}
  last: {detector: last, reads: [runs, follows], answer: speculate}
"""


class Standing(StandingResults):
    """What stands, with how often it does."""

    kind = "match"

    def poll(self) -> Set[tuple[Any, int]]:
        self.read()
        told = ((line["query"], *content(line["values"])) for line in self.lines.values())
        return Counter(told).items()


def content(values: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(str(each) for each in values.values())


def expected_of(
    setting: Setting, asked: Collection[str] = ("follows", "runs", "last")
) -> list[Any]:
    detectors = bring(setting.path.parent / "functions.py").detectors
    seen = [Seen("", record.number("refTs"), None, *record.name) for record in events_of(setting)]
    levels = [
        Level("follows", detectors["follows"], None),
        Level("runs", detectors["runs"], None),
        Level("last", detectors["last"], None, ("runs", "follows"), stream=False, level=2),
    ]
    return sorted(
        (name, *content(values))
        for name, told in chain_truth(levels, seen).items()
        for values in told.values()
        if name in asked
    )


def test_what_is_told_ahead_stands_as_in_order_under_kills(settles: Settles) -> None:
    setting = settles(
        stages="reorder, merge+detector",
        partitions=2,
        more=QUERIES,
        functions=FUNCTIONS,
    )
    script = [(0.3, Trouble.kill_stages), (0.7, Trouble.kill_worker)]
    play(setting, crowd(EVENTS, seed=5).rows, SPEED, script)
    assert_sound(setting)
    expected = expected_of(setting)
    assert len(expected) > 100
    with at_work(setting, name="last"), Standing(setting) as standing:
        standing.await_same(standing.poll, Counter(expected).items())
    print(f"{len(expected)} results, {standing.corrections} corrections, {standing.retracts} taken")
