"""Find the epochs of the rows of a table, with the results of `recordings.audit.judged_epochs`.

A source has not restarted if its timestamps rise with its numbers, and equal numbers have equal
timestamps. Then no event is a suspect (`topology.reorder.trial`). If this is so for all sources,
all epochs are 0. Otherwise REORDER judges all rows, since its waits depend on all sources.
"""

from __future__ import annotations

import numpy as np

from recordings.audit.by_columns.grouped import Ints
from recordings.audit.columns import Columns
from recordings.audit.judged_epochs import EpochJudge, TimedRow
from recordings.audit.spool import NONE


def epochs_of(columns: Columns, at_ns: Ints, judge: EpochJudge) -> Ints:
    """Return the epoch of each row, which is 0 for a row without a number."""
    unknown = (columns.seq != NONE) & (columns.epoch == NONE)
    if not _rise(columns, unknown):
        rows = map(TimedRow, columns.rows(), at_ns.tolist())
        judged = (each.epoch or 0 for each in judge.judge(rows))
        return np.fromiter(judged, np.int64, len(columns))
    return np.where(columns.epoch == NONE, 0, columns.epoch)


def _rise(columns: Columns, unknown: Ints) -> bool:
    """Return whether timestamps rise with the numbers in the rows whose epochs are unknown."""
    source, seq, ts_ns = (each[unknown] for each in (columns.source, columns.seq, columns.ts_ns))
    order = np.lexsort((seq, source))
    source, seq, ts_ns = source[order], seq[order], ts_ns[order]
    same = source[1:] == source[:-1]
    falls = ts_ns[1:] < ts_ns[:-1]
    differs = (seq[1:] == seq[:-1]) & (ts_ns[1:] != ts_ns[:-1])
    return not bool(np.any(same & (falls | differs)))
