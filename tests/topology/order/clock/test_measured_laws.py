"""Laws of the clock model, over generated rounds (reorder_drift_merge.md 2.8)."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.topology.order.clock.rounds import (
    AT,
    MS,
    US,
    S,
    answers,
    burst,
    fed,
    holds,
    model,
    numbers,
    round_at,
)
from topology.base.sample import Sample
from topology.order.clock.cell import SYNCED, cell_start
from topology.order.clock.measured import MeasuredClock

HOUR = 3_600 * S
seeds = st.integers(0, 1 << 32)


def session(seed: int, rate_ppm: int = 0, bursts: int = 4) -> list[Sample]:
    return [
        sample
        for i in range(bursts)
        for sample in burst(AT + i * 60 * S, 60 * i * rate_ppm * US, n=4 if i else 10, seed=seed)
    ]


def shift(sample: Sample, by_ns: int) -> Sample:
    """Return the same round of a source whose clock is ahead by `by_ns`."""
    times = sample.t1_ns + by_ns, sample.t2_ns, sample.t3_ns, sample.t4_ns + by_ns
    return Sample(sample.source, *times, sample.arrival_ns)


@settings(max_examples=40, deadline=None)
@given(seed=seeds, rate_ppm=st.integers(-200, 200))
def test_order_and_repeats_change_nothing(seed: int, rate_ppm: int) -> None:
    """All rounds lie within `sync_window` and do not contradict."""
    rounds = session(seed, rate_ppm)
    random = Random(seed)
    mixed = rounds + random.choices(rounds, k=10)
    random.shuffle(mixed)
    assert answers(fed(rounds)) == answers(fed(mixed))


@settings(max_examples=20, deadline=None)
@given(seed=seeds)
def test_repeated_false_round_is_ignored(seed: int) -> None:
    rounds = session(seed)
    false = round_at(AT + 30 * S, 5 * S)
    clock = fed([*rounds[:10], false, *rounds[10:]])
    known = answers(clock)
    fed([false] * 5, clock)
    assert answers(clock) == known
    assert known[2][1] == SYNCED


@settings(max_examples=40, deadline=None)
@given(seed=seeds, by_cells=st.integers(-(1 << 22), 1 << 22))
def test_clock_shift_moves_only_the_offset(seed: int, by_cells: int) -> None:
    """Each constant is a whole number of cells, so the grid is the same."""
    by_ns = by_cells << 30
    rounds = session(seed)
    here, there = fed(rounds), fed(shift(sample, by_ns) for sample in rounds)
    for after_s in (-60, 0, 31, 180, 900):
        one, other = here.cell(AT + after_s * S), there.cell(AT + after_s * S + by_ns)
        other.start_ns -= by_ns
        other.offset_ns += by_ns
        assert numbers(other) == numbers(one)


delays = st.tuples(st.integers(0, 5 * MS), st.integers(0, 5 * MS))


@settings(max_examples=60, deadline=None)
@given(ways=st.lists(delays, min_size=4, max_size=12))
def test_more_rounds_never_widen_the_span(ways: list[tuple[int, int]]) -> None:
    """All rounds begin and end together by the source, and differ in the server's time. Only the
    possible span never widens. The estimate moves inside that span, and the error reaches to the
    farther end, so it can grow.
    """
    clock = model(max_error_ns=HOUR)
    before = None
    for there_ns, back_ns in ways:
        heard_ns = AT + there_ns
        total_ns = 10 * MS
        answered_ns = AT + total_ns - back_ns
        clock.add(Sample("s", AT, heard_ns, answered_ns, AT + total_ns, AT + total_ns))
        span = possible(clock)
        if before is not None:
            assert before[0] <= span[0] <= span[1] <= before[1]
        before = span


def possible(clock: MeasuredClock) -> tuple[int, int]:
    belief = clock._views[""].belief
    _, start, end = belief.span(cell_start(AT))
    return min(start[0], end[0]), max(start[2], end[2])


@settings(max_examples=60, deadline=None)
@given(
    seed=seeds,
    rate_ppm=st.integers(-200, 200),
    offset_ns=st.integers(-HOUR, HOUR),
    at_s=st.sampled_from((0, 1_750_000_000, 7_258_118_400)),
)
def test_true_offset_is_within_error(seed: int, rate_ppm: int, offset_ns: int, at_s: int) -> None:
    """Delays, hour and year vary."""
    random = Random(seed)

    def true_offset(tau_ns: int) -> int:
        return offset_ns + (tau_ns - at_s * S) * rate_ppm // 1_000_000

    clock = model(max_error_ns=HOUR)
    for i in range(random.randrange(3, 25)):
        tau_ns = at_s * S + i * random.randrange(20 * S)
        heard_ns = tau_ns + random.randrange(400 * MS)
        end_ns = heard_ns + random.randrange(400 * MS)
        t1_ns, t4_ns = tau_ns - true_offset(tau_ns), end_ns - true_offset(end_ns)
        clock.add(Sample("s", t1_ns, heard_ns, heard_ns, t4_ns, end_ns))
    assert clock.falsetickers == clock.jumps == 0
    for after_s in (-500, -1, 0, 77, 300, 900, 7_200):
        tau_ns = (at_s + after_s) * S + random.randrange(S)
        stamp_ns = tau_ns - true_offset(tau_ns)
        cell = clock.cell(stamp_ns)
        assert abs(cell.offset_at(stamp_ns) - true_offset(tau_ns)) <= cell.error_at(stamp_ns) + 1


@settings(max_examples=20, deadline=None)
@given(seed=seeds)
def test_line_of_a_cell_contains_the_bounds(seed: int) -> None:
    """Within a cell the bounds are convex, so the straight piece contains them."""
    clock = fed(session(seed))
    polygon = clock._views[""].belief.polygon
    assert polygon is not None
    for after_s in (-100, 0, 100, 200):
        cell = clock.cell(AT + after_s * S)
        for part in range(17):
            stamp_ns = cell.start_ns + part * ((1 << 30) // 16) - (part == 16)
            low_ns, high_ns = polygon.offsets_at(stamp_ns)
            offset_ns, error_ns = cell.offset_at(stamp_ns), cell.error_at(stamp_ns)
            assert offset_ns - error_ns <= low_ns + 1
            assert high_ns - 1 <= offset_ns + error_ns


@pytest.mark.parametrize("cut", [0, 1, 3, 11, 14, 18])
def test_restored_clock_has_the_same_cells(cut: int) -> None:
    """State passes through JSON, with false rounds, a jump and two servers."""
    rounds = session(5)
    rounds[12:12] = [round_at(AT + 61 * S, 9 * S)]
    rounds += burst(AT + 300 * S, HOUR) + burst(AT + 301 * S, HOUR, server="b")
    straight = model()
    broken = model()
    for at, sample in enumerate(rounds):
        if at == cut or at > 18:
            state = json.loads(json.dumps(broken.dump()))
            broken = model()
            broken.load(state)
        straight.add(sample)
        broken.add(sample)
        assert answers(broken) == answers(straight)
        assert broken.dump() == straight.dump()
    assert straight.segment == broken.segment == 1


def test_snapshot_does_not_follow_the_clock() -> None:
    clock = fed(session(1))
    state = clock.dump()
    known = answers(clock)
    fed(session(2), clock)
    restored = model()
    restored.load(state)
    assert answers(restored) == known


@settings(max_examples=30, deadline=None)
@given(seed=seeds, lie_ns=st.integers(-HOUR, HOUR))
def test_false_server_never_hides_the_truth(seed: int, lie_ns: int) -> None:
    servers = [burst(AT, 0, seed=seed + i, server=name) for i, name in enumerate("ab")]
    servers.append(burst(AT, lie_ns, seed=seed + 3, server="liar"))
    clock = fed(sample for samples in servers for sample in samples)
    for after_s in (-10, 0, 10, 60):
        assert holds(clock, AT + after_s * S, 0)
