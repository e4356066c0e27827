"""End to end, marked `chaos`: an upgrade of workers in turn, more workers, fewer, and a kill.

Events flow at a steady rate while workers come and go; the oracle looks at every record at the
end, and the longest silence of the ordered topic, as a read-committed reader sees it, is told
and held against a bound: 2 s where the machine has nothing else to do, longer where it had before
the test began, and never more than three times that. A pause is for the most part processor time,
of starts and restores, so it grows with the load; docs/operate/size.md has what was seen.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.workloads import crowd
from benchmarks.workloads.crowd import RATE_HZ
from tests.end_to_end.oracle import assert_sound
from tests.end_to_end.records import Sender
from tests.end_to_end.setting import FUSED, SPLIT, Setting, fused, settle
from tests.end_to_end.waiting import Emitted
from tests.end_to_end.worker import SESSION_S, Worker, running
from tests.services import SharedKafka

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.timeout(600)]

RATE = 1_000.0
FLOWS_S = 4.0
"""So long events flow before anything happens, and between what happens."""

TIMEOUT_S = 120.0
PAUSE_S = 2.0
"""A move of partitions, start and restore included."""

OWN_LOAD = 2.0
"""For each core: so much four workers, a broker and the events make of themselves."""

MOST_FACTOR = 3.0
"""However much others do, a pause is no longer than so many times the bound."""

OVER_SESSION_S = 3.0


def pause_bound_s() -> float:
    """Ask before the flow, whose own load does not count: as many times longer as others do more
    than a test would."""
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    bound_s = PAUSE_S * min(max(1.0, load / OWN_LOAD), MOST_FACTOR)
    print(f"a load of {load:.1f} for each core, so at most {bound_s:.1f} s")
    return bound_s


class Flow:
    """Events under way; what came out is looked at all the time."""

    def __init__(self, setting: Setting, seconds: float) -> None:
        self._rows = crowd(int(seconds * RATE), seed=5).rows
        self._sender = Sender(setting, self._rows, speed=RATE / RATE_HZ).start()
        self._emitted = Emitted(setting)

    def for_seconds(self, seconds: float) -> None:
        self.until(lambda: False, seconds)

    def until(self, done: Callable[[], bool], timeout_s: float) -> None:
        until_s = time.monotonic() + timeout_s
        while not done() and time.monotonic() < until_s:
            self._emitted.poll()

    @property
    def silence_s(self) -> float:
        """The longest since it was asked before."""
        found, self._emitted.longest_silence_s = self._emitted.longest_silence_s, 0.0
        return found

    def finish(self) -> None:
        self._emitted.wait_for(len({(row.source, row.seq) for row in self._rows}))
        self._sender.finish(TIMEOUT_S)
        self._emitted.close()


@contextmanager
def flowing(setting: Setting, workers: Sequence[Worker], seconds: float) -> Iterator[Flow]:
    """The first worker runs, events flow; at the end all of them came out, once and in order."""
    with running(workers[0], may_start=workers):
        workers[0].wait_ready()
        flow = Flow(setting, seconds)
        flow.until(lambda: flow._emitted.poll() > FLOWS_S * RATE / 2, TIMEOUT_S)
        flow.silence_s  # noqa: B018 - what was before does not count
        yield flow
        flow.finish()
        for worker in workers:
            if worker.alive:
                assert worker.stop() == 0, worker.log
    assert_sound(setting)


def named(setting: Setting, folder: Path, count: int) -> list[Worker]:
    return [
        Worker(f"w{at}", setting.path, setting.bootstrap, folder, "--instance", f"w{at}")
        for at in range(count)
    ]


def several(setting: Setting, folder: Path, count: int) -> list[Worker]:
    """Without a name: who stops leaves, and the others go on."""
    return [Worker(f"w{at}", setting.path, setting.bootstrap, folder) for at in range(count)]


def grown(flow: Flow, workers: Sequence[Worker]) -> float:
    """The first runs, the others come; the longest silence until all have work."""
    for worker in workers[1:]:
        worker.start()
    for worker in workers[1:]:
        flow.until(is_ready(worker), TIMEOUT_S)
    flow.for_seconds(FLOWS_S)
    return flow.silence_s


def stopped(flow: Flow, *workers: Worker) -> None:
    """All at once, each gracefully."""
    for worker in workers:
        worker.terminate()
    for worker in workers:
        flow.until(lambda worker=worker: not worker.alive, TIMEOUT_S)  # type: ignore[misc]
        assert worker.exit_code() == 0, worker.log


def is_ready(worker: Worker) -> Callable[[], bool]:
    return lambda: worker.ask("ready")[0] == 200


@pytest.mark.parametrize("stages", [FUSED, SPLIT], ids=["fused", "split"])
def test_four_workers_are_upgraded_one_after_the_other(
    kafka: SharedKafka, tmp_path: Path, stages: str
) -> None:
    setting = settle(kafka.bootstrap, tmp_path, stages=stages, partitions=4)
    workers = several(setting, tmp_path, 4)
    bound_s = pause_bound_s()
    with flowing(setting, workers, 75.0) as flow:
        print(f"\nthree more: {grown(flow, workers):.1f} s of silence")
        pauses = []
        for worker in workers:
            stopped(flow, worker)
            worker.start()
            flow.until(is_ready(worker), TIMEOUT_S)
            flow.for_seconds(1.0)
            pauses.append(flow.silence_s)
        print(f"upgrade: {', '.join(f'{pause:.1f}' for pause in pauses)} s of silence")
        assert max(pauses) < bound_s


@pytest.mark.parametrize("stages", [FUSED, SPLIT], ids=["fused", "split"])
def test_one_worker_becomes_four_and_then_two(
    kafka: SharedKafka, tmp_path: Path, stages: str
) -> None:
    setting = settle(kafka.bootstrap, tmp_path, stages=stages, partitions=4)
    workers = several(setting, tmp_path, 4)
    bound_s = pause_bound_s()
    with flowing(setting, workers, 45.0) as flow:
        more_s = grown(flow, workers)
        stopped(flow, *workers[2:])
        flow.for_seconds(FLOWS_S)
        fewer_s = flow.silence_s
        print(f"\n1 to 4: {more_s:.1f} s of silence, 4 to 2: {fewer_s:.1f} s")
        assert max(more_s, fewer_s) < bound_s


@pytest.mark.parametrize("back", [True, False], ids=["back", "gone"])
def test_a_killed_worker_pauses_no_longer_than_its_session_and_a_little(
    kafka: SharedKafka, tmp_path: Path, back: bool
) -> None:
    setting = fused(kafka.bootstrap, tmp_path)
    workers = named(setting, tmp_path, 2)
    with flowing(setting, workers, 40.0) as flow:
        workers[1].start()
        flow.until(is_ready(workers[1]), TIMEOUT_S)
        flow.for_seconds(FLOWS_S)
        owner = next(w for w in workers if any(p["next_offset"] for p in w.ask("explain")[1] or []))
        flow.silence_s  # noqa: B018
        owner.kill_all()
        if back:
            owner.start()
        flow.for_seconds(SESSION_S + 2 * FLOWS_S)
        silence_s = flow.silence_s
        print(f"\nkilled, {'back at once' if back else 'gone'}: {silence_s:.1f} s of silence")
        assert silence_s < SESSION_S + OVER_SESSION_S
