"""A state copy in memory, which tests use instead of a real one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agents.state.stores.store import Changes, StaleStore, StoreName, check_change


def apply_to(values: dict[Any, Any], changes: Mapping[Any, Any]) -> None:
    """Apply the changes as a changelog does: None deletes a key."""
    for key, value in changes.items():
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value


class MemoryStore:
    """A `StateStore` in memory (see `agents.state.stores.store`)."""

    def __init__(self, name: StoreName) -> None:
        self._name = name
        self._values: dict[bytes, bytes] = {}
        self._position: int | None = None

    def position(self) -> int | None:
        return self._position

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        yield from list(self._values.items())

    def apply(self, changes: Changes, base: int | None, position: int) -> None:
        check_change(changes, base, position)
        if self._position != base:
            raise StaleStore(f"state copy {self._name} is at {self._position}, not at {base}")
        apply_to(self._values, changes)
        self._position = position

    def clear(self) -> None:
        self._values.clear()
        self._position = None

    def set_aside(self) -> str:
        self.clear()
        return "it is forgotten"

    def close(self) -> None:
        """Close nothing."""
