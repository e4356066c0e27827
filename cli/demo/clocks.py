"""Simulates sources with wrong clocks, and runs the time sync that measures their error.

Two of the three sources have a clock that is far off and runs at its own rate. A sync server
listens on loopback. Each source has a sync client, as `SequencedProducer` would start one. The
measurements go to `clock.offsets`, and the worker corrects timestamps by them. The worker does not
see the `WrongClock`, so it depends on the measurements.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from cli.demo.patience import Patience
from inorder.sync.client import SyncClient
from inorder.sync.keys import KeyRing
from inorder.sync.settings import SyncSettings
from producers.sync_server.publishing import TopicPublishing
from producers.sync_server.server import SyncServer

MILLION: Final = 1_000_000
S: Final = 1_000_000_000
TOPIC: Final = "clock.offsets"
STOP_TIMEOUT_S: Final = 5.0
ROUNDS: Final = 4
"""The number of rounds to wait for: one more than a source needs to be synced."""

LOOK_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class WrongClock:
    """A clock that reads t + ahead + rate * (t - begin) at the actual time t."""

    ahead_ns: int = 0
    rate_ppm: int = 0
    begin_ns: int = 0

    def reads(self, true_ns: int) -> int:
        return true_ns + self.ahead_ns + (true_ns - self.begin_ns) * self.rate_ppm // MILLION

    def true(self, reading_ns: int) -> int:
        """Return the actual time of a reading of the clock, accurate to two nanoseconds."""
        run_ns = reading_ns - self.ahead_ns - self.begin_ns
        return self.begin_ns + run_ns * MILLION // (MILLION + self.rate_ppm)

    def now(self) -> int:
        return self.reads(time.time_ns())


def wrong_clocks(begin_ns: int) -> dict[str, WrongClock]:
    return {
        "broker0": WrongClock(0, 0, begin_ns),
        "broker1": WrongClock(90 * S, 150, begin_ns),
        "broker2": WrongClock(-3_600 * S, -80, begin_ns),
    }


def describe(clocks: Mapping[str, WrongClock]) -> str:
    """Return a description of the wrong clocks, in words."""
    parts = []
    for source, clock in clocks.items():
        if clock.ahead_ns:
            where = "ahead" if clock.ahead_ns > 0 else "behind"
            off_s = abs(clock.ahead_ns) // S
            parts.append(f"{source} is {off_s:,} s {where} and runs {clock.rate_ppm:+} ppm")
    return ", ".join(parts)


@contextmanager
def sync_clocks(
    brokers: str, clocks: Mapping[str, WrongClock], report: Callable[[str], None] = print
) -> Iterator[None]:
    """Run a sync server, and a client for each clock, during the body of the `with` statement.

    The body begins when every clock has been measured, or when measuring makes no more progress.
    `report` is called with sentences about the wait.
    """
    publishing = TopicPublishing(brokers, TOPIC, "demo")
    server = SyncServer(
        "127.0.0.1", 0, KeyRing.open_to_all(), publishing.take, on_turn=publishing.update_counts
    )
    thread = threading.Thread(target=server.run, name="sync-server", daemon=True)
    thread.start()
    host, port = server.address
    settings = SyncSettings(f"{host}:{port}")
    clients = [SyncClient(source, settings, clock=clock.now) for source, clock in clocks.items()]
    try:
        for client in clients:
            client.start()
        _wait_until_measured(clients, report)
        yield
    finally:
        for client in clients:
            client.close(STOP_TIMEOUT_S)
        server.stop()
        thread.join(STOP_TIMEOUT_S)
        publishing.close()


def _wait_until_measured(clients: list[SyncClient], report: Callable[[str], None]) -> None:
    """Wait until every clock has been measured, or until there is no more progress.

    Until a clock is measured, the worker has only the source's own timestamps, which are wrong. If
    the wait ends early, the demo continues with clocks that are not measured yet.
    """
    patience = Patience(report)
    while True:
        rounds = tuple(client.status().rounds for client in clients)
        measured = sum(each >= ROUNDS for each in rounds)
        waited_for = f"the clocks: {measured} of {len(clients)} measured"
        if measured == len(clients) or not patience.lasts(rounds, waited_for):
            return
        time.sleep(LOOK_S)
