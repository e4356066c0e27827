"""Count lines of code, without blank lines, comments and docstrings."""

from __future__ import annotations

import ast
from pathlib import Path


def of_room(room: Path) -> int:
    """Return the lines of code in Python and Cython modules below a folder, or in one module."""
    modules = [room] if room.is_file() else [*room.rglob("*.py"), *room.rglob("*.pyx")]
    return sum(of_module(path) for path in modules if "build" not in path.parts)


def of_module(path: Path) -> int:
    """Return the number of lines with code.

    In Cython modules docstrings count as code, because Python cannot parse them.
    """
    text = path.read_text()
    lines = enumerate((line.strip() for line in text.splitlines()), 1)
    code = {number for number, line in lines if line and not line.startswith("#")}
    if path.suffix == ".pyx":
        return len(code)
    texts, docstrings = _texts(ast.parse(text))
    return len((code | texts) - docstrings)


def _texts(module: ast.Module) -> tuple[set[int], set[int]]:
    """Return the lines of all string literals, and of those that are whole statements."""
    texts, docstrings = set[int](), set[int]()
    for node in ast.walk(module):
        if isinstance(node, ast.JoinedStr | ast.Constant):
            texts.update(_lines(node))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            docstrings.update(_lines(node) if isinstance(node.value.value, str) else ())
    return texts, docstrings


def _lines(node: ast.expr | ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)
