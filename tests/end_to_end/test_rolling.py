"""End to end, marked `chaos`: an upgrade of workers in turn, more workers, fewer, and a kill.

Events flow at a steady rate while workers come and go, and the oracle checks every record at the
end. A read-committed reader measures the longest silence of the ordered topic, which is printed and
has a bound. That is 2 s on an idle machine, longer on a busy one, and never more than three times
that. A pause is mostly processor time of starts and restores, so it grows with the load;
docs/operate/change.md has figures.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

from cli.local.poll import share_of_processors
from tests.end_to_end.flow import Flow, flowing, has_events
from tests.end_to_end.setting import FUSED, ONE_TASK, SPLIT, Setting, Settles
from tests.end_to_end.worker import SESSION_S, Worker, worker_on

pytestmark = [pytest.mark.chaos, pytest.mark.kafka]

BEFORE = 2_000
FLOWS_S = 4.0
"""Time for which events flow between acts."""

PAUSE_S = 2.0
"""Bound of a pause for a move of partitions, with start and restore."""

OWN_LOAD = 2.0
"""Load for each core that four workers, a broker and the events cause themselves."""

MOST_FACTOR = 3.0
"""Largest factor of the bound, however much else runs on the machine."""

OVER_SESSION_S = 3.0


def pause_bound_s() -> float:
    """Return the bound for a pause; call this after the workers have come and gone.

    The bound grows as the load exceeds the test's own. Workers that took more of the processors
    would also get a longer bound.
    """
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    bound_s = PAUSE_S * min(max(1.0, load / OWN_LOAD), MOST_FACTOR)
    print(f"a load of {load:.1f} for each core, so at most {bound_s:.1f} s")
    return bound_s


def several(setting: Setting, count: int, *, named: bool = False) -> list[Worker]:
    """Return `count` workers; one without a name leaves the group when it stops."""
    return [
        worker_on(setting, *(("--instance", name) if named else ()), name=name)
        for name in (f"w{at}" for at in range(count))
    ]


def grown(flow: Flow, workers: Sequence[Worker], tasks: int) -> float:
    """Start the other workers; return the longest silence until every worker that can have work has
    some.
    """
    for worker in workers[1:]:
        worker.start()
    for worker in workers[1:]:
        flow.until_ready(worker)
    at_work = min(len(workers), tasks)
    flow.until(
        lambda: sum(bool(each.partitions()) for each in workers) == at_work,
        f"work for {at_work} workers",
    )
    flow.for_seconds(FLOWS_S)
    return flow.silence_s


def stopped(flow: Flow, *workers: Worker) -> None:
    """Stop the workers all at once, each gracefully."""
    for worker in workers:
        worker.terminate()
    for worker in workers:
        flow.until(lambda worker=worker: not worker.alive, "its end")  # type: ignore[misc]
        assert worker.exit_code() == 0, worker.log


@pytest.mark.parametrize(
    ("shape", "count"),
    [
        ({"stages": FUSED, "partitions": 4}, 4),
        ({"stages": SPLIT, "partitions": 4}, 4),
        (ONE_TASK, 2),
    ],
    ids=["fused", "split", "one task and a standby"],
)
def test_workers_are_upgraded_in_turn(settles: Settles, shape: dict[str, Any], count: int) -> None:
    setting = settles(**shape)
    workers = several(setting, count)
    with flowing(setting, workers, 1, BEFORE) as flow:
        more_s = grown(flow, workers, setting.tasks)
        print(f"\n1 to {count}: {more_s:.1f} s of silence")
        pauses = []
        for worker in workers:
            stopped(flow, worker)
            worker.start()
            flow.until_ready(worker)
            flow.for_seconds(1.0)
            pauses.append(flow.silence_s)
        print(f"upgrade: {', '.join(f'{pause:.1f}' for pause in pauses)} s of silence")
        assert max(pauses) < pause_bound_s()


@pytest.mark.parametrize("stages", [FUSED, SPLIT], ids=["fused", "split"])
def test_workers_scale_up_and_down(settles: Settles, stages: str) -> None:
    setting = settles(stages=stages, partitions=4)
    workers = several(setting, 4)
    with flowing(setting, workers, 1, BEFORE) as flow:
        more_s = grown(flow, workers, setting.tasks)
        stopped(flow, *workers[2:])
        flow.for_seconds(FLOWS_S)
        fewer_s = flow.silence_s
        print(f"\n1 to 4: {more_s:.1f} s of silence, 4 to 2: {fewer_s:.1f} s")
        assert max(more_s, fewer_s) < pause_bound_s()


@pytest.mark.parametrize("shape", [{"stages": FUSED, "partitions": 1}, ONE_TASK])
def test_kill_pauses_for_one_session(settles: Settles, shape: dict[str, Any]) -> None:
    """test_instance.py covers a killed worker that is back at once."""
    setting = settles(**shape)
    workers = several(setting, 2, named=True)
    with flowing(setting, workers, 1, BEFORE) as flow:
        workers[1].start()
        flow.until_ready(workers[1])
        flow.for_seconds(FLOWS_S)
        owner = next(w for w in workers if has_events(w))
        flow.silence_s  # noqa: B018
        owner.kill_all()
        flow.for_seconds(SESSION_S + 2 * FLOWS_S)
        silence_s = flow.silence_s
        print(f"\nkilled: {silence_s:.1f} s of silence")
        assert silence_s < SESSION_S + OVER_SESSION_S * share_of_processors()
