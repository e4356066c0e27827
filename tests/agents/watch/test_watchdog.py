"""Examples: a table of a worker's observed behaviour, and the verdict on it."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

import pytest

from agents.watch.watchdog import S_NS, Patience, Verdict, Watchdog

A = ("raw", 0)
B = ("raw", 1)
PATIENCE = Patience(unready_after_ns=15 * S_NS, stuck_after_ns=60 * S_NS, longest_step_ns=5 * S_NS)


class State(Enum):
    """A worker's state, ordered by severity."""

    READY = "ready"
    NOT_READY = "not ready"
    STOP = "stop"


def state_of(verdict: Verdict) -> State:
    if verdict.is_stuck:
        return State.STOP
    return State.NOT_READY if verdict.reasons else State.READY


Telling = Callable[[int], tuple[Any, ...]]
"""A function from the second to position and end of partition A.

Further values are optional: whether it owes a checkpoint, the number of checkpoints, and whether
it is being restored.
"""


def stands(*_: int) -> tuple[int, int]:
    return 7, 100


def owes(_: int) -> tuple[int, int, bool, int]:
    return 7, 100, True, 3


def comes_later(second: int) -> tuple[int, int]:
    """Let one record arrive after the position."""
    return 50, 50 + (second > 30)


READY, NOT_READY, STOP = State
CASES: dict[str, tuple[Telling, int, State, str]] = {
    "gets on": (lambda s: (s, 100), 90, READY, ""),
    "nothing to read": (lambda _: (100, 100), 90, READY, ""),
    "an empty partition": (lambda _: (0, 0), 90, READY, ""),
    "stands for a moment": (stands, 14, READY, ""),
    "stands": (
        stands,
        15,
        NOT_READY,
        "raw/0: no progress for 15 s although there is lag (lag 93, position 7)",
    ),
    "still": (stands, 59, NOT_READY, "for 59 s"),
    "stuck": (stands, 60, STOP, "for 60 s"),
    "moves at last": (lambda s: (7 + (s > 59), 100), 61, READY, ""),
    "begins anew for ever": (lambda s: (20 + s % 10, 100), 90, STOP, "no progr"),
    "lag counts from then": (comes_later, 41, READY, ""),
    "a lag of one is a lag": (comes_later, 45, NOT_READY, "for 15 s although there is lag (lag 1"),
    "commits all the time": (lambda s: (s, 100, True, s), 90, READY, ""),
    "commits what ticks say": (lambda s: (7, 7, True, s), 90, READY, ""),
    "a slow commit": (owes, 5, READY, ""),
    "no commit comes through": (
        owes,
        6,
        NOT_READY,
        "raw/0: no checkpoint has been committed for 6 s (the last one at offset 7)",
    ),
    "nor of ticks": (lambda _: (7, 7, True, 3), 6, NOT_READY, "has been committed for 6 s"),
    "no commit for long": (owes, 60, STOP, "for 60 s"),
    "owes nothing, then owes": (
        lambda s: (7, 100, s % 10 > 0 or s > 50, 3 if s < 50 else 0),
        58,
        NOT_READY,
        "for 8 s",
    ),
    "a restore stands": (
        lambda _: (7, 9, False, 0, True),
        60,
        STOP,
        "no restore for 60 s although",
    ),
    "is restored at times": (lambda s: (s % 10, 99, False, 0, s % 20 < 10), 90, STOP, "for 71 s"),
}


def watching(patience: Patience = PATIENCE) -> Watchdog:
    """Return a watchdog with partition A assigned."""
    dog = Watchdog(patience)
    dog.assign(0, A)
    return dog


@pytest.mark.parametrize(("tells", "asked_s", "state", "says"), CASES.values(), ids=CASES)
def test_partition_reports_set_the_verdict(
    tells: Telling, asked_s: int, state: State, says: str
) -> None:
    dog = watching()
    dog.report(0, A, *tells(0)[:2], commits=3)
    for second in range(asked_s + 1):
        position, end, owes, commits, restoring = (*tells(second), False, 0, False)[:5]
        how = {"owes": owes, "commits": commits, "restoring": restoring}
        dog.report(second * S_NS, A, position, end, **how)
    verdict = dog.verdict(asked_s * S_NS)
    assert state_of(verdict) is state
    assert says in "; ".join(verdict.reasons)
    assert bool(verdict.reasons) == (state is not READY)


def asked_until(dog: Watchdog, from_s: int, until_s: int) -> Verdict:
    verdict = dog.verdict(from_s * S_NS)
    for second in range(from_s, until_s + 1):
        verdict = dog.verdict(second * S_NS)
    return verdict


@pytest.mark.parametrize(("silent_s", "state"), [(5, READY), (6, NOT_READY), (60, STOP)])
def test_missing_report_is_not_ready(silent_s: int, state: State) -> None:
    assert state_of(asked_until(watching(), 0, silent_s)) is state
    told_once = watching()
    told_once.report(0, A, 100, 100)
    verdict = asked_until(told_once, 0, silent_s)
    assert state_of(verdict) is state
    if verdict.reasons:
        assert verdict.reasons == (f"raw/0: no sign of life for {silent_s} s",)


def test_waking_worker_is_not_stuck() -> None:
    dog = watching()
    dog.report(0, A, 7, 100)
    assert dog.verdict(3600 * S_NS) == Verdict()
    dog.report(3601 * S_NS, A, 7, 100)
    # 5 s of the sleep count; 1 s and at least 9 s more make 15 s.
    assert state_of(asked_until(dog, 3601, 3601 + 12)) is NOT_READY


def test_throttled_time_is_ignored() -> None:
    """Half of each 20 s is throttled, so a stall of one minute is reached after two."""
    dog = watching()
    states = {}
    for second in range(121):
        dog.note_throttling(second * S_NS, (second // 20 * 20 + 10) * S_NS)
        dog.report(second * S_NS, A, 7, 100)
        states[second] = state_of(dog.verdict(second * S_NS))
    assert [second for second in states if states[second] is not states.get(second - 1)] == [
        *(0, 35, 120)
    ]
    assert [states[second] for second in (0, 35, 120)] == [READY, NOT_READY, STOP]


def test_clock_step_back_adds_no_time() -> None:
    dog = Watchdog(PATIENCE)
    dog.assign(100 * S_NS, A)
    dog.report(100 * S_NS, A, 7, 100)
    dog.report(0, A, 7, 100)
    assert state_of(dog.verdict(4 * S_NS)) is READY


def test_restore_is_not_ready() -> None:
    dog = watching()
    for second in range(61):
        dog.report(second * S_NS, A, second, 1000, restoring=True)
    assert dog.verdict(60 * S_NS) == Verdict(("raw/0: restoring, 940 records to read",))
    dog.report(61 * S_NS, A, 5, 100)  # another log, so a smaller offset
    assert state_of(dog.verdict(61 * S_NS)) is READY


def test_wait_for_restores_is_no_stall() -> None:
    dog = watching()
    dog.report(0, A, 7, 7, restoring=True)
    for second in range(200):
        dog.waits(second * S_NS, A)
    waiting = dog.verdict(199 * S_NS)
    assert waiting == Verdict(("raw/0: waits while others are restored",))
    assert state_of(asked_until(dog, 199, 258)) is NOT_READY
    assert state_of(asked_until(dog, 258, 259)) is STOP
    dog.report(259 * S_NS, A, 7, 7)
    assert dog.verdict(259 * S_NS) == Verdict()


def test_waiting_keeps_owed_checkpoint() -> None:
    dog = watching()
    dog.report(0, A, 7, 100, owes=True)
    dog.report(4 * S_NS, A, 7, 100, owes=True)
    dog.waits(4 * S_NS, A)
    dog.waits(9 * S_NS, A)
    dog.report(9 * S_NS, A, 7, 100, owes=True)
    assert state_of(dog.verdict(10 * S_NS)) is READY
    dog.report(11 * S_NS, A, 7, 100, owes=True)
    assert "no checkpoint has been committed for 6 s" in dog.verdict(11 * S_NS).reasons[0]


def test_worst_partition_decides() -> None:
    dog = watching()
    dog.assign(0, B)
    for second in range(61):
        dog.report(second * S_NS, A, min(second, 40), 1000)
        dog.report(second * S_NS, B, 7, 100)
    verdict = dog.verdict(60 * S_NS)
    assert state_of(verdict) is STOP
    assert [reason.split(":")[0] for reason in verdict.reasons] == ["raw/1", "raw/0"]


def test_revocation_ends_the_watch() -> None:
    dog = watching()
    for second in range(61):
        dog.report(second * S_NS, A, 7, 100)
    dog.revoke(60 * S_NS, A)
    dog.revoke(60 * S_NS, A)
    dog.report(60 * S_NS, A, 7, 100)  # a delayed report
    assert dog.verdict(60 * S_NS) == Verdict()
    dog.assign(60 * S_NS, A)
    dog.report(60 * S_NS, A, 7, 100)
    assert state_of(dog.verdict(60 * S_NS)) is READY


def test_failed_commits_are_no_progress() -> None:
    """After each failure the partition is restored.

    Its changelog grows by the markers of aborted transactions, and the restored partition has not
    committed a checkpoint.
    """
    dog = watching()
    dog.report(0, A, 7, 100, commits=500)
    for second in range(1, 88):
        if second % 8 < 2:
            dog.report(second * S_NS, A, 1000 + second, 1000 + second, restoring=True)
        else:
            dog.report(second * S_NS, A, 7, 100, owes=True, commits=0)
    assert state_of(dog.verdict(87 * S_NS)) is STOP
    dog.report(87 * S_NS, A, 8, 100, owes=True, commits=1)
    assert state_of(dog.verdict(87 * S_NS)) is READY


@pytest.mark.parametrize(("after_s", "state"), [(0, NOT_READY), (59, NOT_READY), (60, STOP)])
def test_no_assignment_is_not_ready(after_s: int, state: State) -> None:
    dog = Watchdog()
    dog.leaving(0)
    for second in range(after_s + 1):
        dog.leaving(second * S_NS)  # A repeated report counts from the first time.
    verdict = dog.verdict(after_s * S_NS)
    assert state_of(verdict) is state
    assert verdict.reasons == (f"no assignment by the group for {after_s} s",)
    dog.note_joining(after_s * S_NS)
    assert dog.verdict(100 * S_NS) == Verdict(), "a place without partitions is a place"
