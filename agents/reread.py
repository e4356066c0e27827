"""Reading held records from the input again.

They lie between the oldest held offset and the offset reading goes on from, so the
stretch is short: what was held longer than `spill_after` is in the state itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from agents.brokers import Brokers

READ_TIMEOUT_MS: Final = 500
MAX_EMPTY_READS: Final = 20
"""In a row; then what is still wanted counts as gone from the log."""


async def read_again(
    brokers: Brokers, source: TopicPartition, offsets: Sequence[int]
) -> dict[int, Any]:
    """The records at these offsets (ascending, not empty), as far as they still exist."""
    async with brokers.reader() as consumer:
        consumer.assign([source])
        consumer.seek(source, offsets[0])
        return await _collect(consumer, source, offsets)


async def _collect(
    consumer: AIOKafkaConsumer, source: TopicPartition, offsets: Sequence[int]
) -> dict[int, Any]:
    wanted = set(offsets)
    last = offsets[-1]
    found: dict[int, Any] = {}
    empty = 0
    while empty < MAX_EMPTY_READS and await consumer.position(source) <= last:
        records = (await consumer.getmany(source, timeout_ms=READ_TIMEOUT_MS)).get(source, ())
        empty = 0 if records else empty + 1
        for record in records:
            if record.offset in wanted:
                found[record.offset] = record
    return found
