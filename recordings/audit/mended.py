"""Find the windows whose event count changes if the timestamps of wrong clocks are corrected."""

from __future__ import annotations

from collections import Counter

from recordings.audit.judged_clocks import JudgedClock
from recordings.audit.spool import Spool


def wrong_by_clock(spool: Spool, clocks: list[JudgedClock | None], length_ns: int) -> set[int]:
    """Return the numbers of the windows whose event count changes if wrong clocks are corrected.

    Duplicates are not counted.

    Args:
        spool: The rows.
        clocks: The judgments of wrong clocks, by number of the source; None for a right clock.
        length_ns: The length of the windows.
    """
    moved: Counter[int] = Counter()
    for row in spool.rows():
        clock = clocks[row.machine]
        if clock is None or row.copy:
            continue
        shown = row.ts_ns // length_ns
        true = clock.mended_ns(row.ts_ns, row.at_ns) // length_ns
        if shown != true:
            moved[shown] -= 1
            moved[true] += 1
    return {window for window, count in moved.items() if count}
