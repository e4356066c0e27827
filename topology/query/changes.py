"""Which parts of a query's state have changed since they were last asked for.

A part is known by (kind, number, key). Nothing is noted before the first question, which is
answered with everything; so a run that never asks pays nothing.
"""

from __future__ import annotations

Part = tuple[str, int, str]


class PartJournal:
    """`is_kept`: somebody asks for changes."""

    __slots__ = ("_parts", "is_kept")

    def __init__(self) -> None:
        self._parts: dict[Part, None] = {}
        self.is_kept = False

    def note(self, kind: str, number: int, key: str) -> None:
        if self.is_kept:
            self._parts[kind, number, key] = None

    def take(self) -> list[Part]:
        """In the order in which they were first noted."""
        parts = list(self._parts)
        self._parts.clear()
        return parts


def name_of(part: Part) -> str:
    return f"{part[0]}/{part[1]}/{part[2]}"


def part_of(name: str) -> Part:
    kind, number, key = name.split("/", 2)
    return kind, int(number), key
