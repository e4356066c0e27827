"""How a stage's process tells where it listens: one line, on a descriptor of its own.

Its standard output is its standard error: what a function of the user's prints is seen beside the
log, fills no pipe that nobody reads, and is never taken for an address.

Proved by: tests/agents/test_supervisor.py, tests/agents/test_forked.py
"""

from __future__ import annotations

import asyncio
import os
from io import FileIO
from typing import Final

TELL: Final = "--tell-fd"
"""What a stage's command is told the descriptor by."""


def tell(descriptor: int, address: str) -> None:
    """Said once; the descriptor is closed."""
    with os.fdopen(descriptor, "wb", 0) as pipe:
        pipe.write(f"{address}\n".encode())


async def heard(pipe: FileIO) -> str:
    """The line, once it is said; empty where the pipe ends before. Closes the pipe."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        return (await reader.readline()).decode(errors="replace").strip()
    finally:
        transport.close()
