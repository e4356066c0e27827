"""Decodes JSON values with exact numbers (int, Decimal); the last of equal keys counts.

`decode` reads the whole value. A `JsonPick` reads only some fields, and does not read the numbers
of the others. Both refuse a value with a text that is not UTF-8. Integers with more than
`sys.get_int_max_str_digits` digits cannot be decoded. Neither can values nested deeper than the
interpreter's stack.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec

from topology.base.paths import Path
from topology.records.values import UNDECODABLE, ValueFault, follow_path

UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ArithmeticError)
"""The errors that hostile JSON can raise; ArithmeticError is for a number with a huge exponent."""

_ODD_NUMBER: Final = re.compile(
    rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|(-?(?:NaN|Infinity))', re.DOTALL
)
"""Matches a text, which ends with the value at the latest, or a number that JSON does not have."""

_WHOLE: Final = msgspec.json.Decoder(float_hook=Decimal)


def decode(value: bytes | None) -> object:
    """Return the value, None for a tombstone; raise ValueFault if it is not JSON."""
    if value is None:
        return None
    try:
        return _WHOLE.decode(value)
    except UNREADABLE as wrong:
        raise _fault(wrong, value) from None


class JsonPick:
    """A `Pick` that reads the fields at some paths and skips all others.

    If each path is a single name, `structured` returns the fields in their order as a msgspec
    structure.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._decoder: Any = None
        self.structured: Callable[[bytes], Any] | None = None
        stems = dict.fromkeys(_stem(path) for path in paths)
        least = [stem for stem in stems if not any(stem[:n] in stems for n in range(len(stem)))]
        if not all(least) or not all(_is_plain(name) for stem in least for name in stem):
            return
        self._decoder = msgspec.json.Decoder(_shape(least), float_hook=Decimal)
        self._getters = [_getter(path, least) for path in paths]
        if least == list(paths) and all(len(path) == 1 for path in paths):
            self.structured = self._decode

    def __call__(self, value: bytes | None) -> Sequence[object]:
        if value is None:
            return [None] * len(self._paths)
        if self._decoder is None:
            return self._from_whole(value)
        try:
            found = self._decode(value)
        except msgspec.ValidationError:  # A path leads through a value that is not an object.
            return self._from_whole(value)
        except UNREADABLE as wrong:
            raise _fault(wrong, value) from None
        return [get(found) for get in self._getters]

    def _decode(self, value: bytes) -> Any:
        if not value.isascii():  # The decoder does not check the texts that it skips.
            value.decode()
        return self._decoder.decode(value)

    def _from_whole(self, value: bytes) -> Sequence[object]:
        decoded = decode(value)
        return [follow_path(decoded, path) for path in self._paths]


def make_pick(paths: Sequence[Path]) -> JsonPick:
    """Return a `JsonPick` of the paths, as a `topology.records.values.Picking`."""
    return JsonPick(paths)


def _stem(path: Path) -> tuple[str, ...]:
    """Return the names before the first step into a list."""
    names: list[str] = []
    for step in path:
        if isinstance(step, int):
            break
        names.append(step)
    return tuple(names)


def _is_plain(name: str) -> bool:
    """Return whether the name can be a key of a msgspec structure."""
    return name.isprintable() and '"' not in name and "\\" not in name


def _shape(stems: Sequence[tuple[str, ...]]) -> Any:
    """Return a msgspec structure whose fields f0, f1, … represent the first names of the stems."""
    firsts = _first_names(stems)
    fields = []
    for at, name in enumerate(firsts):
        below = [stem[1:] for stem in stems if stem[0] == name]
        kind: Any = Any if below == [()] else _shape(below) | None
        fields.append((f"f{at}", kind, None))
    rename = {f"f{at}": name for at, name in enumerate(firsts)}
    return msgspec.defstruct("Wanted", fields, rename=rename, gc=False)


def _first_names(stems: Sequence[tuple[str, ...]]) -> list[str]:
    return list(dict.fromkeys(stem[0] for stem in stems))


def _getter(path: Path, stems: Sequence[tuple[str, ...]]) -> Callable[[Any], object]:
    stem = next(stem for stem in stems if path[: len(stem)] == stem)
    names: list[str] = []
    below = stems
    for name in stem:
        names.append(f"f{_first_names(below).index(name)}")
        below = [each[1:] for each in below if each[0] == name]
    rest = path[len(stem) :]
    first, deeper = names[0], names[1:]

    def get(found: Any) -> object:
        value = getattr(found, first)
        for name in deeper:
            if value is None:
                return None
            value = getattr(value, name)
        return follow_path(value, rest) if rest else value

    return get


def odd_number(value: bytes) -> str | None:
    """Return why a value with NaN or Infinity is not JSON; None if it has no such number."""
    found = next((each[1] for each in _ODD_NUMBER.finditer(value) if each[1]), None)
    return None if found is None else f"JSON has no number {found.decode()}: write null"


def _fault(wrong: Exception, value: bytes) -> ValueFault:
    if isinstance(wrong, UnicodeDecodeError):
        what = "a text in it is not UTF-8"
    elif isinstance(wrong, RecursionError):
        what = "it is nested too deep"
    elif isinstance(wrong, ArithmeticError):
        what = "a number in it has too large an exponent"
    else:
        what = odd_number(value) or str(wrong)
    return ValueFault(
        UNDECODABLE, f"the value is not JSON ({what}); set `format:` if it is in another format"
    )
