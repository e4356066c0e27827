"""Fixtures for all tests: brokers and stores that are started once and always stopped.

One real Kafka serves the whole run. The first worker that needs it starts it, under a lock in the
run's temporary folder. The process that reports the results stops it, and everything else that
tests have left running from that folder.
"""

from __future__ import annotations

import gc
import os
import re
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import hypothesis.core
import pytest
from hypothesis import settings

import infra.kafka
import infra.postgres
import infra.redis
from cli.local.embedded import EmbeddedBroker
from cli.local.kafka import KafkaBroker
from cli.local.lock import lock_file
from infra.kafka import ContainerBroker
from infra.postgres import PostgresServer
from infra.redis import RedisServer
from tests import progress, seeds
from tests.dealing import QUICK, SLOW, SPARK, dealt
from tests.inorder.records import Topic
from tests.kit.processes import leave, sweep
from tests.kit.registry import Registry, serving
from tests.services import SharedKafka, UniqueName, require
from tests.tiers import recorder
from tests.tiers.plan import TIERS, VARIABLE, get_tier
from tests.tiers.selection import Selection, names_paths

START_TIMEOUT_S = 240.0
MAX_TOPIC_CHARS = 200
IS_COMPILED = "INORDER_EXPECT_COMPILED"
SHORT_LIVED_JAVA = "-XX:TieredStopAtLevel=1"
"""Option for brokers and Spark, which live for seconds: the first compiler alone halves their
start."""

# A busy machine is slow, which is no fault. Examples of hypothesis change daily, as seeds do.
settings.register_profile("here", deadline=None, derandomize=False)
settings.load_profile("here")
hypothesis.core.global_force_seed = seeds.TODAY.start  # type: ignore[assignment]

_outliving: list[KafkaBroker] = []
"""Brokers started here for all workers, kept so that they are not collected as forgotten."""


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    os.environ.setdefault("JAVA_TOOL_OPTIONS", SHORT_LIVED_JAVA)
    # A shell that runs the tests in the background makes them and their children ignore SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if (tier := get_tier()) is not None:
        if tier not in TIERS:
            raise pytest.UsageError(f"{VARIABLE}={tier}: write {' or '.join(TIERS)}")
        if not names_paths(config):
            config.pluginmanager.register(Selection(tier), tier)
    config.pluginmanager.register(seeds)
    recorder.register(config)
    if progress.wanted(config):
        config.pluginmanager.register(progress.Progress(config), "inorder-progress")
    if os.environ.get(IS_COMPILED) == "1":
        import topology.base.event

        if topology.base.event.__file__.endswith(".py"):
            raise pytest.UsageError(f"{IS_COMPILED}=1, but topology is not compiled here")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    told = (each for kind in terminalreporter.stats.values() for each in kind)
    tests = [each for each in told if isinstance(each, pytest.TestReport)]
    for line in progress.where_it_went(tests):
        terminalreporter.write_line(line)
    if terminalreporter.stats.get("failed"):
        day = f"{seeds.VARIABLE}={seeds.TEXT} {seeds.TURN_VARIABLE}={seeds.TURN}"
        terminalreporter.write_line(f"seeds of this run: {day} (tests/seeds.py) repeats them")


@pytest.hookimpl(trylast=True)  # Deselected tests are gone by then.
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    if workers > 1:
        items[:] = dealt(items, workers, kind_of, lambda item: item.nodeid.partition("::")[0])


def kind_of(item: pytest.Item) -> str:
    """Return the kind of a test, by which it is assigned to a worker of the run."""
    for kind in (SPARK, SLOW):
        if item.get_closest_marker(kind) is not None:
            return kind
    return QUICK


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Exempt the objects made by test collection from garbage collection.

    These objects live to the end, so a full collection, which benchmarks run dozens of times, need
    not visit them.
    """
    gc.collect()
    gc.freeze()


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        factory = getattr(config, "_tmp_path_factory", None)
        if factory is not None:
            sweep(factory.getbasetemp())
        for broker in _outliving:
            broker.kill()  # The sweep has ended it; this only waits for its exit.
    else:
        for broker in _outliving:
            for node in broker.nodes:
                leave(node)


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """Return the temporary folder of the run, the same for all workers."""
    base = tmp_path_factory.getbasetemp()
    return base if worker_id == "master" else base.parent


@pytest.fixture(scope="session")
def kafka(run_folder: Path) -> Iterator[SharedKafka]:
    """Yield one real broker, shared by all tests of the run."""
    require(infra.kafka.missing())
    broker = infra.kafka.new_broker(run_folder / "kafka")
    if isinstance(broker, ContainerBroker):  # A container ends with its worker.
        with broker:
            yield SharedKafka(broker.bootstrap)
        return
    address = run_folder / "kafka.address"
    with lock_file(run_folder / "kafka.lock", START_TIMEOUT_S):
        if not address.exists():
            broker.start()
            _outliving.append(broker)
            address.write_text(broker.bootstrap)
    yield SharedKafka(address.read_text())


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[KafkaBroker | ContainerBroker]:
    """Yield a real broker for this test alone, which can kill, pause and restart it."""
    require(infra.kafka.missing())
    with infra.kafka.new_broker(tmp_path / "kafka") as broker:
        yield broker


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Yield a Redis for the tests of this worker, with keys that `unique_name` makes."""
    require(infra.redis.missing())
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    """Yield a durable Redis for this test alone, which can kill and restart it."""
    require(infra.redis.missing())
    with RedisServer(tmp_path / "redis", durable=True) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """Yield a PostgreSQL for the tests of this worker, each with its own table."""
    require(infra.postgres.missing())
    with PostgresServer(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture
def own_postgres(tmp_path: Path) -> Iterator[PostgresServer]:
    """Yield a PostgreSQL for this test alone, which can kill and restart it."""
    require(infra.postgres.missing())
    with PostgresServer(tmp_path / "postgres") as server:
        yield server


@pytest.fixture(scope="session")
def embedded_broker() -> Iterator[EmbeddedBroker]:
    """Yield the embedded broker; its limits are in cli/local/embedded.py."""
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def topic(embedded_broker: EmbeddedBroker, unique_name: UniqueName) -> str:
    """Make a topic for this test on the embedded broker, and return its name."""
    name = unique_name("raw")
    embedded_broker.make_topic(name)
    return name


@pytest.fixture
def raw(embedded_broker: EmbeddedBroker, topic: str) -> Topic:
    """Return this test's topic, which can be read by the header contract."""
    return Topic(embedded_broker.bootstrap, topic)


@pytest.fixture
def unique_name(request: pytest.FixtureRequest) -> UniqueName:
    """Return a function that makes a word unique to this test: `unique_name("raw")`."""
    test = re.sub(r"[^A-Za-z0-9_-]", "-", request.node.name)

    def unique(word: str) -> str:
        return f"{word}-{test}"[:MAX_TOPIC_CHARS] + f"-{uuid.uuid4().hex[:8]}"

    return unique


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving(Registry()) as found:
        yield found
