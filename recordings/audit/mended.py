"""Count what a recording would show if its wrong clocks agreed with the others."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from recordings.audit.judged_clocks import JudgedClock
from recordings.audit.machine import Machine
from recordings.audit.plain_jobs import NEVER_NS
from recordings.audit.quantiles import clip_ns
from recordings.audit.spool import NONE, Spool


class Mended(NamedTuple):
    """The figures of a recording whose wrong clocks are corrected; duplicates do not count.

    Clocks that jump count only in `moved_windows`.

    Attributes:
        moved_windows: The numbers of the windows whose event count changes.
        late_ns: For each source, by number, how far each record that is out of time was behind.
        behind_own_ns: How far each record without a number was behind the newest of its source.
        newcomer_behind_ns: How far a source's first record was behind the newest of all sources,
            at most.
    """

    moved_windows: set[int]
    late_ns: list[array[int]]
    behind_own_ns: array[int]
    newcomer_behind_ns: int


MendColumns = Callable[[Spool, Sequence[JudgedClock | None], int], Mended | None]
"""Return the figures with these wrong clocks by source, or None if rows must be read one by one."""


def mend_rows(
    spool: Spool,
    machines: Iterable[Machine],
    clocks: Mapping[str, JudgedClock],
    length_ns: int,
    by_columns: MendColumns | None = None,
) -> Mended | None:
    """Return the figures of the rows after correcting wrong clocks, or None if none is wrong.

    Args:
        spool: The rows.
        machines: The sources by number.
        clocks: The judgments of their clocks, by name.
        length_ns: The length of the windows.
        by_columns: The function that corrects the rows of a table by columns, if they are such.
    """
    judged = [clocks.get(machine.name) for machine in machines]
    wrong = [clock if clock is not None and clock.is_wrong else None for clock in judged]
    if not any(wrong):
        return None
    found = None if by_columns is None else by_columns(spool, wrong, length_ns)
    return _mend(spool, wrong, length_ns) if found is None else found


def _mend(spool: Spool, clocks: list[JudgedClock | None], length_ns: int) -> Mended:
    moved: Counter[int] = Counter()
    late_ns = [array("q") for _ in clocks]
    behind_own_ns = array("q")
    own_ns = [NEVER_NS] * len(clocks)
    newest_ns = NEVER_NS
    newcomer_behind_ns = 0
    for row in spool.rows():
        if row.copy:
            continue
        clock, machine = clocks[row.machine], row.machine
        true_ns = row.ts_ns if clock is None else clock.mended_ns(row.ts_ns, row.at_ns)
        shown, true = row.ts_ns // length_ns, true_ns // length_ns
        if shown != true:
            moved[shown] -= 1
            moved[true] += 1
        if clock is not None and clock.jumps:
            continue  # When it jumped is known to a stretch only, so its order is not known.
        if own_ns[machine] == NEVER_NS:
            newcomer_behind_ns = max(newcomer_behind_ns, newest_ns - true_ns)
        elif row.seq == NONE and true_ns < own_ns[machine]:
            behind_own_ns.append(clip_ns(own_ns[machine] - true_ns))
        own_ns[machine] = max(own_ns[machine], true_ns)
        if true_ns < newest_ns:
            late_ns[machine].append(clip_ns(newest_ns - true_ns))
        newest_ns = max(newest_ns, true_ns)
    windows = {window for window, count in moved.items() if count}
    return Mended(windows, late_ns, behind_own_ns, newcomer_behind_ns)
