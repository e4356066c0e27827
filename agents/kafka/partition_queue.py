"""The queue of one partition: where its batches wait and are worked on.

A partition's batches are worked on one after the other, in log order; partitions do not
wait for each other. A handler that takes its time pushes back on its own partition only:
once `MAX_BATCHES` are on their way to a queue, the transport stops polling its partition.

Memory: `MAX_BATCHES` polls per partition, besides the one fetched and not yet decoded
response that the client holds for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from aiokafka.structs import TopicPartition

MAX_BATCHES = 2
"""One being worked on, one ready behind it."""

Partitions = frozenset[TopicPartition]

Record = Any
"""As aiokafka decodes it: offset, timestamp (ms) and its type, key, value, and headers, a
sequence of (str, bytes) pairs."""


class End(NamedTuple):
    """How a partition stood when it was polled.

    `position` is behind what was polled: past its last record, and past what stood behind that and
    is nobody's to read (commit markers, aborted records). `high_watermark` is the broker's at the
    last answered fetch, `asked_at_ns` when that fetch was asked for; 0: not known.
    """

    position: int
    high_watermark: int
    asked_at_ns: int = 0

    @property
    def caught_up_at_ns(self) -> int | None:
        """When, by the wall clock, the partition held nothing beyond `position`; None: it
        did, or nobody knows. A process that slept before it read the answer claims no more than the
        broker said. Records of an open transaction count as something beyond."""
        return self.asked_at_ns or None if self.position == self.high_watermark else None


@dataclass(slots=True)
class PolledBatch:
    """What one poll brought from one partition; without records it is a tick.

    `skipped`: so many offsets before this batch were taken by retention, never read. `is_waiting`,
    set by who works on it: nothing of it is begun, so who closes the partition need not await it.
    """

    partition: TopicPartition
    records: list[Record]
    end: End
    skipped: int = 0
    is_waiting: bool = False
    queue: PartitionQueue | None = field(default=None, repr=False, compare=False)


@dataclass(eq=False)
class PartitionQueue:
    """Works through one partition's batches until closed.

    `work` is awaited for one batch after the other. An exception of it ends the queue and
    goes to `on_error`. `on_room` is called whenever the queue takes a further batch.
    """

    partition: TopicPartition
    work: Callable[[PolledBatch], Awaitable[None]]
    on_room: Callable[[], None]
    on_error: Callable[[PartitionQueue, Exception], None]
    expected: int = 0
    """Batches on their way here, waiting, or being worked on."""
    ticked_at_ns: int = 0
    last_batch_ns: int = field(default_factory=time.time_ns)
    """When its last batch came, of whichever kind."""
    _waiting: asyncio.Queue[PolledBatch] = field(default_factory=asyncio.Queue, init=False)
    _under_work: PolledBatch | None = field(default=None, init=False)
    _is_closing: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"queue {self.partition}")

    def has_room(self) -> bool:
        return self.expected < MAX_BATCHES and not self._is_closing

    def put(self, batch: PolledBatch) -> None:
        """Take a batch that `expected` counts already."""
        self._waiting.put_nowait(batch)

    async def close(self, timeout_s: float) -> bool:
        """Drop what waits and let the batch under work end. False: it did not in time, and
        was cancelled."""
        self._is_closing = True
        if self._under_work is None or self._under_work.is_waiting:
            self._task.cancel()
        done, _ = await asyncio.wait([self._task], timeout=timeout_s)
        if not done:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=timeout_s)
        return bool(done)

    async def _run(self) -> None:
        try:
            while not self._is_closing:
                self._under_work = await self._waiting.get()
                await self.work(self._under_work)
                self._under_work = None
                self.expected -= 1
                self.on_room()
        except Exception as exc:  # noqa: BLE001 - whatever it is, somebody must get it
            self._is_closing = True
            self.on_error(self, exc)
