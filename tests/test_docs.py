"""Laws of the pages: each is in the table of contents, and what they name is there.

`make docs` sees all of this and more, but needs Sphinx and a quarter of a minute.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import ROOT

CONTENTS = "docs/index.md"
PAGES = [
    *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")),
    *(
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "benchmarks/README.md",
    ),
]
TOCTREE = re.compile(r"^```\{toctree\}\n(?P<lines>.*?)^```", re.M | re.S)
ENTRY = re.compile(r"^(?!:)(?:.*<)?(?P<name>[^\s<>]+)>?$", re.M)
LINK = re.compile(r"\]\((?!https?:|mailto:|#)(?P<path>[^)#\s]+)")
CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.M | re.S)
MODULE = re.compile(r"^\.\. automodule:: (?P<name>\S+)$", re.M)


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def listed(page: str) -> list[str]:
    """The pages that are in the contents below this one, itself first."""
    found = [page]
    folder = (ROOT / page).parent
    for tree in TOCTREE.finditer(text(page)):
        for entry in ENTRY.finditer(tree["lines"]):
            base, pattern = (folder / entry["name"]).parent.resolve(), Path(entry["name"]).name
            for below in sorted(base.glob(f"{pattern}.md")):
                found += listed(str(below.relative_to(ROOT)))
    return found


def test_every_page_is_in_the_contents_once() -> None:
    assert sorted(listed(CONTENTS)) == sorted(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_what_is_there(page: str) -> None:
    folder = (ROOT / page).parent
    paths = [link["path"] for link in LINK.finditer(CODE.sub("", text(page)))]
    assert [path for path in paths if not (folder / path).exists()] == []


def test_the_reference_names_modules_that_are_there_each_once() -> None:
    named = [m["name"] for page in PAGES for m in MODULE.finditer(text(page))]
    places = [ROOT.joinpath(*name.split(".")) for name in named]
    assert named
    assert len(named) == len(set(named))
    assert [p for p in places if not p.with_suffix(".py").exists() and not p.is_dir()] == []
