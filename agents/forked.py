"""A stage's process, forked from one that has imported what stages need.

What a stage imports takes a second of CPU, most of its start, and the worker needs nearly all of
it too. So the worker imports it once and forks: a worker of four stages starts with a quarter of
the CPU that five interpreters take, and the pages of what was imported are there once.

A fork takes along the thread that forks and no other, so a process that has more (of a function
of the user's, say) is not forked (`may_fork`); its stages are started as interpreters of their
own, as every stage is that is started anew later, when the worker has threads and a loop.

SIGTERM and SIGINT are blocked in the worker from before the first fork until its loop takes
them (`SIGNALS`): a worker that ended in between would leave its stages behind.

Proved by: tests/agents/test_forked.py, tests/agents/test_supervisor.py
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from socket import socket
from typing import Final, NoReturn

from agents.telling import TELL

SIGNALS: Final = frozenset({signal.SIGTERM, signal.SIGINT})
STDOUT: Final = 1
STDERR: Final = 2
KILLED_WITHIN_S: Final = 5.0
"""Who is killed and still there is left: it waits for a disk, say, and nobody can end it."""

Body = Callable[[Sequence[str]], None]
"""What the child does, told its command and where to tell; SystemExit ends it as it would an
interpreter."""


class Forked:
    """As `asyncio.subprocess.Process`, once it is `attended`: `returncode`, `wait` and so on.
    `told`: the end of a pipe at which it is heard."""

    def __init__(self, pid: int, told: FileIO) -> None:
        self.pid = pid
        self.told = told
        self.returncode: int | None = None
        self._handle = os.pidfd_open(pid)
        self._ended = asyncio.Event()

    def attended(self) -> None:
        """From now on the loop at hand sees its end."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._handle, self._end_seen, loop)

    def disowned(self) -> None:
        """In a younger sibling: it holds nothing of this one open."""
        self.told.close()
        os.close(self._handle)

    def _end_seen(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.remove_reader(self._handle)
        self.reap()
        self._ended.set()

    def ends_within(self, seconds: float) -> bool:
        """Whether it has ended by then. Blocks."""
        return bool(select.select([self._handle], [], [], seconds)[0])

    def reap(self) -> None:
        """Take its end. Blocks until then."""
        _, status = os.waitpid(self.pid, 0)
        self.returncode = os.waitstatus_to_exitcode(status)
        os.close(self._handle)

    async def wait(self) -> int:
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)


def may_fork() -> bool:
    """This process has one thread, and the system tells the end of a child by a descriptor."""
    try:
        os.close(os.pidfd_open(os.getpid()))
        return sum(1 for _ in Path("/proc/self/task").iterdir()) == 1
    except (AttributeError, OSError):
        return False


@contextmanager
def forked(
    commands: Mapping[str, Sequence[str]], body: Body, sockets: Sequence[socket] = ()
) -> Iterator[dict[str, Forked]]:
    """A child for each command, which does not have the `sockets`; those that live at the end are
    killed."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    gc.freeze()  # a collector that walks what is shared would write to it
    children: dict[str, Forked] = {}
    try:
        for name, command in commands.items():
            elder = [child.disowned for child in children.values()]
            children[name] = _fork(command, body, [*elder, *(each.close for each in sockets)])
        yield children
    finally:
        for child in children.values():
            if child.returncode is None:
                child.kill()
                if child.ends_within(KILLED_WITHIN_S):
                    child.reap()


def _fork(command: Sequence[str], body: Body, leave: Iterable[Callable[[], None]]) -> Forked:
    sys.stdout.flush()
    sys.stderr.flush()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        for what in leave:
            what()
        os.dup2(STDERR, STDOUT)
        _be([*command, TELL, str(write)], body)
    os.close(write)
    return Forked(pid, os.fdopen(read, "rb", 0))


def _be(command: Sequence[str], body: Body) -> NoReturn:
    """The child. Nothing that the parent would do at its end is done here."""
    code = 1
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        body(command)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - told as an interpreter tells it
        traceback.print_exc()
    finally:
        with suppress(Exception):
            logging.shutdown()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
