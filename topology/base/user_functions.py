"""Defines what a user provides in Python: aggregates, functions for patterns, and detectors.

`functions: formulas.py` in the topology file names a Python file in the same folder. This file
defines one or more of

    aggregates = {"spread": Function(init, add, combine, value)}  # of inorder.engine
    functions = {"distance": distance}                     # takes values, returns a value
    detectors = {"stops": Detector(step, initial)}         # or a class

The program that reads the topology file loads it (`agents.user_functions`). This module imports no
user code. A call that raises an exception is counted (`failed`). Its value is null, or is left out
of the aggregate.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from hashlib import blake2b
from typing import Any, Final, NamedTuple

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z_0-9]{0,39}", re.ASCII)

Texts = Mapping[str, Mapping[str, str]]
"""The source text of each function, by kind and name."""


class UserFunctions(NamedTuple):
    """The functions that a user provides, by name.

    `texts` has the source text of each function that was read from a file, with all definitions
    that it needs (`topology.config.written_functions`). A function given in code has no text.
    """

    aggregates: Mapping[str, Any] = {}
    functions: Mapping[str, Callable[..., Any]] = {}
    detectors: Mapping[str, Any] = {}
    texts: Mapping[str, Mapping[str, str]] = {}

    def state_digest(self, names: Mapping[str, Collection[str]]) -> str:
        """Return a digest of the source texts of these functions by kind; "" if none has a text."""
        found = [
            (kind, name, self.texts[kind][name])
            for kind in sorted(names.keys() & self.texts.keys())
            for name in sorted({*names[kind]} & self.texts[kind].keys())
        ]
        return blake2b(repr(found).encode(), digest_size=16).hexdigest() if found else ""


NOTHING: Final = UserFunctions()


class BadFunctions(Exception):
    """The error for functions that cannot be loaded; `remedy` describes what to do."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


Bring = Callable[[str], UserFunctions]
"""A function that loads the functions file from the path that the topology file gives."""
