"""Make Python run the core from its sources, even if it is installed compiled: INORDER_PURE=1.

Python prefers a compiled module to the source beside it. If INORDER_PURE is 1, the packages
`topology` and `agents` install a finder that finds only sources, before any of their modules is
imported. The core is compiled as one unit, so all of it is replaced or none. The results are the
same. The codec has its own switch (INORDER_CODEC).
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
    """A finder for the core's sources, which runs before the finder of compiled modules."""

    @staticmethod
    def find_spec(
        name: str,
        path: Sequence[str] | None = None,
        target: object = None,  # noqa: ARG004 - as the import system calls it
    ) -> ModuleSpec | None:
        """Return the specification of a core module's source, or None for other modules.

        Args:
            name: The full name of the module.
            path: The folders of its package.
            target: Not used.
        """
        if not name.startswith(COMPILED):
            return None
        found = (_make_finder(folder).find_spec(name) for folder in path or ())
        return next((spec for spec in found if spec is not None and spec.loader is not None), None)


@cache
def _make_finder(folder: str) -> FileFinder:
    return FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES))


def install_finder() -> None:
    """Install the finder if the environment asks for it.

    Raises:
        ImportError: INORDER_PURE is neither 1 nor 0.
    """
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in {"", "0", "1"}:
        raise ImportError(f"{VARIABLE}={wanted} is not valid; write 1, 0, or nothing")
    if wanted == "1" and SourceFinder not in sys.meta_path:
        sys.meta_path.insert(0, SourceFinder)


install_finder()
