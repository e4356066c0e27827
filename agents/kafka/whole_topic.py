"""A topic from its beginning, or its newest records, to where it ends now, or on and on: what is
committed, in the order of each partition, without a group.

Records come by the codec at work, as a stage gets them: one that a stranger has written ends no
reader. (The other client makes headers with NULLs of names that are no UTF-8, which end the
process.)
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from typing import Any, Final

from aiokafka import TopicPartition

from agents.kafka.brokers import Brokers

WAIT_MS: Final = 200
AT_ONCE: Final = 1_000
STALLED_S: Final = 30.0


class NoTopic(Exception):
    """There is none of that name."""


async def partition_numbers(reader: Any, topic: str) -> set[int]:
    """Return the partitions of the topic. NoTopic."""
    cluster = await reader._client.fetch_all_metadata()  # a question for one would make it
    numbers: set[int] | None = cluster.partitions_for_topic(topic)
    if not numbers:
        raise NoTopic(topic)
    return numbers


async def records_of(
    brokers: Brokers,
    topic: str,
    *,
    follow: bool = False,
    newest: int | None = None,
    stalled_s: float = STALLED_S,
) -> AsyncGenerator[Any, None]:
    """`newest`: so many of all partitions together; None: all. NoTopic; TimeoutError where a
    partition gives nothing more before its end for `stalled_s`."""
    async with brokers.reader(WAIT_MS) as reader:
        unread = {
            TopicPartition(topic, number) for number in await partition_numbers(reader, topic)
        }
        reader.assign(sorted(unread))
        ends = await reader.end_offsets(sorted(unread))
        await reader.seek_to_beginning(*unread)
        if newest is not None:
            each = -(-newest // len(unread))
            begins = await reader.beginning_offsets(sorted(unread))
            for place in unread:
                reader.seek(place, max(begins[place], ends[place] - each))
        moved_s = time.monotonic()
        while unread or follow:
            found = await reader.getmany(timeout_ms=WAIT_MS, max_records=AT_ONCE)
            for records in found.values():
                for record in records:
                    yield record
            over = {place for place in unread if await reader.position(place) >= ends[place]}
            if found or over:
                moved_s = time.monotonic()
            unread -= over
            if unread and time.monotonic() - moved_s > stalled_s:
                raise TimeoutError(f"{topic} gives nothing more before its end for {stalled_s:g} s")
