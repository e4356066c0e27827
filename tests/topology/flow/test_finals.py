"""Examples: what leaves of a query that answers with finals alone."""

from __future__ import annotations

from topology.flow.finals import only_final
from topology.model.result import CONFIRMED, Finding, Member, Overflow, WindowResult


def _told(op: str, revision: int, *, final: bool, query: str = "w", id_: str = "a") -> WindowResult:
    return WindowResult(1, "s", query, id_, op, revision, final, CONFIRMED, 0, 1, {})


def test_of_each_result_its_final_telling_leaves_as_the_first() -> None:
    told: list[Finding] = [
        _told("emit", 0, final=False),
        _told("update", 1, final=False),
        _told("emit", 0, final=False, id_="b"),
        _told("retract", 1, final=True, id_="b"),
        _told("update", 2, final=True),
        _told("emit", 0, final=False, query="other"),
        Overflow(1, "s", "w", Member("a", "s", 0, 0, 0), 1),
    ]
    left = only_final(told, frozenset({"w"}))
    assert [(each.query, getattr(each, "op", "")) for each in left] == [
        ("w", "emit"),
        ("other", "emit"),
        ("w", ""),
    ]
    assert isinstance(left[0], WindowResult)
    assert (left[0].revision, left[0].final) == (0, True)
