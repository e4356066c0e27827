"""Fetched records, a batch at a time, as the codec at work decodes them.

The client hands records on one by one, each copied into a `ConsumerRecord`: that costs more than
decoding it and says nothing more that is read here. What its `PartitionRecords` sees to stays with
it: checksums, aborted transactions, control batches, and the position. It is given batches that
hold one thing each, a *stretch*: all their records; so it goes one step for a batch.

What belongs to a fetch refers to it weakly, the client's own generator too: a fetch in a circle, if
taken half when its partition goes, would keep its bytes, up to a megabyte and more, until the
garbage collector came by, which is seldom (agents.garbage).

Proved by: tests/agents/kafka/test_whole_batches.py, tests/agents/kafka/test_transport_kafka.py
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import proxy

import aiokafka.consumer.fetcher
from aiokafka.consumer.fetcher import Fetcher, FetchResult, PartitionRecords
from aiokafka.structs import TopicPartition

import codec
from codec.face import Record


class WholeBatches:
    """What this fetcher fetches from now on comes so. From the first of these on all consumers of
    the process read by the codec at work."""

    def __init__(self, fetcher: Fetcher) -> None:
        aiokafka.consumer.fetcher.MemoryRecords = codec.memory_records
        self._fetched = fetcher._records
        self._fetch = fetcher._proc_fetch_request
        fetcher._proc_fetch_request = self._whole_fetch

    async def _whole_fetch(self, assignment: Any, node_id: Any, request: Any) -> bool:
        try:
            has_records = bool(await self._fetch(assignment, node_id, request))
        except asyncio.CancelledError:
            # So the client answers itself, but not where it pauses after a fetch that failed: then
            # its close would raise this, and nobody who closes it was cancelled.
            return False
        for result in self._fetched.values():  # none of the new ones has been unpacked yet
            if isinstance(result, FetchResult) and isinstance(
                result._partition_records, PartitionRecords
            ):
                result._partition_records = Fetched(result._partition_records)
                result.getall = partial(take_all, proxy(result))
        return has_records


class Fetched:
    """In the place of a fetch's `PartitionRecords`. `next_fetch_offset` is the position behind
    what was taken, `is_over` says that there is no more."""

    def __init__(self, records: PartitionRecords) -> None:
        records._records = _Batches(records._records)
        itself = proxy(records)
        records._consumer_record = partial(_from_position, itself)
        records._records_iterator = PartitionRecords._unpack_records(itself)
        self._stretches = records
        self._left: list[Record] = []
        self.next_fetch_offset: int = records.next_fetch_offset
        self.is_over = False

    def take(self, most: int) -> list[Record]:
        """So many records at most, in the log's order. Raises what is wrong with a batch, when it
        comes to it."""
        found, self._left = self._left, []
        while len(found) < most:
            stretch = next(self._stretches, None)
            if stretch is None:
                self.is_over = True
                break
            found += stretch
        self._left = found[most:]
        del found[most:]
        self.next_fetch_offset = (
            found[-1].offset + 1 if self._left else self._stretches.next_fetch_offset
        )
        return found


def take_all(result: FetchResult, max_records: int | None = None) -> list[Record]:
    """As `FetchResult.getall`."""
    if not result.check_assignment(result._topic_partition) or not result.has_more():
        return []
    fetched = result._partition_records
    found: list[Record] = fetched.take(sys.maxsize if max_records is None else max_records)
    result._update_position()
    if fetched.is_over:
        result._partition_records = None
    return found


@dataclass(slots=True)
class _Stretch:
    """All records of a batch, up to one that is not well formed. Not empty."""

    records: list[Record]

    @property
    def offset(self) -> int:
        """The last one's."""
        return int(self.records[-1].offset)


def _from_position(fetched: PartitionRecords, _: TopicPartition, stretch: _Stretch) -> list[Record]:
    records, begin = stretch.records, fetched.next_fetch_offset
    if records[0].offset >= begin:
        return records
    return [record for record in records if record.offset >= begin]


class _Batches:
    """`MemoryRecords` whose batches hold a stretch each."""

    def __init__(self, batches: Any) -> None:
        self.has_next = batches.has_next
        self._next_batch = batches.next_batch

    def next_batch(self) -> _Batch:
        return _Batch(self._next_batch())


class _Batch:
    def __init__(self, batch: Any) -> None:
        self._batch = batch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __next__(self) -> Record:
        return next(self._batch)

    def __iter__(self) -> Iterator[_Stretch]:
        records: list[Record] = []
        try:
            records.extend(self._batch)
        finally:  # where it raises, what came before the fault comes first
            if records:
                yield _Stretch(records)
