"""Reading held records from the input again.

They lie between the oldest held offset and the offset reading goes on from, so the
stretch is short: what was held longer than `spill_after` is in the state itself. It may be
millions of records all the same, so they come piece by piece.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from typing import Any, Final

from aiokafka.structs import TopicPartition

from agents.kafka.log_reader import LogReader

MAX_READ: Final = 1_000
"""Records in a piece."""


async def read_again(
    logs: LogReader, source: TopicPartition, offsets: Collection[int]
) -> AsyncGenerator[tuple[list[Any], int]]:
    """The records at these offsets (not empty), as far as they still exist: piece by piece,
    in order, each with the position that the reading has come to. Close it where it is left
    before."""
    begin, end = await logs.bounds(source)
    begin, end = max(begin, min(offsets)), min(end, max(offsets) + 1)
    async with aclosing(logs.stretch(source, begin, end, MAX_READ)) as pieces:
        async for records, position in pieces:
            yield [record for record in records if record.offset in offsets], position


async def first_of(logs: LogReader, source: TopicPartition, begin: int = 0) -> Any | None:
    """Return the first committed record from an offset on; None if there is none."""
    first, end = await logs.bounds(source)
    async with aclosing(logs.stretch(source, max(first, begin), end, 1)) as pieces:
        async for records, _ in pieces:
            if records:
                return records[0]
    return None
