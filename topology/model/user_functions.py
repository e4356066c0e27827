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

import re
from collections.abc import Callable, Collection, Mapping
from hashlib import blake2b
from typing import Any, Final, NamedTuple

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z_0-9]{0,39}", re.ASCII)

Texts = Mapping[str, Mapping[str, str]]
"""The text of each function, by kind and name."""


class UserFunctions(NamedTuple):
    """What a user brings along, by name. `texts`: of what a file defines, with all that it needs of
    that file (`topology.config.written_functions`); what is given in code has none."""

    aggregates: Mapping[str, Any] = {}
    functions: Mapping[str, Callable[..., Any]] = {}
    detectors: Mapping[str, Any] = {}
    texts: Mapping[str, Mapping[str, str]] = {}

    def state_digest(self, names: Mapping[str, Collection[str]]) -> str:
        """Return a digest of the texts of these functions, by kind; empty if none has a text."""
        found = [
            (kind, name, self.texts[kind][name])
            for kind in sorted(names.keys() & self.texts.keys())
            for name in sorted({*names[kind]} & self.texts[kind].keys())
        ]
        return blake2b(repr(found).encode(), digest_size=16).hexdigest() if found else ""


NOTHING: Final = UserFunctions()


class BadFunctions(Exception):
    """It cannot be loaded; `remedy` says what to do."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


Bring = Callable[[str], UserFunctions]
"""Given what the topology file says behind `functions:`."""
