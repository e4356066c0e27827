"""Examples for MERGE as tables, and the law that MERGE matches its oracle on seeded streams.

In the tables, times are in milliseconds; `max_wait` is 50, `idle_after` 200.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from benchmarks.published.merge import PacedMerge
from tests.kit.scenarios import Table, scenarios, table
from tests.seeds import seeds_of_today
from tests.topology.order.merge.against_oracle import MS, Settings, by_operator, by_oracle, items
from topology.base.event import BLOCKED, BYE, DATA, DEAD, HEARTBEAT, WATERMARK, Event
from topology.base.late import GAP
from topology.base.outcome import Duplicate, Late, Step
from topology.config import MergeConfig, ReorderConfig
from topology.order.merge.operator import Merge

SEEDS = seeds_of_today(43)


BOUNDS = ("late", "max_sources", "forget_after_ns", "max_held_bytes")


def operator(heartbeat: int = 0, made: type[Merge] = Merge, **settings: Any) -> Merge:
    reorder = ReorderConfig(**{key: settings.pop(key) for key in BOUNDS if key in settings})
    waits = {"max_wait": "50ms", "idle_after": "200ms", "quiet_after": "200ms"}
    spelled: dict[str, Any] = {
        "reorder": reorder,
        "correct_for_ns": 1_000 * MS,
        **waits,
        **settings,
    }
    return made("default", MergeConfig(heartbeat_ns=heartbeat * MS, **spelled))


def event(at: int, source: str, seq: int, ref: int, kind: str = "", late: str = "") -> Event:
    made = Event("default", source, 0, seq, ref * MS, at * MS, offset=seq, kind=kind)
    made.late = late
    return made


def rendered(step: Step) -> list[str]:
    lines = []
    for e in step.released:
        if e.kind == WATERMARK:
            lines.append(f"W {e.ref_time_ns // MS} C {e.complete_ns // MS} at {e.at_ns // MS}")
        else:
            late = f" (late {e.late})" if e.late else ""
            lines.append(f"{e.source}{e.seq} at {e.at_ns // MS}{late}")
    for report in step.reports:
        assert isinstance(report, Late | Duplicate)
        kind = "late" if isinstance(report, Late) else "duplicate"
        lines.append(f"{kind} {report.event.source}{report.event.seq}")
    return lines


def play(merge: Merge, rows: Table) -> None:
    """Play the rows (at, source, seq, ref, kind); one without a source calls `on_time`."""
    for number, (at, source, *rest, expected) in enumerate(rows):
        if source is None:
            step = merge.on_time(at * MS)
        else:
            step = merge.on_batch([event(at, source, *rest)], at * MS)
        assert rendered(step) == expected, f"line {number}"


SCENARIOS = scenarios("""
An expected source is idle by its own arrival once it has sent {max_wait: 1s, expected_sources: [b]}
# Not by the wait for those that have not sent, which would hold `a` until 1 000 + 50.
    0 a 0 0
    10 b 0 10
    100 a 1 100 -> a0 at 10
    209 -> b0 at 100
    210 -> a1 at 210
What is below the last released is late and its source catches up
    10 a 0 9
    70 a 1 69 -> a0 at 10
    71 b 0 5 -> a1 at 70
    72 a 2 71 -> b0 at 71 (late merge_new)
    73 b 1 6 -> a2 at 72  # b held nobody back
    74 b 2 73 -> b1 at 73 (late merge_behind)
    75 a 3 74
    76 -> b2 at 75  # in time again: a waits for b from now on
A copy of what was heard in sequence is dropped
    1 a 0 1
    2 a 1 1 -> a0 at 1
    3 a 1 1 -> a1 at 2, duplicate a1
    4 a 0 1 -> duplicate a0
The watermark rises with the slowest source {heartbeat: 10}
# The second time it says that the instant is over in which it was said first.
    1 b 0 1
    2 a 0 2 heartbeat -> b0 at 1
    3 b 1 3 heartbeat
    10 -> W 2 C 2 at 10
    30 -> W 2 C 2 at 20
    90
""")


@pytest.mark.parametrize(("settings", "rows"), SCENARIOS.values(), ids=SCENARIOS)
def test_scenario_matches_table(settings: dict[str, Any], rows: Table) -> None:
    play(operator(**settings), rows)


def test_returned_source_goes_idle_again() -> None:
    """Another source blocks all events meanwhile."""
    merge = operator(idle_after="10ms")
    for source in ("b", "c"):
        merge.on_batch([event(0, source, 0, 0)], 0)
    merge.on_batch([event(1, "c", 0, 0, BLOCKED)], 1 * MS)
    merge.on_batch([event(90, "a", 0, 89)], 90 * MS)
    assert rendered(merge.on_time(119 * MS)) == []
    merge.on_batch([event(120, "b", 1, 119)], 120 * MS)
    assert merge.figures()["idle"] == 1
    assert merge.next_deadline_ns() == 130 * MS
    merge.on_time(130 * MS)
    assert merge.figures()["idle"] == 2


@pytest.mark.parametrize("kind", [DATA, HEARTBEAT, BYE, DEAD])
def test_repeated_event_ends_block_again(kind: str) -> None:
    """After a restart, a stage with `at_least_once` repeats what it wrote, including BLOCKED."""
    merge = operator(heartbeat=0)
    written = [event(2, "a", 1, 0, BLOCKED), event(3, "a", 1, 2, kind)]
    merge.on_batch([event(1, "a", 0, 1), *written], 3 * MS)
    again = [event(4, "a", 1, 0, BLOCKED), event(5, "a", 1, 2, kind)]
    merge.on_batch(again, 5 * MS)
    assert merge.figures()["blocked"] == 0
    assert rendered(merge.on_batch([event(6, "b", 0, 5), event(9, "a", 2, 8)], 10 * MS))


def test_figures_have_watermark_lag() -> None:
    merge = operator(heartbeat=20)
    unknown = {"watermark_ns", "watermark_lag_ns", "completeness_frontier_ns"}
    assert not unknown & merge.figures().keys()
    play(merge, [(5, "a", 0, 1, []), (5, "b", 0, 3, []), (8, None, ["a0 at 5"])])
    figures = merge.figures()
    assert (figures["watermark_ns"], figures["watermark_lag_ns"]) == (1 * MS, 7 * MS)
    assert "completeness_frontier_ns" not in figures  # Nothing has been announced yet.
    play(merge, [(20, None, ["W 1 C 1 at 20"])])
    figures = merge.figures()
    assert (figures["watermark_lag_ns"], figures["completeness_frontier_ns"]) == (19 * MS, 1 * MS)


def test_paced_rule_waits_for_usual_pause() -> None:
    merge = operator(made=PacedMerge, max_wait="1s", idle_after="10s")
    for n in range(10):
        merge.on_batch([event(10 * n, "b", n, 10 * n)], 10 * n * MS)
    rows = table("""
        90 -> b9 at 90
        95 a 0 95  # b is empty from here on; it speaks every 10
        104
        105 -> a0 at 105
        200 a 1 200  # b is done without until it speaks
        200 -> a1 at 200
        201 b 10 201
        202 a 2 202
        202 -> b10 at 202
        203
    """)
    play(merge, rows)


# -- watermarks ------------------------------------------------------------------------------------


def test_quiet_stream_gets_watermarks() -> None:
    merge = operator(heartbeat=10)
    rows = table("""
        1 a 0 1
        9 -> a0 at 1
        200 -> W 1 C 1 at 10, W 1 C 1 at 20
    """)
    play(merge, rows)
    assert rendered(merge.on_time(1_000 * MS))[-1] == "W 800 C 1 at 1000"
    play(merge, [(1_001, "a", 1, 799, []), (1_001, None, ["a1 at 1001 (late merge_idle)"])])


def test_lost_number_holds_frontier() -> None:
    rows = table("""
        1 a 0 1
        3 a 2 3 -> a0 at 1
        10 -> a2 at 3, W 3 C 1 at 3, W 3 C 1 at 10
    """)
    merge = operator(heartbeat=10)
    play(merge, rows)
    merge.on_batch([event(11, "a", 1, 2, late=GAP)], 11 * MS)
    assert rendered(merge.on_time(20 * MS)) == ["a1 at 11 (late gap)", "W 3 C 3 at 20"]
    merge = operator(heartbeat=10)
    play(merge, rows)
    assert rendered(merge.on_time(1_200 * MS))[-1] == "W 1000 C 1 at 1200"
    assert rendered(merge.on_time(1_210 * MS)) == ["W 1010 C 3 at 1210"]  # The gap expired.


def test_watermark_is_repeated_each_beat() -> None:
    """Only a watermark record shows a smaller error and lets queries forget."""
    merge = operator(heartbeat=100)
    merge.on_batch([event(0, "b", 0, 0), event(0, "gone", 0, 0)], 0)
    merge.on_time(400 * MS)
    told_of = []
    for at in range(410, 1_000, 10):
        step = merge.on_batch([event(at, "b", at // 10, at)], at * MS)
        told_of += [e for e in step.released if e.kind == WATERMARK]
    assert {e.complete_ns for e in told_of} == {0}
    assert [e.at_ns // MS for e in told_of] == [500, 600, 700, 800, 900]
    assert [e.ref_time_ns for e in told_of] == [e.at_ns for e in told_of]


# -- the oracle ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("falls", [0, 0.2])
@pytest.mark.parametrize("sources", [1, 2, 3, 5])
def test_operator_matches_oracle(sources: int, falls: float) -> None:
    for seed in SEEDS:
        rng = Random(seed)
        settings = Settings(rng)
        coming = items(rng, rng.choice((9, 30, 90, 250)), sources, falls)
        if falls:
            settings.max_set_back_ns = rng.choice((0, 5, 50)) * MS
        last_ns = coming[-1].at_ns
        ends = [
            {"until_ns": last_ns + rng.choice((0, 10, 60, 2_000)) * MS},
            {"end_ns": last_ns + rng.choice((0, 10)) * MS},
        ]
        told_of = rng.choice(ends)
        expected = by_oracle(coming, settings, **told_of)
        for got, wanted in zip(by_operator(coming, settings, **told_of), expected, strict=True):
            assert got == wanted, f"seed {seed}"


def test_source_in_two_partitions_is_counted() -> None:
    """A source that arrives through several partitions is counted until it is forgotten."""
    merge = operator(max_sources=2)
    for seq, (source, lane) in enumerate([("a", 1), ("b", 1), ("a", 2), ("a", 1), ("b", 1)]):
        one = event(seq, source, seq, seq)
        one.lane = lane
        merge.on_batch([one], seq * MS)
    assert merge.figures()["in_several_partitions"] == 1
    assert merge.explain()["wandering"] == ["a"]
    merge.on_time(1_000 * MS)
    for seq, source in enumerate(("b", "c", "d"), start=9):
        merge.on_batch([event(2_000 + seq, source, seq, 2_000 + seq)], (2_000 + seq) * MS)
    assert merge.figures()["in_several_partitions"] == 0


def test_end_marker_fills_no_gap() -> None:
    merge = operator(heartbeat=10)
    play(merge, [(1, "a", 0, 1, []), (2, "a", 2, 3, ["a0 at 1"])])
    bye = event(3, "a", 3, 4)
    bye.kind = BYE
    merge.on_batch([bye], 3 * MS)
    merge.on_time(50 * MS)
    assert merge.figures()["completeness_frontier_ns"] == 1 * MS
    merge.on_batch([event(51, "a", 1, 2, late=GAP)], 51 * MS)
    merge.on_time(70 * MS)
    assert merge.figures()["completeness_frontier_ns"] > 1 * MS


def test_forgotten_source_frees_frontier() -> None:
    merge = operator(heartbeat=100, forget_after_ns=1_000 * MS)
    merge.on_batch([event(0, "b", 0, 0), event(0, "gone", 0, 0)], 0)

    def complete_ms(at: int, source: str) -> int:
        step = merge.on_batch([event(at, source, at, at)], at * MS)
        later = merge.on_time((at + 300) * MS)
        told_of = [e for e in [*step.released, *later.released] if e.kind == WATERMARK]
        return told_of[-1].complete_ns // MS

    assert complete_ms(1, "b") == 0
    assert complete_ms(900, "b") == 0
    assert complete_ms(1_300, "c") > 0
    assert merge.figures()["forgotten"] == 1


def test_filled_gap_sets_source_bound() -> None:
    """After a corrupt number, each event of a gateway fills a gap, even with a newer time."""
    merge = operator()
    gateway = event(0, "a", 0, 2), event(1, "a", 200, 3), event(1, "a", 201, 1)
    for early in (event(0, "b", 0, 0), *gateway):
        merge.on_batch([early], early.at_ns)
    merge.on_time(100 * MS)
    filled = event(110, "a", 1, 105, late=GAP)
    merge.on_batch([filled], filled.at_ns)
    assert merge.on_time(112 * MS).released == []
    following = event(113, "b", 1, 106)
    assert merge.on_batch([following], following.at_ns).released == []
    # Both sources have now sent something at or above 105, so that event is emitted.
    assert rendered(merge.on_time(113 * MS)) == ["a1 at 113"]
