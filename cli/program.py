"""How a command starts another one of ours, as `worker` starts its stages.

It runs the file `inorder/__main__.py` that lies beside this package, by the same interpreter: no
search for a name can end at somebody else's. `-P` leaves the working directory out of the searches
that follow, and `inorder/__main__.py` looks for our own packages beside `inorder`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

PROGRAM: Final = (sys.executable, "-P", str(Path(__file__).parents[1] / "inorder/__main__.py"))
