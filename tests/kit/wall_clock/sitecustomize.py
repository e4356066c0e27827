"""Shift the wall clock of a running Python process by the seconds in a file.

Each process with this folder on PYTHONPATH imports this module at its start.
INORDER_TEST_WALL_CLOCK names the file. The monotonic clock is unchanged.
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
