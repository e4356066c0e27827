"""Find the epochs of the rows of a table, with the results of `recordings.audit.judged_epochs`.

A source has not restarted if its timestamps rise with its numbers, and equal numbers have equal
timestamps. Then no event is a suspect (`topology.reorder.trial`). If this is so for all sources,
all epochs are 0. Otherwise REORDER judges all rows, since its waits depend on all sources.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np

from recordings.audit.by_columns.grouped import Ints
from recordings.audit.columns import Columns
from recordings.audit.counting import MAX_MACHINES
from recordings.audit.judged_epochs import BATCH_ROWS, MAX_DELAYED, STREAM, EpochJudge, TimedRow
from recordings.audit.spool import NONE
from recordings.audit.wraps import Wraps
from topology.model.event import NO_EPOCH, Event


def epochs_of(columns: Columns, at_ns: Ints) -> Ints:
    """Return the epoch of each row, which is 0 for a row without a number."""
    unknown = np.flatnonzero((columns.seq != NONE) & (columns.epoch == NONE))
    epochs = np.where(columns.epoch == NONE, 0, columns.epoch)
    if _rise(columns, unknown):
        return epochs
    judged = np.fromiter(_judge(columns, unknown, at_ns), np.int64)
    if len(judged) == len(unknown):
        epochs[unknown] = judged
        return epochs
    rows = map(TimedRow, columns.rows(), at_ns.tolist())
    anew = EpochJudge(Wraps(), MAX_MACHINES).judge(rows)
    return np.fromiter((each.epoch or 0 for each in anew), np.int64, len(columns))


def _judge(columns: Columns, unknown: Ints, at_ns: Ints) -> Iterator[int]:
    """Yield the epochs of the rows whose epochs are unknown, in order, as `EpochJudge` finds them.

    The last ones are missing if more than `MAX_DELAYED` rows are delayed.
    """
    reorder = EpochJudge(Wraps(), MAX_MACHINES).reorder_of(None)
    delayed: deque[Event] = deque()
    found = 0
    for begin in range(0, len(columns), BATCH_ROWS):
        end = min(begin + BATCH_ROWS, len(columns))
        rows = unknown[slice(*np.searchsorted(unknown, (begin, end)))]
        events = _events(columns, rows, at_ns)
        delayed += events
        reorder.on_batch(events, int(at_ns[end - 1]))
        while delayed and delayed[0].epoch != NO_EPOCH:
            yield delayed.popleft().epoch
            found += 1
        if delayed and end - unknown[found] > MAX_DELAYED:
            return
    reorder.on_end(int(at_ns[-1]))
    while delayed and delayed[0].epoch != NO_EPOCH:
        yield delayed.popleft().epoch


def _events(columns: Columns, rows: Ints, at_ns: Ints) -> list[Event]:
    fields = columns.source, columns.seq, columns.ts_ns, at_ns, columns.offset
    names = columns.names
    return [
        Event(STREAM, names[source], NO_EPOCH, seq, ts_ns, came_ns, offset)
        for source, seq, ts_ns, came_ns, offset in zip(
            *(each[rows].tolist() for each in fields), strict=True
        )
    ]


def _rise(columns: Columns, unknown: Ints) -> bool:
    """Return whether timestamps rise with the numbers in the rows whose epochs are unknown."""
    source, seq, ts_ns = (each[unknown] for each in (columns.source, columns.seq, columns.ts_ns))
    order = np.lexsort((seq, source))
    source, seq, ts_ns = source[order], seq[order], ts_ns[order]
    same = source[1:] == source[:-1]
    falls = ts_ns[1:] < ts_ns[:-1]
    differs = (seq[1:] == seq[:-1]) & (ts_ns[1:] != ts_ns[:-1])
    return not bool(np.any(same & (falls | differs)))
