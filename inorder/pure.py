"""Has the core run in Python where it is installed compiled: INORDER_PURE=1.

Python takes a compiled module before the source beside it. Where INORDER_PURE is 1, the packages
`topology` and `agents` have a finder put in front that knows sources alone, before any of their
modules is imported: the core is compiled as one, so all of it is taken or none. The answers are the
same. The codec has a switch of its own (INORDER_CODEC).
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

COMPILED: Final = ("topology.", "agents.")
VARIABLE: Final = "INORDER_PURE"


class SourceFinder:
    """A finder of the core's sources, asked before the one that takes what is compiled."""

    @staticmethod
    def find_spec(
        name: str,
        path: Sequence[str] | None = None,
        target: object = None,  # noqa: ARG004 - as the import system calls it
    ) -> ModuleSpec | None:
        """Return the source of a module of the core, or None, and others are asked."""
        if not name.startswith(COMPILED):
            return None
        found = (_sources(folder).find_spec(name) for folder in path or ())
        return next((spec for spec in found if spec is not None and spec.loader is not None), None)


@cache
def _sources(folder: str) -> FileFinder:
    return FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES))


def heed() -> None:
    """Put the finder in front where the environment asks for it.

    Raises:
        ImportError: INORDER_PURE is neither 1 nor 0.
    """
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in {"", "0", "1"}:
        raise ImportError(f"{VARIABLE}={wanted} means nothing; write 1, 0, or nothing")
    if wanted == "1" and SourceFinder not in sys.meta_path:
        sys.meta_path.insert(0, SourceFinder)


heed()
