"""What a user brings along in Python, by name: aggregates, functions for patterns, detectors.

`functions: formulas.py` in the topology file names a file beside it. It defines one or more of

    aggregates = {"spread": Function(init, add, combine, value)}  # of inorder.engine
    functions = {"distance": distance}                     # of values, giving a value
    detectors = {"stops": Detector(step, initial)}         # or a class

Whoever reads the file loads it (`agents.user_functions`): nothing here imports what a user wrote.
A function that raises is counted (`failed`), and what it was asked for is null, or left out of the
aggregate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple


class UserFunctions(NamedTuple):
    """By name."""

    aggregates: Mapping[str, Any] = {}
    functions: Mapping[str, Callable[..., Any]] = {}
    detectors: Mapping[str, Any] = {}


NOTHING: Final = UserFunctions()


class BadFunctions(Exception):
    """It cannot be loaded; `remedy` says what to do."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


Bring = Callable[[str], UserFunctions]
"""Given what the topology file says behind `functions:`."""
