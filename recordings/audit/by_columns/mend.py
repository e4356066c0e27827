"""Correct wrong clocks by columns, as `recordings.audit.mended` does row by row."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from recordings.audit.by_columns.count import FAR_NS, ROW
from recordings.audit.by_columns.grouped import Ints, group_rows
from recordings.audit.by_columns.lateness import lateness_of, to_array
from recordings.audit.judged_clocks import PPM, JudgedClock
from recordings.audit.mended import Mended
from recordings.audit.spool import NONE, Spool

FAR_OFFSET_NS: Final = FAR_NS // 4
"""The largest correction by columns, so that no difference of corrected times exceeds int64."""


def mend_columns(
    spool: Spool, clocks: Sequence[JudgedClock | None], length_ns: int
) -> Mended | None:
    """Return the figures of a table's rows, or None if a corrected time is too far away.

    `clocks` has the judgment of each wrong clock, by the number of the source.
    """
    table = np.frombuffer(b"".join(spool.pages()), ROW)
    table = table[~table["copy"]]
    source, ts_ns = table["machine"].astype(np.int64), table["ts_ns"].astype(np.int64)
    true_ns = ts_ns.copy()
    for number, clock in enumerate(clocks):
        if clock is not None:
            rows = np.flatnonzero(source == number)
            offset_ns = _offset_ns(clock, table["at_ns"][rows].astype(np.int64))
            if np.any(np.abs(offset_ns) > FAR_OFFSET_NS):
                return None
            true_ns[rows] -= offset_ns.astype(np.int64)
    shown, true = ts_ns // length_ns, true_ns // length_ns
    moves = shown != true
    windows, index = np.unique(np.concatenate([shown[moves], true[moves]]), return_inverse=True)
    count = np.count_nonzero(moves)
    gains = np.bincount(index[count:], minlength=len(windows))
    gains -= np.bincount(index[:count], minlength=len(windows))
    # When a clock has jumped is known to a stretch only, so the order of its records is not known.
    jumps = np.array([clock is not None and clock.jumps > 0 for clock in clocks])
    kept = ~jumps[source]
    source, seq, true_ns = source[kept], table["seq"][kept], true_ns[kept]
    groups = group_rows(source)
    behind = lateness_of(true_ns, groups, np.zeros(len(source), np.bool_))
    late_ns = [array("q") for _ in clocks]
    for number, each_ns in zip(source[groups.order][groups.starts], behind.late_ns, strict=True):
        late_ns[number] = each_ns
    chosen = (behind.fall_ns > 0) & (seq[groups.order] == NONE)
    own_ns = to_array(behind.fall_ns[chosen][np.argsort(groups.order[chosen])])
    return Mended({*windows[gains != 0].tolist()}, late_ns, own_ns, behind.newcomer_behind_ns)


def _offset_ns(clock: JudgedClock, at_ns: Ints) -> NDArray[np.float64] | Ints:
    """Return how far the clock is ahead at these times, as `JudgedClock.mended_ns` subtracts it."""
    if clock.drifts and clock.drift_ppm is not None:
        since_ns = at_ns - clock.middle_ns
        drift_ns = np.rint(clock.drift_ppm * since_ns / PPM)
        if np.any(np.abs(drift_ns) > FAR_OFFSET_NS):
            return drift_ns
        return clock.offset_ns + drift_ns.astype(np.int64)
    begins_ns, offsets_ns = (np.array(each, np.int64) for each in zip(*clock.segments, strict=True))
    segment = np.searchsorted(begins_ns, at_ns, side="right") - 1
    return offsets_ns[np.maximum(segment, 0)]
