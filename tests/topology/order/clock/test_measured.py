"""Examples for the clock model: states, rejection, falsetickers, jumps, several servers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.topology.order.clock.rounds import (
    AT,
    MS,
    US,
    S,
    answers,
    burst,
    fed,
    golden,
    holds,
    interval,
    model,
    round_at,
)
from topology.base.sample import Sample
from topology.order.clock.cell import CELL_NS, STALE, SUSPECT, SYNCED, UNSYNCED
from topology.order.clock.polygon import MAX_BOUNDS
from topology.order.clock.server_view import MAX_DOUBTED
from topology.order.clock.settings import MAX_SERVERS

HOUR = 3_600 * S


UNKNOWN_RATE_NS = 140 * US
"""The width from the unknown rate after one burst: 250 ppm up to the end of its cell, each way."""


def test_golden_rounds_bound_the_offset() -> None:
    """Three rounds like the one in spec 2.1 sync the clock."""
    clock = model()
    for later_ns in (0, 1, 2):
        sample = golden()
        sample.t1_ns += later_ns
        clock.add(sample)
    low_ns, high_ns = interval(clock, 10_000 * MS)
    assert low_ns <= -1_000 * MS <= high_ns
    assert high_ns - low_ns == pytest.approx(12 * MS, abs=2 * UNKNOWN_RATE_NS)


def test_three_different_rounds_sync() -> None:
    first, second, third = burst(AT, 5 * MS, n=3)
    clock = fed([first, second, second, first])
    assert clock.cell(AT).state == UNSYNCED
    clock.add(third)
    assert clock.cell(AT).state == SYNCED


def test_one_of_many_servers_does_not_sync() -> None:
    """One server's offset is wrong by two seconds, and its rounds arrive first."""
    liar = burst(AT, 2 * S, server="a", n=10)
    others = [burst(AT + S, server=name, n=2) for name in "bc"]
    told = fed(liar, model(servers=3))
    assert told.cell(AT).state == UNSYNCED
    for clock in (told, fed(liar)):
        fed((each for pair in zip(*others, strict=True) for each in pair), clock)
        assert clock.cell(AT).state == UNSYNCED
        for name in "bc":
            fed(burst(AT + 2 * S, server=name, n=3), clock)
        low_ns, high_ns = interval(clock, AT + 2 * S)
        assert clock.cell(AT + 2 * S).state == SYNCED
        assert low_ns <= 0 <= high_ns < 20 * MS


def test_disagreeing_servers_are_suspect() -> None:
    """With a smaller `max_error`, the clock stays unsynced."""
    clock = fed(burst(AT, 2 * S, server="a") + burst(AT, server="b"), model(servers=3))
    assert clock.cell(AT).state == UNSYNCED  # The span of both is wider than `max_error`.
    wide = fed(burst(AT, 2 * S, server="a") + burst(AT, server="b"), model(max_error_ns=HOUR))
    assert wide.cell(AT).state == SUSPECT
    low_ns, high_ns = interval(wide, AT)
    assert low_ns <= 0 < 2 * S <= high_ns


def test_bounds_of_silent_servers_hold_over() -> None:
    names = "abc"
    first = [sample for name in names for sample in burst(AT, server=name, n=10)]
    alone = [
        sample for minute in range(1, 12) for sample in burst(AT + minute * 60 * S, server="a")
    ]
    clock = fed(first + alone, model(servers=3, max_error_ns=HOUR))
    late_ns = AT + 11 * 60 * S
    cell = clock.cell(late_ns)
    assert cell.state in (SYNCED, STALE)
    low_ns, high_ns = interval(clock, late_ns)
    assert low_ns <= 0 <= high_ns
    assert high_ns - low_ns > 50 * MS  # ten minutes at 250 ppm less three, from the silent servers
    assert fed(first + alone, model(servers=3)).cell(late_ns).state == UNSYNCED
    assert fed(first + alone, model()).cell(late_ns).state == SYNCED  # no number of servers was set


def test_state_follows_age_of_rounds() -> None:
    clock = fed(burst(AT, n=10) + burst(AT + 60 * S) + burst(AT + 120 * S))
    states = [clock.cell(AT + (120 + s) * S).state for s in (-303, -299, 0, 179, 183, 600)]
    assert states == [STALE, SYNCED, SYNCED, SYNCED, STALE, UNSYNCED]


def test_stale_error_grows_with_skew() -> None:
    clock = fed(burst(AT, n=10) + burst(AT + 60 * S), model(max_error_ns=HOUR))
    one, two = (clock.cell(AT + (60 + s) * S) for s in (1_000, 2_000))
    rate_ppb: Any = clock.skew_ppb()
    seconds = (two.start_ns - one.start_ns) / S
    assert (two.error_ns - one.error_ns) / seconds == pytest.approx(250_000 + abs(rate_ppb), abs=9)
    assert (two.offset_ns - one.offset_ns) / seconds == pytest.approx(rate_ppb, abs=9)


def test_cell_joins_the_next() -> None:
    """Straight pieces meet, up to rounding."""
    clock = fed(burst(AT, 7 * S, n=10) + burst(AT + 60 * S, 7 * S))
    for cells in range(-300, 300, 7):
        cell = clock.cell(AT + cells * CELL_NS)
        following = clock.cell(cell.start_ns + CELL_NS)
        assert abs(cell.offset_at(following.start_ns) - following.offset_ns) <= 2
        assert abs(cell.error_at(following.start_ns) - following.error_ns) <= 4


@pytest.mark.parametrize(
    ("t1", "t2", "t3", "t4", "good"),
    [
        (0, 5, 6, 11, True),
        (0, 5, 4, 11, False),  # the answer comes before the request
        (0, 5, 6, -1, False),  # the round ends before it begins
        (0, 5, 16, 9, True),  # T = -2, two granularities of 1
        (0, 5, 17, 9, False),
        (0, 5, 1_006, 1_010, False),  # the server took more than a second
        (0, 5, 1_005, 1_010, True),
        (0, 500, 501, 1_001, True),  # T = 1 s
        (0, 500, 501, 1_002, False),
    ],
)
def test_absurd_rounds_are_rejected(t1: int, t2: int, t3: int, t4: int, good: bool) -> None:
    clock = model(granularity_ns=MS)
    times = (AT + t1 * MS, AT + t2 * MS, AT + t3 * MS, AT + t4 * MS)
    clock.add(Sample("s", *times, arrival_ns=AT))
    assert clock.rejected == (not good)


def test_granularity_widens_both_ends() -> None:
    rounds = [round_at(AT + i, 0, MS, MS) for i in range(3)]
    fine, coarse = fed(rounds), fed(rounds, model(granularity_ns=MS))
    low_ns, high_ns = interval(fine, AT)
    coarse_low_ns, coarse_high_ns = interval(coarse, AT)
    assert coarse_low_ns == pytest.approx(low_ns - MS, abs=2 * US)
    assert coarse_high_ns == pytest.approx(high_ns + MS, abs=2 * US)


# -- falsetickers and jumps ------------------------------------------------------------------------


def test_false_round_is_doubted_then_dropped() -> None:
    clock = fed(burst(AT, 0, n=10))
    before = answers(clock, AT)
    clock.add(round_at(AT + 300 * MS, offset_ns=S))
    assert clock.cell(AT).state == SUSPECT
    assert [row[2:] for row in answers(clock)] == [row[2:] for row in before]  # the old bounds stay
    clock.add(round_at(AT + 320 * MS, 0))
    assert clock.cell(AT).state == SYNCED
    assert (clock.falsetickers, clock.jumps, clock.segment) == (1, 0, 0)


@pytest.mark.parametrize("jump_ns", [2 * S, -2 * S, HOUR, -HOUR, 55 * 365 * 24 * HOUR])
def test_three_agreeing_rounds_are_a_jump(jump_ns: int) -> None:
    clock = fed(burst(AT, 0, n=10))
    new = burst(AT + 60 * S, jump_ns)
    fed(new[:2], clock)
    assert (clock.segment, clock.cell(AT).state) == (0, SUSPECT)
    clock.add(new[2])
    assert (clock.segment, clock.jumps, clock.falsetickers) == (1, 1, 0)
    low_ns, high_ns = interval(clock, AT + 60 * S - jump_ns)
    assert low_ns <= jump_ns <= high_ns
    assert high_ns - low_ns < 2 * MS


def test_false_first_round_is_outnumbered() -> None:
    """No jump is counted, since one round does not sync the clock."""
    clock = fed([round_at(AT, S), *burst(AT + 20 * MS, 0, n=3)])
    assert (clock.falsetickers, clock.jumps, clock.segment) == (1, 0, 0)
    assert holds(clock, AT, 0)


def test_majority_of_doubted_rounds_wins() -> None:
    """One false round lies among those after a jump."""
    new = burst(AT + 60 * S, 5 * S)
    false = round_at(AT + 60 * S + 30 * MS, 9 * S)
    clock = fed([*burst(AT, 0, n=10), *new[:2], false, *new[2:]])
    assert (clock.segment, clock.falsetickers) == (1, 1)


def test_rounds_before_jump_are_late() -> None:
    old, new = burst(AT, 0, n=10), burst(AT + 60 * S, HOUR)
    clock = fed(old + new)
    known = answers(clock, AT - HOUR)
    fed(old, clock)
    assert answers(clock, AT - HOUR) == known
    assert clock.late == len(old)


def test_mono_shows_a_step_at_once() -> None:
    clock = fed([round_at(AT + i, 0, mono_ns=7) for i in range(5)])
    clock.add(round_at(AT + 10 * S, 2 * MS, mono_ns=7 - 2 * MS))
    assert (clock.segment, clock.jumps) == (1, 1)
    assert clock.cell(AT).state == UNSYNCED
    clock.add(round_at(AT + 9, 0, mono_ns=7))
    assert (clock.segment, clock.late) == (1, 1)


def test_1_ms_of_mono_is_no_step() -> None:
    clock = fed([round_at(AT + i, 0, mono_ns=i * 900 * US) for i in range(5)])
    assert (clock.segment, clock.cell(AT).state) == (0, SYNCED)


def test_step_back_is_a_step() -> None:
    clock = fed([round_at(AT + i * S, 0, mono_ns=mono) for i, mono in enumerate((0, S, 0, S, 0))])
    assert clock.segment == 4


def test_source_can_name_its_segment() -> None:
    clock = fed([round_at(AT + i, 0, segment=3) for i in range(3)])
    assert clock.segment == 0
    clock.add(round_at(AT + S, 50 * MS, segment=4))
    clock.add(round_at(AT + S // 2, 0, segment=3))
    assert (clock.segment, clock.late) == (1, 1)


def test_restarted_source_restarts_segments() -> None:
    clock = fed([round_at(AT + i, 0, segment=3) for i in range(3)])
    fed((round_at(AT + S + i, 0, segment=0) for i in range(3)), clock)
    assert (clock.segment, clock.late, clock.cell(AT).state) == (1, 0, SYNCED)


def test_begin_segment_drops_old_rounds() -> None:
    old = burst(AT, 0, n=10)
    clock = fed(old)
    clock.begin_segment()
    fed(old, clock)  # late
    assert (clock.segment, clock.cell(AT).state, clock.late) == (1, UNSYNCED, len(old))


def test_one_round_from_2200_changes_nothing() -> None:
    far_ns = 180 * 365 * 24 * HOUR
    clock = fed(burst(AT, 0, n=10) + burst(AT + far_ns, 0, n=1))
    assert clock.cell(AT).state == SYNCED
    fed(burst(AT + 60 * S, 0), clock)
    assert clock.cell(AT + 60 * S).state == SYNCED
    assert clock.jumps == 0


def test_early_round_is_not_false() -> None:
    """A round that was set aside as too new is brought in by later rounds."""
    clock = fed(burst(AT, 0, n=10) + burst(AT + 400 * S, n=1))
    fed(burst(AT + 250 * S, n=1) + burst(AT + 450 * S, n=1), clock)
    assert (clock.falsetickers, clock.cell(AT + 450 * S).state) == (0, SYNCED)


def test_clock_recovers_from_a_wrong_date() -> None:
    """Arrival times were always right; only the server's clock was wrong at its start."""
    far_ns = 180 * 365 * 24 * HOUR
    wrong = burst(AT + far_ns, 0)
    for sample in wrong:
        sample.arrival_ns -= far_ns
    clock = fed(wrong + burst(AT + S, 0))
    assert clock.cell(AT + S).state == SYNCED


def test_three_rounds_sync_after_silence() -> None:
    clock = fed(burst(AT, 0, n=10))
    new = burst(AT + 24 * HOUR, S)  # 11 ppm
    fed(new[:2], clock)
    assert clock.cell(AT + 24 * HOUR).state == UNSYNCED
    clock.add(new[2])
    assert (clock.cell(AT + 24 * HOUR).state, clock.jumps) == (SYNCED, 0)
    fed(burst(AT + 48 * HOUR, 60 * S), clock)  # 680 ppm
    assert clock.jumps == 1


# -- several servers -------------------------------------------------------------------------------


def three(at_ns: int, lie_ns: int) -> list[Sample]:
    honest = burst(at_ns, 0, seed=1, server="a") + burst(at_ns, 0, seed=2, server="b")
    return honest + burst(at_ns, lie_ns, seed=3, server="liar")


@pytest.mark.parametrize("lie_ns", [10 * MS, -S, HOUR, -24 * HOUR])
def test_false_server_of_three_is_counted(lie_ns: int) -> None:
    rounds = three(AT, lie_ns)
    clock = fed(rounds)
    honest = fed([sample for sample in rounds if sample.server != "liar"])
    assert interval(clock, AT) == interval(honest, AT)
    assert clock.cell(AT).state == SYNCED
    assert clock.falsetickers == 2  # two of its four rounds: those since the clock synced
    assert clock.segment == 0


def test_overlapping_lie_is_harmless() -> None:
    for lie_us in range(-600, 601, 25):
        assert holds(fed(three(AT, lie_us * US)), AT, 0), lie_us


def test_jump_seen_by_all_servers_counts() -> None:
    clock = fed(three(AT, S))
    fed(three(AT + 60 * S, HOUR + S), clock)  # all three servers jump by HOUR
    for server in ("a", "b"):
        fed(burst(AT + 70 * S, HOUR, seed=4, server=server), clock)
    assert (clock.segment, clock.jumps) == (1, 1)
    assert holds(clock, AT + 70 * S - HOUR, HOUR)


def test_one_server_makes_no_jump() -> None:
    clock = fed(three(AT, 0))
    fed(burst(AT + 60 * S, HOUR, server="liar"), clock)
    assert clock.segment == 0
    assert holds(clock, AT + 60 * S, 0)


# -- bounds ----------------------------------------------------------------------------------------


def test_servers_are_bounded() -> None:
    rounds = [
        sample for i in range(3 * MAX_SERVERS) for sample in burst(AT + i * S, server=f"n{i}")
    ]
    clock = fed(rounds)
    assert [*clock._views] == [f"n{i}" for i in range(2 * MAX_SERVERS, 3 * MAX_SERVERS)]


@pytest.mark.slow
def test_state_is_bounded() -> None:
    """A clock gets ten rounds a second for eight minutes, then a thousand contradicting rounds."""
    clock = fed(sample for i in range(480) for sample in burst(AT + i * S, n=10))
    (view,) = clock._views.values()
    assert len(view.belief._uppers.times_ns) <= MAX_BOUNDS
    assert len(view.belief._lowers.times_ns) <= MAX_BOUNDS
    assert not view.doubted
    low_ns, high_ns = interval(clock, AT + 480 * S)
    assert low_ns <= 0 <= high_ns
    assert high_ns - low_ns < 250 * US
    fed((round_at(AT + 481 * S + i, i % 999 * 3 * S) for i in range(1_000)), clock)
    assert len(view.doubted) <= MAX_DOUBTED


def test_renamed_server_loses_its_old_vote() -> None:
    clock = fed([round_at(AT + i * S, 0, server="pod-1") for i in range(3)])
    later = AT + 200 * S  # beyond STALE_AFTER_NS
    fed((round_at(later + i * S, 500 * MS, server="pod-2") for i in range(3)), clock)
    cell = clock.cell(later)
    assert cell.state == SYNCED
    assert abs(cell.offset_at(later) - 500 * MS) <= cell.error_at(later) < 20 * MS
