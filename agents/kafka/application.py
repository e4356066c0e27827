"""Builds and runs the Faust application of a stage, without the parts of Faust that are unused.

`build_app` sets every option that matters. It switches off Faust's web server, its producer, its
leader and reply topics, tables and their recovery. It also switches off acknowledgement, commits,
the data folder and Faust's log. Outputs and offsets belong to the stage's own transactions, and
state has its own changelog.

`run` runs the application in the caller's loop until the stop or a failure. Then it lets the
handler finish its partitions, leaves the group, and raises the failure, if any. It installs no
signal handlers. The start and each step of the end have a time limit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import faust
import faust.app.router
import faust.assignor.partition_assignor
import faust.tables.sets
import faust.worker  # These four are what Faust imports for the first application.
from faust.agents import Agent
from faust.app.base import BootStrategy
from faust.tables.manager import TableManager
from yarl import URL

from agents.kafka.brokers import Brokers
from agents.kafka.fetching import FAUST_LOG, SESSION_TIMEOUT_S
from agents.kafka.membership import is_news
from agents.kafka.transport import REVOKE_TIMEOUT_S, BatchConsumer, BatchTransport, Failure, Handler

log = logging.getLogger(__name__)

STREAM_BUFFER_BATCHES = 4_096
"""Maximum number of batches between the transport and the agent.

Each partition queue has at most `MAX_BATCHES`, so this is enough for some 2,000 partitions in one
worker.
"""

START_TIMEOUT_S = 60.0
"""Time limit for the start of Faust, once the caller has found the brokers and topics."""

FINISH_TIMEOUT_S = 3 * REVOKE_TIMEOUT_S - 1.0
"""Time limit for the handler to finish; with `STOP_TIMEOUT_S`, less than the supervisor waits."""

STOP_TIMEOUT_S = 8.0
"""Time limit for Faust to leave the group and stop, after the handler has finished."""

QUIET = ("faust", "mode", "aiokafka")
"""Libraries that log every step at level info."""

SENDER_LOGGER = "aiokafka.producer.sender"
"""Logger of warnings about requests that the client retries without end.

They are the only sign of a checkpoint that hangs, for example because too few replicas are in sync.
"""

CHATTY = (
    "aiokafka",
    "aiokafka.cluster",
    "aiokafka.conn",
    "aiokafka.consumer.fetcher",
    "aiokafka.consumer.group_coordinator",
    SENDER_LOGGER,
)
"""Loggers that repeat themselves ten times a second while a broker is unreachable."""

REPEAT_S = 10.0
"""Minimum time between two equal messages of a chatty logger."""


class _Seldom(logging.Filter):
    """A log filter that passes each message at most once in `REPEAT_S`.

    It remembers every message, which is cheap, because a library has only a few fixed texts.
    """

    def __init__(self) -> None:
        super().__init__()
        self._passed_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        passes = record.created - self._passed_s.get(str(record.msg), 0.0) >= REPEAT_S
        if passes:
            self._passed_s[str(record.msg)] = record.created
        return passes


_SELDOM = _Seldom()


class _NoTables(TableManager):
    """A table manager that recovers nothing, because Faust keeps no state."""

    logger = FAUST_LOG

    async def on_start(self) -> None:
        self._tables_finalized.set()
        self._tables_registered.set()

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Do nothing, because there is nothing to flush."""

    async def on_rebalance(self, *_: Any, **__: Any) -> None:
        """Do nothing, because the transport continues when the handler has restored its state."""

    async def wait_until_recovery_completed(self) -> bool:
        return self.app.should_stop


class _ConsumerOnly(BootStrategy):
    enable_kafka_producer = False
    enable_web = False
    enable_sensors = False  # The worker has its own metrics.

    def kafka_consumer(self) -> Iterable[Any]:
        return [self.app.consumer]  # The services for the leader and for replies are left out.


class Application(faust.App):
    """A Faust app with the transport for record batches."""

    logger = FAUST_LOG
    BootStrategy = _ConsumerOnly
    brokers: Brokers
    instance: str | None
    session_s: float

    @property
    def failure(self) -> Failure:
        return cast(BatchTransport, self.transport).failure

    @property
    def batches(self) -> BatchConsumer:
        return cast(BatchConsumer, self.consumer)

    def _init_fixups(self) -> list[Any]:
        """Return none, without the look into all installed packages for plug-ins of Faust."""
        return []

    def _create_directories(self) -> None:
        """Do nothing, because Faust stores nothing on disk."""


def build_app(
    group: str,
    brokers: Brokers,
    topics: Sequence[str],
    handler: Handler,
    instance: str | None = None,
    session_s: float = SESSION_TIMEOUT_S,
    known: Mapping[str, int] | None = None,
) -> Application:
    """Return an application that reads `topics` as consumer group `group` into `handler`.

    `instance` is the member's name in the group, which keeps its partitions for `session_s`
    (agents.kafka.membership). `known` gives the number of partitions of each topic; partitions
    beyond that are not opened. Call this function inside the loop that will run the application.
    """
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.ERROR)
    logging.getLogger(SENDER_LOGGER).setLevel(logging.WARNING)
    for name in CHATTY:
        logging.getLogger(name).addFilter(is_news)  # Adding a filter again changes nothing.
        logging.getLogger(name).addFilter(_SELDOM)
    urls = [URL(f"kafka://{broker.strip()}") for broker in brokers.servers.split(",")]
    app = Application(
        group,
        broker=urls,
        broker_client_id="inorder",
        TableManager=_NoTables,
        topic_disable_leader=True,
        topic_allow_declare=False,
        web_enabled=False,
        stream_buffer_maxsize=STREAM_BUFFER_BATCHES,
        stream_wait_empty=False,  # The partition queues have their own limits.
        broker_commit_interval=3600.0,  # There is nothing to commit.
        key_serializer="raw",
        value_serializer="raw",
        autodiscover=False,
        env={},  # Otherwise BROKER_URL and the like would override these settings.
    )
    app.brokers = brokers
    app.instance = instance
    app.session_s = session_s
    app.transport = BatchTransport(urls, app, topics, handler, known or {})
    channel = app.topic(*topics, key_serializer=None, value_serializer=None, acks=False)

    async def batches(stream: Any) -> None:
        async for event in stream.events():
            app.batches.take(event.message.value)

    # `app.agent` would also look for the module of the caller among all modules, in 0.05 s of CPU.
    app.agents["batches"] = Agent(
        batches, name="batches", app=app, channel=channel, on_error=app._on_agent_error
    )
    return app


async def run(app: Application, stop: asyncio.Event) -> None:
    """Run the application until `stop` is set or something fails, and raise that failure."""
    failure = app.failure
    ends = [asyncio.create_task(event.wait()) for event in (app._crashed, stop, failure.happened)]
    starting = asyncio.create_task(app.start())
    try:
        await asyncio.wait(
            [starting, *ends], timeout=START_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED
        )
        if starting.done():
            starting.result()
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        elif not any(end.done() for end in ends):
            raise TimeoutError(f"Faust did not start within {START_TIMEOUT_S:.0f} s")
    finally:
        for task in (starting, *ends):
            task.cancel()
        await _finish(app)
    if failure.exception is not None:
        raise failure.exception
    if app.crash_reason is not None:
        raise app.crash_reason


async def _finish(app: Application) -> None:
    try:
        async with asyncio.timeout(FINISH_TIMEOUT_S):
            await app.batches.finish()
    except Exception as exc:  # noqa: BLE001 - reported by `run`, after the stop
        app.failure.set(exc)
    try:
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await app.stop()
    except TimeoutError:
        fault = f"Faust did not stop within {STOP_TIMEOUT_S:.0f} s"
        if app.batches.open_partitions:
            app.failure.set(TimeoutError(fault))
        else:  # The application was stopped during its start; all finished work is committed.
            log.warning("%s; it is abandoned", fault)
