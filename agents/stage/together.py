"""Several things that are awaited as one: where one fails, none goes on.

`asyncio.gather` raises the first error and lets the others run. What belongs to a partition that is
given up must not: a producer that still starts would fence the next owner.

Proved by: tests/agents/stage/test_together.py, tests/agents/stage/test_restoring.py
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any


async def together(*parts: Awaitable[Any]) -> list[Any]:
    """What each answers. The first error is raised, and so is a cancellation, when all others have
    been cancelled and have ended. What a part has begun in a thread goes on, and a second
    cancellation does not wait for them."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
