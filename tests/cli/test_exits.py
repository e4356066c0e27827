"""Examples: every command exits with a code from one table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import agents.kafka.brokers
from agents.exits import Exit
from cli.local.ports import LOOPBACK, free_ports
from cli.main import COMMANDS
from tests import ROOT
from tests.cli.invoking import TOPOLOGY, inorder, text_file

ERRORS = ROOT / "docs/reference/errors.md"
RESENDING = TOPOLOGY + "topics: {resend: requests}\n"

BROKERS = ("--brokers", "{nobody}")
WAIT = ("--brokers-wait", "0s")
REACH_OUT = [
    ("audit", "--topic", "raw", *BROKERS),
    ("dump", "--topology", "{topology}", *BROKERS),
    ("explain", "{nobody}"),
    ("produce", "--topic", "raw", *BROKERS),
    ("read", "--topic", "events.ordered", *BROKERS),
    ("sink", "files", *BROKERS, *WAIT, "--topic", "results", "--folder", "{folder}/out"),
    ("sink", "postgres", *BROKERS, *WAIT, "--topic", "results", "--postgres", "host=nowhere"),
    ("sink", "redis", *BROKERS, *WAIT, "--topic", "results", "--redis", "redis://nowhere"),
    ("stage", *("--topology", "{topology}", *BROKERS, *WAIT, "--name", "all")),
    ("resend", "--topology", "{topology}", *BROKERS),
    ("sync-server", *BROKERS, "--bind", "127.0.0.1:0"),
    ("topics", "create", "--topology", "{topology}", *BROKERS),
    ("doctor", "--topology", "{topology}", *BROKERS),
    ("worker", "--topology", "{topology}", *BROKERS, *WAIT, "--stage", "all"),
]
ALONE = {"check", "demo", "keys", "match", "replay", "sample", "spark", "dev", "init"}
"""Commands that need nobody else, bring others along, or (spark) are tested elsewhere."""


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that fills the paths of files and an unreachable broker's address into
    arguments.
    """
    topology = text_file(tmp_path / "topology.yaml", RESENDING)
    (port,) = free_ports(1)
    places = {"topology": topology, "nobody": f"{LOOPBACK}:{port}", "folder": tmp_path}
    monkeypatch.setattr(agents.kafka.brokers, "TIMEOUT_S", 0.5)
    monkeypatch.setattr(agents.kafka.brokers, "TRY_S", 0.5)
    monkeypatch.chdir(tmp_path)
    return lambda arguments: [each.format(**places) for each in arguments]


@pytest.mark.parametrize("arguments", REACH_OUT, ids=lambda each: "-".join(each[:2]))
def test_unreachable_broker_exits_with_2(
    arguments: tuple[str, ...], filled: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    if arguments[0] == "stage":
        arguments = (*arguments, "--state-dir", "{folder}/state")
    answer = inorder(*filled(arguments)).refused()
    said = [line for line in answer.err.splitlines() if " answers at 127.0.0.1:" in line]
    if arguments[0] != "worker":  # A worker's stage reports it.
        assert len(said) == 1
        assert capfd.readouterr().err == "", "the client itself writes there"


def test_every_command_is_listed() -> None:
    assert {each[0] for each in REACH_OUT} | ALONE >= set(COMMANDS)


def test_documentation_lists_all_codes() -> None:
    rows = re.findall(r"^\| (\d) \| .+? \|$", ERRORS.read_text(), re.M)
    assert [int(code) for code in rows] == [*Exit]
