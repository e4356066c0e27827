"""Starts the stages' processes from the worker.

It also has the functions with which a stage announces its address and ends with its worker.

A process is started in one of two ways, and behaves the same from then on:

* *Forked* from a worker that has imported the stages' modules. That import takes a second of CPU,
  most of a stage's start, and the worker needs nearly all of these modules too. So they are
  imported once, and their memory pages are shared: half the memory and CPU (docs/decisions/0016).
* *Spawned* as a separate interpreter, if a fork is not safe: it copies only the thread that forks.
  So a worker with more threads (of a user's function, for example) spawns its stages (`can_fork`).
  Each restart is spawned too, because the worker has an event loop by then.

SIGTERM and SIGINT are blocked in the worker from before the first fork until its event loop handles
them (`SIGNALS`). So the worker can always stop its stages in order.

Only `Process.reap` reaps a process, and signals are sent only before that, so the process id cannot
belong to another process.

A stage announces its address by one line, on a separate descriptor (`ANNOUNCE`). Its standard
output goes to its standard error. So the output of a user's function appears next to the log, fills
no unread pipe, and is never taken for an address.

On Linux, the kernel sends a stage SIGTERM when its worker ends, even while the stage imports or
waits for brokers (`end_with_parent`). On other systems, a running stage regularly checks that its
parent still exists (`agents.process.stage_process`).
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
"""Option of a stage's command; its value is the number of the descriptor for the address."""

SIGNALS: Final = frozenset({signal.SIGTERM, signal.SIGINT})
STDOUT: Final = 1
STDERR: Final = 2
KILLED_WITHIN_S: Final = 5.0
"""Time within which a process ends after SIGKILL, unless it waits for a disk, for example."""
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
REINSTALLED: Final = "was the installation moved or removed? install it again, restart the worker"
"""The remedy for any other error, because the interpreter existed when the worker began."""

Body = Callable[[Sequence[str]], None]
"""The code that a forked child runs, given its command; SystemExit sets the child's exit code."""


class NotBegun(Exception):
    """The system could not start a process; the message states the reason and the remedy."""


class Process:
    """A child process of the worker.

    It announces its address on `pipe`. `returncode` is None until `reap_all` has seen the process
    end, and negative for the signal that ended it. `was_killed` says whether this worker killed it.
    """

    def __init__(self, pid: int, pipe: FileIO) -> None:
        self.pid = pid
        self.pipe = pipe
        self.returncode: int | None = None
        self.was_killed = False
        self._ended = asyncio.Event()

    def reap(self) -> None:
        """Reap the process if it has ended; call this after each SIGCHLD."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
                self._ended.set()

    def is_running(self) -> bool:
        self.reap()
        return self.returncode is None

    async def wait(self) -> int:
        """Wait until `reap_all` has seen the process end, and return its exit code."""
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


def processor_s(pid: int) -> float:
    """Return the processor time of a process in seconds; 0 if it has ended, or outside Linux."""
    with suppress(OSError, ValueError, IndexError):
        # The name of the program, in brackets, may contain spaces.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


@dataclass(slots=True)
class Child:
    """The current process of one stage, with the stage's last answers."""

    stage: str
    command: Sequence[str]
    forked: Process | None = None
    """The stage's first process, if it was forked before the supervisor began."""
    process: Process | None = None
    address: str | None = None
    ready_s: float = 0.0
    """Total time for which the stage was ready, in seconds."""
    started_s: deque[float] = field(default_factory=deque)
    """The value of `ready_s` at each of the stage's starts."""
    silent_s: float = 0.0
    """Time since its last answer."""
    idle_s: float = 0.0
    """The part of that time in which it did not compute."""
    cpu_s: float = 0.0
    """Processor time of the process at the last call of `has_computed`."""
    hung: str = ""
    """The reason why the process was killed; "" again when the next one announces its address."""
    ended: str = ""
    """How the last process ended; "" once the next one answers."""
    resident_bytes: int = 0
    """Resident memory of the process at the last check; 0 if unknown."""
    lines: LastLines = field(default_factory=LastLines)
    """Last log lines of the stage's processes, including ended ones."""
    health: dict[str, Any] = field(default_factory=lambda: {"fault": "starting"})
    """The last answer of the process to `/health`, or the reason why it gave none."""

    metrics: str | None = None
    """The last answer of the process to `/metrics`, as text."""
    metrics_s: float = 0.0
    """Monotonic time of that answer, in seconds."""

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.returncode is None

    def has_computed(self, least_s: float) -> bool:
        """Return whether the process took this much processor time since the last call."""
        assert self.process is not None
        before_s, self.cpu_s = self.cpu_s, processor_s(self.process.pid)
        return self.cpu_s - before_s >= least_s

    def reasons(self, path: str) -> Sequence[str]:
        """Return why this stage is not live or not ready (`path` says which); empty if it is."""
        if self.hung:
            return [self.hung]
        if "fault" in self.health:
            # A restarting stage is alive; later answers show whether it becomes ready.
            fault = self.health["fault"] + (f", after {self.ended}" if self.ended else "")
            return [fault] if path == "ready" else []
        found: Sequence[str] = self.health[path]["reasons"]
        return [] if self.health[path]["ok"] else found


def watch_children(processes: Callable[[], Iterable[Process]]) -> None:
    """Make the running loop, in the main thread, call `reap_all` whenever a child process ends."""

    def reap_all() -> None:
        for process in processes():
            process.reap()

    asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, reap_all)
    reap_all()


def spawn(command: Sequence[str]) -> Process:
    """Start a separate interpreter for the command; raise NotBegun if the system cannot."""
    try:
        return _start_with_pipe(lambda _, write: _spawn([*command, ANNOUNCE, str(write)], write))
    except OSError as error:
        remedy = REMEDIES.get(error.errno or 0, REINSTALLED)
        raise NotBegun(f"{error}; {remedy}") from error


def _spawn(words: Sequence[str], write: int) -> int:
    os.set_inheritable(write, True)  # noqa: FBT003 - positional alone
    to_stderr = [(os.POSIX_SPAWN_DUP2, STDERR, STDOUT)]
    return os.posix_spawnp(words[0], [*words], os.environ, file_actions=to_stderr, setsigmask=())


def _start_with_pipe(begin: Callable[[FileIO, int], int]) -> Process:
    """Start a process by `begin`, which receives both ends of a pipe and returns the process id."""
    read, write = os.pipe()
    pipe = os.fdopen(read, "rb", 0)
    try:
        return Process(begin(pipe, write), pipe)
    except BaseException:
        pipe.close()
        raise
    finally:
        os.close(write)


def can_fork() -> bool:
    """Return whether this process is known to have only one thread."""
    try:
        return sum(1 for _ in Path("/proc/self/task").iterdir()) == 1
    except OSError:
        return False


@contextmanager
def fork(
    commands: Mapping[str, Sequence[str]], body: Body, sockets: Sequence[socket] = ()
) -> Iterator[dict[str, Process]]:
    """Fork a child for each command; at the end, kill those that still run.

    The children do not inherit the `sockets`.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    gc.freeze()  # A collector that walks shared objects would write to their pages.
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
        while any(child.is_running() for child in children.values()) and time.monotonic() < until_s:
            time.sleep(LOOK_EVERY_S)


def _fork(command: Sequence[str], body: Body, leave: Iterable[Callable[[], None]]) -> Process:
    def fork(pipe: FileIO, write: int) -> int:
        pid = os.fork()
        if pid == 0:
            for what in (pipe.close, *leave):
                what()
            os.dup2(STDERR, STDOUT)
            _run_and_exit([*command, ANNOUNCE, str(write)], body)
        return pid

    sys.stdout.flush()
    sys.stderr.flush()
    return _start_with_pipe(fork)


def _run_and_exit(command: Sequence[str], body: Body) -> NoReturn:
    """Run the body in the child, then end the child without the parent's cleanup."""
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


async def read_address_line(pipe: FileIO) -> str:
    """Return the line that the stage announces, or "" if the pipe ends first; close the pipe."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        return (await reader.readline()).decode(errors="replace").strip()
    finally:
        transport.close()


# -- in the stage ----------------------------------------------------------------------------------


def announce(descriptor: int, address: str) -> None:
    """Write the address to the descriptor, once, and close the descriptor."""
    with os.fdopen(descriptor, "wb", 0) as pipe:
        pipe.write(f"{address}\n".encode())


def end_with_parent(parent: int) -> bool:
    """Make this process get SIGTERM when the parent ends; return False if it has already ended."""
    with suppress(AttributeError, OSError):  # Only Linux has this call.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    return os.getppid() == parent
