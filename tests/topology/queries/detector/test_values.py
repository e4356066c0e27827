"""Examples and laws: values are compared, copied, and serialized."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from fractions import Fraction
from itertools import count
from typing import Any, NamedTuple

import pytest

from topology.queries.detector.item import Seen
from topology.queries.detector.values import (
    BLOCK,
    GLANCE,
    ODD,
    NotAValue,
    are_same,
    classes_in,
    count_text_blocks,
    deep_copy,
    pack,
    size_of,
    unpack,
)


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclass(frozen=True)
class Point:
    x: float
    y: tuple[int, ...] = ()


class Pairs(Pair):
    """A tuple that can have other attributes, and has none."""


class Row(tuple[int, ...]):
    """A tuple of any length."""

    __slots__ = ()


class Table(dict[str, int]): ...


class Many(list[int]): ...


class Whole(int): ...


class Mode(Enum):
    IDLE = 1
    BUSY = 2


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Word(StrEnum):
    ON = "on"


class Mark(Flag):
    RED = 1
    BLUE = 2


class Plain:
    def __init__(self) -> None:
        self.seen: dict[Any, Any] = {"n": [1, 2]}

    def __repr__(self) -> str:
        return "Plain()"


class Slotted:
    __slots__ = ("__own", "left", "x")

    def __init__(self, x: Any) -> None:
        self.x, self.__own = x, [x]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.x!r})"


class Below(Slotted):
    """A class with its own slots and those of its parent, and with other attributes."""

    __slots__ = ("__dict__", "y")

    def __init__(self) -> None:
        super().__init__(1)
        self.y, self.z = 2, [3]


SCALARS: list[Any] = [None, True, 1, 1.0, 0.0, -0.0, 2**80, float("inf"), "text", b"bytes"]
ROWS: list[Any] = [(1, 2), [1, 2], ((), [], {}), {1: "a", "b": 2.5}, {"b": 2.5, 1: "a"}]
SETS: list[Any] = [{1, 2}, {1.0, 2}, {(1,)}, {(True,)}, {0.0}, {-0.0}, {1}, {True}]
FROZEN: list[Any] = [frozenset({1, 2}), frozenset({(1, "a"), (2.0, None)})]
OBJECTS: list[Any] = [Pair(1, [2]), Pairs(1, 2), Pairs([1], {}), Point(1.5, (1,)), Plain(), Below()]
SLOTS: list[Any] = [Slotted(1), Slotted(1.0), Fraction(1, 3), Fraction(2, 3)]
EVENTS: list[Any] = [
    Seen("A", 1, {"n": [1.5, None]}, "s", 2, 3, 4, unsure=True),
    Seen("A", 1, {"n": [1.5, None]}, "s", 2, 3, 4),
    Seen("A", 2**80, None),
]
MEMBERS: list[Any] = [Mode.IDLE, Mode.BUSY, Level.LOW, Word.ON, Mark.RED, Mark.RED | Mark.BLUE]
OF_MEMBERS: list[Any] = [{Mode.IDLE: [Level.HIGH]}, frozenset({Mode.IDLE, Mode.BUSY})]
VALUES = SCALARS + ROWS + SETS + FROZEN + OBJECTS + SLOTS + EVENTS + MEMBERS + OF_MEMBERS
KNOWN: dict[str, type] = {
    each.__name__: each
    for each in (Pair, Pairs, Point, Plain, Fraction, Slotted, Below, Mode, Level, Word, Mark)
}


def _numbers() -> Iterator[int]:
    yield 1


def _pairs_with_more() -> Pairs:
    pairs = Pairs(1, 2)
    pairs.more = 3  # type: ignore[attr-defined]
    return pairs


DICTS: list[Any] = [Counter(a=1), OrderedDict(a=1), defaultdict(int, a=1), Table(a=1)]
GROUPS: list[Any] = [deque([1]), Many([1]), Row((1, 2)), range(3), bytearray(b"x")]
NUMBERS: list[Any] = [Whole(3), Decimal(1), datetime(2020, 1, 1, tzinfo=UTC), timedelta(seconds=1)]
CALLS: list[Any] = [_numbers(), _numbers, count(), print, dict, ValueError("x")]
NO_VALUES = [*DICTS, *GROUPS, *NUMBERS, *CALLS, object(), _pairs_with_more()]


def _named(value: Any) -> str:
    """Return an id that is the same in each process: sets are spelled in the order of their
    members.
    """
    if isinstance(value, set | frozenset):
        return f"{type(value).__name__}-{'-'.join(sorted(map(repr, value)))}"
    return repr(value)


@pytest.mark.parametrize("value", NO_VALUES, ids=lambda value: type(value).__name__)
def test_hidden_content_is_no_value(value: Any) -> None:
    """Such a value is refused even if its class is known, and equals only itself."""
    kind = type(value)
    for state in (value, [value], {"a": (value,)}, Pair(1, value)):
        with pytest.raises(NotAValue, match=f"contains a {kind.__name__}, whose content is not"):
            deep_copy(state)
        with pytest.raises(NotAValue, match=f"contains a {kind.__name__}, whose content is not"):
            pack(state, KNOWN | {kind.__name__: kind})
        assert size_of(state, 100) >= 1
    assert are_same([value], [value])


def test_nan_equals_only_itself() -> None:
    nan = float("nan")
    assert are_same((nan,), (nan,))
    assert not are_same(nan, float("nan"))


@pytest.mark.parametrize("kind", [Counter, OrderedDict, Table])
def test_dict_subclasses_are_unequal(kind: Any) -> None:
    assert not are_same(kind(a=1), kind(a=2))
    assert not are_same(kind(a=1), kind(a=1))


@pytest.mark.parametrize("member", MEMBERS)
def test_enum_member_stays_itself(member: Any) -> None:
    assert deep_copy(member) is member
    assert unpack(pack(member, KNOWN), KNOWN) is member
    assert classes_in({"m": [member]}) == {type(member).__name__: type(member)}
    assert size_of([member], 100) == 2
    with pytest.raises(NotAValue, match="in `classes` of"):
        pack(member, {})


def test_extra_attributes_are_kept() -> None:
    @dataclass
    class Grown:
        n: int

    grown, known = Grown(1), {"Grown": Grown}
    grown.more = [2]  # type: ignore[attr-defined]
    for other in (deep_copy(grown), unpack(pack(grown, known), known)):
        assert vars(other) == {"n": 1, "more": [2]}
        assert are_same(other, grown)
    assert not are_same(Grown(1), grown)
    del grown.n
    assert vars(unpack(pack(grown, known), known)) == {"more": [2]}


def test_copy_is_deep() -> None:
    one = Slotted([1])
    for holder in ({one}, {one: 1}, frozenset({(one,)})):
        assert one not in deep_copy(holder)
    plain = Plain()
    deep_copy(plain).seen["n"].append(3)
    assert plain.seen == {"n": [1, 2]}
    assert not are_same({one}, {Slotted([1])})


def test_cycles_are_not_copied_or_equal() -> None:
    one: list[Any] = [1]
    one.append(one)
    other: list[Any] = [1]
    other.append(other)
    with pytest.raises(NotAValue, match="levels, or contains itself"):
        deep_copy(one)
    assert not are_same(one, other)
    rows, also = Slotted(1), Slotted(1)
    rows.x, also.x = {"a": (rows,)}, {"a": (also,)}
    assert not are_same(rows, also)


def test_deep_payloads_are_compared() -> None:
    def deep(bottom: int) -> Any:
        value: Any = bottom
        for _ in range(300):
            value = {"a": value}
        return value

    assert are_same(deep(1), deep(1))
    assert not are_same(deep(1), deep(2))


def test_set_with_failing_eq_is_unequal() -> None:
    class Odd:
        def __init__(self) -> None:
            self.n = 1

        def __hash__(self) -> int:
            return 1

        def __eq__(self, other: object) -> bool:
            raise ValueError

    assert not are_same({Odd()}, {Odd()})


@pytest.mark.parametrize("value", VALUES, ids=_named)
def test_packed_value_is_unpacked(value: Any) -> None:
    back = unpack(pack(value, KNOWN), KNOWN)
    assert are_same(back, value)
    assert are_same(deep_copy(value), value)
    assert [are_same(value, other) for other in VALUES].count(True) == 1


def test_packed_event_is_whole() -> None:
    seen = Seen("A", 1, {"n": [1, 2]}, "s", 2, 3, 4, unsure=True)
    back = unpack(pack({"last": (seen, seen)}, {}), {})["last"][1]
    assert repr(back) == repr(seen)
    assert back.key == seen.key
    assert (back.payload, back.error_ns, back.unsure) == (seen.payload, 4, True)
    assert size_of(seen, 100) == 1 + 5
    assert size_of({"a": [1, (2, 3)]}, 100) == 7
    assert size_of(list(range(1_000)), 50) >= 51, "counted no further than asked"


def test_classes_in_cycle_are_found() -> None:
    pair: list[Any] = [Pair(Point(1.0), 2)]
    pair += [pair, pair]
    assert classes_in(pair) == {"Pair": Pair, "Point": Point}


def test_glance_misses_nothing_small() -> None:
    odd = [deque([1]), Counter(a=1), print, Decimal(1), lambda: 1]
    for value in odd:
        for shape in (value, (1, value), {"a": [value]}, {1: (2, [3, {4: value}])}):
            assert count_text_blocks(shape, {}) == ODD
            with pytest.raises(NotAValue):
                pack(shape, {})
    for fine in (1, "a", (), (1, 2.0), {"a": [None, {1, 2}]}, [[]], *[(1, (2, (3,)))]):
        assert count_text_blocks(fine, {}) == 0
        pack(fine, {})
    assert count_text_blocks([*range(GLANCE), print], {}) == 0, "beyond it"
    assert count_text_blocks((range, *range(GLANCE - 1)), {}) == ODD


class Node:
    __slots__ = ("key", "left", "right")

    def __init__(self, key: int, left: Any = None, right: Any = None) -> None:
        self.key, self.left, self.right = key, left, right


def _tree(first: int, last: int) -> Any:
    if first >= last:
        return None
    middle = (first + last) // 2
    return Node(middle, _tree(first, middle), _tree(middle + 1, last))


def test_scan_of_objects_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scan stops at a cycle, and after a bounded number of a tree's parts."""
    ring = Node(0)
    ring.left = ring.right = ring
    loop: list[Any] = [1]
    loop.append({"again": loop})
    for odd in (ring, (1, [ring]), Node(1, 2, ring), loop):
        assert count_text_blocks(odd, {"Node": Node}) == ODD
        with pytest.raises(NotAValue, match="contains itself"):
            pack(odd, {"Node": Node})
    twice = Node(1, [[2]])
    assert count_text_blocks([twice, twice, (twice, twice)], {"Node": Node}) == 0
    tree = _tree(0, 1_000)
    key, visits = Node.__dict__["key"], 0

    def counted(node: Node) -> int:
        nonlocal visits
        visits += 1
        number: int = key.__get__(node)
        return number

    monkeypatch.setattr(Node, "key", property(counted))
    assert count_text_blocks(tree, {"Node": Node}) == 0
    assert 1 < visits <= GLANCE + 1


@pytest.mark.parametrize(
    "long",
    ["x" * 6_400, "\xe9" * 3_200, b"x" * 6_400, 1 << 8 * 6_400],
    ids=["ascii", "text", "bytes", "int"],
)
def test_size_counts_long_values(long: Any) -> None:
    assert size_of(long, 10_000) == 1 + 6_400 // BLOCK
    assert size_of([long, {"a": long}], 10_000) == 4 + 2 * (1 + 6_400 // BLOCK) - 1
    assert 50 <= count_text_blocks(long, {}) <= 100
    assert count_text_blocks([long, {"a": long}], {}) == 2 * count_text_blocks(long, {})
    assert [count_text_blocks(short, {}) for short in ("x" * 63, b"x" * 63, 1 << 500)] == [0, 0, 0]


def test_lone_surrogate_is_no_value() -> None:
    for odd in ("a\ud800", ("a", "\udfff"), {"\ud800": 1}, [[1], "\ud800"]):
        assert count_text_blocks(odd, {}) == ODD
        with pytest.raises(NotAValue, match="lone surrogate"):
            pack(odd, {})
    whole = ("\U0001f600", "\xe9")
    assert count_text_blocks(whole, {}) == 0
    assert unpack(pack(whole, {}), {}) == whole
