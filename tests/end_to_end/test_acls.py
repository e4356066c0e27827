"""End to end: the rights in docs/operate/secure.md and those of `topics acls` are sufficient, and
allow no more.

A broker that denies everything by default gets the lines on that page. Each of their users does its
work, and may write its own topics and no other. Another test has a user for each stage, with the
rights that the command prints.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient

from agents.kafka.declared import list_needed_topics
from agents.kafka.topics import ensure_topics
from cli.local.kafka import KafkaBroker, jars
from tests import ROOT
from tests.cli.invoking import inorder
from tests.command import Command
from tests.end_to_end.acls import GUARDS, TIMEOUT_S, allow, bindings, right
from tests.end_to_end.worker import Worker, running
from tests.services import require
from tests.waiting import Patience
from topology.config import parse

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PAGE = ROOT / "docs" / "operate" / "secure.md"
TOPOLOGY = """\
streams: {default: {clock: {unsynced: trust}}}
stages: [reorder, merge, window, pattern]
topics: {partitions: 1, replication: 1, resend: events.resend}
queries:
  all: {window: tumbling 1s, aggregate: {n: count()}}
  pairs: {pattern: "PATTERN SEQ(A a, B b) WITHIN 1 s"}
"""
MAY_WRITE = {
    "source": {"events.raw"},
    "sync": {"clock.offsets"},
    "operator": {"events.resend"},
    "sink": {"events.dead"},
    "reader": set[str](),
}
STAGES = ("reorder", "merge", "window", "pattern")
USERS = ("worker", *MAY_WRITE, *STAGES)


class Guarded(NamedTuple):
    """A broker with a listener `there` that authenticates users; `topics` are all its topics."""

    there: str
    path: Path
    topics: list[str]
    bootstrap: str

    def client(self, user: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.there,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": f"secret of {user}",
            "log_level": 0,
        }

    def options(self, user: str) -> tuple[str, ...]:
        """Return the options of a command that runs as this user."""
        path = self.path.with_name(f"{user}.properties")
        names = ("security.protocol", "sasl.mechanism", "sasl.username", "sasl.password")
        client = self.client(user)
        path.write_text("".join(f"{name}={client[name]}\n" for name in names))
        return ("--brokers", self.there, "--kafka", str(path))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    require(jars.missing())
    folder = tmp_path_factory.mktemp("guarded")
    users = " ".join(f'user_{user}="secret of {user}"' for user in USERS)
    overrides = GUARDS | {
        "listener.name.known.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.known.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain"
        f".PlainLoginModule required {users};",
    }
    listeners = {"KNOWN": "SASL_PLAINTEXT"}
    topology = parse(TOPOLOGY)
    path = folder / "topology.yaml"
    path.write_text(TOPOLOGY)
    with KafkaBroker(folder / "kafka", overrides=overrides, listeners=listeners) as broker:
        outcomes = ensure_topics(list_needed_topics(topology), broker.bootstrap, 1)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        acls = ("topics", "acls", "--topology", path, "--principal", "User:{stage}")
        told = inorder(*acls).well()
        allow(admin, [*bindings(PAGE.read_text()), *bindings(told.out)])
        names = [outcome.name for outcome in outcomes]
        yield Guarded(broker.address("KNOWN"), path, names, broker.bootstrap)


def produce(guarded: Guarded, *numbers: int) -> None:
    events = b"".join(b'{"source": "s", "seq": %d, "ts": %d}\n' % (n, n + 1) for n in numbers)
    where = (*guarded.options("source"), "--topic", "events.raw")
    inorder("produce", *where, stdin=events).well()


def test_rights_on_the_page_suffice(guarded: Guarded, tmp_path: Path) -> None:
    brokers, *kafka = guarded.options("worker")[1:]
    worker = Worker("a", guarded.path, brokers, tmp_path, *kafka)
    sink = Command(
        "sink",
        tmp_path,
        *("sink", "files", *guarded.options("sink"), "--folder", str(tmp_path / "out")),
        *("--topic", "results.windows", "--dead-topic", "events.dead"),
    )
    with running(worker):
        produce(guarded, 0, 2, 1)
        assert read(guarded, "reader", "events.ordered", 3) == ["0", "1", "2"]
        sink.process.start()
        sink.await_said(r"reading partitions \[0\]")
        assert sink.process.stop() == 0, sink.log
        assert "not committed" not in sink.log
        assert worker.stop() == 0, worker.log
    assert "uthoriz" not in worker.log


def test_rights_of_a_stage_user_suffice(guarded: Guarded, tmp_path: Path) -> None:
    """Stages continue from the state that the test above leaves."""
    started = []
    for stage in STAGES:
        brokers, *kafka = guarded.options(stage)[1:]
        started.append(Worker(stage, guarded.path, brokers, tmp_path, *kafka, "--stage", stage))
    with running(*started):
        for worker in started:
            worker.wait_ready()
        produce(guarded, 3, 5, 4)
        assert read(guarded, "reader", "events.ordered", 6)[-3:] == ["3", "4", "5"]
        for worker in started:
            assert worker.stop() == 0, worker.log
            assert "uthoriz" not in worker.log


DENIED = [
    "Write on topic events.ordered",
    "Read on topic events.raw",
    "Write on transactional-id inorder.reorder.events.raw.0",
    "Read on group inorder.reorder",
    "Describe on topic events.gaps",
]
LONG = {"Write on transactional-id inorder.reorder.events.raw.0", "Read on group inorder.reorder"}
"""Rights without which a stage has to be started again."""


@pytest.mark.parametrize(
    "said", [pytest.param(it, marks=[pytest.mark.chaos] * (it in LONG)) for it in DENIED]
)
def test_revoked_right_is_named(guarded: Guarded, tmp_path: Path, said: str) -> None:
    """A worker resumes once it has the right again."""
    denied = right(said, "User:worker")
    brokers, *kafka = guarded.options("worker")[1:]
    worker = Worker("a", guarded.path, brokers, tmp_path, *kafka)
    first = 1_000 * (1 + DENIED.index(said))
    numbers = iter(range(first, first + 1_000))
    admin = AdminClient({"bootstrap.servers": guarded.bootstrap})

    def is_named() -> bool:
        """Send an event, and return whether `/ready` names the right."""
        produce(guarded, next(numbers))
        status, told = worker.ask("ready")
        return status == 503 and f"refuse {said};" in str(told)

    with running(worker):
        worker.wait_ready()
        denied.take(admin)
        worker.await_true(is_named, said)
        denied.give_back(admin)
        worker.wait_ready()
        assert worker.stop() == 0, worker.log
    assert "InvalidTxnState" not in worker.log


def test_missing_group_right_is_named(guarded: Guarded, tmp_path: Path) -> None:
    """A client reports this refusal only in a poll, and polls only once it has partitions."""
    admin = AdminClient({"bootstrap.servers": guarded.bootstrap})
    denied = right("Read on group inorder.reorder", "User:worker")
    brokers, *kafka = guarded.options("worker")[1:]
    worker = Worker("alone", guarded.path, brokers, tmp_path, *kafka, "--stage", "reorder")
    denied.take(admin)
    try:
        with running(worker):
            in_vain = r"no assignment by the group for \d\d"
            said = worker.await_true(
                lambda: re.search(f"refuse|{in_vain}", str(worker.ask("ready")[1])), "why not"
            )
            assert f"refuse {denied};" in said.string
    finally:
        denied.give_back(admin)


def test_hidden_topic_is_reported_as_denied(guarded: Guarded, tmp_path: Path) -> None:
    """Brokers omit a topic without Describe rights from their lists, as if it did not exist."""
    admin = AdminClient({"bootstrap.servers": guarded.bootstrap})
    denied = right("Describe on topic events.raw", "User:*")
    denied.take(admin)
    try:
        brokers, *kafka = guarded.options("worker")[1:]
        worker = Worker("unseeing", guarded.path, brokers, tmp_path, *kafka, "--stage", "reorder")
        with running(worker):
            worker.ends_refused(f"the brokers refuse {denied}; `inorder topics acls` prints")
        where = (*guarded.options("source"), "--topic", "events.raw")
        inorder("produce", *where).refused(f"the brokers refuse {denied}; docs/operate/secure.md")
        sink = ("sink", "files", *guarded.options("sink"), "--folder", str(tmp_path))
        inorder(*sink, "--topic", "events.raw").refused(f"the brokers refuse {denied}; docs/")
    finally:
        denied.give_back(admin)


def test_doctor_reports_missing_rights(guarded: Guarded) -> None:
    """A reader has rights to topics, but not to the stages' groups. Each stage's user has only its
    own ids.
    """

    def lacking(user: str, kind: str) -> list[str]:
        ask = ("doctor", "--topology", str(guarded.path), "--json")
        told = json.loads(inorder(*ask, *guarded.options(user)).out)
        of_rights = (each["where"] for each in told if "may not" in each["what"])
        return [where for where in of_rights if where.startswith(f"{kind} ")]

    assert lacking("reader", "group") == [f"group inorder.{stage}" for stage in STAGES]
    assert lacking("worker", "group") == []
    ids = [f"transactional-id inorder.{stage}." for stage in STAGES]
    assert lacking("reader", "transactional-id") == ids
    assert lacking("worker", "transactional-id") == []
    for stage, own in zip(STAGES, ids, strict=True):
        assert lacking(stage, "transactional-id") == [each for each in ids if each != own]


def read(guarded: Guarded, user: str, topic: str, count: int) -> list[str]:
    """Return the sequence numbers of the first `count` events."""
    settings = {"group.id": f"apps.{count}", "auto.offset.reset": "earliest"}
    consumer = Consumer({**guarded.client(user), **settings, "isolation.level": "read_committed"})
    consumer.subscribe([topic])
    found: list[str] = []
    patience = Patience()
    while len(found) < count:
        patience.look(len(found), lambda: f"{count} events")
        for message in consumer.consume(100, 0.2):
            assert message.error() is None, message.error()
            headers: Any = dict(message.headers() or [])
            if "kind" not in headers:
                found.append(headers["seqNum"].decode())
    consumer.close()
    return found


def test_users_write_only_their_topics(guarded: Guarded) -> None:
    for user, allowed in MAY_WRITE.items():
        producer = Producer(guarded.client(user))
        codes: dict[str, int | None] = {}

        def note(
            error: KafkaError | None, message: Message, codes: dict[str, int | None] = codes
        ) -> None:
            codes[message.topic() or ""] = None if error is None else error.code()

        for topic in guarded.topics:
            producer.produce(topic, b"{}", key=b"x", on_delivery=note)
        assert producer.flush(TIMEOUT_S) == 0
        refused = KafkaError.TOPIC_AUTHORIZATION_FAILED
        assert codes == {t: None if t in allowed else refused for t in guarded.topics}, user


def test_page_names_every_topic(guarded: Guarded) -> None:
    page = PAGE.read_text()
    for topic in guarded.topics:
        name = "inorder.*.changelog" if topic.endswith(".changelog") else topic
        assert f"`{name}`" in page, topic
