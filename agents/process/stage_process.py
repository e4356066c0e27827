"""Runs the process of one stage, from the topology to a running Faust application.

    plan       the effect of the topology file's changes on the existing states
    arrange    the topics' partitions -> Arrangement
    build      Services, StageHandler, Application, HttpServer
    run        until SIGTERM or SIGINT, or until something fails

Failures are never hidden. A failure that cannot be retried within its bound ends the process with
an exception. The supervisor (or Kubernetes) then starts a new process, which restores the state. A
worker that has lag but makes no progress reports that it is not ready, and then stops.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from aiokafka.structs import TopicPartition
from prometheus_client import CollectorRegistry

import codec
from agents.kafka.application import Application, build_app, run
from agents.kafka.broker_times import Probing
from agents.kafka.brokers import Brokers, BrokersUnavailable, await_brokers
from agents.kafka.fetching import SESSION_TIMEOUT_S
from agents.kafka.log_reader import LogReader
from agents.kafka.membership import InstanceFenced
from agents.kafka.partition_queue import steady_ns
from agents.kafka.purging import KafkaTopic, Purging
from agents.kafka.refused_rights import OF_WORKER, RightRefused, refusal_in, refusal_to_describe
from agents.kafka.rights import READ
from agents.kafka.security import PLAINTEXT, Security
from agents.kafka.stage_topics import broker_times_topic, list_sequenced_readers, must_purge
from agents.kafka.throttling import OF_PROCESS, record_throttling
from agents.kafka.topics import CompactedInput, refuse_compacted
from agents.process import garbage
from agents.process.scrapes import CORE
from agents.registry.client import RegistryRefuses
from agents.restore.history import Histories
from agents.restore.plan import ChangePlan, plan
from agents.restore.services import Services
from agents.stage.arrangement import Arrangement, ArrangementError, arrange, topics_of
from agents.stage.clock_feed import ClockFeed
from agents.stage.delivery import Delivery, transactional_id
from agents.stage.playback import Playback
from agents.stage.topic_watch import TopicWatch, make_look
from agents.state.changelog import StateRefused
from agents.state.copy_writer import CopyWriter
from agents.state.local_copy import LocalCopy, open_store
from agents.state.stores.store import StoreName
from agents.task.handler import StageHandler
from agents.watch.last_lines import LOG, LastLines
from agents.watch.location import STANDBY
from agents.watch.metrics.worker import Metrics
from agents.watch.port.http import Health, HttpServer
from agents.watch.sentences import open_ends
from agents.watch.stage_log import StageLog
from agents.watch.watchdog import Patience, Verdict, Watchdog
from codec.compression import MAX_OWN_BYTES, MAX_UNPACKED_BYTES
from topology.config import StageConfig, Topology
from topology.config.change import REFUSED, format_refusals
from topology.order.clock.drift_table import DriftTable
from topology.order.clock.server_view import GUESS_WINDOWS
from topology.stage.unmet import KINDS, make_unmet_check

log = logging.getLogger(__name__)

FIELDS_SOUGHT: Final = 50
"""Maximum number of events in a batch that are searched for query fields not found before."""

OBSERVE_S: Final = 1.0
"""Minimum time between two updates of the gauges, which follow a pulse."""

REFUSED_PAUSE_S: Final = 15.0
"""Time for which a stage that lacks a right stays up, not ready, before it is restarted."""


class Stuck(Exception):
    """There was lag but no progress for longer than `stuck_after_ns`."""


@dataclass(frozen=True, slots=True)
class ProcessSettings:
    """The settings that a stage's process gets from the command line.

    Attributes:
        brokers_wait_s: Time to wait for absent brokers.
        parent: Id of the supervisor's process; the stage ends when that process has ended.
        announce: Function that receives the address of the HTTP server.
        instance: The worker's name, under which a stage keeps its partitions for `session_s`.
        session_s: Length of the group's session.
        masters: Master keys of signed streams.
        token: Token that the HTTP server requires.
        histories: The histories with which partitions without a state begin.
    """

    servers: str
    state_dir: Path
    security: Security = PLAINTEXT
    brokers_wait_s: float = 0.0
    parent: int | None = None
    announce: Callable[[str], None] | None = None
    instance: str | None = None
    session_s: float = SESSION_TIMEOUT_S
    masters: tuple[bytes, ...] = field(default=(), repr=False)
    token: str | None = field(default=None, repr=False)
    histories: Histories | None = None


async def run_stage(topology: Topology, stage: StageConfig, settings: ProcessSettings) -> None:
    """Run a stage until a signal stops it, or raise the failure that ends it.

    Raises ArrangementError if a topic does not exist, or if the brokers hide it.
    """
    garbage.begin()
    record_throttling()
    brokers = await await_brokers(settings.servers, settings.security, settings.brokers_wait_s)
    topics = topics_of(topology, stage)
    partitions = await asyncio.to_thread(brokers.count_partitions, topics)
    if missing := sorted(topic for topic, count in partitions.items() if not count):
        hidden = await asyncio.to_thread(refusal_to_describe, brokers, missing, OF_WORKER)
        absent = f"no such topic: {', '.join(missing)}; run `inorder topics create` first"
        raise ArrangementError(hidden or absent)
    made = await plan(brokers, topology, stage)
    for each in made.differences:
        if each.verdict != REFUSED:
            log.info("%s", each)
    if refused := format_refusals(made.differences):
        raise StateRefused(refused)
    arrangement = arrange(topology, stage, partitions, settings.masters, made.lanes)
    if arrangement.is_first:
        await asyncio.to_thread(refuse_compacted, brokers, arrangement.inputs)
    topic_ids = await asyncio.to_thread(brokers.topic_ids, topics)
    await StageProcess(arrangement, brokers, topic_ids, settings, made).run()


@dataclass(eq=False)
class StageProcess:
    """The objects of one stage in its process, which it creates, runs and stops."""

    arrangement: Arrangement
    brokers: Brokers
    topic_ids: Mapping[str, str]
    settings: ProcessSettings
    made: ChangePlan

    def __post_init__(self) -> None:
        arrangement, brokers, made = self.arrangement, self.brokers, self.made
        self._registry = CollectorRegistry()
        topology = arrangement.topology
        operators = arrangement.operator_names
        metrics = self._metrics = Metrics(self._registry, arrangement.stage.name, operators)
        self._probing = self._new_probing()
        widest = max(arrangement.partitions[topic] for topic in arrangement.inputs)
        metrics.input_partitions.labels(arrangement.stage.name).set(widest)
        if not {*KINDS}.isdisjoint(operators):
            metrics.unmet = make_unmet_check(topology, operators, each_batch=FIELDS_SOUGHT)
            metrics.open_ends = open_ends(topology)
        self._feed = self._new_clock_feed()
        read = dict.fromkeys(arrangement.inputs, MAX_UNPACKED_BYTES)
        read |= dict.fromkeys(arrangement.changelogs, MAX_OWN_BYTES)
        self._logs = LogReader(brokers, arrangement.group, read)
        services = Services(
            *(self._logs, metrics, self._new_delivery, self._new_copy, self._feed, self.topic_ids),
            histories=self.settings.histories,
            seen=None if brokers.is_embedded else made.seen.get(arrangement.stage.name, {}),
            midstream=made.midstream.get(arrangement.stage.name, ()),
            broker_times=None if self._probing is None else self._probing.times,
            playback=Playback() if brokers.is_embedded and arrangement.is_first else None,
        )
        watchdog = Watchdog(Patience(stuck_after_ns=topology.stuck_after_ns))
        self._log = StageLog(metrics)
        self._garbage = garbage.Collecting()
        self._handler = StageHandler(
            arrangement, services, watchdog, self._log, self._garbage.let_go
        )
        self._topics: TopicWatch | None = None
        if not brokers.is_embedded:
            self._topics = TopicWatch(
                arrangement, self.topic_ids, make_look(brokers), self._handler.is_well
            )
        self._stop = asyncio.Event()
        self._stuck: Stuck | None = None
        self._refused: tuple[str, ...] = ()
        self._lines = LastLines()
        self._http = HttpServer(
            registry=self._registry,
            live=self._live,
            ready=self._check_ready,
            explain=self._handler.explain,
            about=self._about,
            event=self._handler.locate,
            token=self.settings.token,
        )

    async def run(self) -> None:
        with self._lines.listen():
            await self._run()

    async def _run(self) -> None:
        arrangement = self.arrangement
        inputs = [f"{topic} ({arrangement.partitions[topic]})" for topic in arrangement.inputs]
        log.info("starts; reads %s as group %s", ", ".join(inputs), arrangement.group)
        log.info("core: %s", CORE)
        log.info("codec: %s", codec.AT_WORK)
        log.info("%s", arrangement.topology.cut.why)
        app = build_app(
            arrangement.group,
            self.brokers,
            arrangement.inputs,
            self._handler,
            instance=self._instance,
            session_s=self.settings.session_s,
            known=arrangement.partitions,
        )
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_log_unawaited)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        host, port = await self._http.start()
        if self.settings.announce is not None:
            self.settings.announce(f"{host}:{port}")
        beside = [
            asyncio.create_task(self._run_side_task(app, work)) for work in self._iter_side_tasks()
        ]
        try:
            if self._feed is not None:
                await self._feed.start(arrangement.partitions[arrangement.topology.topics.clock])
            await self._logs.start()
            await run(app, self._stop)
        except Exception as failed:
            if self._stuck is None:
                if refused := refusal_in(failed, READ):
                    await self._wait_refused(refused)
                    raise RightRefused(refused) from failed
                raise
            log.warning("while stopping: %s: %s", type(failed).__name__, failed)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.wait(beside)
            if self._feed is not None:
                await self._feed.stop()
            await self._logs.stop()
            await self._http.stop()
        if self._stuck is not None:
            raise self._stuck

    async def _wait_refused(self, why: str) -> None:
        """Show a missing right for `REFUSED_PAUSE_S` or until the stop.

        Otherwise the restarts would be used up before anybody can give the right back.
        """
        log.error("%s", why)
        self._refused = (why,)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), REFUSED_PAUSE_S)

    @property
    def _instance(self) -> str | None:
        """The stage's name in its group (`agents.kafka.membership`); None if it has none."""
        name = self.settings.instance
        if name is None or self.brokers.is_embedded:
            return None
        return f"{name}-{self.arrangement.stage.name.replace('+', '-')}"

    def _iter_side_tasks(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield what runs beside the application until its end."""
        yield self._pulse()
        if self._topics is not None:
            yield self._topics.run()
        if self._probing is not None:
            yield self._probing.run()
        if (
            must_purge(self.arrangement.topology, self.arrangement.stage)
            and not self.brokers.is_embedded
        ):
            yield self._purge()

    async def _run_side_task(self, app: Application, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as failed:  # noqa: BLE001 - nobody else would get it
            app.failure.set(failed)

    async def _purge(self) -> None:
        topology = self.arrangement.topology
        purged = self._metrics.purged.labels(self.arrangement.stage.name).inc
        others = list_sequenced_readers(topology)
        others.remove(self.arrangement.group)
        work = Purging(KafkaTopic(self.brokers, topology.topics.sequenced), others, purged)
        await work.run(self._handler.needed_from)

    async def _pulse(self) -> None:
        observed_s = time.monotonic()
        while True:
            await self._handler.beat()
            self._handler.pulse()
            if time.monotonic() - observed_s >= OBSERVE_S:
                observed_s = time.monotonic()
                self._handler.observe()
                self._check_health()

    def _new_probing(self) -> Probing | None:
        """Return the probing of the brokers' clocks; None if the stage takes no time from them."""
        topic = broker_times_topic(self.arrangement.topology, self.arrangement.stage)
        return None if topic is None or self.brokers.is_embedded else Probing(self.brokers, topic)

    def _check_health(self) -> None:
        verdict = self._handler.verdict()
        if verdict.is_stuck and self._stuck is None:
            self._stuck = Stuck("; ".join(verdict.reasons))
            self._stop.set()
        self._log.note_readiness(self._why_not_ready(verdict))
        self._log.dead()
        self._log.log_minute(self._handler.last_checkpoint_s)
        self._garbage.collect_if_due()
        parent = self.settings.parent
        # The error is logged once, because the check is repeated during the stop.
        is_stopping = self._stop.is_set()
        if parent is not None and os.getppid() != parent and not is_stopping:
            log.error("the supervisor has ended")
            self._stop.set()

    def _live(self) -> Health:
        return Health(self._stuck is None, () if self._stuck is None else (str(self._stuck),))

    def _check_ready(self) -> Health:
        reasons = self._why_not_ready(self._handler.verdict())
        of_topics = () if self._topics is None else self._topics.notes
        of_input = (*self._handler.behind(), *self._handler.describe_stale())
        of_standby = self._handler.standby.notes
        notes = (*of_standby, *of_topics, *OF_PROCESS.notes(time.monotonic_ns()), *of_input)
        of_times = () if self._probing is None else self._probing.times.notes(steady_ns())
        return Health(not reasons, reasons, (*notes, *of_times))

    def _about(self) -> dict[str, Any]:
        """Return the versions of core and codec, and the last warnings and errors of the log.

        A standby also says that it is one.
        """
        standby = self._handler.standby.words
        return {
            **({STANDBY: standby} if standby else {}),
            "core": CORE,
            "codec": str(codec.AT_WORK),
            LOG: self._lines.plain(),
        }

    def _why_not_ready(self, verdict: Verdict) -> tuple[str, ...]:
        of_topics = () if self._topics is None else self._topics.faults
        # A throttled connection looks like a broker that hangs, so the cause comes first.
        throttled = OF_PROCESS.notes(time.monotonic_ns()) if verdict.reasons else ()
        probing = self._probing
        of_times = () if probing is None else probing.times.faults(steady_ns())
        return (
            *self._refused,
            *of_topics,
            *of_times,
            *self._handler.faults(),
            *throttled,
            *verdict.reasons,
        )

    def _new_delivery(self, source: TopicPartition) -> Delivery:
        topology, group = self.arrangement.topology, self.arrangement.group
        return Delivery(
            self.brokers.client,
            transactional_id(group, source),
            group,
            self.arrangement.changelog(source),
            topology.transaction_timeout_ns // 1_000_000,
            exactly_once=topology.delivery == "exactly_once",
        )

    def _new_clock_feed(self) -> ClockFeed | None:
        """Return the feed of the drift table; None if no stream of the stage syncs its clocks."""
        arrangement = self.arrangement
        clocks = arrangement.clocks
        if not clocks:
            return None
        return ClockFeed(
            self.brokers,
            arrangement.topology.topics.clock,
            DriftTable(),
            activation_ns=min(clock.activation_ns for clock in clocks),
            window_ns=GUESS_WINDOWS * max(clock.sync_window_ns for clock in clocks),
            new_copy=self._new_copy,
        )

    def _new_copy(self, source: TopicPartition, log_topic: str) -> CopyWriter:
        topology, stage = self.arrangement.topology, self.arrangement.stage
        name = StoreName(topology.application, stage.name, source.topic, source.partition)
        new_store = partial(
            open_store, topology.state, name, self.settings.state_dir, topology.redis
        )
        log_id, failed = self.topic_ids.get(log_topic, ""), self._metrics.count_store_error
        return CopyWriter(
            LocalCopy(f"{source.topic}/{source.partition}", new_store, failed, log_id)
        )


def _log_unawaited(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log the error of a future that nobody awaits, at level debug.

    The Kafka client leaves such futures, for example when a producer is fenced. The code that
    awaits the commit gets the same error.
    """
    exception = context.get("exception")
    why = "" if exception is None else f": {type(exception).__name__}: {exception}"
    log.debug("%s%s", context["message"], why)


EXPECTED_FAILURES: Final = (
    ArrangementError, BrokersUnavailable, CompactedInput, InstanceFenced, RegistryRefuses,
    StateRefused,
)  # fmt: skip
"""Failures that are reported to the user in one line."""
