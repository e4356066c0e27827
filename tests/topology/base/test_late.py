"""Examples: each cause of lateness has one function that handles it, a reason and a remedy.

Law: the page about late events has the same sentences.
"""

from __future__ import annotations

import re
from pathlib import Path
from pkgutil import resolve_name

from topology.base.late import BELOW_FRONTIER, CAUSES, GAP, MAY_BE_COPY, OVERTAKEN

ROOT = Path(__file__).parents[3]
AT_MERGE = {word for word, cause in CAUSES.items() if "merge" in cause.decided_in}


def test_every_cause_is_in_one_group() -> None:
    passed_on = AT_MERGE | {GAP, OVERTAKEN}
    assert passed_on | MAY_BE_COPY | {BELOW_FRONTIER} == CAUSES.keys()
    assert not passed_on & MAY_BE_COPY


def test_late_page_shows_every_cause() -> None:
    page = (ROOT / "docs/concepts/late.md").read_text()
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| (.*) \|$", page, flags=re.MULTILINE))
    for word, cause in CAUSES.items():
        assert callable(resolve_name(cause.decided_in)), word
        assert rows[word].startswith(f"{cause.because} | {cause.remedy}")


def test_only_late_module_spells_causes() -> None:
    """A cause is written once in the table; other modules import its name."""
    for room in ("topology", "agents", "codec", "inorder", "sinks", "spark_analytics", "cli"):
        for path in sorted((ROOT / room).rglob("*.py")):
            if path != ROOT / "topology/base/late.py":
                text = path.read_text()
                assert not [word for word in AT_MERGE if f'"{word}"' in text], path
