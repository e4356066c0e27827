"""A copy that lives as long as its object: what the laws hold real ones against, and what tests of
its users take for one. Cost: a dict."""

from __future__ import annotations

from collections.abc import Iterator

from agents.state.stores.store import Changes, StaleStore, StoreError, StoreName, check_change


class MemoryStore:
    """See `agents.state.stores.store`."""

    def __init__(self, name: StoreName) -> None:
        self._name = name
        self._values: dict[bytes, bytes] = {}
        self._position: int | None = None
        self._closed = False

    def position(self) -> int | None:
        self._check_open()
        return self._position

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        self._check_open()
        started_at = self._position
        # A list, so that a change while reading is told as such and not as a RuntimeError.
        for item in list(self._values.items()):
            if self._position != started_at:
                raise StaleStore(f"state copy {self._name} changed while it was read")
            yield item

    def apply(self, changes: Changes, base: int | None, position: int) -> None:
        self._check_open()
        check_change(changes, base, position)
        if self._position != base:
            raise StaleStore(
                f"state copy {self._name} is at {self._position}, the change begins at {base}"
            )
        # Read first, write after: `changes` may raise half way through.
        taken = list(changes.items())
        for key, value in taken:
            if value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = value
        self._position = position

    def clear(self) -> None:
        self._check_open()
        self._values.clear()
        self._position = None

    def set_aside(self) -> str:
        self.clear()
        return "it is forgotten"

    def close(self) -> None:
        self._values.clear()
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"state copy {self._name} is closed")
