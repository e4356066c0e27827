"""Finds the command line with which a command starts another, as `worker` starts its stages.

The same interpreter runs the file `inorder/__main__.py` next to this package, so no search can find
another program of that name. `-P` removes the working directory from later searches.
`inorder/__main__.py` searches for our packages next to `inorder`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

PROGRAM: Final = (sys.executable, "-P", str(Path(__file__).parents[1] / "inorder/__main__.py"))
