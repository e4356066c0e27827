"""Reads from a payload the data that a query needs: the value at a path, and the text of a key.

The operators before a query do not read payloads. A `Decode` function turns a payload into an
object, or into UNREADABLE (`topology.base.payload`). The function is called only if the query
needs a field.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from topology.answer.query.numbers import join_texts, text_of, to_exact_scalar

KeyPath = tuple[Any, ...]
"""The names on the path to a key, or such a path for each part of a key that is a list."""
Decode = Callable[[Any], Any]

SOURCE_KEY: Final = ("",)
"""The path of a key that is the source; a path of a file has no empty name."""
NO_KEY: Final = ""
"""The text of the key of a query without a key."""
MAX_TEXTS: Final = 1 << 15
"""The maximum number of cached texts; a full cache is cleared."""


def at(payload: Any, path: tuple[str, ...]) -> Any:
    """Return the value at the path; None if there is none."""
    if len(path) == 1 and isinstance(payload, dict):
        return payload.get(path[0])
    for name in path:
        if not isinstance(payload, dict):
            return None
        payload = payload.get(name)
    return payload


def strip_payload(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the path without a leading `payload`."""
    return words[1:] if words and words[0] == "payload" else words


def is_list(path: KeyPath) -> bool:
    """Return whether the key at this path is a list of values."""
    return bool(path) and isinstance(path[0], tuple)


def find_payload_paths(path: KeyPath | None) -> list[tuple[str, ...]]:
    """Return the paths in the payload from which the key is read."""
    if path is None:
        return []
    return [each for each in (path if is_list(path) else (path,)) if each != SOURCE_KEY]


class KeyTexts:
    """A cache of the texts of keys, because most events repeat a key.

    It caches strings and integers only, because other values that are equal as keys of a dict may
    have different texts.
    """

    __slots__ = ("_texts",)

    def __init__(self) -> None:
        self._texts: dict[Any, str] = {}

    def of(self, source: str, payload: Any, path: KeyPath | None) -> str | None:
        """Return the text of an event's key: `NO_KEY` without a path, None if it has no key.

        A list is no key if a value is missing.
        """
        if path is None:
            return NO_KEY
        if path and type(path[0]) is tuple:  # As `is_list`, without a call for each event.
            texts = [text for each in path if (text := self.of(source, payload, each)) is not None]
            return join_texts(texts) if len(texts) == len(path) else None
        return self.text(source if path == SOURCE_KEY else at(payload, path))

    def text(self, value: Any) -> str | None:
        """Return the text of a key; None if the value cannot be a key."""
        kind = type(value)
        is_kept = kind is str or kind is int
        if is_kept:
            known = self._texts.get(value)
            if known is not None:
                return known
        named = to_exact_scalar(value)
        if named is None:
            return None
        text = text_of(named)
        if is_kept:
            if len(self._texts) >= MAX_TEXTS:
                self._texts.clear()
            self._texts[value] = text
        return text
