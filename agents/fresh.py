"""A stage's process as an interpreter of its own, as every stage is that is started anew.

**Its end is taken by the loop's watcher and by nobody else.** asyncio's own `terminate` and `kill`
look first whether the child has ended (until Python 3.12.9 and 3.13.2), and that look takes the end
away from the watcher, which then tells 255: a graceful stop would pass for a failure, a refusal
for a crash that is worth another try. So here signals go to the child's id, and are not sent once
its end is known.

A start may fail for want of processes, memory or open files: `NotBegun` says which, and what to
do; whoever starts decides how often to try.

Proved by: tests/agents/test_fresh.py, tests/agents/test_supervisor.py
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from io import FileIO
from typing import Final

from agents.forked import STDERR
from agents.telling import TELL

NO_PROCESS: Final = "raise the limit of processes (ulimit -u, the container's) or of memory"
NO_FILE: Final = "raise the limit of open files (ulimit -n)"
REMEDIES: Final = {
    errno.EAGAIN: NO_PROCESS,
    errno.ENOMEM: NO_PROCESS,
    errno.EMFILE: NO_FILE,
    errno.ENFILE: NO_FILE,
}
REINSTALLED: Final = "was the installation moved or removed? install it anew, restart the worker"
"""For any other reason: the interpreter was there when the worker began."""


class NotBegun(Exception):
    """The system gave no process; the message says why, and what to do."""


class Fresh:
    """As `asyncio.subprocess.Process`: `returncode`, `wait` and so on."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    async def wait(self) -> int:
        return await self._process.wait()

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):  # its end was taken, and is not told yet
                os.kill(self.pid, number)


async def begun(command: Sequence[str]) -> tuple[Fresh, FileIO]:
    """The process, and where it is heard. NotBegun."""
    try:
        return await _begun(command)
    except OSError as error:
        remedy = REMEDIES.get(error.errno or 0, REINSTALLED)
        raise NotBegun(f"{error}; {remedy}") from error


async def _begun(command: Sequence[str]) -> tuple[Fresh, FileIO]:
    read, write = os.pipe()
    told = os.fdopen(read, "rb", 0)
    try:
        words = (*command, TELL, str(write))
        process = await asyncio.create_subprocess_exec(*words, stdout=STDERR, pass_fds=(write,))
    except BaseException:
        told.close()
        raise
    finally:
        os.close(write)
    return Fresh(process), told
