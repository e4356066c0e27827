"""Examples: in sources that number only some records, one kind is kept, and a rule is proposed."""

from __future__ import annotations

import pytest

from recordings.audit.kinds import Kinds
from recordings.audit.row import AuditRow


def kinds_of(text: str) -> tuple[Kinds, list[AuditRow]]:
    """Return the kinds of rows such as `a0 a- b-`: the source, and its number or none."""
    rows = [
        AuditRow(word[0], None if word[1:] == "-" else int(word[1:]), None, 0, offset=at)
        for at, word in enumerate(text.split())
    ]
    kinds = Kinds()
    return kinds, list(kinds.count(rows))


@pytest.mark.parametrize(
    ("text", "alone", "by_time"),
    [
        ("a0 a1", "", True),
        ("a- a-", "", True),
        ("a0 a1 b- b-", "", True),
        ("a0 a- a1 b-", "a", True),
        ("a- a0 a1 b-", "a", False),
        ("a- a0", "a", False),
        ("a0 a- a- b1", "a", True),
        ("a- a0 a- b1 b2 b-", "ab", True),
    ],
)
def test_only_rare_kind_is_dead(text: str, alone: str, by_time: bool) -> None:
    kinds, rows = kinds_of(text)
    faults = [*kinds.find_faults()]
    assert "".join(str(each.source) for each in faults) == alone
    assert len([*kinds.select(rows)]) == len(rows) - len(alone)
    assert kinds.by_time == by_time


def test_fault_has_place_and_remedy() -> None:
    (first, second) = kinds_of("a0 a1 a2 a- b0 a-")[0].find_faults()
    assert first == second
    assert (first.reason, first.offset, first.source) == ("seq_mixed", 3, "a")
    assert "name a field as source that tells both kinds apart" in first.detail
