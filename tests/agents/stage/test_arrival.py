"""Examples: the arrival clock moves with records and ticks, and counts late records."""

from __future__ import annotations

import pytest

from agents.stage.arrival import LOG_APPEND_TIME, NS_PER_MS, ArrivalClock, why_unreadable
from topology.config import parse

CREATE_TIME = 0
LAG_NS = 10 * NS_PER_MS


def arrive(clock: ArrivalClock, *stamps_ms: int) -> list[int]:
    """Return the arrival times in ms."""
    return [clock.arrive(ms, LOG_APPEND_TIME, 99 * NS_PER_MS) // NS_PER_MS for ms in stamps_ms]


@pytest.mark.parametrize("kind", [CREATE_TIME, None])
def test_default_arrival_is_reading_time(kind: int | None) -> None:
    clock = ArrivalClock(LAG_NS)
    assert clock.arrive(5, kind, 70) == 70
    assert clock.arrive(6, kind, 60) == 70
    assert clock.without_append_time


@pytest.mark.parametrize(
    ("caught_up_ms", "moved", "now_ms"),
    [(109, False, 100), (110, False, 100), (111, True, 101), (150, True, 140)],
)
def test_tick_moves_time_less_lag(caught_up_ms: int, moved: bool, now_ms: int) -> None:
    clock = ArrivalClock(LAG_NS)
    arrive(clock, 100)
    assert clock.tick(caught_up_ms * NS_PER_MS) is moved
    assert clock.now_ns == now_ms * NS_PER_MS


@pytest.mark.parametrize(
    ("stamp_ms", "arrival_ms", "overtaken"), [(39, 40, 1), (40, 40, 1), (41, 41, 0)]
)
def test_record_behind_tick_is_late(stamp_ms: int, arrival_ms: int, overtaken: int) -> None:
    """A record at the tick's own instant counts too: timers due then have fired."""
    clock = ArrivalClock(LAG_NS)
    assert clock.tick(50 * NS_PER_MS)
    assert arrive(clock, stamp_ms) == [arrival_ms]
    assert clock.overtaken == overtaken


def test_arrival_never_steps_back() -> None:
    """Arrival is the running maximum of the broker's timestamps."""
    clock = ArrivalClock(LAG_NS)
    clock.tick(50 * NS_PER_MS)
    assert arrive(clock, 60, 55, 61) == [60, 60, 61]
    assert (clock.overtaken, clock.without_append_time) == (0, False)


def test_restored_clock_matches_original() -> None:
    clock, restored = ArrivalClock(LAG_NS), ArrivalClock(LAG_NS)
    clock.tick(50 * NS_PER_MS)
    arrive(clock, 30, 60)
    restored.restore(clock.snapshot())
    for each in (clock, restored):
        assert arrive(each, 40, 61) == [60, 61]
        assert (each.overtaken, each.now_ns) == (2, 61 * NS_PER_MS)


@pytest.mark.parametrize(
    ("stamp_ms", "arrival_ms"),
    [(100_000, 100_000), (99_000, 99_000), (40_000, 40_000), (39_999, 100_000), (100_001, 100_000),
     (-1, 100_000)],
)  # fmt: skip
def test_embedded_arrival_is_send_time(stamp_ms: int, arrival_ms: int) -> None:
    """A send time over a minute old or in the future is replaced by the reading time."""
    clock = ArrivalClock(LAG_NS, embedded=True)
    assert clock.arrive(stamp_ms, CREATE_TIME, 100_000 * NS_PER_MS) == arrival_ms * NS_PER_MS
    assert clock.without_append_time


def test_arrival_setting_selects_the_time() -> None:
    """Arrival is the largest timestamp not too far ahead of the reading time, or that time."""
    create, read_at_ns = 0, 1_000_000 * NS_PER_MS
    by_stamp = ArrivalClock(LAG_NS, arrival="timestamp", max_ahead_ns=50 * NS_PER_MS)
    stamps_ms = (999_000, 998_000, 1_000_050, 1_000_051, -1)
    found = [by_stamp.arrive(ms, create, read_at_ns) // NS_PER_MS for ms in stamps_ms]
    assert found == [999_000, 999_000, 1_000_050, 1_000_050, 1_000_050]
    by_reading = ArrivalClock(LAG_NS, arrival="read")
    assert by_reading.arrive(999_000, 1, read_at_ns) == read_at_ns
    assert not by_stamp.without_append_time
    assert not by_reading.without_append_time


def test_foreign_topic_needs_arrival() -> None:
    topology = parse(
        "streams:\n  ours: {input: a}\n  theirs: {input: b, fields: {source: key, seq: payload.n}}"
    )
    assert why_unreadable(topology, "a") is None
    said = why_unreadable(topology, "b")
    assert said is not None
    assert "write streams: {theirs: {arrival: timestamp}}" in said


S = 1_000_000_000
LATER_NS = 1_000 * S


def judge_append(clock: ArrivalClock, append_ns: int, stamp_ns: int | None = None) -> int:
    return clock.judge(append_ns // NS_PER_MS, LOG_APPEND_TIME, 0, stamp_ns)


@pytest.mark.parametrize("ahead_s", [60, 3_600])
def test_clock_ahead_runs_at_half_speed(ahead_s: int) -> None:
    """A wait lasts at most twice its configured time, and arrival follows the log."""
    before, clock = ArrivalClock(LAG_NS), ArrivalClock(LAG_NS)
    before.tick(LATER_NS + ahead_s * S)
    clock.restore(before.snapshot())
    began_ns = clock.now_ns
    for second in range(5):
        clock.tick(LATER_NS + second * S, LATER_NS + second * S)
    assert clock.now_ns == began_ns + 2 * S
    assert f"time is {ahead_s - 2} s ahead of the broker's clock" in clock.fault()
    judge_append(clock, LATER_NS + 5 * S)
    assert clock.arrival_ns == LATER_NS + 5 * S
    for second in range(6, 2 * ahead_s + 10):
        before_ns = clock.now_ns
        clock.tick(LATER_NS + second * S, LATER_NS + second * S)
        assert clock.now_ns >= before_ns
    assert clock.now_ns == LATER_NS + (2 * ahead_s + 9) * S - LAG_NS
    assert not clock.fault()
    assert not clock.off_ns


def test_long_tick_lag_is_no_fault() -> None:
    clock = ArrivalClock(3 * S)
    judge_append(clock, LATER_NS)
    for second in range(4):
        assert not clock.tick(LATER_NS + second * S, LATER_NS + second * S)
    assert clock.now_ns == LATER_NS
    assert not clock.fault()


@pytest.mark.parametrize("is_steady", [True, False])
def test_steady_clock_excuses_late_sends(is_steady: bool) -> None:
    """Producers buffer records during an outage of a minute, so their own timestamps are old."""
    clock = ArrivalClock(LAG_NS)
    for number in range(200):
        judge_append(clock, LATER_NS + number * S // 100, LATER_NS + number * S // 100)
    back_ns = LATER_NS + 62 * S
    clock.steady_since_ns = LATER_NS if is_steady else None
    judge_append(clock, back_ns, LATER_NS + 2 * S)
    assert clock.log.doubted_ns
    clock.tick(back_ns + LAG_NS + S)
    if is_steady:
        assert not clock.fault()
        assert not clock.off_ns
        assert clock.now_ns == back_ns + S
        # A replay, which has no ticks, gives the same.
        assert clock.arrival_ns < LATER_NS + 3 * S
    else:
        assert "a broker's clock is wrong" in clock.fault()
        assert clock.now_ns < LATER_NS + 10 * S


def test_uncertain_clock_is_no_fault() -> None:
    """After a slow probe, the lower bound of the broker's clock is far below the upper bound."""
    clock = ArrivalClock(LAG_NS)
    judge_append(clock, LATER_NS)
    for most_ns in (LATER_NS, None):
        assert not clock.tick(LATER_NS - 60 * S, most_ns)
        assert not clock.fault()
