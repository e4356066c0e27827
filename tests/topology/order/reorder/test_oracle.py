"""Examples that check the oracle of REORDER and its wait rules by hand, and laws for their output.

The golden examples are from S. Rajendran's thesis (3.2.1) and its soccer streams. Their figures
with fixed waits (5, 19 and 17 late; holds of 7.66, 7.75 and 398.5 ms) are known from an independent
run.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from benchmarks.workloads import D1, D2, D3, Recipe, soccer
from tests.seeds import seeds_of_today
from tests.simulation.world import World
from tests.topology.base.oracle_histogram import UNIT, Histogram, upper_edge
from tests.topology.order.reorder.oracle import (
    AUTO,
    DUPLICATE,
    EMITTED,
    HELD,
    LATE,
    Answer,
    Arrival,
    reorder,
)
from tests.topology.order.reorder.oracle_waits import (
    Filled,
    History,
    Left,
    Opened,
    fixed,
    miss,
    rfc,
    thesis,
)
from topology.base.event import NO_EPOCH, Event

MS = 1_000_000


def arrivals(line: str) -> list[Arrival]:
    """Parse "at:seq" or "at:epoch.seq"; ts = 10 * seq."""
    result: list[Arrival] = []
    for word in line.split():
        at, _, number = word.partition(":")
        epoch, _, seq = number.rpartition(".")
        one = Arrival(int(at), "s", int(seq), 10 * int(seq), int(epoch) if epoch else 0)
        result.append(one)
    return result


def rendered(answer: Answer) -> str:
    """Return each arrival's fate: the instant of emission, or L/D/H with the reason."""
    words: list[str] = []
    for fate in answer.fates:
        word = str(fate.at_ns) if fate.verdict == EMITTED else fate.verdict[0].upper()
        words.append(word + (f"({fate.reason})" if fate.reason else ""))
    return " ".join(words)


def gaps(answer: Answer) -> list[tuple[int, int, int, int, str]]:
    return [(gap.at_ns, gap.epoch, gap.first, gap.last, gap.reason) for gap in answer.gaps]


BY_HAND: list[tuple[int, str, str, list[tuple[int, int, int, int, str]]]] = [
    # Each row has start, arrivals, their fates, and gaps; the wait is 10, max_wait 50.
    # The golden example of 3.2.1: arrivals 1 2 4 5 6 3 7; with 3 the events 3 4 5 6 are emitted.
    (1, "0:1 1:2 2:4 3:5 4:6 5:3 6:7", "0 1 5 5 5 5 6", []),
    # In the very instant of the deadline (known at 1, wait 10) it is in time ...
    (1, "0:1 1:3 11:2 12:4", "0 11 11 12", []),
    # ... one later it fills a declared gap, and the same event again is a duplicate.
    (1, "0:1 1:3 12:2 13:2", "0 11 L(gap) D", [(11, 0, 2, 2, "timeout")]),
    # An event splits the gap that it fills; the parts keep the deadline.
    (1, "0:1 1:6 2:4 20:7", "0 11 11 20", [(11, 0, 2, 3, "timeout"), (11, 0, 5, 5, "timeout")]),
    # The second gap has its own deadline (12).
    (1, "0:1 1:3 2:5 20:6", "0 11 12 20", [(11, 0, 2, 2, "timeout"), (12, 0, 4, 4, "timeout")]),
    # Gaps at the start count: start is 1.
    (1, "0:3 20:4", "10 20", [(10, 0, 1, 2, "timeout")]),
    (1, "0:1 0:0 0:0", "0 L(before_start) L(before_start)", []),
    # Duplicates follow an emitted event, and a buffered one.
    (1, "0:1 1:1 2:3 3:3 4:2", "0 D 4 D 4", []),
    # The gap is still open after the last arrival.
    (1, "0:1 1:3 2:4", "0 H H", []),
    # With start auto 0 opens at once. Otherwise the hold lasts max_wait, its last instant
    # included, and no gap is declared.
    (AUTO, "5:0 6:1", "5 6", []),
    (AUTO, "5:3 55:2 70:4", "55 55 70", []),
    (AUTO, "5:3 56:2 57:2 70:4", "55 L(before_start) L(before_start) 70", []),
    (AUTO, "5:3 6:0 7:1 8:2", "8 6 7 8", []),  # A 0 during the hold opens.
    (AUTO, "5:3 6:0 70:4", "16 6 70", [(16, 0, 1, 2, "timeout")]),
    # A gap between two seen numbers is known at once, and keeps its own deadline.
    (AUTO, "5:6 6:4 70:7", "55 55 70", [(55, 0, 5, 5, "timeout")]),
    (AUTO, "5:4 50:6 70:7", "55 60 70", [(60, 0, 5, 5, "timeout")]),
    # A new epoch waits for the old gap, until it is filled or declared.
    (AUTO, "0:0 1:2 2:1.0 5:1 6:1.1", "0 5 5 5 6", []),
    (AUTO, "0:0 1:2 2:1.0 20:1", "0 11 11 L(gap)", [(11, 0, 1, 1, "timeout")]),
    # Afterwards known numbers are duplicates, unknown ones above the old end are late.
    (AUTO, "0:0 1:1.0 2:0 3:7 4:7 5:1.1", "0 1 D L(gap) D 5", []),
    (AUTO, "0:0 1:2.0 2:1.0 3:2.1", "0 1 L(old_epoch) 3", []),
    # The end of an epoch can arrive a little later, but not after one more epoch.
    (AUTO, "0:0 1:1.0 51:1 52:2 53:1", "0 1 L(gap) L(old_epoch) D", []),
    (AUTO, "0:0 1:1.0 2:7 3:2.0 4:7 5:8", "0 1 L(gap) 3 L(old_epoch) L(old_epoch)", []),
    # A new epoch without a 0 has its own hold, beside the wait for the old gap.
    (AUTO, "0:0 1:2 2:1.5 60:1.6", "0 11 52 60", [(11, 0, 1, 1, "timeout")]),
]


@pytest.mark.parametrize(("start", "line", "expected", "expected_gaps"), BY_HAND)
def test_oracle_matches_hand_examples(
    start: int, line: str, expected: str, expected_gaps: list[tuple[int, int, int, int, str]]
) -> None:
    answer = reorder(arrivals(line), fixed(10), max_wait_ns=50, start=start)
    assert rendered(answer) == expected
    assert gaps(answer) == expected_gaps


def test_overdue_gap_expires_in_turn() -> None:
    waits = iter((10, 1))
    line = arrivals("0:1 1:3 2:5 8:2 8:4 9:6")
    answer = reorder(line, lambda _at, _history: next(waits), max_wait_ns=50, start=1)
    # 4 was due at 3, after 2. 2 arrives at 8 and frees it, so the 4 of that instant is late.
    assert rendered(answer) == "0 8 8 8 L(gap) 9"
    assert gaps(answer) == [(8, 0, 4, 4, "timeout")]


def test_newer_time_shows_restart() -> None:
    events = [Arrival(at, "s", seq, ts) for at, seq, ts in ((0, 0, 100), (1, 1, 110), (2, 2, 120))]
    within = [*events, Arrival(200, "s", 0, 120)]
    beyond = [*events, Arrival(200, "s", 0, 121), Arrival(201, "s", 1, 172)]
    assert rendered(reorder(within, fixed(10), max_wait_ns=50)) == "0 1 2 H"
    told = reorder(within, fixed(10), max_wait_ns=50, until_ns=250)
    assert rendered(told) == "0 1 2 L(conflict)"
    answer = reorder(beyond, fixed(10), max_wait_ns=50)
    assert rendered(answer) == "0 1 2 201 201"
    assert [fate.epoch for fate in answer.fates] == [0, 0, 0, 1, 1]
    off = reorder(beyond, fixed(10), max_wait_ns=50, infer_restart=False)
    assert rendered(off) == "0 1 2 D D"
    named = [*events, Arrival(200, "s", 0, 171, 0)]
    assert rendered(reorder(named, fixed(10), max_wait_ns=50)) == "0 1 2 D"


def test_time_and_end_settle_gaps() -> None:
    line = arrivals("0:1 1:3 2:5")
    until = reorder(line, fixed(10), max_wait_ns=50, start=1, until_ns=11)
    assert (rendered(until), gaps(until)) == ("0 11 H", [(11, 0, 2, 2, "timeout")])
    end = reorder(line, fixed(10), max_wait_ns=50, start=1, end_ns=12)
    assert rendered(end) == "0 11 12"
    assert gaps(end) == [(11, 0, 2, 2, "timeout"), (12, 0, 4, 4, "end")]
    held = reorder(arrivals("5:3 6:5"), fixed(10), max_wait_ns=50, end_ns=7)
    assert (rendered(held), gaps(held)) == ("7 7", [(7, 0, 4, 4, "end")])


def test_gap_reports_neighbours_timestamps() -> None:
    answer = reorder(arrivals("0:1 1:5 20:6"), fixed(10), max_wait_ns=50, start=0)
    assert [(g.first, g.last, g.known_at_ns) for g in answer.gaps] == [(0, 0, 0), (2, 4, 1)]
    assert [(g.ts_before_ns, g.ts_after_ns) for g in answer.gaps] == [(None, 10), (10, 50)]


@pytest.mark.parametrize(
    ("recipe", "late", "hold_ms"),
    [
        pytest.param(D1, 5, 7.66, marks=pytest.mark.long),
        pytest.param(D2, 19, 7.75, marks=pytest.mark.slow),
        pytest.param(D3, 17, 398.5, marks=pytest.mark.long),
    ],
    ids=["D1", "D2", "D3"],
)
def test_soccer_figures_match_thesis_run(recipe: Recipe, late: int, hold_ms: float) -> None:
    """With a fixed wait, the late events and the mean hold agree with an independent run."""
    rows = [Arrival(r.arrival_ns, r.source, r.seq, r.ts_ns, 0) for r in soccer(recipe).rows]
    end_ns = rows[-1].at_ns
    answer = reorder(rows, fixed(500 * MS), max_wait_ns=500 * MS, end_ns=end_ns)
    assert sum(fate.verdict == LATE for fate in answer.fates) == late
    held_ns = sum(
        (fate.at_ns or 0) - row.at_ns for fate, row in zip(answer.fates, rows, strict=True)
    )
    assert held_ns / len(rows) / MS == pytest.approx(hold_ms, abs=0.05)


def as_arrival(event: Event) -> Arrival:
    epoch = None if event.epoch == NO_EPOCH else event.epoch
    at_ns, value = event.arrival_ns, event.value
    return Arrival(at_ns, event.source, event.seq, event.ts_ns, epoch, value)


@pytest.mark.parametrize("seed", seeds_of_today(10))
def test_law_oracle_emits_in_order(seed: int) -> None:
    """Each source is emitted in sequence, each number is emitted or lost once, and waits are
    bounded.
    """
    world = World(seed, most_sources=3, seconds=2)
    rows = [*map(as_arrival, world.events())]
    max_wait_ns = 500 * MS
    rule = (miss(1_000, max_wait_ns), thesis(max_wait_ns), fixed(30 * MS))[seed % 3]
    answer = reorder(rows, rule, max_wait_ns=max_wait_ns, end_ns=rows[-1].at_ns + 1)
    assert not any(fate.verdict == HELD for fate in answer.fates)
    for source, left in answer.left.items():
        keys = [(answer.fates[i].epoch, rows[i].seq) for i in left]
        assert all(before < after for before, after in pairwise(keys))
        instants = [answer.fates[i].at_ns or 0 for i in left]
        assert instants == sorted(instants)
        assert all(
            at - rows[i].at_ns <= 2 * max_wait_ns for at, i in zip(instants, left, strict=True)
        )
        numbers = set(keys)
        for gap in (gap for gap in answer.gaps if gap.source == source):
            missing = {(gap.epoch, seq) for seq in range(gap.first, gap.last + 1)}
            assert not numbers & missing
            numbers |= missing
        for epoch in {epoch for epoch, _ in numbers}:  # without a gap
            own = sorted(seq for number, seq in numbers if number == epoch)
            assert own == list(range(own[0], own[-1] + 1))
    for row, fate in zip(rows, answer.fates, strict=True):
        if fate.verdict == DUPLICATE:
            assert world.truth.arrived[row.content] > 1


@pytest.mark.parametrize("seed", seeds_of_today(10))
def test_long_wait_restores_order(seed: int) -> None:
    rng = Random(seed)
    order = sorted(range(200), key=lambda seq: seq + rng.random() * 20)
    rows = [Arrival(at, "s", seq, seq, 0) for at, seq in enumerate(order)]
    answer = reorder(rows, fixed(1_000), max_wait_ns=1_000, start=0)
    assert [rows[i].seq for i in answer.left["s"]] == list(range(200))
    assert answer.gaps == []
    in_order = [Arrival(seq, "s", seq, seq, 0) for seq in range(200)]
    untouched = reorder(in_order, fixed(0), max_wait_ns=0, start=AUTO)
    assert [fate.at_ns for fate in untouched.fates] == list(range(200))


# -- the wait rules ---------------------------------------------------------------------------


def test_octave_has_eight_buckets() -> None:
    """The upper edge of a value's bucket is at most an eighth above the value."""
    assert [upper_edge(v) for v in (-5, 0, 7, 8, 15, 16, 17, 18, 31, 32, 35, 36)] == [
        *(0, 0, 7, 8, 15, 17, 17, 19, 31, 35, 35, 39)
    ]
    for value in (1_000, 999_999, 10**9, 2**60):
        assert value <= upper_edge(value) <= value * 9 // 8


def test_quantile_is_a_bucket_edge() -> None:
    counts = Histogram()
    assert counts.quantile_ns(0) == 0
    for value in (1, 2, 3, 4):
        counts.add(value)
        counts.count()
    assert [counts.quantile_ns(ppm) for ppm in (0, 249_999, 250_000, 500_000, 10**6)] == [
        *(4, 4, 3, 2, 0)
    ]
    for _ in range(4_092):
        counts.count()
    assert counts.n == 2_048 * UNIT
    assert (sum(counts.counts.values()), counts.values) == (4 * UNIT // 2, 4)


def test_printed_rules_match_hand_results() -> None:
    warm: list[Opened | Filled] = [Opened("s")] * 100
    left = [Left(0, seq, at, at, unheld=True) for seq, at in enumerate((0, 10, 30, 70))]
    left += [Left(0, 5, 80, 100, unheld=False)]
    history = History("s", warm, lambda: left)
    # x = 10, 20, 40: avg 10, 14, 24; dev (updated) 6, then .6*6 + .4*16 = 10 -> 24 + 2*10.
    assert thesis(1_000)(0, history) == 44
    # dev (old) 10, then .6*10 + .4*26 = 16 -> 24 + 4*16.
    assert rfc(1_000)(0, history) == 88
    assert thesis(30)(0, history) == 30
    assert thesis(1_000)(0, History("s", warm[:99], lambda: left)) == 1_000
    held = [*left, Left(0, 6, 80, 400, unheld=False)]
    # Holds 20, 320: avg 140, dev 180 (updated) -> 500.
    assert thesis(1_000)(0, History("s", warm, lambda: held)) == 500
