"""A stage leaves with its supervisor, wherever it stands: it imports, waits for brokers, or runs.

Linux sends SIGTERM to a child whose parent has ended, if it has asked for that. Elsewhere a stage
looks for its parent now and then, once it runs (`agents.process`).

Proved by: tests/agents/test_forked.py
"""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress
from typing import Final

PR_SET_PDEATHSIG: Final = 1


def leave_with(parent: int) -> bool:
    """From now on this process is told to stop when the parent ends. False: it has ended."""
    with suppress(AttributeError, OSError):  # no Linux
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    return os.getppid() == parent
