"""End to end: `inorder dev` starts a broker, topics and a worker.

Published events can be read in order, and Ctrl-C stops everything.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import cli.local.kafka
from agents.kafka.brokers import find_brokers
from cli.local.ports import LOOPBACK, free_ports
from cli.run.dev import _run_broker
from tests import ROOT
from tests.cli.invoking import inorder, json_lines, text_file
from tests.command import Command
from tests.services import require
from topology.config import parse

READY_TIMEOUT_S = 90.0
LOOK = re.compile(r"look     (http://\S+/) in a browser")
PLACE = r"ready: (\w+) broker at (\S+), worker at"

ROWS = [
    {"source": "a", "seq": 0, "ts": 1_000, "payload": {"x": 1}},
    {"source": "a", "seq": 2, "ts": 3_000},
    {"source": "a", "seq": 1, "ts": 2_000},
]


@contextmanager
def dev(folder: Path, *options: str) -> Iterator[tuple[Command, str]]:
    """Yield the command and the address of its brokers."""
    command = Command("dev", folder, "dev", *options)
    command.start()
    try:
        yield command, command.await_said(PLACE)[2]
    finally:
        command.process.stop()


def publish_and_read(folder: Path, brokers: str) -> list[int]:
    path = json_lines(folder / "events.jsonl", ROWS)
    inorder("produce", "--brokers", brokers, "--topic", "events.raw", path).well()
    reading = ("read", "--brokers", brokers, "--topic", "events.ordered")
    followed = inorder(*reading, "--follow", "--count", str(len(ROWS))).well()
    assert inorder(*reading).lines[: len(ROWS)] == followed.lines
    assert followed.lines[0]["payload"] == {"x": 1}
    return [line["seq"] for line in followed.lines]


def interrupted(command: Command) -> None:
    command.ends_by(signal.SIGINT)
    assert "Traceback" not in command.log


MOST_LINES = 10
ROWS_OF_OTHERS = "id,n,at\na,0,1700000000000\na,2,1700000002000\na,1,1700000001000\n"
OF_OTHERS = """\
streams:
  default: {fields: {source: payload.id, seq: payload.n, ts: payload.at}, ts_unit: ms}
"""


@pytest.mark.slow
def test_dev_prints_next_command(tmp_path: Path) -> None:
    """One printed line publishes the recording beside the file, and runs as it stands."""
    topology = text_file(tmp_path / "own rows.yaml", OF_OTHERS)
    text_file(tmp_path / "own rows.csv", ROWS_OF_OTHERS)
    with dev(tmp_path, "--topology", str(topology)) as (command, brokers):
        command.await_said("Ctrl-C")
        assert len(command.log.splitlines()) <= MOST_LINES
        said = re.search(r"publish  (.+)", command.log)
        assert said is not None
        program, *words = shlex.split(said[1])
        assert (program, words[-1]) == ("inorder", str(tmp_path / "own rows.csv"))
        inorder(*words).well("published 3 records")
        reading = ("--topic", "events.ordered", "--follow", "--count", "3")
        lines = inorder("read", "--brokers", brokers, *reading).well().lines
        assert [line["seq"] for line in lines] == [0, 1, 2]
        interrupted(command)
        assert len(command.log.splitlines()) <= MOST_LINES


@pytest.mark.slow
def test_stages_are_forked(tmp_path: Path) -> None:
    """A stage that imported all modules itself would take most of the start time."""
    with dev(tmp_path) as (command, _):
        children = Path(f"/proc/{command.process.pid}/task/{command.process.pid}/children")
        lines = [
            Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            for child in children.read_text().split()
        ]
        assert len(lines) > 1
        assert [line for line in lines if b"stage" in line] == []


@pytest.mark.slow
def test_usual_port_is_preferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (usual,) = free_ports(1)
    monkeypatch.setattr("cli.run.dev.USUAL_PORT", usual)
    topology = parse("streams: {default: {}}")
    with _run_broker("embedded", tmp_path, topology, lambda _: None) as servers:
        assert servers == f"{LOOPBACK}:{usual}"
        assert find_brokers(servers).is_embedded
        with _run_broker("embedded", tmp_path, topology, lambda _: None) as other:
            assert other != servers
            assert find_brokers(other).is_embedded


@pytest.mark.slow
def test_dev_runs_without_java(tmp_path: Path) -> None:
    with dev(tmp_path) as (command, brokers):
        assert publish_and_read(tmp_path, brokers) == [0, 1, 2]
        look = LOOK.search(command.log)
        assert look is not None
        with urllib.request.urlopen(f"{look[1]}events", timeout=READY_TIMEOUT_S) as answer:
            view = next(line for line in answer if line.startswith(b"data:"))
            assert json.loads(view.removeprefix(b"data:"))["sources"]["known"] == 1
        interrupted(command)


def test_bad_topology_is_refused_first(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("streams: {default: {colour: red}}\n")
    inorder("dev", "--topology", tmp_path / "bad.yaml").refused("streams.default.colour")


KAFKA = ("--broker", "kafka")
TUTORIAL = ROOT / "docs/start/tutorial.md"


def tutorial_commands() -> tuple[str, list[str]]:
    """Return the tutorial's commands for the first terminal, and for the second."""
    section = TUTORIAL.read_text().partition("## 5. Run it on Kafka")[2]
    first, second = re.findall(r"^```sh\n(.*?)^```", section, re.M | re.S)[:2]
    return first.strip(), second.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(
    "more", [pytest.param((), id="plain"), pytest.param(KAFKA, id="kafka", marks=pytest.mark.kafka)]
)
def test_tutorial_commands_work(tmp_path: Path, more: tuple[str, ...]) -> None:
    """Commands run as written, except for a port in use, the programs' folder, and a topology that
    asks for more brokers than there are.
    """
    if more:
        require(cli.local.kafka.jars.missing())
    serve, commands = tutorial_commands()
    program, *options = serve.split()
    assert program == "inorder"
    assert options == ["dev"]
    options = [*more]
    own = tmp_path / "t.yaml"
    own.write_text("streams: {default: {}}\ntopics: {partitions: 2, replication: 3}\n")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with dev(tmp_path, *options, "--topology", str(own)) as (worker, brokers):
        for command in commands:
            done = subprocess.run(
                ["bash", "-c", command.replace("127.0.0.1:9092", brokers)],
                cwd=tmp_path,
                env={**os.environ, "PATH": path},
                capture_output=True,
                text=True,
                timeout=READY_TIMEOUT_S,
                check=False,
            )
            assert done.returncode == 0, (command, done.stderr)
        assert [json.loads(line)["seq"] for line in done.stdout.splitlines()] == [0, 1, 2]
        reading = ("read", "--brokers", brokers, "--topic")
        inorder(*reading, "nowhere").refused("no such topic")
        inorder(*reading, "events.raw").refused("use `inorder dump`")
        interrupted(worker)
