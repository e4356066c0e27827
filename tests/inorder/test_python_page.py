"""Examples: the Python code in docs/reference/python.md and inorder/README.md runs as written."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path

import pytest
from confluent_kafka import Producer

from cli.local.embedded import EmbeddedBroker
from inorder.header_writer import HeaderWriter
from tests import ROOT
from tests.cli.invoking import inorder
from tests.inorder.records import Topic
from tests.inorder.sync.sockets import serving
from tests.services import UniqueName
from topology.base.event import WATERMARK, Event
from topology.config import HeaderConfig
from topology.records import header_writer

PAGE = ROOT / "docs/reference/python.md"
TEXT = PAGE.read_text(encoding="utf-8")
SHOWN = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", TEXT, re.S)
README = (ROOT / "inorder/README.md").read_text(encoding="utf-8")
RECIPES = ROOT / "docs/examples/recipes"
FUNCTION = re.compile(r"^(?:async )?def .*", re.M | re.S)


def test_each_example_is_followed_by_output() -> None:
    assert len(SHOWN) == TEXT.count("```python\n") > 0


def test_page_matches_recipe_files() -> None:
    for path in RECIPES.glob("*.py"):
        assert f"../examples/recipes/{path.name}" in TEXT
    function = FUNCTION.search((RECIPES / "asyncio_queue.py").read_text(encoding="utf-8"))
    assert function is not None
    assert function[0] in TEXT


ON_KAFKA = [each for each in SHOWN if "kafka:9092" in each[0]]
READERS = [each for each in ON_KAFKA if "Consumer(" in each[0]]
PRODUCERS = [each for each in ON_KAFKA if each not in READERS]
ALONE = [each for each in SHOWN if each not in ON_KAFKA]


def publish_ordered(broker: EmbeddedBroker, topic: str) -> None:
    """Publish three events, with a watermark after each."""
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
        producer.produce(topic, value, headers=dict(writer.write_ordered(event, original)))
        mark = Event("default", "", 0, 0, 5, 6, kind=WATERMARK)
        producer.produce(topic, None, headers=dict(writer.write_control(mark, 0)))
    assert producer.flush(10) == 0


class Enough(Exception):
    """An exception that ends the loop of an example."""


@pytest.mark.parametrize(("code", "printed"), READERS)
def test_loop_example_reads_ordered_topic(
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


@pytest.mark.parametrize(("code", "printed"), PRODUCERS, ids=range(len(PRODUCERS)))
def test_producer_example_prints_its_output(
    code: str, printed: str, raw: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = code.replace("kafka:9092", raw.bootstrap).replace("events.raw", raw.name)
    with serving() as server:
        assert printed_by(code.replace("sync-1:4123", server.name)) == printed


@pytest.mark.parametrize(("code", "printed"), ALONE, ids=range(len(ALONE)))
def test_example_prints_shown_output(code: str, printed: str) -> None:
    assert printed_by(code) == printed


def test_readme_examples_run(raw: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    publishing, reading = re.findall(r"```python\n(.*?)```", README, re.S)
    publishing = publishing.replace("kafka:9092", raw.bootstrap)
    assert printed_by(publishing.replace("events.raw", raw.name)) == ""
    topology, events = ROOT / "docs/examples/window.yaml", ROOT / "docs/examples/window.jsonl"
    answer = inorder("replay", "--topology", str(topology), "--show", "window", str(events))
    Path("results.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in answer.lines))
    assert printed_by(reading).splitlines() == [
        "force {'n': 3, 'mean': 13.0} confirmed",
        "force {'n': 2, 'mean': 21.0} confirmed",
        "force {'n': 1, 'mean': 30.0} uncertain",
    ]


def printed_by(code: str) -> str:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(code, str(PAGE), "exec"), {})
    return said.getvalue()
