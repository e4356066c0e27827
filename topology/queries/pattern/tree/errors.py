"""Collects the errors of a query, and shows each with its place and a remedy.

A `QueryError` describes one error. `QueryRefused` is the exception that has all errors of a query,
at most `MAX_ERRORS`, in the order of the text. Its message shows each error with the line that
contains it:

    error[E_ALIAS_UNKNOWN]: no component is called `c`
      --> line 2, column 7
       |
     2 | WHERE c.x > 3
       |       ^
       = help: did you mean `e`?

Lines and columns count from 1; columns and lengths are in characters. A query that was not read
from text has line 0, and its errors are shown without a line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from topology.queries.pattern.tree.syntax import Span

MAX_ERRORS: Final = 20
"""The maximum number of errors that are reported, and also of warnings.

The first ones in the text are reported. The others appear once these are corrected.
"""

MAX_FOUND: Final = 200
"""The maximum number of errors and warnings that are collected."""

SHOWN_CHARS: Final = 100
"""The maximum number of characters of a query's line that an error shows."""

MAX_WORD: Final = 60
"""The maximum number of characters of a wrong word that a message shows."""


@dataclass(frozen=True, slots=True)
class QueryError:
    """An error or a warning about a query.

    A `code` that begins with `E_` refuses the query; one that begins with `W_` only warns.
    docs/reference/pattern_grammar.md lists the codes. `hint` is a remedy, or an empty string.
    """

    code: str
    line: int
    column: int
    length: int
    message: str
    hint: str = ""

    def __str__(self) -> str:
        place = f" (line {self.line}, column {self.column})" if self.line else ""
        hint = f"; {self.hint}" if self.hint else ""
        return f"{self.code}{place}: {self.message}{hint}"

    @property
    def is_warning(self) -> bool:
        return self.code.startswith("W_")


class QueryRefused(ValueError):
    """The exception for a query with errors. `errors` contains at least one."""

    def __init__(
        self,
        errors: Sequence[QueryError],
        warnings: Sequence[QueryError] = (),
        text: str = "",
    ) -> None:
        self.errors = list(errors)
        self.warnings = list(warnings)
        self.text = text
        super().__init__("\n".join(map(str, self.errors)))

    def __str__(self) -> str:
        return format_errors(self.errors, self.text)


class Findings:
    """A collector of errors and warnings, which drops duplicates."""

    def __init__(self) -> None:
        self._found: list[QueryError] = []

    def add(self, code: str, span: Span, message: str, hint: str = "") -> None:
        error = QueryError(code, span.line, span.column, span.length, message, hint)
        if len(self._found) < MAX_FOUND and error not in self._found:
            self._found.append(error)

    def report_too_deep(self, span: Span, levels: int) -> None:
        message = f"the query is nested deeper than {levels} levels"
        self.add("E_TOO_LARGE", span, message, "split it into parts")

    def report_repeated_names(
        self, kind: str, named: Iterable[tuple[str, Span]], hint: str = "rename one of them"
    ) -> None:
        """Report an error for each name that an earlier one equals."""
        seen: set[str] = set()
        for name, span in named:
            if name in seen:
                self.add("E_ALIAS_TWICE", span, f"two {kind} are called `{shorten(name)}`", hint)
            seen.add(name)

    @property
    def errors(self) -> list[QueryError]:
        return self._select(is_warning=False)

    @property
    def warnings(self) -> list[QueryError]:
        return self._select(is_warning=True)

    def _select(self, *, is_warning: bool) -> list[QueryError]:
        found = [error for error in self._found if error.is_warning is is_warning]
        return sorted(found, key=lambda error: (error.line, error.column))[:MAX_ERRORS]

    def raise_errors(self, text: str) -> None:
        """Raise QueryRefused if any of the findings is an error."""
        if self.errors:
            raise QueryRefused(self.errors, self.warnings, text)


def format_errors(errors: Iterable[QueryError], text: str = "") -> str:
    """Return errors or warnings in readable form, each with its line of `text`."""
    lines = text.split("\n")
    return "\n\n".join(_format(error, lines) for error in errors)


def _format(error: QueryError, lines: Sequence[str]) -> str:
    kind = "warning" if error.is_warning else "error"
    shown = [f"{kind}[{error.code}]: {error.message}"]
    margin = ""
    if 0 < error.line <= len(lines):
        number = str(error.line)
        margin = " " * len(number)
        line, caret = _make_excerpt(lines[error.line - 1], error.column - 1, error.length)
        shown += [
            f"{margin} --> line {error.line}, column {error.column}",
            f"{margin}  |",
            f" {number} | {line}",
            f"{margin}  | {caret}",
        ]
    if error.hint:
        shown.append(f"{margin}  = help: {error.hint}")
    return "\n".join(shown)


def _make_excerpt(line: str, start: int, length: int) -> tuple[str, str]:
    """Return an excerpt of a line around the error, and the carets to print below it."""
    line = "".join(each if each.isprintable() else " " for each in line)
    first = max(0, start - SHOWN_CHARS * 2 // 3) if len(line) > SHOWN_CHARS else 0
    part = line[first : first + SHOWN_CHARS]
    before = "..." if first else ""
    after = "..." if first + SHOWN_CHARS < len(line) else ""
    count = max(1, min(length, first + len(part) - start))
    caret = " " * (len(before) + start - first) + "^" * count
    return (before + part + after).rstrip(), caret


def find_nearest(word: str, known: Iterable[str]) -> str:
    """Return the known word that the user probably meant, or an empty string."""
    if len(word) > MAX_WORD:
        return ""
    by_lower = {each.lower(): each for each in known}
    close = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.65)
    return by_lower[close[0]] if close else ""


def suggest(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return a hint for an unknown word: the known word that the user probably meant.

    If no known word is near, return `otherwise`. If that is empty, list the known words, unless
    there are more than 12.
    """
    every = sorted(known)
    close = find_nearest(word, every)
    if close:
        return f"did you mean `{close}`?"
    if otherwise:
        return otherwise
    return "known: " + ", ".join(f"`{each}`" for each in every) if 0 < len(every) <= 12 else ""


def shorten(word: str) -> str:
    """Return a word as messages show it: printable, and cut after MAX_WORD characters."""
    plain = "".join(each if each.isprintable() else " " for each in word)
    return plain if len(plain) <= MAX_WORD else f"{plain[:MAX_WORD]}..."
