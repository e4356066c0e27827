"""Examples: the report of an audit, in which a missing answer does not count as a good one."""

from __future__ import annotations

from typing import Any

import pytest

from infra.audit import ask, judge

SOUND = {"name": "lark", "version": "1.2", "vulns": []}
UNREACHED = "NOT AUDITED: x.lock: the database of known vulnerabilities could not be reached"
SKIPPED = {"name": "msgspec", "skip_reason": "not found"}
FAULTY = {
    "name": "aiohttp",
    "version": "3.9",
    "vulns": [{"id": "CVE-1", "fix_versions": ["3.9.4"]}, {"id": "CVE-2", "fix_versions": []}],
}


@pytest.mark.parametrize(
    ("packages", "bad", "told"),
    [
        ([SOUND], False, ["x.lock: no known faults in 1 packages"]),
        ([SOUND, SKIPPED], False, ["NOT AUDITED: x.lock: msgspec could not be looked up"]),
        ([SKIPPED], False, [UNREACHED]),
        ([], False, [UNREACHED]),
        (
            [FAULTY, SOUND],
            True,
            [
                "x.lock: aiohttp 3.9: CVE-1, fixed in 3.9.4",
                "x.lock: aiohttp 3.9: CVE-2, fixed in no version yet",
            ],
        ),
    ],
)
def test_report_lists_known_faults(
    packages: list[dict[str, Any]], bad: bool, told: list[str]
) -> None:
    assert judge("x.lock", {"dependencies": packages}) == (bad, told)


def test_missing_answer_is_not_a_pass() -> None:
    assert ask("true", "x.lock") is None
    assert judge("x.lock", None)[1][0].startswith("NOT AUDITED")
