"""Examples: the Python of docs/reference/python.md, run as written, prints what the page shows."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
from confluent_kafka import Producer

from cli.local.embedded import EmbeddedBroker
from inorder.header_writer import HeaderWriter
from tests.services import UniqueName
from topology.config import HeaderConfig
from topology.model.event import WATERMARK, Event
from topology.wire import header_writer

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "python.md"
SHOWN = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE.read_text(), re.S)


def test_every_example_shows_what_it_prints() -> None:
    assert len(SHOWN) == PAGE.read_text().count("```python\n") > 0


ON_KAFKA = [each for each in SHOWN if "kafka:9092" in each[0]]
ALONE = [each for each in SHOWN if each not in ON_KAFKA]


def publish_ordered(broker: EmbeddedBroker, topic: str) -> None:
    """Three events, and a watermark between them."""
    config = HeaderConfig()
    writer = header_writer.HeaderWriter(config)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    broker.make_topic(topic, 1)
    told = [("press-7", 0, "", b'{"force": 12}'), ("press-7", 1, "", b'{"force": 13}')]
    for source, seq, late, value in [*told, ("oven-2", 0, "merge_new", None)]:
        event = Event("default", source, 0, seq, 5, 6)
        event.late = late
        sent = HeaderWriter(config).write(source, seq, ts_ns=5, epoch=0)
        original = [
            (name, text if isinstance(text, bytes) else str(text).encode()) for name, text in sent
        ]
        producer.produce(topic, value, headers=dict(writer.ordered(event, original)))
        mark = Event("default", "", 0, 0, 5, 6, kind=WATERMARK)
        producer.produce(topic, None, headers=dict(writer.control(mark, 0)))
    assert producer.flush(10) == 0


class Enough(Exception):
    """The loop of an example is left."""


@pytest.mark.parametrize(("code", "printed"), ON_KAFKA)
def test_a_loop_reads_the_ordered_topic(
    code: str, printed: str, embedded_broker: EmbeddedBroker, unique_name: UniqueName
) -> None:
    topic = unique_name("ordered")
    publish_ordered(embedded_broker, topic)
    lines: list[str] = []

    def note(*values: object) -> None:
        lines.append(" ".join(map(str, values)))
        if len(lines) == len(printed.splitlines()):
            raise Enough

    code = code.replace("kafka:9092", embedded_broker.bootstrap).replace("events.ordered", topic)
    with pytest.raises(Enough):
        exec(compile(code, str(PAGE), "exec"), {"print": note})
    assert lines == printed.splitlines()


@pytest.mark.parametrize(("code", "printed"), ALONE, ids=range(len(ALONE)))
def test_an_example_prints_what_the_page_shows(code: str, printed: str) -> None:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(code, str(PAGE), "exec"), {})
    assert said.getvalue() == printed
