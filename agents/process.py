"""The process of one stage: from the topology to a running Faust application.

    arrange    the topics' partitions -> Arrangement
    build      Surroundings, StageHandler, Application, HttpServer
    run        until SIGTERM or SIGINT, or until something fails

Off it goes loudly: whatever cannot be retried within its bound ends the process with an
exception, and the supervisor (or Kubernetes) starts a fresh one, which restores. A
worker that makes no progress while there is lag reports not ready, then stops.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aiokafka.structs import TopicPartition
from prometheus_client import CollectorRegistry

from agents.application import Application, build_app, run
from agents.arrangement import Arrangement, ArrangementError, arrange, topics_of
from agents.brokers import Brokers, BrokersUnavailable, brokers_at
from agents.changelog import StateRefused
from agents.delivery import AtLeastOnce, Delivery, ExactlyOnce
from agents.handler import StageHandler
from agents.http import Health, HttpServer
from agents.metrics import Metrics
from agents.partition import Surroundings
from agents.state.open import open_store
from agents.state.store import Store, StoreName
from agents.watchdog import Patience, State, Watchdog
from topology.description import Stage as StageDescription
from topology.description import Topology

log = logging.getLogger(__name__)

PULSE_S: Final = 0.02
"""How often due checkpoints are looked for; batches look themselves."""

OBSERVE_EVERY: Final = 50
"""Pulses between two looks at the gauges."""

GC_THRESHOLDS: Final = (50_000, 20, 100)
"""Batches are thousands of short-lived objects, which the collector's defaults would walk
again and again: these read 1.5 times as many records a second."""


class Stuck(Exception):
    """No progress while there is lag, for longer than `stuck_after`."""


@dataclass(frozen=True, slots=True)
class ProcessSettings:
    """What the command line says. `parent`: leave when this process is gone; `announce`
    is told where the HTTP server listens."""

    servers: str
    state_dir: Path
    parent: int | None = None
    announce: Callable[[str], None] | None = None


async def run_stage(topology: Topology, stage: StageDescription, settings: ProcessSettings) -> None:
    """Runs until told to stop; raises what ended it otherwise."""
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    brokers, partitions = await described(settings.servers, topics_of(topology, stage))
    process = StageProcess(arrange(topology, stage, partitions), brokers, settings)
    await process.run()


async def described(servers: str, topics: Iterable[str]) -> tuple[Brokers, dict[str, int]]:
    """The brokers, and how many partitions each topic has; ArrangementError if one does
    not exist."""
    brokers = await asyncio.to_thread(brokers_at, servers)
    found = await asyncio.to_thread(brokers.partitions, topics)
    missing = sorted(topic for topic, count in found.items() if not count)
    if missing:
        raise ArrangementError(
            f"no such topic: {', '.join(missing)}; run `inorder topics create` first"
        )
    return brokers, found


class StageProcess:
    """See the module's docstring."""

    def __init__(
        self, arrangement: Arrangement, brokers: Brokers, settings: ProcessSettings
    ) -> None:
        self._arrangement = arrangement
        self._brokers = brokers
        self._settings = settings
        self._registry = CollectorRegistry()
        topology = arrangement.topology
        surroundings = Surroundings(
            brokers,
            Metrics(self._registry),
            self._delivery,
            self._store,
        )
        watchdog = Watchdog(Patience.until(topology.stuck_after_ns))
        self._handler = StageHandler(arrangement, surroundings, watchdog)
        self._stop = asyncio.Event()
        self._stuck: Stuck | None = None
        self._http = HttpServer(
            registry=self._registry,
            live=self._live,
            ready=self._ready,
            explain=lambda _: self._handler.explain(),
        )

    async def run(self) -> None:
        arrangement = self._arrangement
        app = build_app(
            arrangement.group,
            self._brokers.servers,
            arrangement.inputs,
            self._handler,
            check_crcs=self._brokers.check_crcs,
        )
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_left_behind)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        host, port = await self._http.start()
        if self._settings.announce is not None:
            self._settings.announce(f"{host}:{port}")
        pulse = asyncio.create_task(self._pulse(app))
        try:
            await run(app, self._stop)
        finally:
            pulse.cancel()
            await asyncio.wait([pulse])
            await self._http.stop()
        if self._stuck is not None:
            raise self._stuck

    async def _pulse(self, app: Application) -> None:
        beats = 0
        try:
            while True:
                await asyncio.sleep(PULSE_S)
                beats += 1
                self._handler.pulse()
                if beats % OBSERVE_EVERY == 0:
                    self._handler.observe()
                    self._look_after()
        except Exception as failed:  # noqa: BLE001 - nobody else would hear of it
            app.failure.set(failed)

    def _look_after(self) -> None:
        verdict = self._handler.verdict()
        if verdict.state is State.STOP and self._stuck is None:
            self._stuck = Stuck("; ".join(verdict.reasons))
            self._stop.set()
        parent = self._settings.parent
        if parent is not None and os.getppid() != parent:
            log.error("the supervisor is gone")
            self._stop.set()

    def _live(self) -> Health:
        return Health(self._stuck is None, () if self._stuck is None else (str(self._stuck),))

    def _ready(self) -> Health:
        verdict = self._handler.verdict()
        return Health(verdict.state is State.READY, verdict.reasons)

    def _delivery(self, source: TopicPartition) -> Delivery:
        topology = self._arrangement.topology
        changelog = self._arrangement.changelog(source)
        servers = self._brokers.servers
        group = self._arrangement.group
        transactional_id = f"{group}.{source.topic}.{source.partition}"
        timeout_ms = topology.transaction_timeout_ns // 1_000_000
        if topology.delivery == "at_least_once":
            return AtLeastOnce(servers, transactional_id, changelog, timeout_ms)
        return ExactlyOnce(servers, transactional_id, group, changelog, timeout_ms)

    def _store(self, source: TopicPartition) -> Store | None:
        topology = self._arrangement.topology
        name = StoreName(
            topology.application, self._arrangement.stage.name, source.topic, source.partition
        )
        if topology.state == "memory":
            return None  # it would be empty at every start
        return open_store(
            topology.state,
            name,
            directory=self._settings.state_dir,
            redis_url=topology.redis,
        )


def _left_behind(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """The Kafka client leaves futures that nobody asks, when a producer is fenced for one.
    Whoever waits for the commit has been told; a line is enough here."""
    exception = context.get("exception")
    why = "" if exception is None else f": {type(exception).__name__}: {exception}"
    log.info("%s%s", context["message"], why)


EXPECTED_FAILURES: Final = (ArrangementError, BrokersUnavailable, StateRefused)
"""Told to the user in one line."""
