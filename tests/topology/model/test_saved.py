"""Examples: what a class that names its fields saves, and how it gets it back."""

from __future__ import annotations

from collections import deque

import pytest

from tests.kit.runs import through_changelog
from topology.model.saved import Saved


class Part(Saved):
    FIELDS = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Whole(Saved):
    FIELDS = ("number", "none", "runs", "last", "seen", "by_name", "queue", "part")

    def __init__(self) -> None:
        self.number = 0
        self.none: int | None = None
        self.runs: list[tuple[int, int]] = []
        self.last = (0, "")
        self.seen: set[int] = set()
        self.by_name: dict[str, int] = {}
        self.queue: deque[str] = deque()
        self.part = Part()
        self.derived = "of the settings"


def test_each_kind_of_field_comes_back_as_it_was() -> None:
    one = Whole()
    one.number, one.none, one.runs, one.last = -(1 << 66), 1 << 70, [(1, 2), (5, 9)], (3, "a")
    one.seen, one.by_name, one.queue = {7, 3}, {"x": 1}, deque(["why"])
    one.part.count = 8
    again = Whole()
    again.restore(through_changelog(one.snapshot()))
    assert {name: getattr(again, name) for name in one.FIELDS if name != "part"} == {
        name: getattr(one, name) for name in one.FIELDS if name != "part"
    }
    assert (again.part.count, again.derived) == (8, "of the settings")
    assert through_changelog(again.snapshot()) == through_changelog(one.snapshot())


def test_a_snapshot_is_no_longer_the_object() -> None:
    one = Whole()
    state = one.snapshot()
    one.runs.append((1, 2))
    one.by_name["x"] = 1
    one.queue.append("why")
    one.part.count = 1
    assert state == Whole().snapshot()


def test_a_state_of_other_fields_is_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        Part().restore([1, 2])
