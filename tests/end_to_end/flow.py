"""Send events at a steady rate while workers come and go, and watch the output."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from benchmarks.workloads import crowd
from benchmarks.workloads.crowd import RATE_HZ
from tests.end_to_end.oracle import assert_sound
from tests.end_to_end.records import Sender
from tests.end_to_end.setting import Setting
from tests.end_to_end.waiting import Emitted
from tests.end_to_end.worker import Worker, running
from tests.waiting import Patience

RATE = 1_000.0
MOST = 300_000
"""Number of events, which last for five minutes; no test takes so long."""


class Flow:
    """A flow of events that lasts until `finish`."""

    def __init__(self, setting: Setting) -> None:
        rows = crowd(MOST, seed=5).rows
        self._sender = Sender(setting, rows, speed=RATE / RATE_HZ).start()
        self.emitted = Emitted(setting)

    def for_seconds(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            self.emitted.poll()

    def until(self, done: Callable[[], bool], what: str) -> None:
        """Wait until the condition holds.

        Raises AssertionError if it does not hold for long while no event comes.
        """
        patience = Patience()
        while not done():
            patience.look(self.emitted.poll(), lambda: what)

    def until_ready(self, worker: Worker) -> None:
        self.until(lambda: worker.ask("ready")[0] == 200, f"{worker.name}, to be ready")

    @property
    def silence_s(self) -> float:
        """Return the longest silence since the last call."""
        found, self.emitted.longest_silence_s = self.emitted.longest_silence_s, 0.0
        return found

    def finish(self) -> None:
        self._sender.stop()
        assert self._sender.share < 1.0, "else nothing flowed at the end"
        self.emitted.wait_for(self._sender.different)
        self.emitted.close()


@contextmanager
def flowing(setting: Setting, workers: Sequence[Worker], start: int, before: int) -> Iterator[Flow]:
    """Start the first `start` workers, and yield a flow once `before` events are emitted.

    At the end assert that all events were emitted, once and in order.
    """
    with running(*workers[:start], may_start=workers):
        for worker in workers[:start]:
            worker.wait_ready()
        flow = Flow(setting)
        flow.emitted.wait_for(before)
        flow.silence_s  # noqa: B018 - what was before does not count
        yield flow
        flow.finish()
        for worker in workers:
            if worker.alive:
                assert worker.stop() == 0, worker.log
    assert_sound(setting)


def has_events(worker: Worker) -> bool:
    """Return whether the worker has a partition with events."""
    return any(part["next_offset"] for part in worker.partitions())
