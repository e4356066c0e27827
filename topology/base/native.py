"""Provides `mypyc_attr`, a class decorator for the compiled build that does nothing in Python.

Type checkers, including mypyc, see the `mypyc_attr` of mypy_extensions. This module itself is not
compiled, so mypy_extensions need not be installed when the code runs.

A class with `acyclic=True` is never part of a reference cycle, so the garbage collector of a
compiled build does not visit its objects. A cycle of them would never be freed
(tests/inorder/test_dropped_ordering.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

__all__ = ["mypyc_attr"]

T = TypeVar("T")

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr
else:

    def mypyc_attr(**_: bool) -> Callable[[type[T]], type[T]]:
        return lambda made: made
