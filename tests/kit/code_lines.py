"""Counts lines of code: no blank lines, comments or docstrings."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path
from typing import Final

LAYOUT: Final = frozenset(
    {
        tokenize.COMMENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
        tokenize.INDENT,
        tokenize.NEWLINE,
        tokenize.NL,
    }
)


def of_room(room: Path) -> int:
    """Lines of code of the Python and Cython modules below a folder, or of one module."""
    modules = [room] if room.is_file() else [*room.rglob("*.py"), *room.rglob("*.pyx")]
    return sum(of_module(path) for path in modules if "build" not in path.parts)


def of_module(path: Path) -> int:
    """Lines that hold a token of code. Docstrings count in Cython, which Python cannot parse."""
    text = path.read_text()
    if path.suffix == ".pyx":
        lines = (line.strip() for line in text.splitlines())
        return sum(bool(line) and not line.startswith("#") for line in lines)
    code = {
        number
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in LAYOUT
        for number in range(token.start[0], token.end[0] + 1)
    }
    return len(code - _docstring_lines(text))


def _docstring_lines(text: str) -> set[int]:
    """Lines of texts that stand alone as a statement."""
    return {
        number
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
