"""Oracle of joins: the rows expected from the ordered topic, and those reported."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import defaultdict
from typing import Final, NamedTuple

from benchmarks.workloads.rows import Row
from tests.end_to_end.records import read_all
from tests.end_to_end.setting import Setting
from tests.end_to_end.standing import StandingResults
from topology.answer.settings import WithTarget

FIRST: Final = "default"
OTHER: Final = "other"
KEYS: Final = 40
REACH_NS: Final = 20_000_000
SIZE_NS: Final = 50_000_000

QUERIES = """\
queries:
  near:
    join: interval 20ms
    sides: {a: {stream: default, key: payload.k}, b: {stream: other, key: payload.k}}
    outer: left
    values: {seq: a.payload.n, other: b.payload.n}
  alone:
    join: tumbling 50ms
    sides: {a: {stream: default, key: payload.k}, b: {stream: other, key: payload.k}}
    outer: full
"""

Name = tuple[str, str, int, int]
"""Side, source, epoch and number of an event."""
Content = tuple[str, int, tuple[Name, ...]]
"""Query, start of the window, and the events of a row."""


def stream_of(row: Row) -> str:
    return FIRST if int(row.source[1:]) % 2 else OTHER


def value_of(row: Row) -> bytes:
    return b'{"k": %d, "n": %d}' % ((row.seq + int(row.source[1:])) % KEYS, row.seq)


class Found(NamedTuple):
    ref_ns: int
    name: Name


class Expected(NamedTuple):
    """Rows that must be reported, and rows that can be, since the topic has not yet passed their
    time.
    """

    must: set[Content]
    may: set[Content]


def joins_of(setting: Setting) -> Expected:
    """Return the rows expected from the ordered topic.

    An event counts if its time was not final before the instant in which it came; an announcement
    within an instant applies after that instant. Complete times are also final when the watermark
    has passed them by `new_source_allowance`. With a quality target nothing is open after
    `max_wait`.
    """
    has_target = any(query.quality for query in setting.topology.queries_of(WithTarget).values())
    final_ns: dict[str, int] = defaultdict(int)
    announced: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    passed_ns: dict[str, int] = defaultdict(int)
    events: dict[tuple[str, int], list[Found]] = defaultdict(list)
    for record in read_all(setting.bootstrap, setting.ordered):
        stream = record.header("streamId") or FIRST
        ref_ns, at_ns = record.number("refTs"), record.number("at")
        if at_ns > announced[stream][0]:
            final_ns[stream] = announced[stream][1]
        if record.is_control:
            decided_ns = setting.decided_ns(stream, ref_ns, record.number("complete"))
            announced[stream] = at_ns, max(announced[stream][1], decided_ns)
            passed_ns[stream] = max(passed_ns[stream], ref_ns)
            continue
        if record.header("late") is None:
            passed_ns[stream] = max(passed_ns[stream], ref_ns)
        if ref_ns >= final_ns[stream]:
            side = "a" if stream == FIRST else "b"
            key = json.loads(record.value or b"")["k"]
            events[side, key].append(Found(ref_ns, (side, *record.name)))
    if has_target:
        passed_ns = defaultdict(lambda: 1 << 63)
    expected = Expected(set(), set())
    for key in range(KEYS):
        firsts, others = sorted(events["a", key]), sorted(events["b", key])
        _near(firsts, others, passed_ns[OTHER], expected)
        _in_windows(firsts, others, passed_ns, expected)
    return expected


def _near(firsts: list[Found], others: list[Found], passed_ns: int, expected: Expected) -> None:
    times = [other.ref_ns for other in others]
    for first in firsts:
        low = bisect_left(times, first.ref_ns - REACH_NS)
        high = bisect_right(times, first.ref_ns + REACH_NS)
        for other in others[low:high]:
            expected.must.add(("near", 0, (first.name, other.name)))
        if low == high:
            is_passed = passed_ns > first.ref_ns + REACH_NS
            (expected.must if is_passed else expected.may).add(("near", 0, (first.name,)))


def _in_windows(
    firsts: list[Found], others: list[Found], passed_ns: dict[str, int], expected: Expected
) -> None:
    windows: dict[int, tuple[list[Name], list[Name]]] = defaultdict(lambda: ([], []))
    for side, found in enumerate((firsts, others)):
        for event in found:
            windows[event.ref_ns - event.ref_ns % SIZE_NS][side].append(event.name)
    for start_ns, (here, there) in windows.items():
        rows = [(a, b) for a in here for b in there]
        expected.must.update(("alone", start_ns, row) for row in rows)
        if not rows:
            waits_for = OTHER if here else FIRST
            is_passed = passed_ns[waits_for] >= start_ns + SIZE_NS
            kind = expected.must if is_passed else expected.may
            kind.update(("alone", start_ns, (name,)) for name in here + there)


class StandingRows(StandingResults):
    """Current rows by content."""

    kind = "join"

    def poll(self) -> set[Content]:
        self.read()
        return {
            (
                line["query"],
                line["start"] if line["query"] == "alone" else 0,
                tuple((e["alias"], e["source"], e["epoch"], e["seq"]) for e in line["events"]),
            )
            for line in self.lines.values()
        }

    def await_expected(self, expected: Expected) -> None:
        self.await_same(self.poll, expected.must, expected.may)
