"""What happens to workers in mid-flow, and a play of it: send, hurt, wait, stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from benchmarks.workloads.rows import Row
from tests.end_to_end.records import Sender
from tests.end_to_end.setting import Setting
from tests.end_to_end.waiting import Emitted
from tests.end_to_end.worker import SESSION_S, Spawned, Worker, running, worker_on

ZOMBIE_S = SESSION_S + 3.0
"""So the sleeper's partitions have gone elsewhere when it wakes."""


class Trouble:
    """Two workers that run, one that may join, and what can be done to them."""

    def __init__(self, setting: Setting, *, worker_count: int = 2) -> None:
        names = "abcdefgh"[: worker_count + 1]
        workers = [worker_on(setting, name=name, kind=Spawned) for name in names]
        self.workers, self.spare = workers[:-1], workers[-1]
        self._wakes: list[tuple[float, Worker, int]] = []

    @property
    def everybody(self) -> list[Worker]:
        return [*self.workers, self.spare]

    def kill_worker(self, index: int = 0) -> None:
        """Supervisor and stages at once, and a new start with the same state folder."""
        worker = self.workers[index]
        self._forget(worker)
        worker.kill_all()
        worker.start()

    def kill_supervisor(self, index: int = 0) -> None:
        """Its stages see that they are alone, and stop."""
        worker = self.workers[index]
        self._wake(worker)
        worker.kill()
        worker.start()

    def kill_stages(self, index: int = 1) -> None:
        """The supervisor starts them anew."""
        for stage in range(len(self.workers[index].stages())):
            self.workers[index].kill_stage(stage)

    def pause(self, index: int = 1) -> None:
        """All stages of one worker sleep beyond their session."""
        worker = self.workers[index]
        for stage in range(len(worker.stages())):
            pid = worker.pause_stage(stage)
            if pid is not None:
                self._wakes.append((time.monotonic() + ZOMBIE_S, worker, pid))

    def join_and_leave(self, index: int = 0) -> None:
        """A rebalance in mid-flow: the spare joins, another one leaves by SIGTERM."""
        leaving = self.workers[index]
        self._wake(leaving)
        self.spare.start()
        assert leaving.stop() == 0, leaving.log[-3000:]
        self.workers[index], self.spare = self.spare, leaving

    def wake_due(self) -> None:
        for wake in list(self._wakes):
            if time.monotonic() >= wake[0]:
                self._wakes.remove(wake)
                wake[1].wake(wake[2])

    @property
    def is_quiet(self) -> bool:
        return not self._wakes

    def _wake(self, worker: Worker) -> None:
        for wake in self._forget(worker):
            worker.wake(wake[2])

    def _forget(self, worker: Worker) -> list[tuple[float, Worker, int]]:
        mine = [wake for wake in self._wakes if wake[1] is worker]
        self._wakes = [wake for wake in self._wakes if wake[1] is not worker]
        return mine


Act = Callable[[Trouble], None]


def play(
    setting: Setting,
    rows: Sequence[Row],
    speed: float | None,
    script: Sequence[tuple[float, Act]] = (),
    worker_count: int = 2,
    sender: Sender | None = None,
) -> None:
    """Send, act when that share of the rows has been sent, wait until all is out, stop."""
    trouble = Trouble(setting, worker_count=worker_count)
    with running(*trouble.workers, may_start=trouble.everybody):
        trouble.workers[0].wait_ready()
        sender = (sender or Sender(setting, rows, speed=speed)).start()
        emitted = Emitted(setting)
        for share, act in script:
            while sender.share < share:
                emitted.poll()
                trouble.wake_due()
            act(trouble)
        sender.finish()
        expected = len({(row.source, row.seq) for row in rows})
        emitted.wait_for(expected, trouble.wake_due)
        while not trouble.is_quiet:  # a zombie has to wake, and must not say anything
            emitted.poll()
            trouble.wake_due()
        print(f"longest silence of the ordered topic: {emitted.longest_silence_s:.1f} s")
        emitted.close()
        stop_all(trouble.everybody)


def stop_all(workers: Sequence[Worker]) -> None:
    """By SIGTERM, all at once; each has to leave in peace."""
    alive = [worker for worker in workers if worker.alive]
    for worker in workers:
        worker.await_orphans()
    for worker in alive:
        worker.terminate()
    for worker in alive:
        assert worker.exit_code() == 0, f"{worker.name}:\n{worker.log[-3000:]}"
