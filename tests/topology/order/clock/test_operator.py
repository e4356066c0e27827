"""Examples for CLOCK: the policies, clock reports, contradictions and jumps.

A time is a number of milliseconds.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from benchmarks.published.clock import RoundTripClock
from tests.kit.events import event
from tests.kit.runs import released_of
from tests.laws.cases import measured_clock
from tests.laws.streams import START
from tests.laws.test_changes import Log
from topology.base.event import BLOCKED, DEAD, Event
from topology.base.late import GAP
from topology.base.sample import Declared, Sample
from topology.config import ClockConfig
from topology.order.clock.cell import ClockCell
from topology.order.clock.drift_table import DriftTable
from topology.order.clock.one_way import OneWay
from topology.order.clock.operator import Clock
from topology.order.clock.source_clock import SourceClock
from topology.state.saved import ShapeRefused

MS = 1_000_000
S = 1_000
HOUR = 3_600 * S
NOW = 1_700_000_000 * S


def clock(
    unsynced: str = "trust",
    max_sources: int = 10,
    table: DriftTable | None = None,
    made: type[Clock] = Clock,
    **settings: Any,
) -> Clock:
    config = ClockConfig(
        **{"unsynced": unsynced, "max_ahead_ns": 100 * MS, **settings}, max_sources=max_sources
    )
    return made(config, table)


def stamps(events: list[Event]) -> list[tuple[int, int]]:
    return [(event.ref_time_ns // MS, event.error_ns // MS) for event in events]


def steady(count: int, behind: int = 0) -> list[Event]:
    """Return ten events a second, 5 ms on the way, of a clock that is behind by `behind` ms."""
    return [event(seq, 100 * seq, 100 * seq + 5 + behind) for seq in range(count)]


def jump_after_ten(by: int, count: int = 20) -> list[Event]:
    """Return ten events a second of a clock that is right for ten events and then `by` ms ahead."""
    events = steady(count)
    for each in events[10:]:
        each.ts_ns += by * MS
    return events


def round_at(arrival: int, behind: int, each_way: int = 2, server: str = "") -> Sample:
    """Return a round that ended on arrival, of a source whose clock is `behind` ms behind."""
    t1 = arrival - 2 * each_way - behind
    t2 = arrival - each_way
    times = (t1, t2, t2, t1 + 2 * each_way)
    t1_ns, t2_ns, t3_ns, t4_ns = (time * MS for time in times)
    return Sample("s", t1_ns, t2_ns, t3_ns, t4_ns, arrival * MS, arrival, server)


def synced(behind: int, rounds: int = 10) -> DriftTable:
    table = DriftTable()
    for i in range(rounds):
        table.add(round_at(NOW + 20 * i, behind))
    return table


# -- trust -----------------------------------------------------------------------------------------


def test_trusted_falling_timestamp_is_kept() -> None:
    events = [event(0, 10, 50), event(1, 7, 50), event(2, 9, 50, source="other"), event(3, 11, 50)]
    assert stamps(clock().on_batch(events, 50 * MS).released) == [(10, 0), (7, 0), (9, 0), (11, 0)]


def test_falling_offset_raises_the_time() -> None:
    table = DriftTable()
    table.add(Declared("s", 0, 100 * MS, 5 * MS, 0, 1))
    table.add(Declared("s", 60 * MS, 40 * MS, 5 * MS, 60 * MS, 2))
    events = [event(0, 0, 50), event(1, 20, 70), event(2, 90, 120)]
    out = stamps(released_of(clock(table=table), *events))
    assert out == [(100, 5), (100, 45), (130, 5)]


def test_arrival_as_timestamp_is_raised() -> None:
    """Numbers 0 and 2 arrive before 1. Without timestamps the numbers give the order."""
    unstamped = [event(0, 10, 10), event(1, 30, 30), event(2, 20, 20)]
    out = released_of(clock(), *unstamped, event(3, 15, 40))
    assert stamps(out) == [(10, 0), (30, 0), (30, 10), (15, 0)]


def test_falling_timestamp_widens_error() -> None:
    events = [event(0, 10, 50), event(1, 7, 50), event(2, 11, 52)]
    (_, (fallen, error), after) = stamps(released_of(clock("estimate"), *events))
    assert (fallen, error) == (7, 43 + 2 * 3)
    assert after == (11, 41)


def test_allowed_set_back_widens_no_error() -> None:
    events = [event(0, 10, 50), event(1, 7, 50), event(2, 1, 50)]
    out = stamps(released_of(clock("estimate", max_set_back_ns=5 * MS), *events))
    assert out == [(10, 40), (7, 43), (1, 43 + 2 * 9)]


def test_set_back_begins_a_segment() -> None:
    events = [event(seq, ts, 50) for seq, ts in enumerate([8, 10, 7, 11, 12])]
    assert [e.segment for e in released_of(clock("estimate"), *events)] == [0, 0, 1, 2, 3]
    assert [e.segment for e in released_of(clock("trust"), *events)] == [0, 0, 0, 0, 0]


def test_late_event_raises_no_time() -> None:
    late = event(1, 30, 50)
    late.late = GAP
    step = clock().on_batch([event(0, 10, 50), late, event(2, 20, 50)], 50 * MS)
    assert stamps(step.released) == [(10, 0), (30, 0), (20, 0)]


def test_timestamp_too_far_ahead_is_dead() -> None:
    step: Any = clock().on_batch([event(0, 150, 50), event(1, 151, 50), event(2, 149, 50)], 50 * MS)
    assert [e.kind for e in step.released] == ["", DEAD, ""]  # its sequence number is not missing
    assert stamps([step.released[0], step.released[2]]) == [(150, 0), (149, 0)]
    (dead,) = step.reports
    assert (dead.reason, dead.seq, dead.offset) == ("ahead", 1, 1)
    assert "raise clock.max_ahead" in dead.detail


def test_control_events_of_reorder_pass() -> None:
    step = clock().on_batch([event(0, 10, 50), event(1, 0, 50, kind=BLOCKED)], 50 * MS)
    assert [e.kind for e in step.released] == ["", BLOCKED]


# -- reject ----------------------------------------------------------------------------------------


def test_reject_leaves_no_gap() -> None:
    """A dead event is passed on, so its sequence number does not go missing."""
    step: Any = clock("reject").on_batch([event(0, 10, 50)], 50 * MS)
    assert [e.kind for e in step.released] == [DEAD]
    (dead,) = step.reports
    assert (dead.reason, dead.seq) == ("unsynced", 0)


def test_synced_source_passes_reject() -> None:
    operator = clock("reject", table=synced(behind=HOUR))
    later = NOW + 5 * S
    (out,) = released_of(operator, event(0, later - HOUR, later))
    ((ref_time, error),) = stamps([out])
    assert (out.kind, ref_time) == ("", later)
    assert error <= 4  # 2 ms each way, plus the drift of five seconds


# -- estimate --------------------------------------------------------------------------------------


def test_plausible_clock_is_kept() -> None:
    assert stamps(released_of(clock("estimate"), *steady(5))) == [
        (100 * seq, 35) for seq in range(5)
    ]


def test_clock_behind_is_corrected_after_2_s() -> None:
    out = stamps(released_of(clock("estimate"), *steady(40, HOUR)))
    for seq, (ref_time, error) in enumerate(out):
        if seq < 20:  # For two seconds this can be a backlog of a right clock.
            assert (ref_time, error) == (100 * seq, 500)
        else:
            assert ref_time == HOUR + 100 * seq + 5 - 20
            assert 480 <= error <= 481  # plus the drift since the start of the bin


def test_clock_ahead_is_corrected_at_once() -> None:
    out = stamps(released_of(clock("estimate"), *steady(40, -HOUR)))
    for seq, (ref_time, error) in enumerate(out):
        assert ref_time == 100 * seq + 5 - HOUR - 20
        assert 0 <= error - (480 + 10 * S if seq < 20 else 480) <= 1


def test_wild_timestamp_affects_no_other() -> None:
    events = steady(20)
    events[10].ts_ns += 100 * HOUR * MS
    out = released_of(clock("estimate"), *events)
    assert stamps(out[10:11]) == [(1005 - 20, 480)]  # corrected by its own arrival
    assert stamps(out[11:]) == [(100 * seq, 35) for seq in range(11, 20)]
    assert [e.segment for e in out] == [0] * 10 + [1] + [2] * 9


def test_three_agreeing_events_are_a_jump() -> None:
    operator = clock("estimate")
    out = released_of(operator, *jump_after_ten(2 * HOUR))
    assert operator.jumps == 1
    for seq, (ref_time, _) in enumerate(stamps(out)):
        assert abs(ref_time - 100 * seq) <= 20
    assert [e.segment for e in out] == [0] * 10 + [1] * 10


def test_lasting_set_back_is_a_jump() -> None:
    operator = clock("estimate")
    out = released_of(operator, *jump_after_ten(-HOUR, 200))
    assert operator.jumps == 1
    for seq, (ref_time, _) in enumerate(stamps(out)):
        if seq < 10 or seq >= 10 + 100:  # ten seconds
            assert abs(ref_time - 100 * seq) <= 20
        else:
            assert ref_time == 100 * seq - HOUR
    assert len({e.segment for e in out[110:]}) == 1  # The source has one clock again.


@pytest.mark.parametrize("by", [1_200, 3 * S, 15 * S, 30 * S, HOUR])
def test_error_covers_a_set_back(by: int) -> None:
    for seq, (ref_time, error) in enumerate(
        stamps(released_of(clock("estimate"), *jump_after_ten(-by, 200)))
    ):
        assert abs(ref_time - 100 * seq) <= error


def test_wrong_start_costs_three_events() -> None:
    """A first timestamp years ahead makes the clock count as ahead, until three right events refute
    it.
    """
    events = steady(60)
    events[0].ts_ns += 12 * 365 * 24 * HOUR * MS
    out = stamps(released_of(clock("estimate"), *events))
    assert all(abs(ref_time - 100 * seq) <= 20 for seq, (ref_time, _) in enumerate(out) if seq > 3)


def test_large_set_back_of_gateway_is_a_jump() -> None:
    operator = clock("estimate")
    events = jump_after_ten(-60 * S, 300)
    for each in events:
        if each.seq % 8 in (3, 4):
            each.ts_ns -= 3 * S * MS
    out = stamps(released_of(operator, *events))
    assert operator.jumps == 1
    late = [abs(ref_time - 100 * seq) for seq, (ref_time, _) in enumerate(out) if seq > 150]
    assert max(late) <= 4 * S


def test_falling_time_without_arrivals_stays() -> None:
    """Without arrival times, the largest timestamp is the arrival time."""
    events = [event(0, 10, 10), event(1, 900, 900), event(2, 20, 900), event(3, 900, 900)]
    events[3].is_stamped = False
    out = stamps(released_of(clock(has_arrivals=False), *events))
    assert out == [(10, 0), (900, 0), (20, 0), (900, 0)]


def test_falling_gateway_times_are_no_jump() -> None:
    """A gateway reads two sensors in turn, and some records of one are delayed by three seconds."""
    operator = clock("trust", table=synced(behind=50))
    start = NOW + 2 * S
    events = [event(seq, start + 300 * seq - 50, start + 300 * seq) for seq in range(200)]
    for seq in (20, 21, 22, *range(40, 120)):
        events[seq].ts_ns -= 3 * S * MS
    out = released_of(operator, *events)
    assert operator.jumps == 0
    assert operator.figures()["synced"] == 1
    for seq, (ref_time, _) in enumerate(stamps(out)):
        assert abs(ref_time - (events[seq].ts_ns // MS + 50)) <= 3


def test_delayed_event_is_no_jump() -> None:
    operator = clock("estimate")
    events = steady(20)
    events[10].ts_ns -= 5 * S * MS  # measured long ago, sent in sequence
    out = released_of(operator, *events)
    assert operator.jumps == 0
    (old_ref, old_error), after = stamps(out[10:12])
    assert (old_ref, after) == (1000 - 5 * S, (1100, 35))
    assert 35 + 2 * 4900 <= old_error <= 35 + 2 * 4900 + 2  # plus the drift of five seconds


# -- samples ---------------------------------------------------------------------------------------


def test_sample_applies_after_activation() -> None:
    operator = clock("trust", table=synced(behind=50))
    last = NOW + 9 * 20
    before = event(0, NOW - 50, last + 999)
    after = event(1, NOW - 40, last + 1000)
    (ref_before, error_before), (ref_after, _) = stamps(released_of(operator, before, after))
    assert error_before > 0  # only nine of the ten samples apply
    assert abs(ref_before - NOW) <= 3
    assert abs(ref_after - (NOW + 10)) <= 3


def test_filling_order_is_ignored() -> None:
    events = [event(seq, NOW + 300 * seq, NOW + 300 * seq + 55) for seq in range(12)]
    samples = [round_at(NOW + 20 * i, 50) for i in range(10)]
    at_once, by_and_by = DriftTable(), DriftTable()
    for sample in samples:
        at_once.add(sample)
    first, second = clock(table=at_once), clock(table=by_and_by)
    out = released_of(first, *events)
    again = []
    for original in events:
        copy = event(original.seq, original.ts_ns // MS, original.arrival_ns // MS)
        while samples and samples[0].arrival_ns <= copy.arrival_ns - 900 * MS:
            by_and_by.add(samples.pop(0))
        again += released_of(second, copy)
    assert stamps(out) == stamps(again)
    assert first.snapshot() == second.snapshot()


@pytest.mark.parametrize(("rounds", "settings"), [(2, {}), (10, {"sync": "none"})])
def test_too_few_rounds_do_not_sync(rounds: int, settings: dict[str, Any]) -> None:
    """With `sync: none`, even ten rounds do not sync the clock."""
    operator = clock(table=synced(50, rounds=rounds), **settings)
    (out,) = released_of(operator, event(0, NOW, NOW + 5 * S))
    assert stamps([out]) == [(NOW, 0)]


def test_declared_offset_beats_samples() -> None:
    table = synced(behind=50)
    begin = (NOW + 10 * S) * MS
    table.add(Declared("s", begin, 7 * MS, 3 * MS, begin, 100))
    table.add(Declared("s", begin + 10 * S * MS, None, 0, begin, 101))
    operator = clock("trust", table=table)
    arrivals = [NOW + at * S for at in (9, 10, 19, 20)]
    out = released_of(operator, *(event(i, at - 50, at) for i, at in enumerate(arrivals)))
    added = [ref_time - (at - 50) for (ref_time, _), at in zip(stamps(out), arrivals, strict=True)]
    errors = [error for _, error in stamps(out)]
    assert added[1:3] == [7, 7]
    assert errors[1:3] == [3, 3]
    assert all(abs(each - 50) <= 3 for each in (added[0], added[3]))


def test_new_server_keeps_measured_offset() -> None:
    """Until the new server has enough rounds, the clock is unsynced. Under `trust` the measured
    offset stays.
    """
    table = synced(behind=HOUR)
    operator = clock("trust", table=table)
    first = NOW + 5 * S
    released_of(operator, event(0, first - HOUR, first + 5))
    table.add(round_at(first, HOUR, server="b"))
    later = NOW + 10 * S
    (out,) = released_of(operator, event(1, later - HOUR, later + 5))
    ((ref_time, error),) = stamps([out])
    assert abs(ref_time - later) <= error <= 8
    (explained,) = operator.explain()["clocks"]
    assert explained["state"] == "unsynced"


def test_new_segment_needs_its_own_proof() -> None:
    """A source reports a new segment, and the faster of its two servers is wrong."""
    table = DriftTable()
    for server in "ab":
        for i in range(10):
            table.add(round_at(NOW + 20 * i + (server == "b"), 0, server=server))
    operator = clock("trust", table=table)
    released_of(operator, event(0, NOW + 5 * S, NOW + 5 * S + 5))
    for i in range(3):
        lie = round_at(NOW + 6 * S + 20 * i, 50, server="a")
        lie.segment = 1
        table.add(lie)
    later = NOW + 10 * S
    (out,) = released_of(operator, event(1, later, later + 5))
    assert stamps([out]) == [(later, 0)]


def test_contradicted_time_becomes_arrival() -> None:
    operator = clock("estimate", table=synced(behind=0))
    base = NOW + 5 * S
    good = [event(seq, base + 100 * seq, base + 100 * seq + 5) for seq in range(3)]
    ahead = event(3, base + HOUR, base + 305)
    out = released_of(operator, *good, ahead, event(4, base + 400, base + 405))
    assert stamps(out[3:4]) == [(base + 305 - 20, 480)]
    ((ref_time, error),) = stamps(out[4:])
    assert abs(ref_time - base - 400) <= error <= 4
    assert operator.contradicted == 1


def test_refuted_clock_is_broken_until_sync() -> None:
    table = synced(behind=0)
    operator = clock("estimate", table=table)
    base = NOW + 5 * S
    events = [event(seq, base + 100 * seq, base + 100 * seq + 5) for seq in range(10)]
    for each in events[3:]:
        each.ts_ns += HOUR * MS
    out = released_of(operator, *events)
    assert operator.jumps == 1
    for seq, (ref_time, _) in enumerate(stamps(out)):
        assert abs(ref_time - base - 100 * seq) <= 20
    (explained,) = operator.explain()["clocks"]
    assert (explained["source"], explained["state"]) == ("s", "broken")
    for i in range(10):
        table.add(round_at(base + 2 * S + 20 * i, behind=-HOUR))
    later = base + 10 * S
    (last,) = released_of(operator, event(10, later + HOUR, later + 5))
    ((ref_time, error),) = stamps([last])
    assert abs(ref_time - later) <= error <= 4
    (explained,) = operator.explain()["clocks"]
    assert explained["state"] == "synced"


# -- the distant past ------------------------------------------------------------------------------


def test_too_old_timestamp_is_dead() -> None:
    for unsynced in ("trust", "estimate"):
        operator = clock(unsynced, max_behind_ns=HOUR * MS)
        old = event(1, NOW - 2 * HOUR, NOW + 10)
        events = [event(0, NOW, NOW), old, event(2, NOW + 20, NOW + 20)]
        step: Any = operator.on_batch(events, (NOW + 20) * MS)
        assert [e.kind for e in step.released] == ["", DEAD, ""]
        (dead,) = step.reports
        assert (dead.reason, dead.seq) == ("behind", 1)


# -- settings that change between two runs ---------------------------------------------------------


def test_state_of_other_settings_is_used() -> None:
    table = synced(behind=50)
    first = clock("estimate", table=table)
    released_of(first, event(0, NOW + 5 * S, NOW + 5 * S + 55))
    for unsynced, made in (
        ("trust", Clock),
        ("reject", RoundTripClock),
        ("estimate", RoundTripClock),
    ):
        again = clock(unsynced, table=table, made=made)
        again.restore(first.snapshot(), ())
        (out,) = released_of(again, event(1, NOW + 6 * S, NOW + 6 * S + 55))
        ((ref_time, error),) = stamps([out])
        assert abs(ref_time - NOW - 6 * S - 50) <= error + 1


# -- backlogs --------------------------------------------------------------------------------------


def inside(out: list[Event], true_of: dict[int, int]) -> bool:
    return all(abs(each.ref_time_ns - true_of[each.seq] * MS) <= each.error_ns for each in out)


def test_backlog_is_no_set_back() -> None:
    operator = clock("estimate")
    steady = [(100 * seq, 100 * seq + 5) for seq in range(100)]
    outage = [(10 * S + 100 * i, 700 * S + i) for i in range(6_900)]
    after = [(700 * S + 7_000 + 100 * i, 700 * S + 7_005 + 100 * i) for i in range(20)]
    sent = steady + outage + after
    out = released_of(operator, *(event(seq, ts, at) for seq, (ts, at) in enumerate(sent)))
    assert operator.jumps == operator.contradicted == 0
    assert inside(out, {seq: ts for seq, (ts, _) in enumerate(sent)})


@pytest.mark.parametrize("unsynced", ["estimate", "trust", "reject"])
def test_change_by_time_alone_is_saved(unsynced: str) -> None:
    """No round and no contradiction comes, but cells begin, and rounds become too old."""
    clock, log = measured_clock(unsynced), Log()
    stamps = [*range(START, START + 400, 5), *range(START + 1_000, START + 200_000_000, 2_000_000)]
    for seq, ms in enumerate(stamps):
        one = event(seq, ms, ms + 1, "s0")
        clock.on_batch([one], one.at_ns)
        log.checkpoint(clock)


# -- states of another version ---------------------------------------------------------------------


def test_state_of_other_layout_is_refused() -> None:
    operator = clock("estimate", table=synced(behind=50))
    released_of(operator, event(0, NOW + 5 * S, NOW + 5 * S + 55))
    state = operator.snapshot()
    for missing in ("#shape", "stamp/s", "model/s"):
        with pytest.raises(ShapeRefused):
            clock("estimate").restore({k: v for k, v in state.items() if k != missing}, ())
    row: Any = state["stamp/s"]
    with pytest.raises(ShapeRefused, match="votes of clock.stamp"):
        clock("estimate").restore({**state, "stamp/s": [0, 7, *row[2:]]}, ())


def test_new_source_drops_idle_ones() -> None:
    operator = Clock(ClockConfig(max_sources=10, forget_after_ns=5 * MS))
    for arrival, source in ((50, "a"), (51, "b"), (55, "c"), (60, "d")):
        operator.on_batch([event(arrival, arrival, arrival, source)], arrival * MS)
    assert {*operator._clocks.rows} == {"c", "d"}
    assert operator.figures()["forgotten"] == 2


def slow_events(seed: int) -> list[Event]:
    """Return events of a source that sends about once in a cell and whose clock can jump."""
    rng = Random(seed)
    now, skew = NOW, rng.choice((0, 0, -3_000, 3_000, 90_000))
    events = []
    for seq in range(200):
        now += rng.randint(300, 2_500)
        skew += rng.choice((-60_000, -2_000, 60_000)) if rng.random() < 0.02 else 0
        delay = rng.choice((1, 1, 2, 30, 4_000))
        events.append(event(seq, now - delay + skew, now))
    return events


def run(events: list[Event], cells: list[int], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return all output of an estimating CLOCK; `cells` gets a time for each computed cell."""
    cell = OneWay.cell

    def count(one_way: OneWay, ts_ns: int) -> tuple[ClockCell, int]:
        cells.append(ts_ns)
        return cell(one_way, ts_ns)

    with monkeypatch.context() as patch:
        patch.setattr(OneWay, "cell", count)
        it = clock("estimate")
        released = it.on_batch(events, NOW * MS).released
        return stamps(released), [each.segment for each in released], it.snapshot()


def test_shortcut_computes_fewer_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Output is the same without the shortcut."""
    if not hasattr(SourceClock.enter_cell, "__code__"):
        pytest.skip("methods of the compiled core cannot be replaced")
    once: list[int] = []
    twice: list[int] = []
    for seed in range(20):
        answer = run(slow_events(seed), once, monkeypatch)
        with monkeypatch.context() as patch:
            patch.setattr(SourceClock, "_waits_for_note", lambda *_: False)
            assert answer == run(slow_events(seed), twice, monkeypatch), seed
    assert len(once) < len(twice)
