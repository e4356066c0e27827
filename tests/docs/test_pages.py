"""Examples: commands print what the pages show.

Each operator's page opens with such an example, and the tables of docs/guides/connect.md name every
key of a line.
"""

from __future__ import annotations

import json
import re
import runpy
import shlex
from pathlib import Path
from typing import Any

import pytest

from recordings.row import INTEGER_COLUMNS, PAYLOAD, TEXT_COLUMNS
from tests import ROOT
from tests.cli.invoking import inorder

DOCS = ROOT / "docs"
OPERATORS = [
    *(DOCS / "guides" / f"{name}.md" for name in ("windows", "joins", "detectors")),
    *(DOCS / "concepts" / f"{name}.md" for name in ("order", "clocks", "watermarks")),
]
GUIDES = ("connect", "patterns", "ten_patterns", "match_recognize", "silent_devices", "two_topics")
MUST_SHOW = [
    *(ROOT / "README.md", DOCS / "start" / "audit.md"),
    *(DOCS / "guides" / f"{name}.md" for name in GUIDES),
    *OPERATORS,
]
ELSEWHERE = {DOCS / "guides" / "spark.md"}
"""Page whose tutorial runs in tests/spark_analytics/test_tutorial.py."""
PAGES = [ROOT / "README.md", *sorted({*DOCS.rglob("*.md")} - ELSEWHERE)]
PROMPT = re.compile(r"^\$ (?:\.venv/bin/)?(?P<command>.*)$")
BLOCK = re.compile(r"^```console\n(.*?)^```", re.M | re.S)

Example = tuple[str, list[str]]


def examples(text: str) -> list[Example]:
    """Return the commands of console blocks that need no broker, with the lines below each."""
    found: list[Example] = []
    for block in BLOCK.findall(text):
        for line in block.splitlines():
            if (prompt := PROMPT.match(line)) is not None:
                found.append((prompt["command"], []))
            else:
                found[-1][1].append(line)
    return [example for example in found if "--brokers" not in example[0]]


SHOWN = [
    pytest.param(*example, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, example in enumerate(examples(page.read_text()))
]


@pytest.mark.parametrize("page", MUST_SHOW, ids=lambda page: page.stem)
def test_page_has_examples(page: Path) -> None:
    found = examples(page.read_text())
    assert found
    assert all(any(line.strip() for line in lines) for _, lines in found)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder of a reader of a checkout, after `inorder sample`."""
    (tmp_path / "docs").symlink_to(DOCS)
    monkeypatch.chdir(tmp_path)
    inorder("sample").well()
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("command", "shown"), SHOWN)
def test_page_shows_the_real_output(
    command: str, shown: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """JSON is compared line by line on the keys shown, and other text on the lines shown."""
    program, *words = shlex.split(command)
    if program == "cat":
        assert shown == Path(words[0]).read_text().splitlines()
    elif program == "python":
        runpy.run_path(words[0])
        assert shown == capsys.readouterr().out.splitlines()
    else:
        assert program == "inorder"
        is_what_inorder_says(words, shown)


def is_what_inorder_says(words: list[str], shown: list[str]) -> None:
    answer = inorder(*words).well()
    parts = [json.loads(line) for line in shown if line.startswith("{")]
    if parts:
        assert len(answer.lines) == len(parts), answer.lines
        for line, part in zip(answer.lines, parts, strict=True):
            assert part_of(line, part) == part
    else:
        said = [line.rstrip() for line in (answer.out + answer.err).splitlines()]
        assert [line for line in shown if line.rstrip() not in said] == []


def part_of(whole: Any, part: Any) -> Any:
    """Return the part of the output that the page shows."""
    if isinstance(whole, dict) and isinstance(part, dict):
        return {key: part_of(whole.get(key), part[key]) for key in part}
    return whole


def test_tables_name_every_key() -> None:
    page = (DOCS / "guides" / "connect.md").read_text().partition("\n## Recorded events\n")[2]
    named = set(re.findall(r"^\| `(\w+)` \|", page, re.M))
    of_clocks = {"clock", "t1", "t2", "t3", "t4", "at", "offset", "error"}
    assert named == (TEXT_COLUMNS | INTEGER_COLUMNS | {PAYLOAD}) - of_clocks
    assert all(f'"{key}"' in page for key in of_clocks)
