"""Reads values whose first word is their kind, like `sliding 10s every 2s`.

A value made in code passes the same checks: `Window("sliding", 1, 2)` is refused like `sliding 1ns
every 2ns`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from pydantic import ValidationInfo

from topology.spelling.problem import format_value, make_refusal, suggest
from topology.spelling.values import MAX_LENGTH_NS, NS_PER, in_unit

MAX_SLICES: Final = 10_000
"""The maximum number of windows to which one event may belong."""
MAX_DIGITS: Final = 18


def parse_length_ns(word: str) -> int:
    """Return the length of a window, written like `10s`, in nanoseconds."""
    found_ns = in_unit(word, NS_PER, "10s")
    if found_ns == 0:
        raise make_refusal(f"{format_value(word)} is not a length", "write more than 0, like 10s")
    if found_ns > MAX_LENGTH_NS:
        raise make_refusal(f"{format_value(word)} is longer than 100 years", "write a shorter one")
    return found_ns


def _parse_reach_ns(word: str) -> int:
    reach_ns = in_unit(word.removeprefix("-"), NS_PER, "2s")
    if reach_ns > MAX_LENGTH_NS:
        raise make_refusal(f"{format_value(word)} is more than 100 years", "write a shorter one")
    return -reach_ns if word.startswith("-") else reach_ns


def _parse_event_count(word: str) -> int:
    if not (word.isascii() and word.isdigit()) or len(word) > MAX_DIGITS or int(word) < 1:
        raise make_refusal(
            f"{format_value(word)} is not a number of events", "write it like count 100"
        )
    return int(word)


AMOUNTS: Final[dict[str, Callable[[str], int]]] = {
    "size_ns": parse_length_ns,
    "every_ns": parse_length_ns,
    "low_ns": _parse_reach_ns,
    "high_ns": _parse_reach_ns,
    "events": _parse_event_count,
}
"""For each field of a value, the function that reads the field from its word in the text."""


class Kinds(NamedTuple):
    """The kinds of a value, and how each is written.

    Attributes:
        of: The type of the value. The text of a value can be read back.
        noun: The name of the value in messages.
        called: The name of a value of one kind in messages, with `{}` for the kind.
        spellings: The form of each kind, with the names of fields in place of their values.
        examples: Examples of the text of a value.
    """

    of: Any
    noun: str
    called: str
    spellings: tuple[str, ...]
    examples: tuple[str, ...]

    def read(self, value: Any, _: ValidationInfo) -> Any:
        """Return the value written as text, or check the value given in code."""
        if not isinstance(value, str | self.of):
            remedy = f"write one of: {', '.join(self.examples)}"
            raise make_refusal(f"{format_value(value)} is not a {self.noun}", remedy)
        if not isinstance(value, str):
            self.check_amounts(value)
        text = str(value)
        words = text.split() or [""]
        kinds = [*dict.fromkeys(example.split()[0] for example in self.examples)]
        if words[0] not in kinds:
            raise make_refusal(
                f"{format_value(text)} is not a {self.noun}", suggest(words[0], kinds)
            )
        for parts in map(str.split, self.spellings):
            given = [*zip(parts, words, strict=False)]
            if len(words) == len(parts) and all(p in AMOUNTS or p == word for p, word in given):
                fields = {part: AMOUNTS[part](word) for part, word in given if part in AMOUNTS}
                _check_fit(format_value(text), **fields)
                return self.of(words[0], **fields)
        like = next(each for each in reversed(self.examples) if each.startswith(words[0]))
        wrong = f"{format_value(text)} is not {self.called.format(words[0])}"
        raise make_refusal(wrong, f"write it like {like}")

    def check_amounts(self, value: Any) -> None:
        """Refuse a value made in code whose amounts are not integers."""
        for name, amount in zip(value._fields, value, strict=True):
            if name in AMOUNTS and type(amount) is not int:
                remedy = "write a whole number of ns or events"
                raise make_refusal(f"{format_value(amount)} is not a whole number", remedy)


def _check_fit(
    said: str, size_ns: int = 0, every_ns: int = 0, low_ns: int = 0, high_ns: int = 0, **_: int
) -> None:
    """Raise an error if amounts that are valid by themselves do not fit together."""
    if every_ns > size_ns:
        message = f"{said} has gaps between its windows"
        raise make_refusal(message, "make the step at most the size")
    if every_ns and size_ns > MAX_SLICES * every_ns:
        message = f"{said}: each event would be in more than {MAX_SLICES} windows"
        raise make_refusal(message, "write a longer step or a shorter window")
    if low_ns > high_ns:
        raise make_refusal(f"{said} ends before it begins", "write the smaller bound first")
