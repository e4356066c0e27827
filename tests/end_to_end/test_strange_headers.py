"""End to end, an example: a record whose header name is not text, in commands that read a foreign
topic.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.as_they_stand import send_with_no_name
from tests.cli.invoking import TOPOLOGY, inorder, text_file
from tests.end_to_end.records import contract, new_producer
from tests.services import SharedKafka, UniqueName

VALUE = b'{"kind":"match","id":"x"}'


@pytest.mark.kafka
def test_commands_survive_a_strange_record(
    kafka: SharedKafka, unique_name: UniqueName, tmp_path: Path
) -> None:
    """A stranger has sent the second of three records."""
    topic = unique_name("strange")
    kafka.create_topic(topic, 1, {"message.timestamp.type": "LogAppendTime"})
    producer = new_producer(kafka.bootstrap)
    for seq in range(2):
        producer.produce(topic, VALUE, headers=[*contract("a", seq, time.time_ns())])
        assert producer.flush(30) == 0
        if seq == 0:
            send_with_no_name(kafka.bootstrap, topic, b"k", VALUE)
    streams = f"streams: {{default: {{input: {topic}, clock: {{sync: none}}}}}}\n"
    brokers = ("--brokers", kafka.bootstrap)
    by_file = (*brokers, "--topology", text_file(tmp_path / "t.yaml", streams))
    by_name = (*brokers, "--topic", topic)
    assert [line["seq"] for line in inorder("dump", *by_file).well().lines] == [0, None, 1]
    assert len(inorder("read", *by_name).well().lines) == 2
    assert TOPOLOGY.split(":")[0] in inorder("init", *by_name).well().out
    found = inorder("doctor", *by_file)
    assert found.code in (0, 1), found.err
    assert "record is dead" not in found.out, "two of three are sound"
