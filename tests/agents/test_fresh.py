"""End to end: the code with which a process ended is told, and one that cannot be had is refused
with a remedy."""

from __future__ import annotations

import asyncio
import resource
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from agents.fresh import NotBegun, begun

PATIENCE_S = 30.0
ENDS = 60
"""With asyncio's own `terminate`, one end in five is lost where this is tried."""


def test_a_signal_never_takes_the_end_that_is_waited_for() -> None:
    """Each is told to end again and again, until its end is known: it may have ended just now."""

    async def end_of_one() -> int:
        process, told = await begun(["sh", "-c", "exit 3"])
        with told:
            while process.returncode is None:
                process.terminate()
                await asyncio.sleep(0)
            return await process.wait()

    async def scenario() -> list[int]:
        async with asyncio.timeout(PATIENCE_S):
            return [await end_of_one() for _ in range(ENDS)]

    assert set(asyncio.run(scenario())) <= {3, -signal.SIGTERM}


def refused(command: Sequence[str]) -> str:
    with pytest.raises(NotBegun) as raised:
        asyncio.run(begun(command))
    return str(raised.value)


def test_no_such_interpreter() -> None:
    held = len(list(Path("/dev/fd").iterdir()))
    assert "install it anew, restart the worker" in refused(["/there/is/no/such/python"])
    assert len(list(Path("/dev/fd").iterdir())) == held, "the pipe is closed again"


def test_no_file_to_be_had() -> None:
    async def scenario() -> str:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            with pytest.raises(NotBegun) as raised:
                await begun(["true"])
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return str(raised.value)

    assert "raise the limit of open files" in asyncio.run(scenario())
