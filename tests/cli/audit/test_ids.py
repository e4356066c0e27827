"""Examples: duplicates by an id in `inorder audit`, and the same duplicates in `inorder replay`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.invoking import inorder, text_file

S_MS = 1_000
PLACES = ("--source", "dev", "--ts", "ms", "--ts-unit", "ms")
IDS = "abcbdaec"


@pytest.fixture
def messages(tmp_path: Path) -> Path:
    """Return a file of eight messages, three of them duplicates."""
    times = {id_: 1_700_000_000_000 + S_MS * n for n, id_ in enumerate("abcde")}
    rows = [{"dev": "cam", "guid": id_, "ms": times[id_]} for id_ in IDS]
    return text_file(tmp_path / "messages.jsonl", "\n".join(map(json.dumps, rows)))


def test_duplicates_count_by_id(messages: Path, tmp_path: Path) -> None:
    said = inorder("audit", messages, *PLACES, "--id", "guid", "--json").last
    machine = said["by_machine"]["cam"]
    assert [(each["copies"], each["missing"]) for each in (said, machine)] == [(3, None)] * 2
    assert said["inorder"]["wrong_at_last"] == 0
    topology = tmp_path / "t.yaml"
    shown = inorder("audit", messages, *PLACES, "--id", "guid", "--out", topology)
    shown.well("copies", "Its truth: each id once")
    assert "id: payload.guid" in topology.read_text()
    inorder("check", topology).well("")


def test_replay_emits_each_id_once(messages: Path) -> None:
    summary = inorder("replay", messages, *PLACES, "--id", "guid", "--json").summary
    assert [summary[each] for each in ("event", "duplicate", "late")] == [5, 3, 0]


def test_id_with_numbers_is_refused(messages: Path) -> None:
    places = ("--source", "dev", "--seq", "ms", "--id", "guid")
    inorder("replay", messages, *places).refused("--id is for records without sequence numbers")
