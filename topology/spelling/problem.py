"""Describes the problems of a topology file: where, what, and what to write instead.

A check inside one section knows neither the path of its section nor its line. It raises
`refused(...)` or `refused_at(...)`, which pydantic collects. `topology.config.reading` adds path
and line, and raises one `TopologyError` with every problem. A section made in code raises
pydantic's `ValidationError` with the same sentences, in which remedies are Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NamedTuple

from pydantic_core import PydanticCustomError

Path = tuple[str | int, ...]
"""Keys and list positions from the top of the file, or of a section."""

MANY = 8
"""The most known words that a suggestion lists."""

_YAML = (
    r"(?:\b(?!of:|known:)(\w+): )?"
    r"(\{.*\}|\[[^]]*\]|(?<=\w: )(?<!of: )(?<!known: )[\w.]+\b(?!:))"
)
"""The YAML in a remedy: a key with its value, or a list or mapping alone."""

SHOWN_CHARS = 60
"""The most characters of a wrong value that a message repeats."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a topology.

    `path` is as people write it (`streams.pitch.reorder.max_wait`). `line` counts from 1; it is
    None if the topology did not come from text.
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
    """A topology is refused. `problems` is never empty, and in the order of the file."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(map(str, self.problems)))


class Fault(NamedTuple):
    """A problem seen from within a section, where its `path` starts.

    `is_yaml`: the remedy contains YAML of the file, and not part of a pattern.
    """

    path: Path
    message: str
    remedy: str
    is_yaml: bool = True

    def text_in_code(self) -> str:
        """Return the fault as text for people who write Python."""
        place = f"{spelled(self.path)}: " if self.path else ""
        before, write, written = self.remedy.partition("write ")
        if self.is_yaml:
            written = re.sub(f"`[^`]*`|{_YAML}", _in_python, written)
        return f"{place}{self.message}; {before}{write}{written}"


def _in_python(yaml_text: re.Match[str]) -> str:
    """Return YAML (a key with a value, or a value) as Python; a quotation stays as it is."""
    import yaml  # A sound topology does not need the import.

    key, text = yaml_text.groups()
    if text is None:
        return yaml_text[0]
    try:
        value = repr(yaml.safe_load(text))
    except yaml.YAMLError:
        return yaml_text[0]
    return f"{key}={value}" if key else value


def refused(message: str, remedy: str) -> PydanticCustomError:
    """Return the error of the value that is being read."""
    return refused_at(Fault((), message, remedy))


def refused_at(*faults: Fault) -> PydanticCustomError:
    """Return the error of faults anywhere below the value that is being read."""
    text = "\n  ".join(fault.text_in_code() for fault in faults)
    return PydanticCustomError("refused", "{text}", {"text": text, "faults": list(faults)})


def shown(value: Any) -> str:
    """Return a wrong value as messages repeat it, which is always short."""
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


def nearest(word: Any, known: Iterable[str]) -> str | None:
    """Return the known word that was probably meant."""
    by_lower = {each.lower(): each for each in known}
    close = get_close_matches(str(word).lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def meant(word: Any, known: Sequence[str]) -> str:
    """Return a remedy: the likely word, and all known words unless there are many."""
    close = nearest(word, known)
    every = ", ".join(known)
    if close is None:
        return f"write one of: {every}"
    return f"did you mean `{close}`?" + (f" known: {every}" if len(known) <= MANY else "")


def spelled(path: Path) -> str:
    """Return a path as people write it; a name that contains a dot is quoted."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + (f'"{part}"' if "." in part else part)
    return text
