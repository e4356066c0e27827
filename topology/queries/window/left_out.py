"""Counts the values of one field that the aggregates of a query leave out (`FieldUse`).

Bounds: `KINDS` kinds for each field, each with one example of about `EXAMPLE_CHARS` characters.
"""

from __future__ import annotations

import json
from typing import Any, Final

from topology.answer.query.numbers import is_text, number
from topology.base.field_use import FieldUse, Unusable

TEXT: Final = "text"
BOOLEANS: Final = "booleans"
OBJECTS: Final = "objects"
LISTS: Final = "lists"
NUMBERS: Final = "numbers"
OUT_OF_RANGE: Final = "numbers out of range"
OTHERS: Final = "of another type"
KINDS: Final = {
    TEXT: TEXT,
    BOOLEANS: "a boolean",
    OBJECTS: "an object",
    LISTS: "a list",
    NUMBERS: "a number",
    OUT_OF_RANGE: "a number out of range",
    OTHERS: OTHERS,
}
"""The kinds of unusable values, each with the words for a single value."""

EXAMPLE_CHARS: Final = 40
"""The maximum number of characters that an example takes from a text, a number or a name."""
EXAMPLE_NAMES: Final = 3
"""The maximum number of fields that the example of an object names."""


class LeftOut:
    """The counts of one field. The caller numbers the events of the query that have a key."""

    __slots__ = ("_examples", "_last_absent", "_row", "_unusable", "absent")

    def __init__(self) -> None:
        self.absent = 0
        self._row = 0
        self._last_absent = 0
        self._unusable: dict[str, int] = {}
        self._examples: dict[str, str] = {}

    def take(self, value: Any, number_of_event: int) -> None:
        """Count the value of an event, from 1, as absent (None) or unusable."""
        if value is None:
            self.absent += 1
            self._row = self._row + 1 if self._last_absent == number_of_event - 1 else 1
            self._last_absent = number_of_event
            return
        kind = kind_of(value)
        if kind not in self._unusable:
            self._unusable[kind] = 0
            self._examples[kind] = example_of(value)
        self._unusable[kind] += 1

    @property
    def count(self) -> int:
        return self.absent + sum(self._unusable.values())

    def to_field_use(self, query: str, aggregate: str, field: str, events: int) -> FieldUse:
        """Return the counts after this number of events."""
        unusable = [
            Unusable(kind, count, self._examples[kind]) for kind, count in self._unusable.items()
        ]
        row = self._row if self._last_absent == events else 0
        return FieldUse(query, aggregate, field, self.absent, row, tuple(unusable))


def kind_of(value: Any) -> str:
    """Return the kind of a value that an aggregate cannot use."""
    if isinstance(value, str):
        return TEXT
    if isinstance(value, bool):
        return BOOLEANS
    if isinstance(value, dict):
        return OBJECTS
    if isinstance(value, list | tuple):
        return LISTS
    if isinstance(value, int | float):
        return OUT_OF_RANGE if number(value) is None else NUMBERS
    return OTHERS


def example_of(value: Any) -> str:
    """Return a short text of the value, in O(`EXAMPLE_CHARS`)."""
    if isinstance(value, str):
        return _quote(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        names = [_quote(str(name)) for name, _ in zip(value, range(EXAMPLE_NAMES), strict=False)]
        more = ["…"] * (len(value) > EXAMPLE_NAMES)
        return f"{{{', '.join([*names, *more])}}}"
    if isinstance(value, list | tuple):
        return f"one of length {len(value)}"
    if isinstance(value, int) and number(value) is None:
        return f"one of {value.bit_length()} bits"
    return repr(value)[:EXAMPLE_CHARS] if isinstance(value, int | float) else type(value).__name__


def _quote(text: str) -> str:
    cut = text if len(text) <= EXAMPLE_CHARS else f"{text[:EXAMPLE_CHARS]}…"
    return json.dumps(cut, ensure_ascii=not is_text(cut))
