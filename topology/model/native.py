"""Provides `mypyc_attr`, which marks a class for the compiled build and does nothing in Python.

mypyc reads `mypyc_attr` of mypy_extensions where types are checked. This module itself is not
compiled, so it needs nothing installed when the code runs.
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
