"""End to end: one of two workers on shared partitions leaves and returns, with or without a name in
the consumer group.

In tests marked `chaos` all events lie in one of two partitions, and its owner is killed, stopped,
or meets a namesake. INORDER_CHAOS_SESSION_S is the group's session there (15).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import pytest

from tests.end_to_end.flow import flowing, has_events
from tests.end_to_end.setting import Setting, Settles
from tests.end_to_end.worker import Worker, running, worker_on
from tests.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

BEFORE = 4_000
SESSION_S = float(os.environ.get("INORDER_CHAOS_SESSION_S", "15"))
"""Session long enough for a start, which takes two seconds on a quiet machine and ten on a busy
one."""

LONG_SESSION_S = 300.0
"""Session longer than a stop and a start on the busiest machine; nobody waits for its end."""

PARTITIONS = 4

Watch = Callable[[float], None]
"""A function that watches the output for so many seconds."""

Act = Callable[[Worker, Worker, Watch], None]
"""An act on the worker that has the events, and on the other one."""


def played(setting: Setting, workers: Sequence[Worker], act: Act, before: int = BEFORE) -> float:
    """Perform the act after `before` events, and return the output's longest silence in seconds."""
    with flowing(setting, workers, 2, before) as flow:
        first, second = workers
        owner, other = (first, second) if has_events(first) else (second, first)
        act(owner, other, flow.for_seconds)
    return flow.silence_s


def rebalances(worker: Worker) -> float:
    return worker.metrics()["rebalances:reorder+merge"]


def opened(worker: Worker) -> int:
    """Return how often the worker has opened a partition; each time it restores the state."""
    return worker.log.count(": reads from ")


def shared(*workers: Worker) -> bool:
    """Return whether all workers have equally many partitions."""
    return all(len(worker.partitions()) == PARTITIONS // 2 for worker in workers)


def several(setting: Setting, *names: str, session_s: float = SESSION_S) -> list[Worker]:
    """Return workers with these names; one with an empty name has none."""
    session = ("--session", f"{session_s:.0f}s")
    return [
        worker_on(setting, *session, *(("--instance", name) if name else ()), name=f"w{number}")
        for number, name in enumerate(names)
    ]


@pytest.mark.parametrize(
    ("names", "opened_again"), [(("", ""), PARTITIONS // 2), (("kept0", "kept1"), 0)]
)
def test_restart_opens_only_what_moves(
    settles: Settles, names: tuple[str, str], opened_again: int
) -> None:
    """Without a name the worker leaves: its partitions go to the other one, and come back. With a
    name nobody has them meanwhile.
    """
    setting = settles.fused(partitions=PARTITIONS)

    def act(goes: Worker, stays: Worker, _: Watch) -> None:
        wait_until(lambda: shared(goes, stays), "the partitions shared between both")
        before = opened(stays)
        assert goes.stop() == 0, goes.log
        goes.begin()
        wait_until(lambda: shared(goes, stays), "the partitions shared again")
        assert opened(stays) - before == opened_again, stays.log

    workers = several(setting, *names, session_s=LONG_SESSION_S)
    played(setting, workers, act, before=600)


@pytest.mark.chaos
def test_named_worker_keeps_its_place(settles: Settles) -> None:
    silences = {}
    for names in (("", ""), ("one", "two")):
        setting = settles.fused(partitions=2)
        told: list[float] = []

        def act(owner: Worker, other: Worker, watch: Watch, told: list[float] = told) -> None:
            told.append(rebalances(other))
            owner.kill_all()
            owner.start()
            watch(SESSION_S + 5.0)
            told.append(rebalances(other))

        silences[names] = played(setting, several(setting, *names), act)
        print(f"{names}: {silences[names]:.1f} s of silence, rebalances of the other one {told}")
        assert (told[0] == told[1]) == bool(names[0])
    # The last heartbeat, from which a session counts, can precede the kill by a third of it.
    assert silences["", ""] > SESSION_S * 2 / 3
    assert silences["one", "two"] < min(SESSION_S, silences["", ""])


@pytest.mark.chaos
def test_namesake_replaces_the_worker(settles: Settles) -> None:
    """Each event is emitted once, and the former worker reports why it leaves."""
    setting = settles.fused(partitions=2)
    first, second, third = several(setting, "one", "two", "one")

    def act(_: Worker, __: Worker, watch: Watch) -> None:
        third.start()
        watch(SESSION_S)
        first.ends_refused("two workers have the same name")
        third.wait_ready()

    with running(may_start=[third]):
        silence_s = played(setting, [first, second], act)
        print(f"{silence_s:.1f} s of silence")
        assert third.stop() == 0, third.log
