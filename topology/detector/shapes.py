"""What the objects of a class consist of: whether their attributes, slots included, are all there
is of them.

They are where the class is made of Python's own `object` and of nothing else. A subclass of dict,
int, deque or datetime has a content besides, which nobody sees by its attributes. A NamedTuple has
its parts, and no attributes.

Cost: of a class, once; at most `MAX_SHAPES` are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, Final

MAX_SHAPES: Final = 1_000


class ClassShape:
    """`is_object`: the attributes are all. `is_member`: it is an Enum, whose members are there
    once. `fields`: of a dataclass, by name, in order."""

    __slots__ = ("_has_dict", "_is_row", "_slots", "fields", "is_member", "is_object")

    def __init__(self, kind: Any) -> None:
        self._slots = _slots_of(kind)
        self._has_dict = any("__dict__" in vars(each) for each in kind.__mro__)
        self._is_row = issubclass(kind, tuple) and "_fields" in dir(kind)
        self.is_member = issubclass(kind, Enum)
        self.is_object = not self.is_member and _is_made_of_attributes(kind)
        self.is_object = self.is_object and bool(self._slots or self._has_dict)
        self.fields = [each.name for each in fields(kind)] if is_dataclass(kind) else None

    def is_named(self, value: Any) -> bool:
        """It is a NamedTuple that has no attributes besides."""
        return self._is_row and not (self._has_dict and vars(value))

    def parts(self, value: Any) -> Collection[Any] | None:
        """Return what an object consists of, nothing of a member; None for what is no value."""
        if self.is_named(value):
            return value  # type: ignore[no-any-return]
        if self.is_member:
            return ()
        return self.inside(value).values() if self.is_object else None

    def inside(self, value: Any) -> dict[str, Any]:
        """Its attributes, as far as they are set; nobody changes the dict."""
        if not self._slots:
            own: dict[str, Any] = vars(value)
            return own
        inside: dict[str, Any] = {}
        for name in self._slots:
            with suppress(AttributeError):
                inside[name] = object.__getattribute__(value, name)
        return inside | vars(value) if self._has_dict else inside


shape_of: Final[Callable[[Any], ClassShape]] = lru_cache(MAX_SHAPES)(ClassShape)


def made(kind: type, attributes: Mapping[str, Any]) -> Any:
    """Without its `__init__`, which may want other things; frozen ones too."""
    new: Any = object.__new__(kind)
    for name, value in attributes.items():
        object.__setattr__(new, name, value)
    return new


def _is_made_of_attributes(kind: type) -> bool:
    """Python refuses to make one as a mere object where there is more to it."""
    try:
        object.__new__(kind)
    except TypeError:
        return False
    return True


def _slots_of(kind: type) -> list[str]:
    """By the names under which they are set; a private one has its class before it."""
    names: list[str] = []
    for each in reversed(kind.__mro__):
        slots = vars(each).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            is_private = name.startswith("__") and not name.endswith("__")
            names.append(f"_{each.__name__.lstrip('_')}{name}" if is_private else name)
    return [name for name in names if name not in ("__dict__", "__weakref__")]
