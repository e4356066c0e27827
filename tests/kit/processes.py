"""Handle servers that outlive a test run, and stop those that a killed run has left."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from cli.local.process import Process


def leave(process: Process) -> None:
    """Let the process outlive this one; `sweep` ends it."""
    child = process._child
    if child is not None and child.poll() is None:
        child.returncode = 0  # Otherwise Python warns about a child that is still running.


def sweep(root: Path) -> list[int]:
    """Kill the processes that were started below `root` and still run; return their ids.

    A process is ours if it works in the folder of its id file, because the system can reuse an id.
    """
    killed = []
    for file in _id_files(root):
        with suppress(OSError, ValueError):  # It has ended, is not ours, or has no id.
            pid = int(file.read_text())
            file.unlink()
            if Path(f"/proc/{pid}/cwd").resolve(strict=True) == file.parent.resolve():
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
    return killed


def _id_files(root: Path) -> Iterator[Path]:
    """Yield the id files below `root`.

    Running tests create and remove folders meanwhile, on which `rglob` would fail.
    """
    for folder, _, names in os.walk(root):
        yield from (Path(folder, name) for name in names if name.endswith(".pid"))
