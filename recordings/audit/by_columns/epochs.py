"""Find the epochs of the rows of a table, with the results of `recordings.audit.judged_epochs`.

A source has not restarted if its timestamps rise with its numbers, and equal numbers have equal
timestamps. Then no event is a suspect (`topology.order.reorder.trial`). If this is so for all
sources, all epochs are 0. Otherwise REORDER judges all rows, since its waits depend on all sources.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from recordings.audit.by_columns.grouped import Ints
from recordings.audit.columns import Columns
from recordings.audit.counting import MAX_MACHINES
from recordings.audit.judged_epochs import BATCH_ROWS, STREAM, EpochJudge
from recordings.audit.spool import NONE
from recordings.audit.wraps import Wraps
from topology.base.event import NO_EPOCH, Event


def epochs_of(columns: Columns, at_ns: Ints) -> Ints:
    """Return the epoch of each row; that of a row without a number means nothing."""
    if _are_rising(columns, np.flatnonzero((columns.seq != NONE) & (columns.epoch == NONE))):
        return np.where(columns.epoch == NONE, 0, columns.epoch)
    judged = EpochJudge(Wraps(), MAX_MACHINES).judge(_events(columns, at_ns))
    return np.fromiter(judged, np.int64, len(columns))


def _events(columns: Columns, at_ns: Ints) -> Iterator[Event]:
    """Yield what `judged_epochs.event_of` returns for each row; making no rows is faster."""
    epoch = np.where(columns.epoch == NONE, NO_EPOCH, columns.epoch)
    epoch[columns.seq == NONE] = 0
    fields = columns.source, epoch, columns.seq, columns.ts_ns, at_ns, columns.offset
    for begin in range(0, len(columns), BATCH_ROWS):
        batch = (each[begin : begin + BATCH_ROWS].tolist() for each in fields)
        for source, *others in zip(*batch, strict=True):
            yield Event(STREAM, columns.names[source], *others)


def _are_rising(columns: Columns, unknown: Ints) -> bool:
    """Return whether timestamps rise with the numbers in the rows whose epochs are unknown."""
    source, seq, ts_ns = (each[unknown] for each in (columns.source, columns.seq, columns.ts_ns))
    order = np.lexsort((seq, source))
    source, seq, ts_ns = source[order], seq[order], ts_ns[order]
    same = source[1:] == source[:-1]
    falls = ts_ns[1:] < ts_ns[:-1]
    differs = (seq[1:] == seq[:-1]) & (ts_ns[1:] != ts_ns[:-1])
    return not bool(np.any(same & (falls | differs)))
