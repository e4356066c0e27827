"""Describes the problems of a topology file: the place, the fault, and the remedy.

A check inside one section knows neither the path of its section nor its line. It raises
`refused(...)` or `refused_at(...)`, and pydantic collects these errors. `topology.config.reading`
adds the path and the line, and raises one `TopologyError` with all problems. For a section made in
code, pydantic's `ValidationError` has the same messages, with remedies in Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NamedTuple

from pydantic_core import PydanticCustomError

Path = tuple[str | int, ...]
"""The keys and list positions that lead from the top of the file, or of a section, to a value."""

MANY = 8
"""The maximum number of known words that a suggestion lists."""

_YAML = (
    r"(?:\b(?!of:|known:)(\w+): )?"
    r"(\{.*\}|\[[^]]*\]|(?<=\w: )(?<!of: )(?<!known: )[\w.]+\b(?!:))"
)
"""Matches the YAML in a remedy: a key with its value, or a list or mapping alone."""

SHOWN_CHARS = 60
"""The maximum number of characters of a wrong value that a message repeats."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a topology.

    `path` is the place in the usual notation (`streams.pitch.reorder.max_wait`). `line` counts from
    1. It is None if the topology did not come from text.
    """

    path: str
    message: str
    remedy: str
    line: int | None = None

    def __str__(self) -> str:
        place = self.path or "the topology"
        line = f" (line {self.line})" if self.line is not None else ""
        return f"{place}{line}: {self.message}; {self.remedy}"


class TopologyError(ValueError):
    """The error for a topology with `problems`, of which there is at least one, in file order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(map(str, self.problems)))


class Fault(NamedTuple):
    """A problem as a section reports it, with a `path` that starts at the section.

    `is_yaml` is False if the remedy is part of a pattern, and not YAML of the file.
    """

    path: Path
    message: str
    remedy: str
    is_yaml: bool = True

    def text_in_code(self) -> str:
        """Return the message for people who write Python."""
        place = f"{format_key_path(self.path)}: " if self.path else ""
        before, write, written = self.remedy.partition("write ")
        if self.is_yaml:
            written = re.sub(f"`[^`]*`|{_YAML}", _to_python, written)
        return f"{place}{self.message}; {before}{write}{written}"


def _to_python(yaml_text: re.Match[str]) -> str:
    """Convert a match of `_YAML` to Python; quoted text stays unchanged."""
    import yaml  # A valid topology does not need this import.

    key, text = yaml_text.groups()
    if text is None:
        return yaml_text[0]
    try:
        value = repr(yaml.safe_load(text))
    except yaml.YAMLError:
        return yaml_text[0]
    return f"{key}={value}" if key else value


def make_refusal(message: str, remedy: str) -> PydanticCustomError:
    """Return the error to raise for the value that is being read."""
    return make_refusal_at(Fault((), message, remedy))


def make_refusal_at(*faults: Fault) -> PydanticCustomError:
    """Return the error to raise for faults at or below the value that is being read."""
    text = "\n  ".join(fault.text_in_code() for fault in faults)
    return PydanticCustomError("refused", "{text}", {"text": text, "faults": list(faults)})


def format_value(value: Any) -> str:
    """Return a short text for a wrong value, for use in messages."""
    if value is None:
        return "an empty value"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    # An integer of thousands of digits cannot be converted to text at all.
    if isinstance(value, int) and value.bit_length() > 256:
        return "a number of more than 256 bits"
    text = f"`{value}`"
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"


def find_nearest(word: Any, known: Iterable[str]) -> str | None:
    """Return the known word that was probably meant, or None if none is similar."""
    by_lower = {each.lower(): each for each in known}
    close = get_close_matches(str(word).lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def suggest(word: Any, known: Sequence[str]) -> str:
    """Return a remedy for an unknown word: the likely word, and all known words if they are few."""
    close = find_nearest(word, known)
    every = ", ".join(known)
    if close is None:
        return f"write one of: {every}"
    return f"did you mean `{close}`?" + (f" known: {every}" if len(known) <= MANY else "")


def format_key_path(path: Path) -> str:
    """Return the path in the usual notation, with quotes around a name that contains a dot."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + (f'"{part}"' if "." in part else part)
    return text
