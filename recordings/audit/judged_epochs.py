"""Find the epochs of records that have none, by the judgement of REORDER itself.

Each such record passes through REORDER, which infers restarts (`topology.order.reorder.trial`). It
may take until `max_wait` after the record to judge it. So all records are delayed until then, in
their order, but at most `MAX_DELAYED` of them. If there are more, the oldest counts as of the
newest epoch of its source.

Cost: that of REORDER for each record without an epoch. Memory: the delayed records, and the state
of REORDER.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from recordings.audit.row import AuditRow
from recordings.audit.wraps import Wraps
from topology.base.event import NO_EPOCH, Event
from topology.config import ReorderConfig
from topology.order.reorder.operator import Reorder
from topology.order.reorder.settings import SeqRange, has_number

BATCH_ROWS: Final = 1_000
MAX_DELAYED: Final = 100_000
"""The maximum number of records that are delayed."""
STREAM: Final = "audited"
FOR_GOOD_NS: Final = 1 << 62


def event_of(row: AuditRow, at_ns: int) -> Event:
    """Return the event of a row at this time of the arrival clock.

    Its epoch is NO_EPOCH if REORDER must find it, and 0 if the row has no sequence number.
    """
    epoch = NO_EPOCH if row.epoch is None else row.epoch
    if row.seq is None:
        epoch = 0
    event = Event(STREAM, row.source, epoch, row.seq or 0, row.ts_ns, at_ns, row.offset)
    event.digest = row.digest
    return event


class EpochJudge:
    """Finds the epochs of the events of a recording.

    The numbers of its sources wrap as `wraps` says, and there are at most `max_sources` of them.
    """

    def __init__(self, wraps: Wraps, max_sources: int) -> None:
        self._wraps = wraps
        self._max_sources = max_sources
        self._reorder: dict[SeqRange | None, Reorder] = {}  # By the range of the numbers.
        self._delayed: deque[Event] = deque()
        self._newest: dict[str, int] = {}  # The newest epoch of each source that has restarted.

    def judge(self, events: Iterable[Event]) -> Iterator[int]:
        """Yield the epochs of all events in order, as soon as they are known."""
        left = iter(events)
        at_ns = 0
        while batch := list(islice(left, BATCH_ROWS)):
            at_ns = batch[-1].at_ns
            self._take(batch, at_ns)
            yield from self._judge()
        for reorder in self._reorder.values():
            reorder.on_end(at_ns)
        yield from self._judge()

    def _take(self, events: list[Event], until_ns: int) -> None:
        self._delayed += events
        unknown: dict[SeqRange | None, list[Event]] = {each: [] for each in self._reorder}
        for event in events:
            if event.epoch != NO_EPOCH:
                continue
            seq_range = self._wraps.range_of(event.source)
            if has_number(seq_range, event.seq):
                unknown.setdefault(seq_range, []).append(event)
            else:
                event.epoch = 0
        for seq_range, of_range in unknown.items():
            self._reorder_of(seq_range).on_batch(of_range, until_ns)

    def _judge(self) -> Iterator[int]:
        delayed, newest = self._delayed, self._newest
        while delayed and (delayed[0].epoch != NO_EPOCH or len(delayed) > MAX_DELAYED):
            event = delayed.popleft()
            if event.epoch > newest.get(event.source, 0):
                newest[event.source] = event.epoch
            yield newest.get(event.source, 0) if event.epoch == NO_EPOCH else event.epoch

    def _reorder_of(self, seq_range: SeqRange | None) -> Reorder:
        """Return the REORDER of numbers of this range, or of numbers that do not wrap."""
        reorder = self._reorder.get(seq_range)
        if reorder is None:
            config = ReorderConfig(
                seq_range=seq_range, max_sources=self._max_sources, forget_after_ns=FOR_GOOD_NS
            )
            reorder = self._reorder[seq_range] = Reorder(STREAM, config)
        return reorder
