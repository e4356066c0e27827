"""A worker with forked fake stages, run as a program: PORT [--told-early].

It exits with the supervisor's code. With `--told-early`, it is asked to stop before its event loop
runs. `--codes` instead of PORT prints the exit codes of children that end in different ways.
`--open` prints the open descriptors of three children, and of three whose worker listens.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from agents.process.child_process import (
    STDERR,
    Process,
    announce,
    can_fork,
    fork,
    read_address_line,
    watch_children,
)
from agents.process.supervisor import Supervisor
from agents.watch.port.http import bind
from tests.agents.process import fake_stage

COMMANDS = {name: [sys.executable, str(fake_stage.__file__)] for name in ("reorder", "merge")}


def supervise(port: int, told_early: bool) -> int:
    logging.basicConfig(format="%(message)s")
    with fork(COMMANDS, fake_stage.main) as begun:
        if told_early:
            os.kill(os.getpid(), signal.SIGTERM)
        supervisor = Supervisor(COMMANDS, "127.0.0.1", port, stuck_after_s=60.0, forked=begun)
        return asyncio.run(supervisor.run())


def end_somehow(command: Sequence[str]) -> None:
    how, _, descriptor = command
    sys.stdout.write(f"prints {how}\n")  # One write, as four children share the output.
    announce(int(descriptor), f"says {how}")
    if how == "refused":
        sys.exit(2)
    if how == "failed":
        raise ValueError(how)
    while how == "hangs":
        time.sleep(1.0)


async def exit_codes_of(children: Sequence[Process]) -> list[int]:
    watch_children(lambda: children)
    codes = []
    for child in children:
        assert (await read_address_line(child.pipe)).startswith("says ")
        codes.append(await child.wait())
    return codes


def say_what_is_open(command: Sequence[str]) -> None:
    """Announce the kinds of the open descriptors beyond the standard three."""
    kinds = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the descriptor of the listing itself
            if int(link.name) > STDERR:
                kinds.append(str(link.readlink()).split(":")[0])
    announce(int(command[-1]), " ".join(sorted(kinds)))


async def descriptors_of(children: Sequence[Process]) -> list[str]:
    return [await read_address_line(child.pipe) for child in children]


def codes() -> None:
    commands = {how: [how] for how in ("done", "refused", "failed", "hangs")}
    with fork(commands, end_somehow) as begun:
        hanging = begun.pop("hangs")
        print(*asyncio.run(exit_codes_of(list(begun.values()))))
        begun["hangs"] = hanging
    print(hanging.returncode)


if __name__ == "__main__":
    assert can_fork()
    if sys.argv[1] == "--codes":
        codes()
    elif sys.argv[1] == "--open":
        for listens in (False, True):
            sockets = bind("127.0.0.1", 0) if listens else []
            with fork({name: [name] for name in "abc"}, say_what_is_open, sockets) as three:
                print(*asyncio.run(descriptors_of(list(three.values()))), sep="\n")
    else:
        sys.exit(supervise(int(sys.argv[1]), "--told-early" in sys.argv))
