"""Examples and laws: values are told apart, copied, and written down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from topology.speculate.item import Seen
from topology.speculate.values import NotAValue, classes_in, copied, packed, same, size_of, unpacked


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclass(frozen=True)
class Point:
    x: float
    y: tuple[int, ...] = ()


class Plain:
    def __init__(self) -> None:
        self.seen: dict[Any, Any] = {"n": [1, 2]}


def _plain() -> Plain:
    return Plain()


class Slotted:
    __slots__ = ("__own", "left", "x")

    def __init__(self, x: Any) -> None:
        self.x, self.__own = x, [x]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.x!r})"


class Below(Slotted):
    """Slots of its own and of the one above, and other attributes besides."""

    __slots__ = ("__dict__", "y")

    def __init__(self) -> None:
        super().__init__(1)
        self.y, self.z = 2, [3]


VALUES: list[Any] = [
    None,
    True,
    1,
    1.0,
    0.0,
    -0.0,
    2**80,
    "text",
    b"bytes",
    (1, 2),
    [1, 2],
    {1: "a", "b": 2.5},
    {"b": 2.5, 1: "a"},
    {1, 2},
    frozenset({1, 2}),
    {1.0, 2},
    float("inf"),
    Pair(1, [2]),
    Point(1.5, (1,)),
    ((), [], {}),
    Slotted(1),
    Slotted(1.0),
    Below(),
    Seen("A", 1, {"n": [1.5, None]}, "s", 2, 3, 4, unsure=True),
    Seen("A", 1, {"n": [1.5, None]}, "s", 2, 3, 4),
    Seen("A", 2**80, None),
]
KNOWN = {"Pair": Pair, "Point": Point, "Plain": Plain, "Slotted": Slotted, "Below": Below}


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_what_is_written_down_comes_back(value: Any) -> None:
    back = unpacked(packed(value, KNOWN), KNOWN)
    assert same(back, value)
    assert same(copied(value), value)
    assert [same(value, other) for other in VALUES].count(True) == 1


def test_objects_are_values_by_their_attributes() -> None:
    one, other = _plain(), _plain()
    assert same(one, other)
    copy = copied(one)
    copy.seen["n"].append(3)
    assert one.seen == {"n": [1, 2]}
    assert not same(one, copy)
    assert same(unpacked(packed(copy, KNOWN), KNOWN), copy)


def test_an_event_comes_back_whole() -> None:
    seen = Seen("A", 1, {"n": [1, 2]}, "s", 2, 3, 4, unsure=True)
    back = unpacked(packed({"last": (seen, seen)}, {}), {})["last"][1]
    assert repr(back) == repr(seen)
    assert back.key == seen.key
    assert (back.payload, back.error_ns, back.unsure) == (seen.payload, 4, True)
    assert size_of(seen, 100) == 1 + 5


def test_what_is_no_value_is_named() -> None:
    with pytest.raises(NotAValue, match="holds a function"):
        packed([lambda: 1], {})
    with pytest.raises(NotAValue, match="holds a Point"):
        packed({"p": Point(1.0)}, {})
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(NotAValue, match="holds a range, whose attributes cannot be read"):
        packed([range(3)], {"range": range})
    with pytest.raises(NotAValue, match="deeper"):
        packed(loop, {})
    assert not same(lambda: 1, lambda: 1)


def test_nan_is_equal_to_itself_alone() -> None:
    nan = float("nan")
    assert same((nan,), (nan,))
    assert not same(nan, float("nan"))


def test_a_size_is_counted_no_further_than_asked() -> None:
    assert size_of({"a": [1, (2, 3)]}, 100) == 7
    assert size_of(list(range(1_000)), 50) >= 51


def test_classes_are_found() -> None:
    assert classes_in([Pair(Point(1.0), 2)]) == {"Pair": Pair, "Point": Point}
