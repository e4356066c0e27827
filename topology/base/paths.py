"""Reads and writes paths into a record, for all places of a file and all options that have one.

    a.b        a dot precedes the name of a field
    a[0]       an item of a list
    a.`b c`    backquotes enclose a name with other signs; a backquote in it is doubled

A name without backquotes has no blank, dot, bracket or backquote. Queries read names only, below
`payload` (`parse_payload_path`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

Path = tuple[str | int, ...]
Names = tuple[str, ...]

PAYLOAD: Final = "payload"
MAX_CHARACTERS: Final = 1_000
MAX_STEPS: Final = 32
"""The maximum number of steps of a path."""

_NAME: Final = r"`(?:[^`]|``)+`|[^.\[\]`\s]+"
_STEP: Final = re.compile(rf"\[([0-9]{{1,9}})\]|\.({_NAME})")
_PLAIN: Final = re.compile(r"[\w-]+")
_ARGUMENT: Final = re.compile(r"(?:`(?:[^`]|``)*`|[^,`])*")
REMEDY: Final = (
    "write dots between names, [0] for a list item, and backquotes around a name with a blank or"
    " another sign, like payload.`a b`"
)
PATTERN: Final = rf"payload(?:\.(?:{_NAME})){{0,{MAX_STEPS}}}"
"""A regular expression for the paths that `parse_payload_path` reads."""


def parse_path(text: str, at: int = 0) -> Path:
    """Return the steps of the path in `text` from `at` on; the first is a dot or a bracket.

    Raises:
        ValueError: The text is not a path. The message includes the remedy.
    """
    steps: list[str | int] = []
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None or len(steps) == MAX_STEPS:
            reason = f"is deeper than {MAX_STEPS} steps" if found else "is not a path"
            raise ValueError(f"`{text}` {reason} at character {at + 1}; {REMEDY}")
        index, name = found.groups()
        steps.append(int(index) if index else unquote(name))
        at = found.end()
    return tuple(steps)


def parse_payload_path(text: str) -> Names | None:
    """Return the names of a path into the payload, with `payload` first, or None for other texts.

    A list item is no name, so such a path is not one of a query.
    """
    if len(text) > MAX_CHARACTERS or not re.match(r"payload(?![^.])", text):
        return None
    try:
        steps = parse_path(text, len(PAYLOAD))
    except ValueError:
        return None
    names = tuple(step for step in steps if isinstance(step, str))
    return (PAYLOAD, *names) if len(names) == len(steps) else None


def guess_path(text: object) -> str:
    """Return the path into the payload that a wrong text probably means, for a remedy."""
    first, _, rest = str(text).partition(".") if isinstance(text, str) else ("", "", "")
    names = rest if get_close_matches(first.lower(), [PAYLOAD]) else text
    if not isinstance(names, str) or not (parts := [part for part in names.split(".") if part]):
        return f"it like {PAYLOAD}.player"
    plain = (part.replace("`", "") for part in parts)
    found = format_path((PAYLOAD, *filter(None, plain)))
    return found if parse_payload_path(found) else f"it like {PAYLOAD}.player"


def format_path(path: Iterable[str | int]) -> str:
    """Return the text of a path, which `parse_path` reads after a dot."""
    return "".join(
        f"[{step}]" if isinstance(step, int) else f".{quote_if_needed(step)}" for step in path
    ).removeprefix(".")


def quote_if_needed(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else backquote(name)


def backquote(name: str) -> str:
    """Return the name in backquotes; those in it are doubled."""
    doubled = name.replace("`", "``")
    return f"`{doubled}`"


def unquote(name: str) -> str:
    """Return the name that a text means, with or without backquotes."""
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def split_arguments(text: str) -> list[str]:
    """Return the parts of a text between commas; those in backquotes separate nothing."""
    parts: list[str] = []
    at = 0
    while at <= len(text):
        found = _ARGUMENT.match(text, at)
        end = found.end() if found else at
        if end < len(text) and text[end] == "`":  # It is never closed.
            end = len(text)
        parts.append(text[at:end].strip())
        at = end + 1
    return parts
