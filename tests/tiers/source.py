"""Reads the text of a test module: which tests it has, and which of them use seeds of the day."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from tests import ROOT
from tests.seeds import ELSEWHERE

SEEDS: Final = "tests.seeds"
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Source(NamedTuple):
    """A module's tests, by name.

    Attributes:
        tests: All functions that are tests.
        elsewhere: Those that are in neither tier.
    """

    tests: frozenset[str]
    elsewhere: frozenset[str]


def read_source(path: Path) -> Source:
    """Read a module without importing it."""
    tree = ast.parse(path.read_bytes())
    functions = [step for step in tree.body if isinstance(step, Function)]
    tests = [function for function in functions if function.name.startswith("test_")]
    marks = {
        mark for step in tree.body if "pytestmark" in _defined_names(step) for mark in _marks(step)
    }
    return Source(
        frozenset(test.name for test in tests),
        frozenset(
            test.name
            for test in tests
            if {*ELSEWHERE} & marks.union(*map(_marks_of_decorator, test.decorator_list))
        ),
    )


@cache
def find_seeded(path: Path) -> frozenset[str]:
    """Return the names of a module that use seeds of the day, tests and others.

    The use is direct, through fixtures and names of the module, or through other modules of the
    tests. Only `from` imports are followed.
    """
    tree = ast.parse(path.read_bytes())
    seeded = frozenset(_imported(tree))
    while True:
        more = {
            name
            for step in tree.body
            if seeded & _used_names(step)
            for name in _defined_names(step)
        }
        if more <= seeded:
            return seeded
        seeded |= more


def _imported(tree: ast.Module) -> Iterator[str]:
    for step in tree.body:
        if not isinstance(step, ast.ImportFrom) or not (step.module or "").startswith("tests"):
            continue
        module = step.module or ""
        path = ROOT / f"{module.replace('.', '/')}.py"
        for alias in step.names:
            is_seeds = SEEDS in (module, f"{module}.{alias.name}")
            if is_seeds or (path.exists() and alias.name in find_seeded(path)):
                yield alias.asname or alias.name


def _defined_names(step: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement of a module defines."""
    if isinstance(step, Function | ast.ClassDef):
        yield step.name
        return
    for node in ast.walk(step):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _used_names(step: ast.stmt) -> frozenset[str]:
    """Return the names that a statement uses, those of fixtures among them."""
    parameters = frozenset(node.arg for node in ast.walk(step) if isinstance(node, ast.arg))
    return parameters.union(node.id for node in ast.walk(step) if isinstance(node, ast.Name))


def _marks(step: ast.stmt) -> Iterator[str]:
    return (node.attr for node in ast.walk(step) if isinstance(node, ast.Attribute))


def _marks_of_decorator(decorator: ast.expr) -> set[str]:
    """Return the mark of the decorator itself: those of its cases are not the function's."""
    mark = decorator.func if isinstance(decorator, ast.Call) else decorator
    return {mark.attr} if isinstance(mark, ast.Attribute) else set()
