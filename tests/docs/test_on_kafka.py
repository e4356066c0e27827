"""End to end: the commands in the tutorial and on the operators' pages, run on a real Kafka.

Only addresses, ports and topic names differ, since the broker is shared (`Ground.words`). The
commands are taken from the pages. A new one has to be run here, or be listed with the test that
runs it.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

import tests.command
from cli.local.ports import free_ports
from tests import ROOT
from tests.cli.invoking import Answer, inorder, json_lines
from tests.docs.commands import Command, commands_of
from tests.inorder.sync.key_file import key_table
from tests.kit.nursery import ForkedProcess
from tests.services import SharedKafka, UniqueName

TUTORIAL, CONNECT, ALERTS, CHANGE, SECURE, KUBERNETES = (
    ROOT / "docs" / name
    for name in (
        "start/tutorial.md",
        "guides/connect.md",
        *(f"operate/{page}.md" for page in ("alerts", "change", "secure", "kubernetes")),
    )
)
ELSEWHERE = {
    "audit": "tests/cli/audit/test_topic.py",
    "dev": "tests/end_to_end/test_dev.py",
    "keys": "tests/docs/test_code_of_pages.py",
    "recut": "tests/end_to_end/test_recut.py",
    "replay": "tests/docs/test_pages.py",
    "sample": "tests/cli/files/test_sample.py",
    "telemetry.yaml": "tests/docs/test_pages.py",
    "spark": "tests/spark_analytics/backfill/test_backfill.py",
    "--take-over": "tests/end_to_end/test_change.py",
}
"""Commands whose examples other tests run, by one of their words."""

TIMEOUT_S = 60.0
TOPICS = ("raw", "ordered", "sequenced", "gaps", "late", "dead", "clock", "resend", "windows")
"""Topics that the pages call events.raw and so on."""


def told(page: Path) -> list[Command]:
    """Return the `inorder` commands that the page's blocks show in full."""
    return [each for each in commands_of(page) if each.program == "inorder" and each.is_whole]


class Serving(tests.command.Command):
    """A serving command, forked from a process that has imported it."""

    begun_as = ForkedProcess


class Ground:
    """A folder with the files that the pages mention, and a broker; `typed` has the commands that
    were run.
    """

    def __init__(self, folder: Path, brokers: str, unique: str) -> None:
        self.folder = folder
        self.brokers = brokers
        self.worker = ""
        self.typed: set[Command] = set()
        self.topics = {f"events.{name}": f"{name}-{unique}" for name in TOPICS}
        self._instead = {
            **dict.fromkeys(("kafka:9092", "127.0.0.1:9092", "…"), brokers),
            "keys": "keys.toml",
            "FILE": "t.yaml",
            **self.topics,
        }

    def words(self, command: Command) -> list[str]:
        """Return the command's words after `inorder`, with this test's names and addresses."""
        self.typed.add(command)
        free = f"127.0.0.1:{free_ports(1)[0]}"
        asked = dict.fromkeys(("127.0.0.1:PORT", "HOST:PORT"), self.worker)
        instead = {**self._instead, **asked, "0.0.0.0:4123": free}
        return [instead.get(word, word) for word in command.words[1:]]

    def run(self, page: Path, said: str) -> Answer:
        """Run the page's first command that begins with `said`, and assert that it exits with 0."""
        words = self.words(self.told(page, said))
        answer = inorder(*words)
        assert answer.code == 0, (words, answer.err)
        return answer

    def told(self, page: Path, said: str) -> Command:
        found = [
            each
            for each in commands_of(page)
            if each.program == "inorder" and " ".join(each.words[1:]).startswith(said)
        ]
        assert found, f"{page.name} no longer says: inorder {said}"
        return found[0]

    @property
    def ordered(self) -> str:
        return self.topics["events.ordered"]

    @contextmanager
    def serving(self, page: Path, said: str, **instead: str) -> Iterator[Serving]:
        """Run a serving command, yield it when it is ready, and assert that it stops cleanly."""
        words = [instead.get(word, word) for word in self.words(self.told(page, said))]
        name = f"{words[0]}-{len(self.typed)}"
        serving = Serving(name, self.folder, *words, env={"INORDER_TOPOLOGY": "t.yaml"})
        serving.start()
        try:
            serving.process.wait_until(lambda: serving.ask("ready")[0] == 200, TIMEOUT_S)
            yield serving
            serving.ends_by(signal.SIGTERM)
        finally:
            serving.process.kill()


@pytest.fixture
def ground(
    kafka: SharedKafka, tmp_path: Path, unique_name: UniqueName, monkeypatch: pytest.MonkeyPatch
) -> Ground:
    monkeypatch.chdir(tmp_path)
    Path("keys.toml").write_text(key_table(7, "ab" * 32, "press-7"))
    Path("keys.toml").chmod(0o600)
    return Ground(tmp_path, kafka.bootstrap, unique_name("pages"))


def write_events(*numbers: int) -> None:
    json_lines(Path("events.jsonl"), ({"source": "a", "seq": number} for number in numbers))


def name_apart(ground: Ground) -> None:
    """Give the topology that `init` wrote its own topics, and one for requests."""
    topology = yaml.safe_load(Path("t.yaml").read_text())
    own = {name.partition(".")[2]: topic for name, topic in ground.topics.items()}
    streams = {"default": {"input": own.pop("raw"), "output": own.pop("ordered")}}
    topology["streams"]["default"] = (topology["streams"]["default"] or {}) | streams["default"]
    topology["application"] = f"app-{own['gaps']}"
    topology["topics"] = {"partitions": 2, "replication": 1, **own}
    Path("t.yaml").write_text(yaml.safe_dump(topology))


def second_topology() -> str:
    """Write the second topology of change.md: another application with other output names."""
    topology = yaml.safe_load(Path("t.yaml").read_text())
    topology["application"] += "-second"
    topology["streams"]["default"]["output"] += "-second"
    for name in ("sequenced", "gaps", "late", "dead", "windows"):
        topology["topics"][name] += "-second"
    Path("second.yaml").write_text(yaml.safe_dump(topology))
    return str(topology["streams"]["default"]["output"])


@pytest.mark.kafka
@pytest.mark.slow
def test_page_commands_work(ground: Ground) -> None:
    write_events(0, 2, 1)
    ground.run(TUTORIAL, "init")
    ground.run(TUTORIAL, "check t.yaml")
    name_apart(ground)
    ground.run(TUTORIAL, "topics create")
    assert "no faults found" in ground.run(TUTORIAL, "doctor").err
    ground.run(ALERTS, "doctor")
    with ground.serving(TUTORIAL, "worker") as worker:
        ground.worker = worker.http or ""
        ground.run(TUTORIAL, "produce")
        read = ground.run(TUTORIAL, "read").lines
        assert [event["seq"] for event in read] == [0, 1, 2]
        asks_for_what_is_missing(ground)
        ground.run(TUTORIAL, "explain")
        ground.run(ALERTS, "explain 127.0.0.1")
        ground.run(ALERTS, "explain HOST:PORT --source")
        ground.run(CHANGE, "check t.yaml")
        ground.run(CHANGE, "topics create --grow")
        ground.run(SECURE, "topics acls")
        is_the_same_by_a_second_topology(ground)
    with ground.serving(SECURE, "sync-server"):
        pass
    left = {
        str(each)
        for page in (TUTORIAL, ALERTS, CHANGE, SECURE, KUBERNETES)
        for each in told(page)
        if each not in ground.typed and not ELSEWHERE.keys() & {*each.words}
    }
    left = {each for each in left if "docs/examples/" not in each}  # in tests/docs/test_pages.py
    assert left == set(), "what a page has typed is run here, or named with the test that does"
    assert all((ROOT / test).is_file() for test in ELSEWHERE.values())


def asks_for_what_is_missing(ground: Ground) -> None:
    """Assert that numbers 3 and 4 are given up and requested once, and that `--follow` requests 6
    and 7.
    """
    gaps = ("read", "--brokers", ground.brokers, "--topic", ground.topics["events.gaps"])
    write_events(5)
    ground.run(TUTORIAL, "produce")
    (gap,) = inorder(*gaps, "--follow", "--count", "1").lines
    assert (gap["first"], gap["last"]) == (3, 4)
    assert "asked for 2 numbers in 1 gaps" in ground.run(CONNECT, "resend").err
    once = ground.told(CONNECT, "resend")
    assert "asked for 0 numbers" in inorder(*ground.words(once)).err
    on_and_on = next(each for each in told(CONNECT) if "--follow" in each.words)
    follows = Serving("follows", ground.folder, *ground.words(on_and_on))
    follows.start()
    try:
        write_events(8)
        ground.run(TUTORIAL, "produce")
        follows.await_said("a 0: 6 to 7")
        follows.ends_by(signal.SIGINT)
    finally:
        follows.process.kill()


def is_the_same_by_a_second_topology(ground: Ground) -> None:
    output = second_topology()
    ground.run(CHANGE, "topics create --topology second.yaml")
    seen = {}
    with ground.serving(TUTORIAL, "worker", **{"t.yaml": "second.yaml"}):
        for topic, options in ((output, ("--follow", "--count", "5")), (ground.ordered, ())):
            found = inorder("read", "--brokers", ground.brokers, "--topic", topic, *options).well()
            seen[topic] = found.out
    assert len(set(seen.values())) == 1, seen
