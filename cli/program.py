"""How a command starts another one of ours, as `worker` starts its stages.

By the file of the module `inorder_engine` that belongs to this one, and the same interpreter: no
search for a name can end at somebody else's. `-P` leaves the working directory out of the searches
that follow, and `inorder_engine` finds our own rooms beside itself.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

PROGRAM: Final = (sys.executable, "-P", str(Path(__file__).parents[1] / "inorder_engine.py"))
