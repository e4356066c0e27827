"""Examples and laws: arrival times recover after a broker's clock was wrong for a while."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from topology.base.append_clock import BACK_NS, BLOCK, AppendClock

S = 1_000_000_000
MS = 1_000_000
HOUR = 3_600 * S
YEAR = 365 * 24 * HOUR
BEGIN = 1_790_000_000 * S
EVERY = 20 * MS
TRANSIT = 5 * MS

Appended = tuple[int, int | None]
"""An arrival time by the broker, and the reported timestamp."""
Stamped = tuple[int, int]


def busy(seconds: float, ahead_ns: int = 0, begin_ns: int = BEGIN) -> list[Stamped]:
    """Return a log of fifty records a second, whose broker's clock is ahead."""
    times_ns = range(begin_ns, begin_ns + int(seconds * S), EVERY)
    return [(at_ns + TRANSIT + ahead_ns, at_ns) for at_ns in times_ns]


def wrong(ahead_ns: int, lasts_s: float) -> tuple[list[Stamped], list[int]]:
    """Return a log whose broker's clock is ahead for a while, with the true arrival times."""
    lasts = int(lasts_s * S)
    log = [
        *busy(10),
        *busy(lasts_s, ahead_ns, BEGIN + 10 * S),
        *busy(20, 0, BEGIN + 10 * S + lasts),
    ]
    return log, [stamp_ns + TRANSIT for _, stamp_ns in log]


def arrivals(log: Sequence[Appended], clock: AppendClock | None = None) -> list[int]:
    clock = clock or AppendClock()
    return [clock.take(append_ns, stamp_ns) for append_ns, stamp_ns in log]


@pytest.mark.parametrize("ahead_ns", [60 * S, HOUR, YEAR, 50 * YEAR])
@pytest.mark.parametrize("lasts_s", [0.1, 25])
def test_undone_step_changes_no_arrival(ahead_ns: int, lasts_s: float) -> None:
    """A broker's clock is ahead by one minute to 50 years, for 0.1 or 25 s."""
    log, truth = wrong(ahead_ns, lasts_s)
    found = arrivals(log)
    assert max(abs(at - true) for at, true in zip(found, truth, strict=True)) <= EVERY
    assert found == sorted(found)


@pytest.mark.parametrize("ahead_ns", [2 * S, 5 * S, 30 * S])
def test_small_step_is_accepted_and_ends(ahead_ns: int) -> None:
    """A step of seconds is accepted, and arrival times are right again after twice its length."""
    log = [*busy(10), *busy(5, ahead_ns, BEGIN + 10 * S), *busy(70, 0, BEGIN + 15 * S)]
    clock = AppendClock()
    found = arrivals(log, clock)
    after = [at for at, (_, stamp) in zip(found, log, strict=True) if stamp >= BEGIN + 15 * S]
    assert after[-1] - after[0] > 30 * S  # Time advances.
    assert len(set(after)) > len(after) * 0.9
    ends = BEGIN + 15 * S + 2 * ahead_ns
    assert [at for at in found if at > ends + S] == [
        stamp + TRANSIT for _, stamp in log if stamp + TRANSIT > ends + S
    ]
    assert clock.off_ns == 0


def test_leader_behind_slows_time() -> None:
    """A new leader is an hour behind for a minute, in which time advances at half its speed."""
    log = [*busy(10), *busy(60, -HOUR, BEGIN + 10 * S), *busy(10, 0, BEGIN + 70 * S)]
    found = arrivals(log)
    a_minute = found[500:3500]
    assert a_minute[-1] - a_minute[0] == pytest.approx(30 * S, rel=0.1)
    assert found[3500:] == [stamp + TRANSIT for _, stamp in log[3500:]]


@pytest.mark.parametrize("silent_ns", [31 * S, HOUR, YEAR])
def test_silence_keeps_arrival_times(silent_ns: int) -> None:
    """Reported timestamps confirm the silence, so the next record arrives when it was appended."""
    log = [*busy(10), *busy(10, 0, BEGIN + 10 * S + silent_ns)]
    assert arrivals(log) == [append_ns for append_ns, _ in log]


def test_fresh_record_ends_outage() -> None:
    """After an outage of ten minutes stored records come first, each with its broker's time."""
    back = BEGIN + 10 * S + 600 * S
    kept = [(back + i * MS, BEGIN + 10 * S + i * S) for i in range(600)]
    fresh = busy(5, 0, back + S)
    found = arrivals([*busy(10), *kept, *fresh])
    assert found[500] - found[499] <= S
    assert found[-len(fresh) :] == [append_ns for append_ns, _ in fresh]
    assert found == sorted(found)


def test_clock_behind_is_corrected_at_once() -> None:
    """All reported timestamps had been ahead of the broker's clock."""
    log = [*busy(10, -HOUR), *busy(10, 0, BEGIN + 10 * S)]
    assert arrivals(log) == [append_ns for append_ns, _ in log]


def test_lasting_step_is_accepted() -> None:
    """A step is accepted once it has lasted as long as it is large."""
    log = [*busy(10), *busy(150, 100 * S, BEGIN + 10 * S)]
    found = arrivals(log)
    assert found[500 + 99 * 50] <= log[500 + 99 * 50][1] + S
    assert found[500 + 101 * 50 :] == [append_ns for append_ns, _ in log[500 + 101 * 50 :]]


def test_sparse_log_is_accepted() -> None:
    """One record arrives every 97 s, some with a delay, so no step is larger than usual."""
    log = [(BEGIN + i * 97 * S, BEGIN + i * 97 * S - (i % 3) * 60 * S) for i in range(500)]
    assert arrivals(log) == [append_ns for append_ns, _ in log]


def test_recovery_despite_wrong_sources() -> None:
    """Arrival times stay right if some sources are in 1970 and some an hour ahead."""
    off = [0, -50 * YEAR, HOUR]
    log = [(append, stamp + off[i % 3]) for i, (append, stamp) in enumerate(busy(10))]
    log += [
        (append, stamp + off[i % 3])
        for i, (append, stamp) in enumerate(busy(10, 0, BEGIN + 10 * S + HOUR))
    ]
    found = arrivals(log)
    late = [i for i, (append, _) in enumerate(log) if found[i] != append]
    assert late == [500, 501]  # The source that is ahead sends third.
    log, truth = wrong(2 * HOUR, 25)
    log = [(append, stamp + off[i % 3]) for i, (append, stamp) in enumerate(log)]
    found = arrivals(log)
    assert max(abs(at - true) for at, true in zip(found, truth, strict=True)) <= EVERY


@pytest.mark.parametrize("stuck_ns", [BEGIN + YEAR, BEGIN + 50 * YEAR])
def test_stuck_clock_hides_no_silence(stuck_ns: int) -> None:
    """One source's clock is stuck, in a log that is busy for two seconds of a minute.

    Timestamps of the other sources confirm each silence.
    """
    log: list[Appended] = []
    for burst in range(20):
        log += busy(2, 0, BEGIN + burst * 60 * S)
    log = [(append, stuck_ns if i % 7 == 0 else stamp) for i, (append, stamp) in enumerate(log)]
    found = arrivals(log)
    late = [i for i, (append, _) in enumerate(log) if found[i] != append]
    assert set(late) <= {100 * burst for burst in range(20)}  # It begins some bursts.


@pytest.mark.parametrize("off_ns", [HOUR, 2 * HOUR])
def test_source_ahead_confirms_no_broker(off_ns: int) -> None:
    log, truth = wrong(HOUR, 25)
    log = [(append, stamp + off_ns * (i % 5 == 0)) for i, (append, stamp) in enumerate(log)]
    found = arrivals(log)
    assert max(abs(at - true) for at, true in zip(found, truth, strict=True)) <= EVERY


def troubled(rng: Random) -> list[Appended]:
    """Return a log with silences, outages, jitter, missing timestamps, and clocks that step."""
    log: list[Appended] = []
    true_ns, ahead_ns = BEGIN, 0
    for _ in range(rng.randrange(300, 1200)):
        true_ns += rng.choice([1, 5, 20]) * MS
        what = rng.random()
        if what < 0.004:
            true_ns += rng.choice([5, 40, 4000]) * S
        elif what < 0.012:
            ahead_ns = rng.choice([0, 0, 3, 60, 3600, -5, -3600]) * S
        kept_ns = rng.choice([0, 0, 0, 0, 5000]) * MS
        stamp_ns = None if rng.random() < 0.02 else true_ns - kept_ns
        log.append(((true_ns + ahead_ns) // MS * MS - rng.randrange(2) * MS, stamp_ns))
    return log


@pytest.mark.parametrize("seed", range(40))
def test_law_time_never_goes_back(seed: int) -> None:
    """Law: time never goes back, and a restart changes nothing."""
    rng = Random(seed)
    log = troubled(rng)
    found = arrivals(log)
    assert found == sorted(found)
    cut = rng.randrange(len(log))
    clock, restored = AppendClock(), AppendClock()
    head = arrivals(log[:cut], clock)
    restored.restore(clock.snapshot())
    assert head + arrivals(log[cut:], restored) == found


@pytest.mark.parametrize("seed", range(20))
def test_law_steady_piece_is_taken_whole(seed: int) -> None:
    """Law: a steady piece of the log gives the same times at once as record by record."""
    rng = Random(seed)
    log = troubled(rng)
    clock, found, at = AppendClock(), [], 0
    while at < len(log):
        piece = log[at : at + rng.choice([1, 7, 40, 400])]
        appended = [append_ns for append_ns, _ in piece]
        if clock.goes_on(appended):
            stamped = [(append, stamp) for append, stamp in piece if stamp is not None]
            clock.advance_to(appended[-1], stamped[-2 * BLOCK :], len(stamped))
            found += appended
        else:
            found += arrivals(piece, clock)
        at += len(piece)
    assert found == arrivals(log)


def test_small_step_back_stops_time() -> None:
    """Clocks of two leaders differ by at most `BACK_NS`."""
    log = [(BEGIN, BEGIN), (BEGIN - BACK_NS, BEGIN), (BEGIN - BACK_NS + 5, BEGIN)]
    assert arrivals(log) == [BEGIN] * 3
