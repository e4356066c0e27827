"""What is wrong with a topology file: where, what, and what to write instead.

A check inside one section knows neither the path of its section nor the line it
is in. It raises `refused(...)` or `refused_at(...)`, which pydantic collects;
`topology.config.reading` adds path and line and raises one `TopologyError`
that holds every problem found. A section made in code raises pydantic's `ValidationError`,
with the same sentences, in which what a remedy writes is Python.
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
"""More known words than this are not listed beside a suggestion."""

_YAML = (
    r"(?:\b(?!of:|known:)(\w+): )?"
    r"(\{.*\}|\[[^]]*\]|(?<=\w: )(?<!of: )(?<!known: )[\w.]+\b(?!:))"
)
"""What a remedy writes into a file: a key with its value, or a list or mapping alone."""

SHOWN_CHARS = 60
"""At most so much of a wrong value is repeated in a message."""


@dataclass(frozen=True, slots=True)
class Problem:
    """`path` is as one would say it (`streams.pitch.reorder.max_wait`), `line`
    counts from 1 and is None where the topology did not come from text."""

    path: str
    message: str
    remedy: str
    line: int | None = None

    def __str__(self) -> str:
        place = self.path or "the topology"
        line = f" (line {self.line})" if self.line is not None else ""
        return f"{place}{line}: {self.message}; {self.remedy}"


class TopologyError(ValueError):
    """The topology is refused. `problems` is never empty and in file order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(map(str, self.problems)))


class Fault(NamedTuple):
    """A problem seen from within a section, where its `path` starts.

    `is_yaml`: what the remedy writes is of the file, and not of a pattern.
    """

    path: Path
    message: str
    remedy: str
    is_yaml: bool = True

    def text_in_code(self) -> str:
        """Return the fault for who writes Python."""
        place = f"{spelled(self.path)}: " if self.path else ""
        before, write, written = self.remedy.partition("write ")
        if self.is_yaml:
            written = re.sub(f"`[^`]*`|{_YAML}", _in_python, written)
        return f"{place}{self.message}; {before}{write}{written}"


def _in_python(yaml_text: re.Match[str]) -> str:
    """Return a key with a value, or a value alone, as Python writes it; a quotation as it is."""
    import yaml  # what is sound needs none

    key, text = yaml_text.groups()
    if text is None:
        return yaml_text[0]
    try:
        value = repr(yaml.safe_load(text))
    except yaml.YAMLError:
        return yaml_text[0]
    return f"{key}={value}" if key else value


def refused(message: str, remedy: str) -> PydanticCustomError:
    """One fault of the very value that is being read."""
    return refused_at(Fault((), message, remedy))


def refused_at(*faults: Fault) -> PydanticCustomError:
    """Faults somewhere below the value that is being read."""
    text = "\n  ".join(fault.text_in_code() for fault in faults)
    return PydanticCustomError("refused", "{text}", {"text": text, "faults": list(faults)})


def shown(value: Any) -> str:
    """A wrong value as a message repeats it: short, whatever it is."""
    if value is None:
        return "an empty value"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    # An integer of thousands of digits cannot be turned into text at all.
    if isinstance(value, int) and value.bit_length() > 256:
        return "a number of more than 256 bits"
    text = f"`{value}`"
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"


def nearest(word: Any, known: Iterable[str]) -> str | None:
    """The known word that was probably meant."""
    by_lower = {each.lower(): each for each in known}
    close = get_close_matches(str(word).lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def meant(word: Any, known: Sequence[str]) -> str:
    """A remedy: the likely word, and all there are unless these are many."""
    close = nearest(word, known)
    every = ", ".join(known)
    if close is None:
        return f"write one of: {every}"
    return f"did you mean `{close}`?" + (f" known: {every}" if len(known) <= MANY else "")


def spelled(path: Path) -> str:
    """A path for people; a name with a dot in it is quoted."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + (f'"{part}"' if "." in part else part)
    return text
