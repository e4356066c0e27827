"""Find the epochs of records that have none, by the judgement of REORDER itself.

Each such record passes through REORDER, which infers restarts (`topology.reorder.trial`). It may
take until `max_wait` after the record to judge it. So all rows are delayed until then, in their
order, but at most `MAX_DELAYED` of them. If there are more, the oldest counts as of the newest
epoch of its source.

Cost: that of REORDER for each record without an epoch. Memory: the delayed rows, and the state of
REORDER.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from recordings.audit.row import AuditRow
from recordings.audit.wraps import Wraps
from topology.config import ReorderConfig
from topology.model.event import NO_EPOCH, Event
from topology.reorder.operator import Reorder
from topology.reorder.settings import SeqRange, has_number

BATCH_ROWS: Final = 1_000
MAX_DELAYED: Final = 100_000
"""The maximum number of rows that are delayed."""
STREAM: Final = "audited"
FOR_GOOD_NS: Final = 1 << 62


class TimedRow(NamedTuple):
    """A row, and the time of the arrival clock after it."""

    row: AuditRow
    at_ns: int


class JudgedRow(NamedTuple):
    """A row whose epoch is known.

    Attributes:
        epoch: The epoch; None if the row has no sequence number.
        at_ns: The time of the arrival clock after the row.
    """

    row: AuditRow
    epoch: int | None
    at_ns: int


class EpochJudge:
    """Finds the epochs of the rows of a recording.

    The numbers of its sources wrap as `wraps` says, and there are at most `max_sources` of them.
    """

    def __init__(self, wraps: Wraps, max_sources: int) -> None:
        self._wraps = wraps
        self._max_sources = max_sources
        self._reorder: dict[SeqRange | None, Reorder] = {}  # By the range of the numbers.
        self._delayed: deque[tuple[TimedRow, Event]] = deque()
        self._newest: dict[str, int] = {}  # The newest epoch of each source that has restarted.

    def judge(self, rows: Iterable[TimedRow]) -> Iterator[JudgedRow]:
        """Yield all rows in order, as soon as their epochs are known."""
        left = iter(rows)
        at_ns = 0
        while batch := list(islice(left, BATCH_ROWS)):
            at_ns = batch[-1].at_ns
            self._take(batch, at_ns)
            yield from self._judge()
        for reorder in self._reorder.values():
            reorder.on_end(at_ns)
        yield from self._judge()

    def _take(self, rows: list[TimedRow], until_ns: int) -> None:
        events: dict[SeqRange | None, list[Event]] = {each: [] for each in self._reorder}
        for timed in rows:
            row, at_ns = timed
            seq_range = self._wraps.range_of(row.source)
            seq = row.seq or 0
            epoch = NO_EPOCH if row.epoch is None else row.epoch
            event = Event(STREAM, row.source, epoch, seq, row.ts_ns, at_ns, row.offset)
            event.digest = row.digest
            self._delayed.append((timed, event))
            if epoch != NO_EPOCH:
                continue
            if row.seq is None or not has_number(seq_range, seq):
                event.epoch = 0
            else:
                events.setdefault(seq_range, []).append(event)
        for seq_range, of_range in events.items():
            self.reorder_of(seq_range).on_batch(of_range, until_ns)

    def _judge(self) -> Iterator[JudgedRow]:
        delayed = self._delayed
        while delayed and (delayed[0][1].epoch != NO_EPOCH or len(delayed) > MAX_DELAYED):
            (row, at_ns), event = delayed.popleft()
            if row.seq is None:
                yield JudgedRow(row, None, at_ns)
                continue
            newest = self._newest.get(row.source, 0)
            if event.epoch > newest:
                self._newest[row.source] = event.epoch
            yield JudgedRow(row, newest if event.epoch == NO_EPOCH else event.epoch, at_ns)

    def reorder_of(self, seq_range: SeqRange | None) -> Reorder:
        """Return the REORDER of numbers of this range, or of numbers that do not wrap."""
        reorder = self._reorder.get(seq_range)
        if reorder is None:
            config = ReorderConfig(
                seq_range=seq_range, max_sources=self._max_sources, forget_after_ns=FOR_GOOD_NS
            )
            reorder = self._reorder[seq_range] = Reorder(STREAM, config)
        return reorder
