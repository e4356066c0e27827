"""Examples: a command's log as plain lines and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agents.exits import Exit
from cli.local.ports import LOOPBACK, free_ports
from tests.cli.invoking import TOPOLOGY, inorder, text_file
from tests.command import Command
from tests.kit.programs import python

TELLS = (
    "import logging; from cli.logs import set_up; set_up('reorder', {options});"
    "log = logging.getLogger('agents.watch.stage_log');"
    "log.debug('closely');"
    "log.info('owns %s', 'raw/0', extra={{'fields': {{'partitions': ['raw/0']}}}});"
    "log.warning('not ready')"
)


def said(options: str) -> list[str]:
    done = python("-c", TELLS.format(options=options))
    assert (done.returncode, done.stdout) == (0, "")
    return done.stderr.splitlines()


@pytest.mark.parametrize(
    ("options", "levels"),
    [
        ("", ["INFO", "WARNING"]),
        ("quiet=True", ["WARNING"]),
        ("verbose=True", ["DEBUG", "INFO", "WARNING"]),
    ],
)
def test_text_lines_follow_the_level(options: str, levels: list[str]) -> None:
    assert [line.split()[2:4] for line in said(options)] == [["reorder", each] for each in levels]


def test_json_lines_contain_the_values() -> None:
    owns, unready = (json.loads(line) for line in said("style='json'"))
    assert owns.pop("time").endswith("+00:00")
    told = {"level": "INFO", "of": "reorder", "message": "owns raw/0", "partitions": ["raw/0"]}
    assert owns == told
    assert (unready["level"], unready["message"]) == ("WARNING", "not ready")


def parsed(log: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.splitlines()]


def command(folder: Path, *words: str) -> Command:
    topology = text_file(folder / "topology.yaml", TOPOLOGY + "topics: {partitions: 4}\n")
    return Command("worker", folder, *words, "--topology", str(topology), "--log", "json")


@pytest.mark.slow
def test_worker_logs_only_json(tmp_path: Path) -> None:
    worker = command(tmp_path, "worker", "--brokers", "embedded", "--state-dir", str(tmp_path))
    worker.start()
    try:
        worker.process.wait_until(lambda: worker.ask("ready")[0] == 200, 60.0)
    finally:
        code = worker.process.stop()
    said = parsed(worker.log)
    assert code == Exit.DONE
    assert {line["of"] for line in said} == {"worker", "all"}
    assert any("embedded broker at " in line["message"] for line in said)


@pytest.mark.parametrize("name", ["worker", "stage"])
def test_refusal_is_logged_as_json(tmp_path: Path, name: str) -> None:
    (port,) = free_ports(1)
    options = {"worker": ["--stage", "all"], "stage": ["--name", "all"]}[name]
    refused = command(
        tmp_path,
        *(name, "--brokers", f"{LOOPBACK}:{port}", "--brokers-wait", "0s"),
        *("--state-dir", str(tmp_path), *options),
    )
    refused.start()
    try:
        refused.process.wait_until(lambda: not refused.process.is_alive(), 60.0)
    finally:
        code = refused.process.kill()
    said = parsed(refused.log)
    assert code == Exit.REFUSED
    errors = [line for line in said if line["level"] == "ERROR"]
    assert "no broker answers at" in errors[0]["message"]
    assert errors[0]["of"] == "all"


NOWHERE = ("worker", "--topology", "nowhere.yaml", "--brokers", "127.0.0.1:1")


def test_bad_file_is_logged() -> None:
    (line,) = parsed(inorder(*NOWHERE, "--log", "json").refused().err)
    assert (line["of"], line["level"]) == ("worker", "ERROR")
    assert "nowhere.yaml: No such file or directory" in line["message"]


@pytest.mark.parametrize("flags", [["--quiet", "--verbose"], ["--verbose", "--quiet"]])
def test_quiet_with_verbose_is_refused(flags: list[str]) -> None:
    inorder(*NOWHERE, *flags).refused("--quiet and --verbose contradict each other; leave one out")


def test_verbose_overrides_quiet_variable() -> None:
    answer = inorder(*NOWHERE, "--verbose", env={"INORDER_QUIET": "1"}).refused("nowhere.yaml")
    assert "contradict" not in answer.err
