"""Examples: a hostile source name cannot add lines to text for people."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agents.watch.unhealthy import UnhealthySources
from cli.kafka import resend
from cli.logs import set_up
from cli.printable import escape_unprintable
from cli.run import explain
from inorder.resending import Request
from tests.cli.invoking import TOPOLOGY, inorder
from tests.cli.run.test_explain import REORDER, entry
from topology.base.event import Event
from topology.base.outcome import Duplicate

HOSTILE = "s1\n2026-11-22 00:00:00,000 worker INFO all is well\r\x1b[2J\u202e\u2028"
ESCAPED = r"s1\n2026-11-22 00:00:00,000 worker INFO all is well\r\x1b[2J\u202e\u2028"


def test_only_unprintable_text_is_escaped() -> None:
    assert escape_unprintable(HOSTILE) == ESCAPED
    assert escape_unprintable("Grüße, 東京 \\n") == "Grüße, 東京 \\n"


@pytest.fixture
def log(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[[], str]]:
    """Yield a function that returns standard error while a test sets up a command's log."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield lambda: capsys.readouterr().err
    for handler in set(root.handlers) - set(handlers):
        root.removeHandler(handler)
    root.setLevel(level)
    logging.captureWarnings(capture=False)


@pytest.mark.parametrize("style", ["text", "json"])
def test_hostile_name_stays_on_one_line(log: Callable[[], str], style: str) -> None:
    set_up("worker", style=style)
    event = Event("default", HOSTILE, 3, 7, 0, 0)
    UnhealthySources("raw/0").note_reports([Duplicate(0, event, conflict=True)])
    (line, end) = log().split("\n")
    assert end == ""
    name = ESCAPED if style == "text" else HOSTILE
    assert f"(the first: {name}/3/7 of default" in (
        line if style == "text" else json.loads(line)["message"]
    )


def test_continuation_lines_are_indented(log: Callable[[], str]) -> None:
    set_up("worker")
    logging.getLogger("inorder").error("t.yaml:\n  streams: %s", HOSTILE)
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        logging.getLogger("agents").exception("failed")
    said = log()
    begins = [line for line in said.splitlines() if not line.startswith("  ")]
    assert [line.split(" ", 2)[2] for line in begins] == [
        "worker ERROR t.yaml:",
        "worker ERROR failed",
    ]
    assert "\x1b" not in said


def test_explain_escapes_hostile_names(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"said": [f"default: {HOSTILE} 1/2/17: held"]}
    monkeypatch.setattr(explain, "ask", lambda *_: answer)
    asked = ("explain", "127.0.0.1:1", "--source", HOSTILE, "--seq", "17")
    assert inorder(*asked).out == f"default: {ESCAPED} 1/2/17: held\n"
    assert json.loads(inorder(*asked, "--json").out) == answer
    waiting = [entry(HOSTILE, held=1, reason="start", missing=None)]
    part = REORDER | {"streams": {"default": {"reorder": {"waiting": waiting}}}}
    monkeypatch.setattr(explain, "ask", lambda *_: [part])
    head, line = inorder("explain", "127.0.0.1:1").out.split("\n")[:2]
    assert head.startswith("reorder raw/2: 5 buffered")
    assert line.startswith(f"  default/{ESCAPED} epoch 0: 1 buffered")


def test_resend_and_replay_escape_names(tmp_path: Path) -> None:
    assert (
        resend.format_gaps([Request("default", HOSTILE, 1, 2, 3)]) == f"default {ESCAPED} 1: 2 to 3"
    )
    path, topology = tmp_path / "events.jsonl", tmp_path / "t.yaml"
    path.write_text(json.dumps({"source": "[red]a\nb\x1b[2J", "seq": 0, "ts": 1}) + "\n")
    topology.write_text(TOPOLOGY)
    done = inorder("replay", "--topology", topology, path).well(r"[red]a\nb\x1b[2J")
    assert done.lines[0]["source"] == "[red]a\nb\x1b[2J"


def test_refusal_escapes_file_contents(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text('streams: {s: {}}\n"\\u202e\\e[2Jstream": 1\n')
    inorder("check", str(tmp_path / "t.yaml")).refused(r"\u202e\x1b[2Jstream")
