"""Examples: where one fails, or the whole is cancelled, nothing goes on."""

from __future__ import annotations

import asyncio

import pytest

from agents.stage.restoring import together


class Part:
    """It ends when it is told to; `ended` says how it did."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()
        self.ended = ""

    async def run(self) -> int:
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # to let go of what it has
            self.ended = "cancelled"
            raise
        self.ended = "done"
        return 1


async def failing() -> None:
    await asyncio.sleep(0)
    raise ValueError("no")


async def test_each_answers_in_order() -> None:
    first, second = Part(), Part()
    asked = asyncio.create_task(together(first.run(), asyncio.sleep(0, 2), second.run()))
    second.may_end.set()
    first.may_end.set()
    assert await asked == [1, 2, 1]
    assert await together() == []


async def test_where_one_fails_the_others_have_ended_when_that_is_told() -> None:
    parts = [Part(), Part()]
    with pytest.raises(ValueError, match="no"):
        await together(parts[0].run(), failing(), parts[1].run())
    assert [part.ended for part in parts] == ["cancelled", "cancelled"]


async def test_cancelled_it_leaves_nothing_running() -> None:
    parts = [Part(), Part()]
    asked = asyncio.create_task(together(*(part.run() for part in parts)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert [part.ended for part in parts] == ["cancelled", "cancelled"]
