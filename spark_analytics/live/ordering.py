"""Order the groups of a live job: the processor of each group, with Spark's state.

Spark calls the processor with a group's rows of a batch, and, for a group without rows, when the
group's timer is due. The processor keeps three values for each group: a head (sizes, and the
timer), a snapshot, and entries with the changes since (`spark_analytics.live.state`).

Reading the state and restoring the operators takes longer than most batches. A Python process
therefore keeps the groups that it ordered. Each batch writes a new random mark into the state. A
process uses a kept group only if it wrote the state's mark itself. Otherwise another attempt has
written since then.

The snapshot and the entries are lists, written by `put` and `appendList`, which send Arrow streams.
A single value, like the argument of `appendValue`, is sent as one message. Spark 4.0.0 reads it by
one `read` on a socket and does not check how many bytes arrived. A large message is cut off, and
the query ends with "invalid pickle opcode: 0". The head is small enough to arrive in one piece.

A timer is due one tick lag after the deadline of an operator or the arrival of a waiting line. It
emits only output that the next record would cause, too. Spark runs due timers after the rows of a
batch. If a group had rows, its timer was set again, and the old timer emits nothing. A batch may
read only a part of the log, so a partition without rows may still have unread ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import pandas as pd
from pyspark.sql.streaming.stateful_processor import (
    ListState,
    StatefulProcessor,
    StatefulProcessorHandle,
)

from spark_analytics.executors import task_process
from spark_analytics.executors.setting import Setting, topology_of
from spark_analytics.live.group import LiveGroup, OutputLine, PartitionParcel
from spark_analytics.live.line_tables import nested_of
from spark_analytics.live.partitions import PartitionName
from spark_analytics.live.reading import NAMES
from spark_analytics.live.state import fold, is_due
from topology.records.json_lines import encode_line

NS_PER_MS: Final = 1_000_000
ROWS_AT_ONCE: Final = 10_000
MOST_KEPT: Final = 256
"""The maximum number of groups that a Python process keeps."""

NEVER: Final = 0
_kept: dict[tuple[Setting, int], tuple[bytes, LiveGroup]] = {}


class Head(NamedTuple):
    """The sizes and the timer of a group.

    Attributes:
        mark: Random bytes that the last batch wrote; empty if there is no state yet.
        snapshot_bytes: The size of the snapshot.
        entries: The number of entries.
        entries_bytes: The size of all entries.
        timer_ms: The time of the timer; NEVER if there is none.
    """

    mark: bytes = b""
    snapshot_bytes: int = 0
    entries: int = 0
    entries_bytes: int = 0
    timer_ms: int = NEVER


HEAD: Final = "mark BINARY, snapshot_bytes LONG, entries INT, entries_bytes LONG, timer_ms LONG"
CONTENT: Final = "content BINARY"


class OrderLive(StatefulProcessor):
    """The processor that Spark runs for each group; `names` are all partitions that are read."""

    def __init__(
        self, setting: Setting, names: Sequence[PartitionName], tick_lag_ms: int, max_waiting: int
    ) -> None:
        self._setting = setting
        self._names = list(names)
        self._tick_lag_ms = tick_lag_ms
        self._max_waiting = max_waiting

    def init(self, handle: StatefulProcessorHandle) -> None:
        task_process.begin()
        self._handle = handle
        self._head = handle.getValueState("head", HEAD)
        self._snapshot = handle.getListState("snapshot", CONTENT)
        self._entries = handle.getListState("entries", CONTENT)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Any]:
        taken = [parcel for frame in rows for parcel in _parcels(frame)]
        return self._output(key[0], taken, timerValues.getCurrentProcessingTimeInMs())

    def handleExpiredTimer(  # noqa: N802 - Spark's name
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Any]:
        if self._read_head().timer_ms != expiredTimerInfo.getExpiryTimeInMs():
            return iter(
                ()
            )  # The batch had rows and set another timer; partitions may have more unread rows.
        return self._output(key[0], (), timerValues.getCurrentProcessingTimeInMs())

    def close(self) -> None:
        """Do nothing: groups are kept for the next batch."""

    def _output(self, group: int, taken: Sequence[PartitionParcel], batch_ms: int) -> Iterator[Any]:
        head = self._read_head()
        live = self._group(group, head)
        quiet_ns = (batch_ms - self._tick_lag_ms) * NS_PER_MS
        output = live.take(taken, quiet_ns) if taken else live.rest(quiet_ns)
        self._save_group(group, live, head, batch_ms)
        return _frames(output)

    def _read_head(self) -> Head:
        found = self._head.get()
        if found is None:
            return Head()
        mark, *rest = found
        return Head(bytes(mark), *rest)

    def _group(self, group: int, head: Head) -> LiveGroup:
        mark, live = _kept.pop((self._setting, group), (b"", None))
        if live is not None and mark == head.mark:
            return live
        saved_group = None
        if head.mark:
            (content,) = _contents(self._snapshot)
            saved_group = fold(content, _contents(self._entries) if head.entries else ())
        topology = topology_of(self._setting)
        return LiveGroup(topology, group, self._names, saved_group, self._max_waiting)

    def _save_group(self, group: int, live: LiveGroup, head: Head, batch_ms: int) -> None:
        mark = os.urandom(8)
        timer_ms = self._set_timer(live, head, batch_ms)
        if not head.mark or is_due(head.entries, head.entries_bytes, head.snapshot_bytes):
            content = live.snapshot()
            self._snapshot.put([(content,)])
            if head.entries:
                self._entries.clear()
            head = Head(mark, len(content), 0, 0, timer_ms)
        else:
            content = live.take_changes()
            self._entries.appendList([(content,)])
            size = head.entries_bytes + len(content)
            head = Head(mark, head.snapshot_bytes, head.entries + 1, size, timer_ms)
        self._head.update(tuple(head))
        if len(_kept) >= MOST_KEPT:
            del _kept[next(iter(_kept))]
        _kept[self._setting, group] = mark, live

    def _set_timer(self, live: LiveGroup, head: Head, batch_ms: int) -> int:
        """Set a new timer for a time after this batch, and return that time, or NEVER."""
        due_ns = live.due_ns()
        if due_ns is None:
            timer_ms = NEVER
        else:
            due_ms = due_ns // NS_PER_MS + 1 + self._tick_lag_ms
            timer_ms = max(due_ms, batch_ms + 1)
        if timer_ms != head.timer_ms:
            if head.timer_ms > batch_ms:
                self._handle.deleteTimer(head.timer_ms)
            if timer_ms != NEVER:
                self._handle.registerTimer(timer_ms)
        return timer_ms


def _contents(state: ListState) -> list[bytes]:
    return [bytes(content) for (content,) in state.get()]


def _parcels(frame: Any) -> Iterator[PartitionParcel]:
    columns = [frame[name].tolist() for name in NAMES]
    for rank, topic, partition, first, number, content in zip(*columns, strict=True):
        yield PartitionParcel(PartitionName(rank, topic, partition), first, number, bytes(content))


def _frames(output: Sequence[OutputLine]) -> Iterator[Any]:
    for at in range(0, len(output), ROWS_AT_ONCE):
        part = output[at : at + ROWS_AT_ONCE]
        yield pd.DataFrame(
            {
                "table": [each.table for each in part],
                "stream": [each.line["stream"] for each in part],
                "position": [each.position for each in part],
                "line": [encode_line(each.line).decode() for each in part],
                "nested": [nested_of(each.table, each.line) for each in part],
            }
        )
