"""How a command starts another one of ours, as `worker` starts its stages.

`-P` leaves the working directory out of the search for modules: a `cli.py` or an `agents/`
that lies there belongs to somebody else, and would run with the worker's environment and
the passwords in it. What is started is the installed `inorder`, by the same interpreter.
"""

from __future__ import annotations

import sys
from typing import Final

PROGRAM: Final = (sys.executable, "-P", "-m", "cli")
