"""A worker of fake stages that are forked, run as a program: PORT [--told-early].

It ends with the supervisor's code. `--told-early`: it is told to stop before it has a loop.
`--codes` in the place of PORT: prints how three children ended.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence

from agents.forked import Forked, forked, may_fork
from agents.supervisor import Supervisor
from tests.agents import fake_stage

COMMANDS = {name: [sys.executable, str(fake_stage.__file__)] for name in ("reorder", "merge")}


def be_stage(_: Sequence[str]) -> None:
    fake_stage.main()


def supervise(port: int, told_early: bool) -> int:
    with forked(COMMANDS, be_stage) as begun:
        if told_early:
            os.kill(os.getpid(), signal.SIGTERM)
        supervisor = Supervisor(COMMANDS, "127.0.0.1", port, stuck_after_s=60.0, forked=begun)
        return asyncio.run(supervisor.run())


def end_somehow(command: Sequence[str]) -> None:
    (how,) = command
    print("says", how)
    if how == "refused":
        sys.exit(2)
    if how == "failed":
        raise ValueError(how)
    while how == "hangs":
        time.sleep(1.0)


async def ends(children: Sequence[Forked]) -> list[int]:
    codes = []
    for child in children:
        await child.attended()
        assert child.stdout is not None
        assert (await child.stdout.readline()).startswith(b"says ")
        codes.append(await child.wait())
    return codes


def codes() -> None:
    commands = {how: [how] for how in ("done", "refused", "failed", "hangs")}
    with forked(commands, end_somehow) as begun:
        hanging = begun.pop("hangs")
        print(*asyncio.run(ends(list(begun.values()))))
        begun["hangs"] = hanging
    print(hanging.returncode)


if __name__ == "__main__":
    assert may_fork()
    if sys.argv[1] == "--codes":
        codes()
    else:
        sys.exit(supervise(int(sys.argv[1]), "--told-early" in sys.argv))
