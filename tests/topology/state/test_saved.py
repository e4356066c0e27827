"""Examples: how a shape writes an object, how its row is read back, and which rows are refused."""

from __future__ import annotations

import marshal
from collections import deque
from typing import Any, NamedTuple

import pytest

from tests.kit.runs import through_changelog
from topology.state.saved import (
    BIG,
    INT,
    SCALAR,
    SHAPES,
    TEXT,
    Parts,
    Saved,
    Shape,
    ShapeRefused,
    describe,
    dict_of,
    list_of,
    optional,
    record,
    refuse_other_shapes,
    tuple_of,
)
from topology.state.sources import KnownSource, SourceTable
from topology.state.tables import NumberedTable, SavedState, Table

PART = Shape("part", 1, count=INT)


class Part(Saved):
    SHAPE = PART

    def __init__(self, count: int = 0) -> None:
        self.count = count


class Span(NamedTuple):
    first: int
    last: int


class Hole:
    def __init__(self, first: int, last: int) -> None:
        self.first = first
        self.last = last


WHOLE = Shape(
    "whole",
    1,
    count=BIG,
    none=optional(BIG),
    runs=list_of(record(Span, first=INT, last=INT)),
    last=tuple_of(BIG, TEXT),
    seen=list_of(INT, set),
    by_name=dict_of(TEXT, INT),
    queue=list_of(TEXT, deque),
    holes=list_of(record(Hole, first=INT, last=INT)),
    values=list_of(SCALAR, tuple),
    part=PART,
    parts=list_of(PART),
    perhaps=optional(PART),
)


class Whole(Saved):
    SHAPE = WHOLE

    def __init__(self) -> None:
        self.count = 0
        self.none: int | None = None
        self.runs: list[Span] = []
        self.last = (0, "")
        self.seen: set[int] = set()
        self.by_name: dict[str, int] = {}
        self.queue: deque[str] = deque()
        self.holes: list[Hole] = []
        self.values: tuple[Any, ...] = ()
        self.part = Part()
        self.parts: list[Part] = []
        self.perhaps: Part | None = None
        self.derived = 0

    def fresh(self, field: str) -> Part:
        assert field in ("parts", "perhaps")
        return Part()

    def derive(self) -> None:
        self.derived = len(self.runs)


def whole() -> Whole:
    one = Whole()
    one.count, one.none, one.runs, one.last = -(1 << 66), 1 << 70, [Span(1, 2)], (1 << 65, "a")
    one.seen, one.by_name, one.queue = {7, 3}, {"x": 1}, deque(["why"])
    one.holes, one.values = [Hole(4, 5)], (1, 1 << 64, "x", None, True, 0.5)
    one.part, one.parts, one.perhaps = Part(8), [Part(1), Part(2)], Part(3)
    return one


def test_every_kind_of_field_is_restored() -> None:
    one, again = whole(), Whole()
    again.load(through_changelog(one.dump()))
    plain = [name for name in WHOLE.fields if name not in ("part", "parts", "perhaps", "holes")]
    assert {name: getattr(again, name) for name in plain} == {
        name: getattr(one, name) for name in plain
    }
    assert [type(getattr(again, name)) for name in plain] == [
        type(getattr(one, name)) for name in plain
    ]
    assert isinstance(again.runs[0], Span)
    assert [(hole.first, hole.last) for hole in again.holes] == [(4, 5)]
    assert [each.count for each in (again.part, *again.parts)] == [8, 1, 2]
    assert again.perhaps is not None
    assert again.perhaps.count == 3
    assert again.derived == 1
    assert through_changelog(again.dump()) == through_changelog(one.dump())


def test_row_survives_marshal() -> None:
    assert marshal.loads(marshal.dumps(whole().dump())) == whole().dump()


def test_row_does_not_follow_object() -> None:
    one = whole()
    state = one.dump()
    before = through_changelog(state)
    one.runs.append(Span(1, 2))
    one.by_name["x"] = 2
    one.queue.append("why not")
    one.part.count = 9
    one.holes[0].last = 6
    assert through_changelog(state) == before


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("count", "7"),
        ("count", True),
        ("none", "7"),
        ("runs", [[1]]),
        ("runs", [[1, "2"]]),
        ("last", [1, 2]),
        ("seen", ["x"]),
        ("by_name", [["x", "y"]]),
        ("part", [0.5]),
        ("parts", [[1, 2]]),
        ("perhaps", ["x"]),
    ],
)
def test_wrong_value_kind_is_refused(field: str, wrong: Any) -> None:
    row = list(whole().dump())
    row[WHOLE.fields.index(field)] = wrong
    with pytest.raises(ShapeRefused, match=f"^{field} of whole: "):
        Whole().load(row)


@pytest.mark.parametrize("row", [[], [1, 2], None, "x", {"count": 1}])
def test_wrong_row_length_is_refused(row: Any) -> None:
    with pytest.raises(ShapeRefused, match="is not of kind @part"):
        Part().load(row)


# -- shapes of other versions ----------------------------------------------------------------------


def said(shape: Shape) -> Any:
    return through_changelog(describe(shape))


def test_same_shapes_need_no_mapping() -> None:
    refuse_other_shapes(said(WHOLE), WHOLE)


def test_digest_covers_nested_shapes() -> None:
    def within(part: Shape) -> int:
        return Shape("whole", 1, part=part).digest

    assert within(Shape("part", 1, count=INT)) == within(PART)
    assert within(Shape("part", 2, count=INT)) != within(PART)


@pytest.mark.parametrize(
    ("before", "why"),
    [
        (Shape("part", 1, count=INT, other=INT), "its description of part is not"),
        (Shape("part", 1, count=TEXT), "its description of part is not"),
        (Shape("part", 2, count=INT), "its description of part is not"),
        (Shape("another", 1, count=INT), "its description of another, part is not"),
    ],
)
def test_incompatible_shape_is_refused(before: Shape, why: str) -> None:
    with pytest.raises(ShapeRefused, match=why):
        refuse_other_shapes(said(before), PART)


@pytest.mark.parametrize("cut", [None, [], [["part"]], [["part", 1, ["count"]]], "part", 7])
def test_state_without_shapes_is_refused(cut: Any) -> None:
    with pytest.raises(ShapeRefused, match="description"):
        refuse_other_shapes(cut, PART)


# -- tables and whole states -----------------------------------------------------------------------


class Source(KnownSource):
    SHAPE = Shape("source", 1, count=INT)

    def __init__(self, source: str) -> None:
        super().__init__(source, 0)
        self.count = 0


class Owner:
    def __init__(self) -> None:
        self.count = 0
        self.sources = SourceTable("source/", Source.SHAPE, Source, 100)
        self.marks: NumberedTable[int] = NumberedTable("mark/", INT)
        own = Shape("owner", 1, count=INT)
        self.kept = SavedState("own", own, [self.sources, self.marks])

    def add(self, name: str) -> None:
        self.count += 1
        source = self.sources.rows.get(name)
        if source is None:
            source = self.sources.rows[name] = Source(name)
        source.count += 1
        self.sources.mark(source)

    def mark(self, number: int, key: str) -> None:
        self.marks.rows[number, key] = number
        self.marks.note((number, key))


def restore_owner(owner: Owner, state: dict[str, Any]) -> dict[str, Any]:
    """Restore the owner from the state, and return the entries that belong to others."""
    others: dict[str, Any] = {}
    assert not any(owner.kept.restoring(owner, state, others))
    return others


def applied(state: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    together = through_changelog({**state, **changes})
    return {key: value for key, value in together.items() if value is not None}


def test_changes_add_up_to_the_state() -> None:
    owner = Owner()
    owner.add("a/b")
    owner.mark(1, "x/y")
    state = applied({}, owner.kept.changes(owner))
    assert state == through_changelog(owner.kept.snapshot(owner))
    owner.add("a/b")
    owner.add("c")
    assert owner.kept.changes(owner).keys() == {"own", "source/a/b", "source/c"}
    state = through_changelog(owner.kept.snapshot(owner))
    del owner.sources.rows["a/b"]
    owner.sources.note("a/b")
    del owner.marks.rows[1, "x/y"]
    owner.marks.note((1, "x/y"))
    state = applied(state, owner.kept.changes(owner))
    assert state == through_changelog(owner.kept.snapshot(owner))
    assert owner.kept.changes(owner) == {}


def test_restored_state_writes_only_changes() -> None:
    owner, again = Owner(), Owner()
    for name in "aab":
        owner.add(name)
    owner.mark(1, "x/y")
    state = through_changelog(owner.kept.snapshot(owner))
    assert restore_owner(again, {**state, "other": 1}) == {"other": 1}
    assert through_changelog(again.kept.snapshot(again)) == state
    assert again.sources.rows["a"].count == 2
    again.add("b")
    assert again.kept.changes(again).keys() == {"own", "source/b"}


def test_missing_state_is_not_read() -> None:
    owner = Owner()
    assert restore_owner(owner, {"other": 1}) == {"other": 1}
    assert SHAPES in owner.kept.changes(owner)


@pytest.mark.parametrize(
    ("key", "wrong", "why"),
    [
        (SHAPES, None, "its description cannot be read"),
        ("source/a", ["x"], "source/a: count of source: 'x' is not of kind int"),
        ("source/a", [], "source/a: .* is not of kind @source"),
        ("mark/1/x", "1", "mark/1/x: '1' is not of kind int"),
        ("mark/one", 1, "mark/one: "),
        ("own", [None], "count of owner: None is not of kind int"),
    ],
)
def test_unreadable_part_is_refused(key: str, wrong: Any, why: str) -> None:
    owner = Owner()
    owner.add("a")
    state = {**through_changelog(owner.kept.snapshot(owner)), key: wrong}
    with pytest.raises(ShapeRefused, match=why):
        restore_owner(Owner(), state)


PAIR = Shape("pair", 1, parts=Parts(PART), total=INT)


class Pair(Saved):
    SHAPE = PAIR

    def __init__(self) -> None:
        self.parts = [Part(), Part()]
        self.total = 0


def test_existing_parts_are_read_in_place() -> None:
    one, again = Pair(), Pair()
    one.parts[1].count, one.total = 7, 9
    stayed = again.parts[1]
    again.load(through_changelog(one.dump()))
    assert again.parts[1] is stayed
    assert (again.parts[0].count, stayed.count, again.total) == (0, 7, 9)
    with pytest.raises(ShapeRefused, match="parts of pair"):
        again.load([[[1]], 2])
    with pytest.raises(ShapeRefused, match="total of pair"):
        again.load([[[1], [2]], "3"])


def test_forgotten_row_is_written_once() -> None:
    table: Table[str, int] = Table("t/", INT)
    table.put("a", 1)
    assert table.changes() == {"t/a": 1}
    table.forget("a")
    table.forget("b")
    assert table.changes() == {"t/a": None}
