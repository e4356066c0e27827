"""Determines whether an object consists of its attributes alone, slots included.

It does if its class inherits from no built-in class besides `object`. A subclass of dict, int,
deque or datetime has content that its attributes do not show. A NamedTuple has parts, and no
attributes.

Cost: a class is examined once. At most `MAX_SHAPES` shapes are kept.
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
    """The structure of the objects of a class.

    Attributes:
        is_object: Whether the objects consist of their attributes alone.
        is_member: Whether the class is an Enum, whose members exist only once.
        fields: The names of a dataclass's fields in order, or None.
    """

    __slots__ = ("_has_dict", "_is_row", "_slots", "fields", "is_member", "is_object")

    def __init__(self, kind: Any) -> None:
        self._slots = _slots_of(kind)
        self._has_dict = any("__dict__" in vars(each) for each in kind.__mro__)
        self._is_row = issubclass(kind, tuple) and "_fields" in dir(kind)
        self.is_member = issubclass(kind, Enum)
        self.is_object = not self.is_member and _is_made_of_attributes(kind)
        self.is_object = self.is_object and bool(self._slots or self._has_dict)
        self.fields = [each.name for each in fields(kind)] if is_dataclass(kind) else None

    def is_named_tuple(self, value: Any) -> bool:
        """Return whether the value is a NamedTuple without further attributes."""
        return self._is_row and not (self._has_dict and vars(value))

    def parts(self, value: Any) -> Collection[Any] | None:
        """Return the parts of an object (none for an Enum member), or None if it is not a value."""
        if self.is_named_tuple(value):
            return value  # type: ignore[no-any-return]
        if self.is_member:
            return ()
        return self.attributes_of(value).values() if self.is_object else None

    def attributes_of(self, value: Any) -> dict[str, Any]:
        """Return the attributes that are set. The caller must not change the dict."""
        if not self._slots:
            own: dict[str, Any] = vars(value)
            return own
        inside: dict[str, Any] = {}
        for name in self._slots:
            with suppress(AttributeError):
                inside[name] = object.__getattribute__(value, name)
        return inside | vars(value) if self._has_dict else inside


shape_of: Final[Callable[[Any], ClassShape]] = lru_cache(MAX_SHAPES)(ClassShape)


def make_object(kind: type, attributes: Mapping[str, Any]) -> Any:
    """Make an object from its attributes, even a frozen one.

    Its `__init__` is not called, because it may need other arguments.
    """
    new: Any = object.__new__(kind)
    for name, value in attributes.items():
        object.__setattr__(new, name, value)
    return new


def _is_made_of_attributes(kind: type) -> bool:
    """Return whether objects of the class have nothing but attributes.

    `object.__new__` raises TypeError for a class whose objects have other content.
    """
    try:
        object.__new__(kind)
    except TypeError:
        return False
    return True


def _slots_of(kind: type) -> list[str]:
    """Return the attribute names of the slots; private names are mangled with the class name."""
    names: list[str] = []
    for each in reversed(kind.__mro__):
        slots = vars(each).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            is_private = name.startswith("__") and not name.endswith("__")
            names.append(f"_{each.__name__.lstrip('_')}{name}" if is_private else name)
    return [name for name in names if name not in ("__dict__", "__weakref__")]
