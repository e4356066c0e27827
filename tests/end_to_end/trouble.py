"""Make trouble for workers while events flow: send, act, wait and stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from benchmarks.workloads.rows import Row
from tests.end_to_end.records import Sender
from tests.end_to_end.setting import Setting
from tests.end_to_end.waiting import Emitted
from tests.end_to_end.worker import Spawned, Worker, running, worker_on
from tests.waiting import POLL_S, Patience, wait_until

Place = tuple[str, str, int]
"""A stage, a topic and a partition."""


Act = Callable[["Trouble", int], list[int]]


class Trouble:
    """Workers that run, one that can join, and the acts on each.

    An act returns the ids of the stages that it hit.
    """

    def __init__(self, setting: Setting, worker_count: int) -> None:
        names = "abcdefgh"[: worker_count + 1]
        workers = [worker_on(setting, name=name, kind=Spawned) for name in names]
        self.workers, self.spare = workers[:-1], workers[-1]
        self._at_work = min(worker_count, setting.tasks)
        self._asleep: dict[Worker, set[Place]] = {}

    @property
    def everybody(self) -> list[Worker]:
        return [*self.workers, self.spare]

    def with_work(self) -> list[int]:
        """Wait until as many workers have partitions as can have some, and return those."""
        patience = Patience()
        while True:
            found = [at for at, worker in enumerate(self.workers) if worker.partitions()]
            if len(found) >= self._at_work:
                return found
            patience.look(found, lambda: f"partitions for {self._at_work} workers")
            time.sleep(POLL_S)

    def victim(self, turn: int) -> int:
        """Return the worker whose turn it is, or one with partitions if not all can have some."""
        if self._at_work == len(self.workers):
            return turn % len(self.workers)
        return self.with_work()[0]

    def do(self, act: Act, turn: int) -> None:
        """Perform the act once it can hit a worker.

        While a worker's partitions move to it, it has none that a pause could hit.
        """
        wait_until(lambda: bool(act(self, self.victim(turn))), f"{act.__name__} to hit somebody")

    def kill_worker(self, index: int) -> list[int]:
        """Kill supervisor and stages at once, and start again with the same state folder."""
        worker = self.workers[index]
        self._asleep.pop(worker, None)
        hit = worker.kill_all()
        worker.start()
        return hit

    def kill_supervisor(self, index: int) -> list[int]:
        """Kill the supervisor, and start it again; its stages notice that and stop."""
        worker = self.workers[index]
        self._wake(worker)
        hit = worker.kill()
        worker.start()
        return hit

    def kill_stages(self, index: int) -> list[int]:
        """Kill the stages, which the supervisor starts again."""
        self._asleep.pop(self.workers[index], None)
        return self.workers[index].kill_stages()

    def pause(self, index: int) -> list[int]:
        """Pause all stages of one worker until others have its partitions."""
        worker = self.workers[index]
        places = places_of(worker)
        if not places:
            return []
        self._asleep[worker] = places
        return worker.pause_stages()

    def join_and_leave(self, index: int) -> list[int]:
        """Cause a rebalance while events flow: the spare joins, another one leaves by SIGTERM."""
        leaving = self.workers[index]
        self._wake(leaving)
        hit = leaving.stages()
        self.spare.start()
        assert leaving.stop() == 0, leaving.log[-3000:]
        self.workers[index], self.spare = self.spare, leaving
        return hit

    def wake_due(self) -> int:
        """Wake the workers whose partitions others have; return how many are still paused."""
        for worker, places in [*self._asleep.items()]:
            others = (places_of(other) for other in self.everybody if other is not worker)
            if places <= set().union(*others):
                self._wake(worker)
        return len(self._asleep)

    def _wake(self, worker: Worker) -> None:
        if self._asleep.pop(worker, None):
            worker.wake()

    def stop(self) -> None:
        """Stop all workers by SIGTERM at once, and assert that each exits with 0.

        A zombie has to wake before that, and must not write anything.
        """
        wait_until(lambda: self.wake_due() == 0, "others to have what sleepers had")
        alive = [worker for worker in self.everybody if worker.alive]
        for worker in self.everybody:
            worker.await_orphans()
        for worker in alive:
            worker.terminate()
        for worker in alive:
            assert worker.exit_code() == 0, f"{worker.name}:\n{worker.log[-3000:]}"


def places_of(worker: Worker) -> set[Place]:
    return {(each["stage"], each["topic"], each["partition"]) for each in worker.partitions()}


@contextmanager
def troubled(setting: Setting, worker_count: int = 2) -> Iterator[Trouble]:
    """Start the workers, yield their trouble once they have work, and stop them at the end."""
    trouble = Trouble(setting, worker_count)
    with running(*trouble.workers, may_start=trouble.everybody):
        for worker in trouble.workers:
            worker.wait_ready()
        trouble.with_work()
        yield trouble
        trouble.stop()


def play(
    setting: Setting,
    rows: Sequence[Row],
    speed: float | None,
    script: Sequence[tuple[float, Act]] = (),
    worker_count: int = 2,
    sender: Sender | None = None,
) -> None:
    """Send, perform each act at its share of the rows, wait until all is emitted, and stop."""
    with troubled(setting, worker_count) as trouble:
        sender = (sender or Sender(setting, rows, speed=speed)).start()
        emitted = Emitted(setting)

        def look() -> None:
            emitted.poll()
            trouble.wake_due()

        for turn, (share, act) in enumerate(script):
            sender.await_share(share, look)
            trouble.do(act, turn)
        sender.await_share(1.0, look)
        sender.finish()
        emitted.wait_for(sender.different, trouble.wake_due)
        print(f"longest silence of the ordered topic: {emitted.longest_silence_s:.1f} s")
        emitted.close()
