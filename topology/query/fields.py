"""What a query reads of a payload: the value that a path leads to, and the text of a key. Texts are
remembered, as most events bear a key that came before.

The payload is opaque until here. A `Decode` makes an object of it, or UNREADABLE
(`topology.model.payload`); it is called only if the query needs a field.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from topology.query.numbers import distinguished, text_of

Decode = Callable[[Any], Any]

NO_KEY: Final = ""
"""The key's text where the query has none."""
MAX_TEXTS: Final = 1 << 15
"""Beyond, all are forgotten and spelled anew when they come."""


def at(payload: Any, path: tuple[str, ...]) -> Any:
    """What the path leads to; None if nothing is there."""
    if len(path) == 1 and isinstance(payload, dict):
        return payload.get(path[0])
    for name in path:
        if not isinstance(payload, dict):
            return None
        payload = payload.get(name)
    return payload


def path_of(words: tuple[str, ...]) -> tuple[str, ...]:
    """Without the leading `payload`."""
    return words[1:] if words and words[0] == "payload" else words


class KeyTexts:
    """`text_of` scalars. Only texts and integers are remembered: of other kinds those that are
    equal in a table need not have the same text."""

    __slots__ = ("_texts",)

    def __init__(self) -> None:
        self._texts: dict[Any, str] = {}

    def of(self, payload: Any, path: tuple[str, ...] | None) -> str | None:
        """Return the text of the payload's key: `NO_KEY` without a path, None without a value."""
        return NO_KEY if path is None else self.text(at(payload, path))

    def text(self, value: Any) -> str | None:
        """None of what is no key."""
        kind = type(value)
        is_kept = kind is str or kind is int
        if is_kept:
            known = self._texts.get(value)
            if known is not None:
                return known
        named = distinguished(value)
        if named is None:
            return None
        text = text_of(named)
        if is_kept:
            if len(self._texts) >= MAX_TEXTS:
                self._texts.clear()
            self._texts[value] = text
        return text
