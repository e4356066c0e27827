"""Oracle of windows: those expected from the ordered topic, and those reported."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from tests.end_to_end.records import read_all
from tests.end_to_end.setting import Setting
from tests.end_to_end.standing import StandingResults
from topology.config import WindowQuery

SIZE_NS = 500_000_000
STEP_NS = 250_000_000

QUERIES = """\
  tumbling: {window: tumbling 500ms, aggregate: {n: count()}, finals: true}
  sliding: {window: sliding 500ms every 250ms, aggregate: {n: count()}}
"""
PROMISED = """\
  tumbling: {window: tumbling 500ms, aggregate: {n: count()}, answer: speculate,
             quality: {max_wait: 1s}}
  sliding: {window: sliding 500ms every 250ms, aggregate: {n: count()}, answer: speculate,
            quality: {accuracy: 90%}}
"""

Counts = dict[tuple[str, int], int]


class Expected(NamedTuple):
    """Event counts of all windows, and the windows that must have been reported."""

    counts: Counts
    passed: set[tuple[str, int]]


def windows_of(setting: Setting) -> Expected:
    """Return the windows expected from the ordered topic.

    An event does not count if its window was final when it came, by the watermarks before it.
    Windows that the topic has not yet passed can be reported or not, since a quiet stream passes
    them with time. With a quality target none is open after `max_wait`.
    """
    has_target = any(query.quality for query in setting.topology.queries_of(WindowQuery).values())
    tumbling = {"tumbling", "surely"} & setting.topology.queries.keys()
    found: Counter[tuple[str, int]] = Counter()
    final_ns = passed_ns = 0
    for record in read_all(setting.bootstrap, setting.ordered):
        ref_ns = record.number("refTs")
        if record.is_control:
            decided_ns = setting.decided_ns("default", ref_ns, record.number("complete"))
            final_ns = max(final_ns, decided_ns)
            passed_ns = max(passed_ns, ref_ns)
            continue
        if record.header("late") is None:
            passed_ns = max(passed_ns, ref_ns)
        starts = {(name, ref_ns - ref_ns % SIZE_NS) for name in tumbling}
        first = ref_ns - ref_ns % STEP_NS
        starts |= {("sliding", first), ("sliding", first - STEP_NS)}
        found.update(window for window in starts if window[1] + SIZE_NS > final_ns)
    passed = {window for window in found if window[1] + SIZE_NS <= passed_ns or has_target}
    return Expected(found, passed)


class StandingWindows(StandingResults):
    """Current windows by start."""

    kind = "window"

    def check(self, line: dict[str, Any]) -> None:
        assert line["low"]["n"] <= line["values"]["n"] <= line["high"]["n"]

    def poll(self) -> Counts:
        self.read()
        return {(line["query"], line["start"]): line["values"]["n"] for line in self.lines.values()}

    def await_expected(self, expected: Expected) -> None:
        counts, passed = expected.counts, expected.passed
        must = {(window, counts[window]) for window in passed}
        self.await_same(lambda: self.poll().items(), must, counts.items())
