"""The texts of keys, remembered: most events bear a key that was borne before."""

from __future__ import annotations

from typing import Any, Final

from topology.query.numbers import distinguished, text_of

MAX_TEXTS: Final = 1 << 15
"""Beyond, all are forgotten and spelled anew when they come."""


class KeyTexts:
    """`text_of` scalars. Only texts and integers are remembered: of other kinds those that are
    equal in a table need not have the same text."""

    __slots__ = ("_texts",)

    def __init__(self) -> None:
        self._texts: dict[Any, str] = {}

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
