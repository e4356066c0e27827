"""Law: texts that users read follow the rules of `tests.kit.prose`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import ROOT
from tests.kit import prose

USERS_PAGES = [
    ROOT / "README.md",
    ROOT / "SECURITY.md",
    ROOT / "CODE_OF_CONDUCT.md",
    ROOT / "inorder/README.md",
    ROOT / "docs/index.md",
    ROOT / "docs/guarantees.md",
    *(
        page
        for folder in ("start", "guides", "concepts", "operate", "coming_from", "reference")
        for page in sorted((ROOT / "docs" / folder).rglob("*.md"))
    ),
]
MOST_WORDS = 36_000
"""The words of all pages of users without code; with what is no word, such as marks of tables,
they are 42,000.
"""


@pytest.mark.parametrize("page", USERS_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_has_plain_sentences(page: Path) -> None:
    assert [str(found) for found in prose.of_markdown(page.read_text(encoding="utf-8"))] == []


def test_readme_keeps_to_its_words() -> None:
    """With its code, as a reader scrolls over it."""
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 850


def test_user_pages_keep_to_budget() -> None:
    texts = [page.read_text(encoding="utf-8") for page in USERS_PAGES]
    assert sum(map(prose.words, texts)) <= MOST_WORDS
