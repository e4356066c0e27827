"""Reading held records from the input again.

They lie between the oldest held offset and the offset reading goes on from, so the
stretch is short: what was held longer than `spill_after` is in the state itself. It may be
millions of records all the same, so they come piece by piece.

Proved by: tests/end_to_end/test_exactly_once.py, tests/end_to_end/test_chaos.py
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import Any, Final

from aiokafka import TopicPartition

from agents.kafka.brokers import Brokers
from agents.kafka.whole_batches import WholeBatches

READ_TIMEOUT_MS: Final = 500
MAX_EMPTY_READS: Final = 20
"""In a row; then what is still wanted counts as gone from the log."""

MAX_READ: Final = 1_000
"""Records in a piece."""


async def read_again(
    brokers: Brokers, source: TopicPartition, offsets: Collection[int]
) -> AsyncIterator[tuple[list[Any], int]]:
    """The records at these offsets (not empty), as far as they still exist: piece by piece,
    in order, each with the position that the reading has come to."""
    first, last = min(offsets), max(offsets)
    async with brokers.reader() as consumer:
        WholeBatches(consumer._fetcher)
        consumer.assign([source])
        consumer.seek(source, first)
        empty = 0
        position = first
        while empty < MAX_EMPTY_READS and position <= last:
            taken = await consumer.getmany(source, timeout_ms=READ_TIMEOUT_MS, max_records=MAX_READ)
            records = taken.get(source, ())
            empty = 0 if records else empty + 1
            position = await consumer.position(source)
            yield [record for record in records if record.offset in offsets], position


async def first_of(brokers: Brokers, source: TopicPartition) -> Any | None:
    """The oldest record that the partition holds; None if it holds none."""
    async with brokers.reader() as consumer:
        consumer.assign([source])
        first = (await consumer.beginning_offsets([source]))[source]
        end = (await consumer.end_offsets([source]))[source]
        consumer.seek(source, first)
        empty = 0
        while empty < MAX_EMPTY_READS and await consumer.position(source) < end:
            taken = await consumer.getmany(source, timeout_ms=READ_TIMEOUT_MS, max_records=1)
            if taken.get(source):
                return taken[source][0]
            empty += 1
    return None
