"""Find the places where a fault can be planted, and plant one.

There are five kinds of faults:

* a comparison that wrongly includes or excludes its bound,

* a bound that is one off or on the wrong side,

* a branch that is dropped,

* two arguments that are swapped,

* a change of state that is not noted for the next checkpoint.

A mutant is named by its module, function, kind, text and place among equals. So a change elsewhere
in the module does not rename it. The draw uses a hash of the name, so it stays mostly the same when
the tree changes.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Final, NamedTuple

COMPARISONS: Final = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}
OTHER_SIDE: Final = {"min": "max", "max": "min"}
NOTES: Final = frozenset({"changed", "mark", "note", "touch"})
"""Methods that note a change for the next checkpoint."""

KINDS: Final = {"comparison": 60, "bound": 50, "branch": 50, "arguments": 20, "note": 20}
"""The kinds, each with its share of 200 mutants."""


class Mutant(NamedTuple):
    """A fault to plant: `after` replaces the bytes `begin`..`end` of the module."""

    name: str
    kind: str
    module: str
    function: str
    """The `__qualname__` of the outermost function that contains the place."""

    begin: int
    end: int
    after: str


def starts_of(source: bytes) -> list[int]:
    """Return the byte at which each line starts, and the end."""
    return list(accumulate(map(len, source.splitlines(keepends=True)), initial=0))


class Finder(ast.NodeVisitor):
    """A visitor that collects the mutants of a module.

    Each mutant is (kind, enclosing names, outermost function, begin, end, before, after).
    """

    def __init__(self, source: bytes) -> None:
        self.found: list[tuple[str, str, str, int, int, str, str]] = []
        self._source = source
        self._starts = starts_of(source)
        self._within: list[str] = []
        self._outermost = ""

    def begin(self, node: ast.expr | ast.stmt) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._starts[node.end_lineno - 1] + node.end_col_offset

    def _add(self, kind: str, begin: int, end: int, after: str) -> None:
        if self._within:
            before = " ".join(self._source[begin:end].decode().split())
            within = ".".join(self._within)
            self.found.append((kind, within, self._outermost, begin, end, before, after))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._enter(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._enter(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._within.append(node.name)
        for step in node.body:
            if isinstance(step, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self.visit(step)
        self._within.pop()

    def _enter(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Visit only the body: annotations and defaults are no place for a fault."""
        outermost = self._outermost
        self._within.append(node.name)
        self._outermost = outermost or ".".join(self._within)
        for step in node.body:
            self.visit(step)
        self._within.pop()
        self._outermost = outermost

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        for left, sign, right in zip(sides, node.ops, node.comparators, strict=False):
            if type(sign) in COMPARISONS:
                before, after = COMPARISONS[type(sign)]
                begin = self._source.index(before.encode(), self.end(left), self.begin(right))
                self._add("comparison", begin, begin + len(before), after)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if type(node.value) is int:
            self._add("bound", self.begin(node), self.end(node), str(node.value + 1))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave f-strings unchanged."""

    def visit_Raise(self, node: ast.Raise) -> None:
        """Leave error messages unchanged."""

    def visit_If(self, node: ast.If) -> None:
        self._add("branch", self.begin(node.test), self.end(node.test), "False")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in OTHER_SIDE:
            self._add("bound", self.begin(node), self.end(node.func), OTHER_SIDE[node.func.id])
        if len(node.args) > 1 and not any(isinstance(one, ast.Starred) for one in node.args[:2]):
            first, second = node.args[:2]
            texts = [
                self._source[self.begin(one) : self.end(one)].decode() for one in (second, first)
            ]
            if texts[0] != texts[1]:
                self._add("arguments", self.begin(first), self.end(second), ", ".join(texts))
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        call = node.value
        method = call.func if isinstance(call, ast.Call) else None
        if isinstance(method, ast.Attribute) and method.attr in NOTES:
            self._add("note", self.begin(node), self.end(node), "pass")
        self.generic_visit(node)


def mutants_of(module: str, source: bytes) -> Iterator[Mutant]:
    """Yield all mutants of a module, in source order."""
    finder = Finder(source)
    finder.visit(ast.parse(source))
    seen: Counter[str] = Counter()
    for kind, within, function, begin, end, before, after in finder.found:
        name = f"{module}::{within} {kind}: {before} -> {' '.join(after.split())}"
        seen[name] += 1
        place = f" ({seen[name]})" if seen[name] > 1 else ""
        yield Mutant(name + place, kind, module, function, begin, end, after)


def planted(source: bytes, mutant: Mutant) -> bytes:
    """Return the module with the fault in it."""
    return source[: mutant.begin] + mutant.after.encode() + source[mutant.end :]


def drawn(root: Path, rooms: Sequence[str], seed: int, part: int = 1) -> list[Mutant]:
    """Draw the packages' mutants: `KINDS` of each kind, or one in `part` of them, mixed."""
    found = [
        mutant
        for room in rooms
        for path in sorted((root / room).rglob("*.py"))
        for mutant in mutants_of(str(path.relative_to(root)), path.read_bytes())
    ]
    found = mix(found, seed)
    chosen = [
        each
        for kind, count in KINDS.items()
        for each in [mutant for mutant in found if mutant.kind == kind][: count // part]
    ]
    return sorted(chosen, key=found.index)


def mix(mutants: Sequence[Mutant], seed: int) -> list[Mutant]:
    """Return the mutants ordered by a hash of the seed and the name."""
    return sorted(mutants, key=lambda each: hashlib.sha256(f"{seed} {each.name}".encode()).digest())
