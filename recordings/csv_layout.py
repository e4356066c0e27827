"""Describe the place of the column names in a CSV file, and find out the probable one.

Programs of machines write CSV without a line of names, or with lines about the export before it. A
user states that by `--header` and `--skip-lines`; messages show the options that fit the file.
"""

from __future__ import annotations

import csv
import re
import shlex
from collections import Counter
from string import ascii_lowercase
from typing import Final, NamedTuple

DELIMITERS: Final = (",", ";", "\t", "|")
"""The separators of CSV; the first of these that the first line contains is used."""

_VALUE: Final = re.compile(
    r"\s*([+-]?[0-9]+([.,][0-9]+)?([eE][+-]?[0-9]+)?|[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].*)?)\s*"
)
"""Matches a number or a date, which is seldom the name of a column."""


class CsvLayout(NamedTuple):
    """The layout of a CSV file as a user states it.

    Attributes:
        skip_lines: The number of lines before the line of names, or before the rows.
        header: The names of the columns; if empty, the file has a line of names.
    """

    skip_lines: int = 0
    header: tuple[str, ...] = ()

    def options(self) -> str:
        """Return the options of the layout, each after a space."""
        skip = f" --skip-lines {self.skip_lines}" if self.skip_lines else ""
        return skip + (f" --header {shlex.quote(','.join(self.header))}" if self.header else "")


AS_USUAL: Final = CsvLayout()


def remedy_for(head: bytes, is_whole: bool, layout: CsvLayout = AS_USUAL) -> str | None:
    """Return which options fit the beginning of a file better than its layout; None if none do.

    Args:
        head: The first bytes of the file.
        is_whole: Whether the file has no more bytes, so that the last line is whole.
        layout: The layout by which the file would be read.
    """
    if layout.header:
        return None
    lines = head.decode("utf-8-sig", "replace").splitlines()
    lines = lines[layout.skip_lines : None if is_whole else -1]
    tables = [_table(lines, delimiter) for delimiter in DELIMITERS]
    count, width, begin, first = max(tables, key=lambda each: each[0])
    if not count:
        return None
    has_names = not any(map(_VALUE.fullmatch, first))
    if begin == 0 and has_names:
        return None
    skip = layout.skip_lines + begin
    asked = CsvLayout(skip, () if has_names else tuple(ascii_lowercase[:width]))
    if has_names:
        return f"its column names are in line {skip + 1}: add{asked.options()}"
    what = f"line {skip + 1} has values, and no line has the names of the columns: add"
    if width > len(ascii_lowercase):
        return f"{what} --header with a name for each of its {width} columns"
    return f"{what}{asked.options()}, with names of your own for its {width} columns"


def _table(lines: list[str], delimiter: str) -> tuple[int, int, int, list[str]]:
    """Return how many lines have the commonest number of cells, that number, and the first one.

    The first of these lines is given by its position and its cells. Lines of one cell do not count.
    """
    rows = [_split_cells(line, delimiter) for line in lines]
    widths = Counter(len(row) for row in rows if len(row) > 1)
    if not widths:
        return 0, 0, 0, []
    width, count = widths.most_common(1)[0]
    begin = next(at for at, row in enumerate(rows) if len(row) == width)
    return count, width, begin, rows[begin]


def _split_cells(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return []
