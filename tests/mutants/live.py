"""Plant a fault in the running process: loaded functions get the code of the faulty module.

Thus nothing is imported or collected again for a mutant. Values that a module computed on import
are unchanged; the functions that are drawn are called by tests.
"""

from __future__ import annotations

import ast
import builtins
import gc
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Final

from tests.mutants.plant import Mutant, planted, starts_of

HIT: Final = "__mutant_reached__"
"""The built-in function that a probe calls with its number."""


def plant(root: Path, mutant: Mutant) -> int:
    """Plant the fault, and return the number of functions that have it now."""
    path = root / mutant.module
    return _replace(path, compile(planted(path.read_bytes(), mutant), path, "exec"), [mutant])


def watch(root: Path, mutants: Iterable[Mutant]) -> set[int]:
    """Return a set that collects the numbers of the mutants whose statement runs."""
    reached: set[int] = set()
    setattr(builtins, HIT, reached.add)
    by_module: dict[str, list[tuple[int, Mutant]]] = {}
    for number, mutant in enumerate(mutants):
        by_module.setdefault(mutant.module, []).append((number, mutant))
    for module, numbered in by_module.items():
        source = (root / module).read_bytes()
        tree = ast.parse(source)
        starts = starts_of(source)
        for number, mutant in numbered:
            _probe(tree, starts, mutant.begin, number)
        code = compile(tree, root / module, "exec")
        _replace(root / module, code, [mutant for _, mutant in numbered])
    return reached


def _probe(tree: ast.AST, starts: list[int], place: int, number: int) -> None:
    """Call `HIT` before the innermost statement that contains the place."""
    found: tuple[list[ast.stmt], ast.stmt] | None = None
    blocks: list[ast.AST] = [tree]
    while blocks:
        for _, block in ast.iter_fields(blocks.pop()):
            for node in block if isinstance(block, list) else ():
                if isinstance(node, ast.ExceptHandler | ast.match_case):
                    blocks.append(node)
                if not isinstance(node, ast.stmt):
                    continue
                end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
                if starts[node.lineno - 1] + node.col_offset <= place < end:
                    blocks.append(node)
                    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                        found = block, node
    assert found is not None, f"no statement at byte {place}"
    block, node = found
    call = ast.Expr(ast.Call(ast.Name(HIT, ast.Load()), [ast.Constant(number)], []))
    block.insert(block.index(node), ast.fix_missing_locations(ast.copy_location(call, node)))


def _replace(path: Path, module: CodeType, mutants: Iterable[Mutant]) -> int:
    """Give the functions of the mutants their code in `module`; return the number of functions."""
    outermost = {mutant.function for mutant in mutants}
    new = {
        (code.co_qualname, code.co_firstlineno): code
        for code in _codes(module)
        if code.co_qualname.partition(".<locals>")[0] in outermost
    }
    done = 0
    for function in gc.get_objects():
        if not isinstance(function, FunctionType):
            continue
        old = function.__code__
        code = new.get((old.co_qualname, old.co_firstlineno))
        if code is None or Path(old.co_filename) != path or code.co_freevars != old.co_freevars:
            continue
        function.__code__ = code
        done += 1
    return done


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)
