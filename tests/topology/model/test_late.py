"""Examples: each cause of being late has a function that decides, a reason and a remedy, and the
page about late events has the same sentences."""

from __future__ import annotations

import re
from pathlib import Path
from pkgutil import resolve_name

from topology.model.late import BELOW_FRONTIER, CAUSES, GAP, MAY_BE_COPY, OVERTAKEN

ROOT = Path(__file__).parents[3]
AT_MERGE = {word for word, cause in CAUSES.items() if "merge" in cause.decided_in}


def test_every_cause_is_passed_on_or_kept_apart() -> None:
    passed_on = AT_MERGE | {GAP, OVERTAKEN}
    assert passed_on | MAY_BE_COPY | {BELOW_FRONTIER} == CAUSES.keys()
    assert not passed_on & MAY_BE_COPY


def test_the_decision_of_a_cause_has_a_place_and_the_page_shows_the_table() -> None:
    page = (ROOT / "docs/concepts/late.md").read_text()
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| (.*) \|$", page, flags=re.MULTILINE))
    for word, cause in CAUSES.items():
        assert callable(resolve_name(cause.decided_in)), word
        assert rows[word].startswith(f"{cause.because} | {cause.remedy}")


def test_no_other_module_spells_a_cause_of_merge() -> None:
    """A word of the table is written once; everybody else imports its name."""
    for room in ("topology", "agents", "codec", "inorder", "sinks", "spark_analytics", "cli"):
        for path in sorted((ROOT / room).rglob("*.py")):
            if path != ROOT / "topology/model/late.py":
                text = path.read_text()
                assert not [word for word in AT_MERGE if f'"{word}"' in text], path
