"""Compares, copies, measures, stores and restores states and outputs as values.

These are values:

* None, a truth value, an integer, a float, a text, and bytes;
* a tuple, list, dict, set or frozenset of values;
* an event (`Seen`), which must not be changed;
* of a known class (`Classes`): a member of an Enum, a NamedTuple, a dataclass, or another object
  whose attributes, slots included, are values (`shapes`).

Other objects might not be restored exactly. So a Counter, a deque, a datetime, and a subclass of
int are refused (`NotAValue`).

`same` never finds two values equal if a program could distinguish them. So 1, 1.0 and True differ,
as do 0.0 and -0.0, also in a set. Dicts with their keys in another order differ, too. Anything that
is not a value equals only itself. `same` may find some equal values different (NaN, or values
nested more deeply than `MAX_COMPARED`). Such an error costs only speed.

Cost: in general the size of the value. `are_same` costs nothing if both values are one object.
`count_text_blocks` takes a tenth of a microsecond for a number and a third for a few numbers. For
objects with slots it takes some tens of microseconds at most.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from math import copysign
from operator import attrgetter
from typing import Any, Final

from topology.answer.query.numbers import is_text
from topology.base.operator import Plain
from topology.queries.detector.item import Seen
from topology.queries.detector.shapes import make_object, shape_of
from topology.state.saved import ValueKind

Classes = Mapping[str, type]
"""The classes that a state may contain, by name."""

MAX_DEPTH: Final = 64
"""The maximum nesting depth of a state."""
MAX_COMPARED: Final = 400
"""The maximum depth to which `same` compares; a payload may be nested more deeply than a state."""
GLANCE: Final = 64
"""The maximum number of a state's parts that `count_text_blocks` examines after each item."""
ODD: Final = -1
BLOCK: Final = 64
"""The size of a block, in bytes.

A text (as UTF-8), bytes or an integer counts as one more value for each of its blocks.
"""
_BLOCK_BITS: Final = 8 * BLOCK
_MOST_BYTES: Final = 4
"""The maximum number of bytes that UTF-8 uses for a character."""
_FITS: Final = 1 << 63
_SCALARS: Final = frozenset({int, str, bool, bytes, type(None)})
_FIXED: Final = frozenset({int, str, bool, bytes, float, type(None)})


_TAGS: Final[Mapping[type, str]] = {
    tuple: "t", list: "l", dict: "d", set: "s", frozenset: "z", Seen: "e"
}  # fmt: skip
_GROUPS: Final = frozenset({tuple, list, set, frozenset})
_of_event: Final = attrgetter(
    "type", "time_ns", "payload", "source", "epoch", "seq", "error_ns", "unsure"
)


class NotAValue(Exception):
    """The error for an object that is not a value; its text names the part that is not."""


def are_same(one: Any, other: Any, depth: int = 0) -> bool:
    if one is other:
        return True
    kind = type(one)
    if kind is not type(other):
        return False
    if kind in _SCALARS:
        return bool(one == other)
    if kind is float:
        return bool(one == other) and copysign(1.0, one) == copysign(1.0, other)
    if depth >= MAX_COMPARED:
        return False
    if kind is dict:
        return _are_same_dicts(one, other, depth + 1)
    if kind is tuple or kind is list:
        return _are_same_rows(one, other, depth + 1)
    return _are_same_others(kind, one, other, depth + 2)


def _are_same_others(kind: type, one: Any, other: Any, depth: int) -> bool:
    """Return whether two sets, events or objects are the same.

    One level of such values counts as two levels of depth, because it uses more of Python's stack.
    """
    if kind is set or kind is frozenset:
        return _are_same_sets(one, other, depth)
    if kind is Seen:
        return _are_same_rows(_of_event(one), _of_event(other), depth)
    shape = shape_of(kind)
    if shape.is_named_tuple(one) and shape.is_named_tuple(other):
        return _are_same_rows(one, other, depth)
    return shape.is_object and _are_same_dicts(
        shape.attributes_of(one), shape.attributes_of(other), depth
    )


def _are_same_rows(one: Any, other: Any, depth: int) -> bool:
    if len(one) != len(other):
        return False
    for each, also in zip(one, other, strict=True):  # noqa: SIM110 - a generator would cost more
        if not are_same(each, also, depth):
            return False
    return True


def _are_same_dicts(one: Any, other: Any, depth: int) -> bool:
    rows = _are_same_rows(one, other, depth)
    return rows and _are_same_rows(one.values(), other.values(), depth)


def _are_same_sets(one: Any, other: Any, depth: int) -> bool:
    """Return whether two sets are the same.

    Two members that are the same are also equal, so each has at most one counterpart.
    """
    try:
        if one != other:
            return False
        kinds = set(map(type, one))
        if len(kinds) == 1 and kinds <= _SCALARS and kinds == set(map(type, other)):
            return True
        others = {each: each for each in other}
        return all(are_same(each, others[each], depth) for each in one)
    except Exception:  # noqa: BLE001 - a user's __eq__ or __hash__ may raise anything
        return False


def deep_copy(value: Any, depth: int = 0) -> Any:
    """Return a copy that shares nothing mutable with the value; immutable values are not copied.

    NotAValue is raised if part of the value is not a value.
    """
    kind = type(value)
    if kind in _FIXED or kind is Seen:
        return value
    below = depth + 1
    if below > MAX_DEPTH:
        raise _depth_error()
    if kind is dict:
        return {
            (name if type(name) in _FIXED else deep_copy(name, below)): (
                each if type(each) in _FIXED else deep_copy(each, below)
            )
            for name, each in value.items()
        }
    if kind is list:
        return [each if type(each) in _FIXED else deep_copy(each, below) for each in value]
    if kind is set or kind is frozenset:
        is_flat = _FIXED.issuperset(map(type, value))
        return kind(value if is_flat else [deep_copy(each, below) for each in value])
    return _copy_object(kind, value, below)


def _copy_object(kind: type, value: Any, below: int) -> Any:
    shape = shape_of(kind)
    if kind is tuple or shape.is_named_tuple(value):
        is_flat = _FIXED.issuperset(map(type, value))
        return value if is_flat else tuple.__new__(kind, [deep_copy(each, below) for each in value])
    if shape.is_member:
        return value
    if not shape.is_object:
        raise _not_a_value_error(kind)
    inside = shape.attributes_of(value)
    return make_object(kind, {name: deep_copy(each, below) for name, each in inside.items()})


def _depth_error() -> NotAValue:
    return NotAValue(f"it is nested in more than {MAX_DEPTH} levels, or contains itself")


def _not_a_value_error(kind: type) -> NotAValue:
    return NotAValue(
        f"it contains a {kind.__name__}, whose content is not in its attributes; use a dict, "
        "a list, a tuple or a number instead"
    )


def pack(value: Any, classes: Classes, depth: int = 0) -> Plain:
    """Return the value in a form that every codec can write.

    NotAValue is raised if part of the value is not a value.
    """
    kind = type(value)
    if kind in _FIXED:
        return _pack_scalar(value)
    if depth == MAX_DEPTH:
        raise _depth_error()
    tag = _TAGS.get(kind)
    if tag is None:
        return _pack_object(value, classes, depth + 1)
    parts: Iterable[Any] = value
    if kind is dict:
        parts = [part for pair in value.items() for part in pair]
    elif kind is Seen:
        parts = _of_event(value)
    row = [pack(each, classes, depth + 1) for each in parts]
    return [tag, *(sorted(row, key=repr) if kind is set or kind is frozenset else row)]


def _pack_object(value: Any, classes: Classes, below: int) -> Plain:
    kind = type(value)
    name = kind.__name__
    shape = shape_of(kind)
    is_named = shape.is_named_tuple(value)
    if not (shape.is_member or is_named or shape.is_object):
        raise _not_a_value_error(kind)
    if classes.get(name) is not kind:
        raise NotAValue(f"it contains a {name}; list this class in `classes` of the Detector")
    if shape.is_member:
        return ["n", name, _pack_member(value)]
    if is_named:
        return ["o", name, *[pack(each, classes, below) for each in value]]
    inside = shape.attributes_of(value)
    if shape.fields is not None and list(inside) == shape.fields:
        return ["o", name, *[pack(each, classes, below) for each in inside.values()]]
    return ["v", name, pack(inside, classes, below)]


def _pack_member(member: Any) -> Plain:
    """Return the name of an Enum member, or its bits if it combines flags and has no name.

    NotAValue is raised if it has neither name nor bits.
    """
    kind = type(member)
    if kind.__members__.get(member.name) is member:
        return member.name
    if type(member.value) is int and kind(member.value) is member:
        return _pack_scalar(member.value)
    raise NotAValue(f"it contains a {kind.__name__} that has no name")


def _pack_scalar(value: Any) -> Plain:
    kind = type(value)
    if kind is float:
        return ["f", float(value).hex()]
    if kind is bytes:
        return ["b", bytes(value).hex()]
    if kind is str and not is_text(value):
        raise NotAValue("it contains a text with a lone surrogate, which UTF-8 cannot encode")
    if kind is int and not -_FITS <= value < _FITS:
        return ["i", hex(value)]
    return value


_SCALAR_OF: Final[Mapping[str, Callable[[str], Any]]] = {
    "i": lambda text: int(text, 16),
    "f": float.fromhex,
    "b": bytes.fromhex,
}
_GROUP_OF: Final[Mapping[str, Callable[[list[Any]], Any]]] = {
    "t": tuple,
    "l": list,
    "s": set,
    "z": frozenset,
    "d": lambda parts: dict(zip(parts[::2], parts[1::2], strict=True)),
    "e": lambda parts: Seen(*parts),
}


def unpack(plain: Plain, classes: Classes) -> Any:
    """Return the value from its packed form (`pack`).

    KeyError is raised for a class, or a member of an Enum, that no longer exists.
    """
    if not isinstance(plain, list | tuple):
        return plain
    tag = plain[0]
    if tag in _SCALAR_OF:
        return _SCALAR_OF[tag](plain[1])
    if tag == "n":
        members: Any = classes[plain[1]]
        return members[plain[2]] if isinstance(plain[2], str) else members(plain[2])
    if tag == "v":
        return make_object(classes[plain[1]], unpack(plain[2], classes))
    if tag == "o":
        kind = classes[plain[1]]
        parts = [unpack(each, classes) for each in plain[2:]]
        if issubclass(kind, tuple):
            return kind(*parts)
        return make_object(kind, dict(zip(shape_of(kind).fields or (), parts, strict=True)))
    return _GROUP_OF[tag]([unpack(each, classes) for each in plain[1:]])


class SavedValue(ValueKind):
    """The stored form of values that contain no object of a known class (`Classes`)."""

    def dump(self, value: Any) -> Plain:
        return pack(value, {})

    def load(self, plain: Plain, owner: Any, field: str) -> Any:
        try:
            return unpack(plain, {})
        except (KeyError, TypeError, ValueError) as wrong:
            raise self.refusal(plain) from wrong


VALUE: Final = SavedValue("value", is_plain=False)


def size_of(value: Any, at_most: int) -> int:
    """Return the size of a value: the number of values in it, itself included.

    A text, bytes or an integer counts as one more for each `BLOCK`. Counting stops above `at_most`.
    Anything that is not a value counts as one.
    """
    count = 0
    left = [value]
    while left and count <= at_most:
        each = left.pop()
        count += 1
        kind = type(each)
        if kind in _FIXED:
            count += _count_blocks(each)
        else:
            left += [each.payload] if kind is Seen else _find_parts(each) or ()
    return count


def _find_parts(value: Any) -> Collection[Any] | None:
    """Return the parts of a container or of an object, or None for anything else."""
    kind = type(value)
    if kind is dict:
        return [*value.keys(), *value.values()]
    if kind in _GROUPS:
        return value  # type: ignore[no-any-return]
    return shape_of(kind).parts(value)


def _count_blocks(value: Any) -> int:
    kind = type(value)
    if kind is str:
        if len(value) * _MOST_BYTES < BLOCK:
            return 0
        return (len(value) if value.isascii() else len(value.encode(errors="replace"))) // BLOCK
    if kind is int:
        return int(value.bit_length()) // _BLOCK_BITS
    return len(value) // BLOCK if kind is bytes else 0


def count_text_blocks(value: Any, classes: Classes) -> int:
    """Return `ODD` if `pack` would refuse the value, or else the number of long texts' blocks.

    Bytes and integers count as texts. At most `GLANCE` parts are examined, and all others are
    ignored. Containers and objects of only numbers and texts do not count towards this limit. All
    others are examined while their parts fit in it.
    """
    if type(value) in _FIXED:
        return _count_scalar_blocks(value)
    blocks, room = 0, GLANCE
    left = [value]
    known: set[int] = set()
    while left:
        each = left.pop()
        parts = [each] if type(each) in _FIXED else _parts_of(each, classes, room)
        if parts is None:
            return ODD
        if not _FIXED.issuperset(map(type, parts)):
            room -= len(parts)
            left += parts
            if id(each) in known and _holds_itself(each, classes):
                return ODD
            known.add(id(each))
            continue
        for part in parts:
            kind = type(part)
            if kind is int and -_FITS <= part < _FITS:
                continue  # Most integers and texts are short enough to skip the check.
            if kind is str and len(part) < BLOCK and part.isascii():
                continue
            if kind is not str and kind is not int and kind is not bytes:
                continue
            more = _count_scalar_blocks(part)
            if more < 0:
                return ODD
            blocks += more
    return blocks


def _parts_of(value: Any, classes: Classes, room: int) -> list[Any] | None:
    """Return the parts of a container or of an object, or None if it is not a value.

    The list is empty if there is no room for all parts.
    """
    kind = type(value)
    if kind is Seen or (kind is dict and 2 * len(value) > room):
        return []
    inside = _find_parts(value)
    if inside is None or (kind not in _TAGS and classes.get(kind.__name__) is not kind):
        return None
    return [*inside] if len(inside) <= room else []


def _holds_itself(value: Any, classes: Classes) -> bool:
    """Return whether a value contains itself, as far as a glance can see."""
    room = GLANCE
    left = [value]
    while left:
        parts = _parts_of(left.pop(), classes, room) or []
        room -= len(parts)
        for part in parts:
            if part is value:
                return True
            if type(part) not in _FIXED:
                left.append(part)
    return False


def _count_scalar_blocks(value: Any) -> int:
    kind = type(value)
    if kind is str:
        size = len(value)
        if size <= GLANCE * BLOCK and not is_text(value):
            return ODD
        return size // BLOCK
    return _count_blocks(value)


def classes_in(value: Any) -> dict[str, type]:
    """Return the classes of the NamedTuples, dataclasses and Enum members in a value, by name."""
    found: dict[str, type] = {}
    known: set[int] = set()
    left = [(value, 0)]
    while left:
        each, depth = left.pop()
        kind = type(each)
        if kind in _FIXED or depth > MAX_DEPTH or id(each) in known:
            continue
        known.add(id(each))
        if kind is not dict and kind not in _GROUPS:
            shape = shape_of(kind)
            is_data = shape.is_object and shape.fields is not None
            if not (is_data or shape.is_named_tuple(each) or shape.is_member):
                continue
            found[kind.__name__] = kind
        left += [(part, depth + 1) for part in _find_parts(each) or ()]
    return found
