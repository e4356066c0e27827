"""States and outputs as values: compared, copied, written down and read back.

A value is None, a truth value, an integer, a float, a text, bytes; a tuple, list, dict, set or
frozenset of values; an event (`Seen`), which nobody changes; or an object of a class that is known
(`Classes`): a NamedTuple, a dataclass, or one whose attributes, slots included, are values. Nothing
else can be trusted to come back as it was.

`same` never says that two values are equal where a program could tell them apart: 1, 1.0 and True
are three values, so are 0.0 and -0.0, and dicts whose keys stand in another order. That it may miss
some that are equal (NaN) costs speed alone.

Cost: all of them, the size of the value; `same` of one and the same object, nothing.

Proved by: tests/topology/speculate/test_values.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from math import copysign
from typing import Any, Final

from topology.model.operator import Plain
from topology.speculate.item import Seen

Classes = Mapping[str, type]
"""By name."""

MAX_DEPTH: Final = 64
_FITS: Final = 1 << 63
_SCALARS: Final = frozenset({int, str, bool, bytes, type(None)})
_FIXED: Final = frozenset({int, str, bool, bytes, float, type(None)})


class NotAValue(Exception):
    """The message says what it holds that is none."""


def same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    kind = type(one)
    if kind is not type(other):
        return False
    if kind in _SCALARS:
        return bool(one == other)
    if kind is float:
        return bool(one == other) and copysign(1.0, one) == copysign(1.0, other)
    if kind is dict:
        return len(one) == len(other) and all(
            same(name, also) and same(value, others)
            for (name, value), (also, others) in zip(one.items(), other.items(), strict=True)
        )
    if kind is set or kind is frozenset:
        return {(type(each), each) for each in one} == {(type(each), each) for each in other}
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(
            same(each, also) for each, also in zip(one, other, strict=True)
        )
    return same(_inside(one), _inside(other))


def copied(value: Any) -> Any:
    """Another one that shares nothing with it that can change."""
    kind = type(value)
    if kind in _FIXED:
        return value
    if kind is dict:
        return {name: copied(each) for name, each in value.items()}
    if kind is list:
        return [copied(each) for each in value]
    if kind is tuple:
        return tuple([copied(each) for each in value])
    if kind is set or kind is frozenset:
        return kind(value)
    if isinstance(value, tuple):
        return kind(*[copied(each) for each in value])
    if isinstance(value, Seen):
        return value
    return _made(kind, {name: copied(each) for name, each in _inside(value).items()})


def packed(value: Any, classes: Classes, depth: int = 0) -> Plain:
    """As any codec can carry it. Raises NotAValue."""
    kind = type(value)
    if kind in _FIXED:
        return _packed_scalar(value)
    if depth == MAX_DEPTH:
        raise NotAValue(f"it goes deeper than {MAX_DEPTH} levels, or holds itself")
    below = depth + 1
    if kind is tuple or kind is list:
        return ["t" if kind is tuple else "l", *[packed(each, classes, below) for each in value]]
    if kind is dict:
        pairs = [packed(part, classes, below) for pair in value.items() for part in pair]
        return ["d", *pairs]
    if kind is set or kind is frozenset:
        parts = [packed(each, classes, below) for each in value]
        return ["s" if kind is set else "z", *sorted(parts, key=repr)]
    if kind is Seen:
        return ["e", *[packed(each, classes, below) for each in _inside(value).values()]]
    if classes.get(kind.__name__) is not kind:
        name = kind.__name__
        raise NotAValue(f"it holds a {name}, which is no value (see `classes` of a Detector)")
    if not isinstance(value, tuple) and "" in _inside(value):
        raise NotAValue(f"it holds a {kind.__name__}, whose attributes cannot be read")
    inside = value if isinstance(value, tuple) else _inside(value).values()
    if isinstance(value, tuple) or is_dataclass(value):
        return ["o", kind.__name__, *[packed(each, classes, below) for each in inside]]
    return ["v", kind.__name__, packed(_inside(value), classes, below)]


def _packed_scalar(value: Any) -> Plain:
    kind = type(value)
    if kind is float:
        return ["f", float(value).hex()]
    if kind is bytes:
        return ["b", bytes(value).hex()]
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
}


def unpacked(plain: Plain, classes: Classes) -> Any:
    """What `packed` was given. KeyError for a class that is no more."""
    if not isinstance(plain, list | tuple):
        return plain
    tag = plain[0]
    if tag in _SCALAR_OF:
        return _SCALAR_OF[tag](plain[1])
    if tag == "e":
        parts = [unpacked(each, classes) for each in plain[1:]]
        type_, time_ns, payload, source, epoch, seq, error_ns, unsure = parts
        return Seen(type_, time_ns, payload, source, epoch, seq, error_ns, unsure=unsure)
    if tag == "v":
        return _made(classes[plain[1]], unpacked(plain[2], classes))
    if tag == "o":
        kind = classes[plain[1]]
        parts = [unpacked(each, classes) for each in plain[2:]]
        if issubclass(kind, tuple):
            return kind(*parts)
        names = [each.name for each in fields(kind)]  # type: ignore[arg-type]
        return _made(kind, dict(zip(names, parts, strict=True)))
    return _GROUP_OF[tag]([unpacked(each, classes) for each in plain[1:]])


def size_of(value: Any, at_most: int) -> int:
    """How many values it consists of, itself included; no more than `at_most` + 1 are counted."""
    count = 0
    left = [value]
    while left and count <= at_most:
        each = left.pop()
        count += 1
        kind = type(each)
        if kind in _FIXED:
            continue
        if isinstance(each, dict):
            left += each.keys()
            left += each.values()
        elif isinstance(each, tuple | list | set | frozenset):
            left += each
        elif isinstance(each, Seen):
            left.append(each.payload)
        else:
            left += _inside(each).values()
    return count


def classes_in(value: Any) -> dict[str, type]:
    """Those of the objects that it holds."""
    found: dict[str, type] = {}
    left = [(value, 0)]
    while left:
        each, depth = left.pop()
        kind = type(each)
        if kind in _FIXED or depth > MAX_DEPTH:
            continue
        if isinstance(each, dict):
            left += [(part, depth + 1) for pair in each.items() for part in pair]
            continue
        if isinstance(each, tuple | list | set | frozenset):
            left += [(part, depth + 1) for part in each]
            if kind in (tuple, list, set, frozenset):
                continue
        elif is_dataclass(each):
            left += [(part, depth + 1) for part in _inside(each).values()]
        else:
            continue
        found[kind.__name__] = kind
    return found


def _inside(value: Any) -> dict[str, Any]:
    """Its attributes; of what has none, the thing itself, which is equal to itself alone."""
    if isinstance(value, Seen):
        return {
            "type": value.type,
            "time_ns": value.time_ns,
            "payload": value.payload,
            "source": value.source,
            "epoch": value.epoch,
            "seq": value.seq,
            "error_ns": value.error_ns,
            "unsure": value.unsure,
        }
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    slots = _slots_of(type(value))
    has = dir(value)
    if callable(value) or not (slots or "__dict__" in has):
        return {"": id(value)}
    inside: dict[str, Any] = {}
    for name in slots:
        with suppress(AttributeError):  # it was never set
            inside[name] = getattr(value, name)
    return inside | vars(value) if "__dict__" in has else inside


def _slots_of(kind: type) -> list[str]:
    """By the names under which they are set; a private one has its class before it."""
    names: list[str] = []
    for each in reversed(kind.__mro__):
        slots = vars(each).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            is_private = name.startswith("__") and not name.endswith("__")
            names.append(f"_{each.__name__.lstrip('_')}{name}" if is_private else name)
    return [name for name in names if name not in ("__dict__", "__weakref__")]


def _made(kind: type, attributes: Mapping[str, Any]) -> Any:
    """Without its `__init__`, which may want other things; frozen ones too."""
    made: Any = object.__new__(kind)
    for name, value in attributes.items():
        object.__setattr__(made, name, value)
    return made
