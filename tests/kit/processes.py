"""Servers that outlive a test run, and the end of those that a killed one has left."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from cli.local.process import Process


def leave(process: Process) -> None:
    """Let it run on when this process ends; `sweep` ends it."""
    child = process._child
    if child is not None and child.poll() is None:
        child.returncode = 0  # else Python warns of a child that is still running


def sweep(root: Path) -> list[int]:
    """Kill what was started below `root` and is still there; the ids of it.

    A process is ours if it works in the folder of its id file: an id alone may
    have been given to somebody else since.
    """
    killed = []
    for file in _id_files(root):
        with suppress(OSError, ValueError):  # ended, not ours, or no file of an id alone
            pid = int(file.read_text())
            file.unlink()
            if Path(f"/proc/{pid}/cwd").resolve(strict=True) == file.parent.resolve():
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
    return killed


def _id_files(root: Path) -> Iterator[Path]:
    """Those who still run make and remove folders meanwhile, over which `rglob` would fail."""
    for folder, _, names in os.walk(root):
        yield from (Path(folder, name) for name in names if name.endswith(".pid"))
