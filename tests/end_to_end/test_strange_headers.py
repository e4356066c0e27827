"""End to end, examples: a record whose header has no name that is text, under every command that
reads a topic of strangers."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.as_they_stand import send_with_no_name
from tests.cli.invoking import TOPOLOGY, inorder
from tests.end_to_end.records import new_producer
from tests.services import SharedKafka, UniqueName

pytestmark = pytest.mark.kafka

VALUE = b'{"kind":"match","id":"x"}'


@pytest.fixture
def topic(kafka: SharedKafka, unique_name: UniqueName) -> str:
    """Three records, the second a stranger's."""
    name = unique_name("strange")
    kafka.create_topic(name, 1, {"message.timestamp.type": "LogAppendTime"})
    producer = new_producer(kafka.bootstrap)
    for seq in range(2):
        headers: list[tuple[str, str | bytes | None]] = [
            ("sourceId", b"a"),
            ("seqNum", b"%d" % seq),
            ("ts", b"%d" % time.time_ns()),
        ]
        producer.produce(name, VALUE, headers=headers)
        assert producer.flush(30) == 0
        if seq == 0:
            send_with_no_name(kafka.bootstrap, name, b"k", VALUE)
    return name


def test_dump_gives_a_dead_line_and_goes_on(topic: str, kafka: SharedKafka, tmp_path: Path) -> None:
    found = inorder("dump", *of_file(topic, kafka, tmp_path))
    assert found.code == 0, found.err
    assert [line["seq"] for line in found.lines] == [0, None, 1]


def of_file(topic: str, kafka: SharedKafka, folder: Path) -> tuple[str, ...]:
    """The options of a command that reads the topic by a topology file."""
    path = folder / "t.yaml"
    path.write_text(f"streams: {{default: {{input: {topic}, clock: {{sync: none}}}}}}\n")
    return "--topology", str(path), "--brokers", kafka.bootstrap


@pytest.mark.parametrize("command", ["read", "init"])
def test_others_pass_over_it(topic: str, kafka: SharedKafka, command: str) -> None:
    found = inorder(command, "--brokers", kafka.bootstrap, "--topic", topic)
    assert found.code == 0, found.err
    if command == "read":
        assert len(found.lines) == 2
    else:
        assert TOPOLOGY.split(":")[0] in found.out


def test_doctor_judges_what_it_can_read(topic: str, kafka: SharedKafka, tmp_path: Path) -> None:
    found = inorder("doctor", *of_file(topic, kafka, tmp_path))
    assert found.code in (0, 1), found.err
    assert "record is dead" not in found.out, "two of three are sound"
