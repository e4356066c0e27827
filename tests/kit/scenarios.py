"""Examples as text tables: a row has the input, and after an arrow the expected output."""

from __future__ import annotations

from typing import Any

import yaml

Table = list[tuple[Any, ...]]
"""Rows: the instant, the input at it (None: only the time), and the list of expected outputs."""

Scenarios = dict[str, tuple[dict[str, Any], Table]]


def table(text: str) -> Table:
    """Return the rows of a text; a # starts a comment."""
    return [_row(line) for line in text.splitlines() if line.partition("#")[0].strip()]


def scenarios(text: str) -> Scenarios:
    """Return the settings and the table of each scenario in a text, by title.

    A title is not indented, and can have settings in braces. Its rows are indented below it.
    """
    found: dict[str, tuple[dict[str, Any], list[str]]] = {}
    rows: list[str] = []
    for line in text.strip().splitlines():
        if line.startswith((" ", "#")):
            rows.append(line)
        else:
            title, _, settings = line.partition(" {")
            rows = []
            assert title not in found, title
            found[title] = yaml.safe_load(f"{{{settings or '}'}"), rows
    return {title: (settings, table("\n".join(rows))) for title, (settings, rows) in found.items()}


def _row(line: str) -> tuple[Any, ...]:
    told, _, said = line.partition("#")[0].partition("->")
    words: list[Any] = [int(each) if each.lstrip("-").isdigit() else each for each in told.split()]
    given = words[1:] or [None]
    return (words[0], *given, [each.strip() for each in said.split(",") if each.strip()])
