"""Queues the polls of one partition group and processes them in turn.

A *partition group* has the input partitions that one task reads together. The polls of a group are
processed one after the other, and the records of each partition in log order. Groups do not wait
for each other. A slow handler delays its own group only: once `MAX_BATCHES` are on their way to a
queue, the transport stops polling its partitions.

Memory: `MAX_BATCHES` polls per group, besides the one fetched but undecoded response that the
client keeps for each partition.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from aiokafka.structs import TopicPartition

MAX_BATCHES = 2
"""Maximum number of batches in a queue: one in process and one ready to follow."""

Partitions = frozenset[TopicPartition]


class PartitionGroup(NamedTuple):
    """The partitions that one task reads, in the order of their lanes; `name` is the first."""

    name: TopicPartition
    lanes: tuple[TopicPartition, ...]


def make_single_group(partition: TopicPartition) -> PartitionGroup:
    """Return the group of one partition."""
    return PartitionGroup(partition, (partition,))


Record = Any
"""A record with the attributes that aiokafka gives it.

These are offset, timestamp (ms) and its type, key, value, and headers, a sequence of (str, bytes)
pairs.
"""


_STEADY: Final = time.CLOCK_BOOTTIME if sys.platform == "linux" else time.CLOCK_MONOTONIC


def steady_ns() -> int:
    """Return a monotonic time, which on Linux goes on while the machine sleeps."""
    return time.clock_gettime_ns(_STEADY)


class FetchRequest(NamedTuple):
    """When a fetch was requested, by `steady_ns` and the wall clock, and the broker's node id."""

    mono_ns: int
    wall_ns: int
    broker: int


NEVER: Final = FetchRequest(-(1 << 63), 0, -1)


class End(NamedTuple):
    """The end of a partition at the time of a poll.

    `position` is after the last polled record, and after the commit markers and aborted records
    that follow it. `high_watermark` is the broker's value in the last answered fetch. `asked` says
    when that fetch was requested, NEVER if this is unknown.
    """

    position: int
    high_watermark: int
    asked: FetchRequest = NEVER

    @property
    def last_empty_fetch(self) -> FetchRequest | None:
        """When the partition had nothing after `position`; None if unknown.

        It is also None if there were more records, even those of an open transaction. It is the
        time of the request, so a process that was paused before it read the answer claims no later
        time.
        """
        is_at_end = self.position == self.high_watermark and self.asked is not NEVER
        return self.asked if is_at_end else None


@dataclass(slots=True)
class PolledBatch:
    """The records of one poll of one partition; without records it is a tick.

    `skipped` is the number of offsets before this batch that retention deleted unread.
    """

    partition: TopicPartition
    records: list[Record]
    end: End
    skipped: int = 0


@dataclass(slots=True)
class GroupBatch:
    """The batches of one poll of the partitions of a group, at most one for each.

    A worker sets `is_waiting` while it has not begun the batch, so that closing the group need not
    await it.
    """

    name: TopicPartition
    batches: list[PolledBatch]
    is_waiting: bool = False
    queue: GroupQueue | None = field(default=None, repr=False, compare=False)


@dataclass(eq=False)
class GroupQueue:
    """A queue that processes one group's polls until it is closed.

    `work` is awaited for one batch after the other. Its exception ends the queue and is passed to
    `on_error`. `on_room` is called whenever the queue can take a further batch.
    """

    group: PartitionGroup
    work: Callable[[GroupBatch], Awaitable[None]]
    on_room: Callable[[], None]
    on_error: Callable[[GroupQueue, Exception], None]
    expected: int = 0
    """Number of batches that are on their way to the queue, waiting, or in process."""
    ticked_at_ns: dict[TopicPartition, int] = field(default_factory=dict)
    """Monotonic time of each partition's last tick."""
    last_batch_ns: dict[TopicPartition, int] = field(default_factory=dict)
    """Monotonic time of each partition's last batch, with or without records."""
    _waiting: asyncio.Queue[GroupBatch] = field(default_factory=asyncio.Queue, init=False)
    _under_work: GroupBatch | None = field(default=None, init=False)
    _is_closing: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        now_ns = steady_ns()
        for partition in self.group.lanes:
            self.ticked_at_ns[partition] = NEVER.mono_ns
            self.last_batch_ns[partition] = now_ns
        self._task = asyncio.create_task(self._run(), name=f"queue {self.group.name}")

    def has_room(self) -> bool:
        return self.expected < MAX_BATCHES and not self._is_closing

    def put(self, batch: GroupBatch) -> None:
        """Add a batch that `expected` already counts."""
        self._waiting.put_nowait(batch)

    async def close(self, timeout_s: float) -> bool:
        """Drop the waiting batches and let the current batch end.

        Returns False if the current batch did not end in time and was cancelled.
        """
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
