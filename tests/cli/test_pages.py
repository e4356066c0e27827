"""Examples: what docs/input.md and the README show on a console is what the commands say, and the
tables of docs/input.md name what the reader of lines takes."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from cli.recording.row import INTEGER_COLUMNS, PAYLOAD, TEXT_COLUMNS
from tests.cli.invoking import inorder

ROOT = Path(__file__).parents[2]
PAGES = ("docs/input.md", "README.md")
PROMPT = re.compile(r"^\$ (?:\.venv/bin/)?inorder (?P<words>.*)$")

Example = tuple[str, list[str]]


def examples() -> list[Example]:
    """Each command of each console block that needs no broker, with the lines below it."""
    found: list[Example] = []
    for page in PAGES:
        for block in re.findall(r"^```console\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S):
            for line in block.splitlines():
                if (prompt := PROMPT.match(line)) is not None:
                    found.append((prompt["words"], []))
                elif not line.startswith("$ "):
                    found[-1][1].append(line)
    return [example for example in found if "--brokers" not in example[0]]


def test_there_are_examples() -> None:
    assert len(examples()) >= 4
    assert all(lines for _, lines in examples())


@pytest.mark.parametrize(
    ("command", "shown"), [pytest.param(*each, id=f"{n}") for n, each in enumerate(examples())]
)
def test_the_pages_are_right(
    command: str, shown: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """JSON line by line, of each the keys that are shown; of other text the lines that are."""
    monkeypatch.chdir(ROOT)
    answer = inorder(*shlex.split(command))
    assert answer.code == 0, answer.err
    parts = [json.loads(line) for line in shown if line.startswith("{")]
    if parts:
        assert len(answer.lines) == len(parts), answer.lines
        for line, part in zip(answer.lines, parts, strict=True):
            assert {key: line.get(key) for key in part} == part
    else:
        said = [line.rstrip() for line in (answer.out + answer.err).splitlines()]
        assert [line for line in shown if line.rstrip() not in said] == []


def test_the_tables_name_every_key_of_a_line() -> None:
    page = (ROOT / "docs" / "input.md").read_text()
    named = set(re.findall(r"^\| `(\w+)` \|", page, re.M))
    of_clocks = {"clock", "t1", "t2", "t3", "t4", "at", "offset", "error"}
    assert named == (TEXT_COLUMNS | INTEGER_COLUMNS | {PAYLOAD}) - of_clocks
    assert all(f'"{key}"' in page for key in of_clocks)
