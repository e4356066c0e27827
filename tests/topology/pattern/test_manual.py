"""Examples: what docs/patterns.md shows on a console is what `inorder match` says."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.cli.invoking import inorder

ROOT = Path(__file__).parents[3]
MANUAL = ROOT / "docs" / "patterns.md"
PROMPT = "$ inorder "

Example = tuple[str, list[dict[str, Any]]]


def examples() -> list[Example]:
    """Each command of each console block, with the lines below it."""
    found: list[Example] = []
    for block in re.findall(r"^```console\n(.*?)^```", MANUAL.read_text(), re.M | re.S):
        for line in block.splitlines():
            if line.startswith(PROMPT):
                found.append((line.removeprefix(PROMPT), []))
            else:
                found[-1][1].append(json.loads(line))
    return found


def test_there_are_examples() -> None:
    assert len(examples()) >= 10
    assert all(lines for _, lines in examples())


@pytest.mark.parametrize(
    ("command", "shown"), [pytest.param(*each, id=f"{n}") for n, each in enumerate(examples())]
)
def test_the_manual_is_right(
    command: str, shown: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Line by line; keys that the manual leaves out may be anything."""
    monkeypatch.chdir(ROOT)
    answer = inorder(*shlex.split(command))
    assert answer.code == os.EX_OK, answer.err
    assert len(answer.lines) == len(shown), answer.lines
    for line, part in zip(answer.lines, shown, strict=True):
        assert _part_of(line, part) == part


def _part_of(whole: Any, part: Any) -> Any:
    """What the manual speaks of."""
    if isinstance(whole, dict) and isinstance(part, dict):
        return {key: _part_of(whole.get(key), part[key]) for key in part}
    return whole


def test_errors_beyond_the_bound_are_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    query = "PATTERN SEQ(Badge b, Door d) WITHIN 2 s"
    arguments = ("match", "--query", query, "docs/examples/door.jsonl", "--max-error")
    assert [line["reason"] for line in inorder(*arguments, "150ms").lines] == [
        "error_too_large",
        "error_too_large",
    ]
    refused = inorder(*arguments, "150")
    assert refused.code == 2
    assert "--max-error 150: `150` has no unit; write 150ms" in refused.err
