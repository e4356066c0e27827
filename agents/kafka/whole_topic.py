"""Reads a topic's committed records without a group, in the order of each partition.

Reading begins at the first record or with the newest ones. It ends at the topic's current end, or
follows new records.

The codec decodes the records, as for a stage, so a malformed record does not end the program. (The
other client, librdkafka's, creates headers with NULLs for names that are not UTF-8, and these end
the process.)
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
    """There is no topic of that name."""


async def partition_numbers(reader: Any, topic: str) -> set[int]:
    """Return the numbers of the topic's partitions, or raise NoTopic."""
    cluster = await reader._client.fetch_all_metadata()  # A request for one topic would create it.
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
    """Yield all records of the topic, or only the `newest` ones.

    `newest` is the total for all partitions. With `follow`, the generator then waits for new
    records. Raises NoTopic, or TimeoutError if a partition returns nothing before its end for
    `stalled_s`.
    """
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
                raise TimeoutError(f"{topic} returned no record before its end for {stalled_s:g} s")
