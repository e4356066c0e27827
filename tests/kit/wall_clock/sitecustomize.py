"""Sets the wall clock of a Python process off by what a file says, while it runs.

It is imported at the start of each process that has this folder on PYTHONPATH. The file of
INORDER_TEST_WALL_CLOCK has the seconds. The monotonic clock stays as it is.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

_FILE: Final = Path(os.environ["INORDER_TEST_WALL_CLOCK"])
_true_ns = time.time_ns


def _time_ns() -> int:
    return _true_ns() + int(_FILE.read_text() or 0) * 1_000_000_000


def _time() -> float:
    return _time_ns() / 1e9


time.time_ns = _time_ns
time.time = _time
