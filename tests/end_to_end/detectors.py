"""Oracle of detectors: the findings expected from the ordered topic, and those reported.

Findings and matches share a topic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from typing import Any

from agents.user_functions import load_functions
from tests.end_to_end import matches
from tests.end_to_end.records import events_of
from tests.end_to_end.setting import Setting
from tests.end_to_end.standing import StandingResults
from tests.topology.queries.detector.chain_oracle import Level, chain_truth
from topology.queries.detector.item import Seen

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
QUERIES = """\
  follows: {detector: follows, answer: speculate}
  runs: {detector: runs, answer: speculate}
  last: {detector: last, reads: [runs, follows], answer: speculate}
  surely_follows: {detector: follows, answer: final}
"""


class StandingFindings(StandingResults):
    """Current results of matches and detectors, with their counts."""

    kind = "match"

    def poll(self) -> Set[tuple[Any, int]]:
        self.read()
        return Counter(map(_told, self.lines.values())).items()

    def await_expected(self, expected: Iterable[Any]) -> None:
        self.await_same(self.poll, Counter(expected).items())


def _told(line: dict[str, Any]) -> Any:
    if f"  {line['query']}: " in QUERIES:
        return (line["query"], *_content(line["values"]))
    return matches.content_of(line)


def _content(values: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(str(each) for each in values.values())


def findings_of(setting: Setting) -> list[Any]:
    """Return the findings of the detectors in `QUERIES` for all events in order, or none without
    functions.
    """
    if not setting.topology.functions:
        return []
    detectors = load_functions(setting.folder / "functions.py").detectors
    seen = [Seen("", record.number("refTs"), None, *record.name) for record in events_of(setting)]
    levels = [
        Level("follows", detectors["follows"], None),
        Level("surely_follows", detectors["follows"], None),
        Level("runs", detectors["runs"], None),
        Level("last", detectors["last"], None, ("runs", "follows"), stream=False, level=2),
    ]
    return [
        (name, *_content(values))
        for name, told in chain_truth(levels, seen).items()
        for values in told.values()
    ]
