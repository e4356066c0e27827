"""Makes the Kafka client return fetched records in whole batches, as decoded by the codec.

The plain client returns records one by one, each copied into a `ConsumerRecord`. That costs more
than decoding them and adds nothing that a stage reads. The client's `PartitionRecords` still
handles checksums, aborted transactions, control batches, and the position. It gets batches that
consist of *stretches*, lists of their records, so it takes one step for each stretch. Most batches
have one. Unreadable parts of a batch are among its records (`codec.face.Unreadable`).

Objects that belong to a fetch refer to it weakly, including the client's own generator. Otherwise a
fetch that is half read when its partition is revoked could be in a reference cycle. Then its bytes,
a megabyte or more, would stay until the garbage collector runs, which is seldom
(agents.process.garbage).
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
"""Maximum time of one turn, shared by all partitions of a fetcher."""


def install_codec() -> None:
    """Make all aiokafka consumers of the process decode with the current codec from now on."""
    aiokafka.consumer.fetcher.MemoryRecords = codec.memory_records


class Turn:
    """The time for which a fetcher may decode before the event loop runs again.

    Small batches that are slow to unpack must not delay the client's heartbeats.
    """

    def __init__(self) -> None:
        self._ends_s: float | None = None

    def is_over(self) -> bool:
        now_s = time.monotonic()
        if self._ends_s is None:
            self._ends_s = now_s + TURN_S
            asyncio.get_running_loop().call_soon(self._end)
        return now_s >= self._ends_s

    def _end(self) -> None:
        self._ends_s = None


class WholeBatches:
    """A change to a fetcher that makes its fetches return whole batches.

    `most_bytes` limits the unpacked size of a batch.
    """

    def __init__(self, fetcher: Fetcher, most_bytes: int = MAX_UNPACKED_BYTES) -> None:
        install_codec()
        self._most_bytes = most_bytes
        self._turn = Turn()
        self._fetched = fetcher._records
        self._fetch = fetcher._proc_fetch_request
        fetcher._proc_fetch_request = self._fetch_whole

    async def _fetch_whole(self, assignment: Any, node_id: Any, request: Any) -> bool:
        try:
            has_records = bool(await self._fetch(assignment, node_id, request))
        except asyncio.CancelledError:
            # The client itself returns False when it is cancelled, except in its pause after a
            # failed fetch. There its close would raise CancelledError, although the caller was not
            # cancelled.
            return False
        for result in self._fetched.values():  # None of the new results has been unpacked yet.
            if isinstance(result, FetchResult) and isinstance(
                result._partition_records, PartitionRecords
            ):
                result._partition_records = Fetched(
                    result._partition_records, self._most_bytes, self._turn
                )
                result.getall = partial(take_all, proxy(result))
        return has_records


class Fetched:
    """A replacement for a fetch's `PartitionRecords`.

    `next_fetch_offset` is the position after the records already taken, and `is_over` says that
    there are no more. All fetches of a fetcher share one `turn`.
    """

    def __init__(
        self,
        records: PartitionRecords,
        most_bytes: int = MAX_UNPACKED_BYTES,
        turn: Turn | None = None,
    ) -> None:
        records._records = _Batches(records._records, most_bytes)
        itself = proxy(records)
        records._consumer_record = partial(_select_unread, itself)
        records._records_iterator = PartitionRecords._unpack_records(itself)
        self._stretches = records
        self._left: list[Record] = []
        self.next_fetch_offset: int = records.next_fetch_offset
        self.is_over = False
        self._turn = turn

    def take(self, most: int) -> list[Record]:
        """Return at most `most` records, in the log's order; fewer if the turn is over.

        Raises an error when it reaches a batch that the broker wrote incorrectly.
        """
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
    """Return at most `max_records` fetched records, as a replacement for `FetchResult.getall`."""
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
    """Records of a batch that the codec decodes in one step; there is at least one."""

    records: list[Record]

    @property
    def offset(self) -> int:
        """Offset of the last record."""
        return int(self.records[-1].offset)


def _select_unread(fetched: PartitionRecords, _: TopicPartition, stretch: _Stretch) -> list[Record]:
    records, begin = stretch.records, fetched.next_fetch_offset
    if records[0].offset >= begin:
        return records
    return [record for record in records if record.offset >= begin]


class _Batches:
    """A replacement for `MemoryRecords` whose batches consist of stretches."""

    def __init__(self, batches: Any, most_bytes: int) -> None:
        self.has_next = batches.has_next
        self._next_batch = batches.next_batch
        self._most_bytes = most_bytes

    def next_batch(self) -> _Batch:
        return _Batch(self._next_batch(), self._most_bytes)


class _Batch:
    """A batch, and what `PartitionRecords` asks of one.

    The fields are copied, because `__getattr__` costs more than a small batch's records.
    """

    def __init__(self, batch: Any, most_bytes: int) -> None:
        self._batch = batch
        self._most_bytes = most_bytes
        self.validate_crc = batch.validate_crc
        self.producer_id = batch.producer_id
        self.base_offset = batch.base_offset
        self.next_offset = batch.next_offset
        self.is_control_batch = batch.is_control_batch
        self.is_transactional = batch.is_transactional

    def __next__(self) -> Record:
        return next(self._batch)

    def __iter__(self) -> Iterator[_Stretch]:
        return map(_Stretch, self._batch.stretches(self._most_bytes))
