"""Values whose first word is their kind, like `sliding 10s every 2s`: as text, and in code.

A value passes the checks that its spelling passes: `Window("sliding", 1, 2)` is refused as
`sliding 1ns every 2ns` is. What only a value can say is refused too, with the remedy in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from pydantic import ValidationInfo

from topology.spelling.problem import meant, refused, shown
from topology.spelling.values import MAX_LENGTH_NS, NS_PER, check_length, in_unit, or_fields

MAX_SLICES: Final = 10_000
"""Windows that one event may belong to."""
MAX_DIGITS: Final = 18


def _length_ns(word: str) -> int:
    return in_unit(word, NS_PER, "10s")


def _reach_ns(word: str) -> int:
    reach_ns = in_unit(word.removeprefix("-"), NS_PER, "2s")
    return -reach_ns if word.startswith("-") else reach_ns


def _events(word: str) -> int:
    if not (word.isascii() and word.isdigit()) or len(word) > MAX_DIGITS or int(word) < 1:
        raise refused(f"{shown(word)} is not a number of events", "write it like count 100")
    return int(word)


def _check_reach(said: str, reach_ns: int) -> None:
    if abs(reach_ns) > MAX_LENGTH_NS:
        raise refused(f"{said} is further than 100 years", "write a shorter one")


def _check_events(_: str, events: int) -> None:
    if events < 1:
        raise refused("a count window of no events", "give events, at least 1")


AMOUNTS: Final[dict[str, tuple[Callable[[str], int], Callable[[str, int], None]]]] = {
    "size_ns": (_length_ns, check_length),
    "every_ns": (_length_ns, check_length),
    "low_ns": (_reach_ns, _check_reach),
    "high_ns": (_reach_ns, _check_reach),
    "events": (_events, _check_events),
}
"""How the field of a value is read from a word, and what it may be."""


class Kinds(NamedTuple):
    """The kinds of a value of the type `of`. `noun` is the word for it, `called` that for one of a
    kind. `spellings` have its fields in their places."""

    of: Any
    noun: str
    called: str
    spellings: tuple[str, ...]
    examples: tuple[str, ...]
    in_code: str

    def read(self, value: Any, info: ValidationInfo) -> Any:
        """Return the value that is spelled, or given in code."""
        value = or_fields(self.of, value, info)
        if isinstance(value, self.of):
            said = "the interval" if value[0] == "interval" else "the window"
        elif isinstance(value, str):
            said, value = shown(value), self._spelled(value)
        else:
            remedy = f"write one of: {', '.join(self.examples)}"
            raise refused(f"{shown(value)} is not a {self.noun}", remedy, self.in_code)
        self._check(value, said)
        return value

    def _names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(spelling.split()[0] for spelling in self.spellings))

    def _spelled(self, text: str) -> Any:
        words = text.split()
        for spelling in self.spellings:
            parts = spelling.split()
            given = dict(zip(parts, words, strict=False))
            fields = given.keys() & AMOUNTS.keys()
            if len(parts) == len(words) and all(
                given[each] == each for each in given.keys() - fields
            ):
                return self.of(words[0], **{name: _read(name, given[name]) for name in fields})
        kind = words[0] if words else ""
        if kind not in self._names():
            raise refused(f"{shown(text)} is not a {self.noun}", meant(kind, self._names()))
        like = next(each for each in reversed(self.examples) if each.startswith(kind))
        raise refused(f"{shown(text)} is not {self.called.format(kind)}", f"write it like {like}")

    def _check(self, value: Any, said: str) -> None:
        kind, names = value[0], self._names()
        if kind not in names:
            raise refused(f"{shown(kind)} is no kind of {self.noun}", meant(kind, names))
        spellings = [each.split() for each in self.spellings]
        fields = {part for parts in spellings if parts[0] == kind for part in parts[1:]}
        for name, amount in value._asdict().items():
            if name == "kind":
                continue
            if type(amount) is not int:
                message = f"{name} is {shown(amount)}, not a whole number"
                raise refused(message, "write one, like 10**9")
            if name in fields:
                AMOUNTS[name][1](name, amount)
            elif amount != 0:
                message = f"{name} means nothing to {self.called.format(kind)}"
                raise refused(message, "leave it out")
        if "every_ns" in fields:
            _check_slide(said, value.size_ns, value.every_ns)
        if "low_ns" in fields and value.low_ns > value.high_ns:
            raise refused(f"{said} ends before it begins", "write the smaller bound first")


def _read(name: str, word: str) -> int:
    read, check = AMOUNTS[name]
    amount = read(word)
    check(shown(word), amount)
    return amount


def _check_slide(said: str, size_ns: int, every_ns: int) -> None:
    if every_ns > size_ns:
        message = f"{said} leaves out what lies between its windows"
        raise refused(message, "make the step at most the size")
    if size_ns > MAX_SLICES * every_ns:
        most = f"{said}: each event would lie in more than {MAX_SLICES} windows"
        raise refused(most, "write a longer step or a shorter window")
