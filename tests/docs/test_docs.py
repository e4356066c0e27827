"""Laws of the pages: each is in the table of contents, and names only files that exist.

`make docs` checks all of this and more, but needs Sphinx and a quarter of a minute.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import ROOT

CONTENTS = "docs/index.md"
PAGES = [
    *sorted(
        str(page.relative_to(ROOT))
        for folder in ("docs", "benchmarks")
        for page in (ROOT / folder).rglob("*.md")
    ),
    *sorted(page.name for page in ROOT.glob("*.md")),
]
TOCTREE = re.compile(r"^```\{toctree\}\n(?P<lines>.*?)^```", re.M | re.S)
ENTRY = re.compile(r"^(?!:)(?:.*<)?(?P<name>[^\s<>]+)>?$", re.M)
LINK = re.compile(r"\]\((?!https?:|mailto:|#)(?P<path>[^)#\s]+)")
CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.M | re.S)
MODULE = re.compile(r"^\.\. automodule:: (?P<name>\S+)$", re.M)
DECISIONS = sorted((ROOT / "docs/decisions").glob("0*.md"))
MOST_DECISIONS = 25
MOST_LINES = 60
PARTS = ["## Context", "## Choice", "## Consequence"]
MENTION = re.compile(r"decisions?[ /](?P<number>\d+)(?!-|\d)")
"""A mention of a decision: `decision 7` in a page, `docs/decisions/0007` in a docstring."""


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def list_pages(page: str) -> list[str]:
    """Return this page and all pages in the contents below it."""
    found = [page]
    folder = (ROOT / page).parent
    for tree in TOCTREE.finditer(text(page)):
        for entry in ENTRY.finditer(tree["lines"]):
            base, pattern = (folder / entry["name"]).parent.resolve(), Path(entry["name"]).name
            for below in sorted(base.glob(f"{pattern}.md")):
                found += list_pages(str(below.relative_to(ROOT)))
    return found


def test_each_page_is_listed_once() -> None:
    assert sorted(list_pages(CONTENTS)) == sorted(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page: str) -> None:
    folder = (ROOT / page).parent
    paths = [link["path"] for link in LINK.finditer(CODE.sub("", text(page)))]
    assert [path for path in paths if not (folder / path).exists()] == []


def test_reference_modules_are_unique() -> None:
    """Each module that the reference names exists."""
    named = [m["name"] for page in PAGES for m in MODULE.finditer(text(page))]
    places = [ROOT.joinpath(*name.split(".")) for name in named]
    assert named
    assert len(named) == len(set(named))
    assert [p for p in places if not p.with_suffix(".py").exists() and not p.is_dir()] == []


def test_decisions_are_numbered() -> None:
    numbers = [int(page.name[:4]) for page in DECISIONS]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) <= MOST_DECISIONS


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_decision_is_short_with_three_parts(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith(f"# {int(page.name[:4])}. ")
    assert [line for line in lines if line.startswith("## ")] == PARTS
    assert len(lines) <= MOST_LINES


def test_mentioned_decisions_exist() -> None:
    rooms = ("agents", "cli", "codec", "spark_analytics", "tests", "topology")
    code = [str(p.relative_to(ROOT)) for room in rooms for p in (ROOT / room).rglob("*.py")]
    mentioned = {int(m["number"]) for page in [*PAGES, *code] for m in MENTION.finditer(text(page))}
    assert mentioned
    assert max(mentioned) <= len(DECISIONS)
