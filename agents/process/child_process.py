"""A stage's process, seen from the worker that starts it; and what the stage does for its part.

It is started in one of two ways, and is the same from then on:

* *forked* from a worker that has imported what stages need. That import takes a second of CPU,
  most of a stage's start, and the worker needs nearly all of it too. So it is done once, and the
  pages of what was imported are there once: half the memory and CPU (docs/decisions/0016).
* *spawned* as an interpreter of its own, where a fork is not safe: it takes along the thread that
  forks and no other. So a worker that has more threads (of a function of the user's, say) spawns
  its stages, as it does each that is started again, when it has a loop (`may_fork`).

SIGTERM and SIGINT are blocked in the worker from before the first fork until its loop takes
them (`SIGNALS`): a worker that ended in between would leave its stages behind.

A process is reaped by `Process.look` alone, and signalled only before that: its id stays its own.

A stage announces where it listens by one line, on a descriptor of its own (`ANNOUNCE`). Its
standard output is its standard error: what a function of the user's prints is seen beside the log,
fills no pipe that nobody reads, and is never taken for an address. It ends with its worker,
wherever it is: it imports, waits for brokers, or runs. Linux sends it SIGTERM then; elsewhere a
stage looks for its parent now and then, once it runs (`agents.process.stage_process`).
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import gc
import logging
import os
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from socket import socket
from typing import Any, Final, NoReturn

from agents.watch.last_lines import LastLines

ANNOUNCE: Final = "--announce-fd"
"""What a stage's command is given the descriptor by."""

SIGNALS: Final = frozenset({signal.SIGTERM, signal.SIGINT})
STDOUT: Final = 1
STDERR: Final = 2
KILLED_WITHIN_S: Final = 5.0
"""Who is killed and still there is left: it waits for a disk, say, and nobody can end it."""
LOOK_EVERY_S: Final = 0.01
PR_SET_PDEATHSIG: Final = 1

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

Body = Callable[[Sequence[str]], None]
"""What a forked child does with its command; SystemExit ends it as it would an interpreter."""


class NotBegun(Exception):
    """The system gave no process; the message states why, and what to do."""


class Process:
    """A child of this one. `pipe`: on which it announces where it listens. `returncode`: None until
    it was seen to have ended; negative: the signal that ended it. `was_killed`: by this process."""

    def __init__(self, pid: int, pipe: FileIO) -> None:
        self.pid = pid
        self.pipe = pipe
        self.returncode: int | None = None
        self.was_killed = False
        self._ended = asyncio.Event()

    def look(self) -> None:
        """Reap it if it has ended; due after each SIGCHLD."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
                self._ended.set()

    def is_there(self) -> bool:
        self.look()
        return self.returncode is None

    async def wait(self) -> int:
        """Until somebody has seen its end by `look`."""
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self.was_killed = True
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)


@dataclass(slots=True)
class Child:
    """One stage's process, as it is now."""

    stage: str
    command: Sequence[str]
    forked: Process | None = None
    """Its first process, where it was forked before the supervisor began."""
    process: Process | None = None
    address: str | None = None
    ready_s: float = 0.0
    """How long it was ready, in all."""
    started_s: deque[float] = field(default_factory=deque)
    """The value of `ready_s` at each of its starts."""
    silent_s: float = 0.0
    hung: str = ""
    """Why it was killed, until it has announced its port anew."""
    resident_bytes: int = 0
    """What its process had of the memory at the last look; 0: nobody knows."""
    lines: LastLines = field(default_factory=LastLines)
    """Those of its processes, the ended ones too."""
    health: dict[str, Any] = field(default_factory=lambda: {"fault": "starting"})
    """What its process last answered to `/health`, or why it did not."""

    metrics: str | None = None
    """What it last answered to `/metrics`, as text."""
    metrics_s: float = 0.0
    """When that came (monotonic)."""

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.returncode is None

    def reasons(self, path: str) -> Sequence[str]:
        """Return why this stage is not live or not ready, as `path` asks; none where it is."""
        if self.hung:
            return [self.hung]
        if "fault" in self.health:
            # A stage that is being started anew is alive; whether it gets ready is seen.
            return [self.health["fault"]] if path == "ready" else []
        found: Sequence[str] = self.health[path]["reasons"]
        return [] if self.health[path]["ok"] else found


def attend(processes: Callable[[], Iterable[Process]]) -> None:
    """From now on the loop at hand, which is the main thread's, sees their ends."""

    def look() -> None:
        for process in processes():
            process.look()

    asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, look)
    look()


def spawned(command: Sequence[str]) -> Process:
    """An interpreter of its own. NotBegun."""
    try:
        return _piped(lambda _, write: _spawn([*command, ANNOUNCE, str(write)], write))
    except OSError as error:
        remedy = REMEDIES.get(error.errno or 0, REINSTALLED)
        raise NotBegun(f"{error}; {remedy}") from error


def _spawn(words: Sequence[str], write: int) -> int:
    os.set_inheritable(write, True)  # noqa: FBT003 - positional alone
    to_stderr = [(os.POSIX_SPAWN_DUP2, STDERR, STDOUT)]
    return os.posix_spawnp(words[0], [*words], os.environ, file_actions=to_stderr, setsigmask=())


def _piped(begin: Callable[[FileIO, int], int]) -> Process:
    """The process of the id that `begin` gives when it has both ends of a pipe."""
    read, write = os.pipe()
    pipe = os.fdopen(read, "rb", 0)
    try:
        return Process(begin(pipe, write), pipe)
    except BaseException:
        pipe.close()
        raise
    finally:
        os.close(write)


def may_fork() -> bool:
    """This process has one thread, and so much is known."""
    try:
        return sum(1 for _ in Path("/proc/self/task").iterdir()) == 1
    except OSError:
        return False


@contextmanager
def forked(
    commands: Mapping[str, Sequence[str]], body: Body, sockets: Sequence[socket] = ()
) -> Iterator[dict[str, Process]]:
    """A child for each command, which does not have the `sockets`; those that live at the end are
    killed."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    gc.freeze()  # a collector that walks what is shared would write to it
    children: dict[str, Process] = {}
    try:
        for name, command in commands.items():
            leave = [each.pipe.close for each in children.values()]
            leave += [each.close for each in sockets]
            children[name] = _fork(command, body, leave)
        yield children
    finally:
        for child in children.values():
            child.kill()
        until_s = time.monotonic() + KILLED_WITHIN_S
        while any(child.is_there() for child in children.values()) and time.monotonic() < until_s:
            time.sleep(LOOK_EVERY_S)


def _fork(command: Sequence[str], body: Body, leave: Iterable[Callable[[], None]]) -> Process:
    def fork(pipe: FileIO, write: int) -> int:
        pid = os.fork()
        if pid == 0:
            for what in (pipe.close, *leave):
                what()
            os.dup2(STDERR, STDOUT)
            _be([*command, ANNOUNCE, str(write)], body)
        return pid

    sys.stdout.flush()
    sys.stderr.flush()
    return _piped(fork)


def _be(command: Sequence[str], body: Body) -> NoReturn:
    """The child. Nothing that the parent would do at its end is done here."""
    code = 1
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        body(command)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - reported as an interpreter reports it
        traceback.print_exc()
    finally:
        with suppress(Exception):
            logging.shutdown()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


async def address_line(pipe: FileIO) -> str:
    """Read the line that the stage announces; empty where the pipe ends before. Closes the pipe."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        return (await reader.readline()).decode(errors="replace").strip()
    finally:
        transport.close()


# -- in the stage ----------------------------------------------------------------------------------


def announce(descriptor: int, address: str) -> None:
    """Write the address once, and close the descriptor."""
    with os.fdopen(descriptor, "wb", 0) as pipe:
        pipe.write(f"{address}\n".encode())


def leave_with(parent: int) -> bool:
    """From now on this process gets SIGTERM when the parent ends. False: it has ended."""
    with suppress(AttributeError, OSError):  # no Linux
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    return os.getppid() == parent
