"""Show tables of figures in the terminal, and also write them as Markdown.

A cell is text. The functions below format numbers so that columns are easy to compare. Times are in
ms with three significant digits, shares are in per cent, and large counts have groups separated by
thin spaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table as RichTable

NS_PER_MS: Final = 1e6
WIDTH_CHARS: Final = 160
"""The width of a page if the output is a pipe, which has no width."""


@dataclass(slots=True)
class Table:
    """A table with `columns` and `rows` of equal length; the first column names the row."""

    title: str
    columns: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    note: str = ""

    def add(self, *cells: str) -> None:
        if len(cells) != len(self.columns):
            raise ValueError(f"{self.title}: {len(cells)} cells for {len(self.columns)} columns")
        self.rows.append(cells)

    def print(self, columns: Sequence[str], known: Mapping[str, Sequence[float]]) -> Table:
        """Add columns with a paper's figures for the named rows, and return the table."""
        self.columns = (*self.columns, *columns)
        for at, row in enumerate(self.rows):
            figures = [f"{figure:,.2f}".replace(",", " ") for figure in known.get(row[0], ())]
            self.rows[at] = (*row, *(figures or [""] * len(columns)))
        return self

    def markdown(self) -> str:
        lines = [f"### {self.title}", ""]
        lines.append(_line(self.columns))
        lines.append(_line(["---"] + ["---:"] * (len(self.columns) - 1)))
        lines += [_line(row) for row in self.rows]
        if self.note:
            lines += ["", self.note]
        return "\n".join(lines) + "\n"

    def rich(self) -> RichTable:
        shown = RichTable(title=self.title, title_justify="left", caption=self.note or None)
        for at, column in enumerate(self.columns):
            shown.add_column(column, justify="left" if at == 0 else "right", no_wrap=at == 0)
        for row in self.rows:
            shown.add_row(*row)
        return shown


class Page:
    """The output of a benchmark: the terminal, and a Markdown file if one is given."""

    def __init__(self, markdown: Path | None = None) -> None:
        self._console = Console()
        if not self._console.is_terminal:
            self._console = Console(width=WIDTH_CHARS)
        self._markdown = markdown

    def table(self, table: Table) -> None:
        self._console.print(table.rich())
        self._write(table.markdown())

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False)

    def _write(self, text: str) -> None:
        if self._markdown is not None:
            with self._markdown.open("a", encoding="utf-8") as file:
                file.write(text + "\n")


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def format_ms(ns: float) -> str:
    """Format a time in ms, to three significant digits but not finer than a microsecond."""
    value = ns / NS_PER_MS
    if value == 0:
        return "0"
    digits = 3 if value < 1 else 2 if value < 100 else 1 if value < 1000 else 0
    return f"{value:,.{digits}f}".replace(",", " ")


def format_us(ns: float) -> str:
    return count(ns / 1e3) if ns >= 1e5 else f"{ns / 1e3:.1f}"


def format_share(part: float, whole: float) -> str:
    """Format `part` of `whole` in per cent, with as many digits as a small share needs."""
    if not whole:
        return "-"
    percent = 100 * part / whole
    if percent == 0:
        return "0"
    return f"{percent:.3f}" if percent < 0.1 else f"{percent:.2f}"


def count(number: float) -> str:
    return f"{number:,.0f}".replace(",", " ")


def format_rate(number: float) -> str:
    """Format a rate: 123 456 is `123 k`, 1 234 567 is `1.23 M`."""
    if number >= 1e6:
        return f"{number / 1e6:.2f} M"
    if number >= 1e4:
        return f"{number / 1e3:.0f} k"
    return f"{number / 1e3:.1f} k"
