"""Fetched records, a batch at a time, as the codec at work decodes them.

The client hands records on one by one, each copied into a `ConsumerRecord`: that costs more than
decoding it and says nothing more that is read here. What its `PartitionRecords` sees to stays with
it: checksums, aborted transactions, control batches, and the position. It is given batches that
hold *stretches*, lists of their records; so it goes one step for each of these, most often one for
a batch. What cannot be read of a batch is among its records (`codec.face.Unreadable`).

What belongs to a fetch refers to it weakly, the client's own generator too: a fetch in a circle, if
taken half when its partition goes, would keep its bytes, up to a megabyte and more, until the
garbage collector came by, which is seldom (agents.process.garbage).
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from weakref import proxy

import aiokafka.consumer.fetcher
from aiokafka.consumer.fetcher import Fetcher, FetchResult, PartitionRecords
from aiokafka.structs import TopicPartition

import codec
from codec.compression import MAX_UNPACKED_BYTES
from codec.face import Record

TURN_S: Final = 0.1
"""All partitions of a fetcher together."""


def read_by_codec() -> None:
    """From here on all aiokafka consumers of the process read by the codec at work."""
    aiokafka.consumer.fetcher.MemoryRecords = codec.memory_records


class Turn:
    """How long a fetcher may decode until the loop has its turn: batches that are small and long to
    unpack must not keep the client from its heartbeats."""

    def __init__(self) -> None:
        self._ends_s: float | None = None

    def is_over(self) -> bool:
        now_s = time.monotonic()
        if self._ends_s is None:
            self._ends_s = now_s + TURN_S
            asyncio.get_running_loop().call_soon(self._pass)
        return now_s >= self._ends_s

    def _pass(self) -> None:
        self._ends_s = None


class WholeBatches:
    """What this fetcher fetches from now on comes so. `most_bytes`: of a batch, unpacked."""

    def __init__(self, fetcher: Fetcher, most_bytes: int = MAX_UNPACKED_BYTES) -> None:
        read_by_codec()
        self._most_bytes = most_bytes
        self._turn = Turn()
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
                result._partition_records = Fetched(
                    result._partition_records, self._most_bytes, self._turn
                )
                result.getall = partial(take_all, proxy(result))
        return has_records


class Fetched:
    """In the place of a fetch's `PartitionRecords`. `next_fetch_offset` is the position behind
    what was taken, `is_over` says that there is no more. `turn`: that of all its fetcher has."""

    def __init__(
        self,
        records: PartitionRecords,
        most_bytes: int = MAX_UNPACKED_BYTES,
        turn: Turn | None = None,
    ) -> None:
        records._records = _Batches(records._records, most_bytes)
        itself = proxy(records)
        records._consumer_record = partial(_from_position, itself)
        records._records_iterator = PartitionRecords._unpack_records(itself)
        self._stretches = records
        self._left: list[Record] = []
        self.next_fetch_offset: int = records.next_fetch_offset
        self.is_over = False
        self._turn = turn

    def take(self, most: int) -> list[Record]:
        """So many records at most, in the log's order; fewer where the turn is over. Raises what is
        wrong with a batch that a broker wrote so, when it comes to it."""
        found, self._left = self._left, []
        while len(found) < most and (self._turn is None or not self._turn.is_over()):
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
    """Records of a batch, as the codec decodes them at one go. Not empty."""

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
    """`MemoryRecords` whose batches hold stretches."""

    def __init__(self, batches: Any, most_bytes: int) -> None:
        self.has_next = batches.has_next
        self._next_batch = batches.next_batch
        self._most_bytes = most_bytes

    def next_batch(self) -> _Batch:
        return _Batch(self._next_batch(), self._most_bytes)


class _Batch:
    def __init__(self, batch: Any, most_bytes: int) -> None:
        self._batch = batch
        self._most_bytes = most_bytes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __next__(self) -> Record:
        return next(self._batch)

    def __iter__(self) -> Iterator[_Stretch]:
        return map(_Stretch, self._batch.stretches(self._most_bytes))
