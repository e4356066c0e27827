"""Count the rows of a table by columns, with the results of `recordings.audit.counting`.

`Counting`, which takes row by row, is the definition. Tables with values at which columns of int64
could overflow, or that exceed a bound of `Counting`, are not countable.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np

from recordings.audit.by_columns.clocks import note_jumps, note_readings
from recordings.audit.by_columns.epochs import epochs_of
from recordings.audit.by_columns.grouped import Flags, Groups, Ints, group_rows, shift
from recordings.audit.by_columns.lateness import lateness_of, split_by_group, to_array
from recordings.audit.by_columns.numbers import Numbered, track_numbers
from recordings.audit.columns import Columns
from recordings.audit.counting import MAX_MACHINES, Counting
from recordings.audit.machine import Machine
from recordings.audit.numbers import MAX_GAPS
from recordings.audit.plain_jobs import MAX_WINDOWS
from recordings.audit.spool import NONE, Spool
from topology.base.stamp_clock import StampClock
from topology.records.checker import AS_WRITTEN

FAR_NS: Final = 1 << 61
"""The largest time and duration of a countable table, so that no sum of a few exceeds int64."""

ROW: Final = np.dtype(
    [
        *((name, "<i8") for name in ("ts_ns", "at_ns", "arrival_ns", "seq", "epoch")),
        ("machine", "<i4"),
        ("partition", "<i4"),
        ("digest", "<u4"),
        ("copy", "?"),
    ]
)


def is_countable(columns: Columns, length_ns: int, bounds_ns: tuple[int, ...]) -> bool:
    """Return whether `count_columns` can count the rows of a table.

    Args:
        columns: The table.
        length_ns: The length of windows.
        bounds_ns: The watermark bounds of the plain jobs.
    """
    came_ns = columns.arrival_ns[columns.arrival_ns != NONE]
    return (
        0 < len(columns) <= MAX_GAPS
        and len(columns.names) <= MAX_MACHINES
        and max(length_ns, *bounds_ns) <= FAR_NS
        and all(_is_near(each) for each in (columns.ts_ns, came_ns))
        and len(np.unique(columns.ts_ns // length_ns)) <= MAX_WINDOWS
    )


def _is_near(times_ns: Ints) -> bool:
    return not len(times_ns) or (times_ns.min() >= -FAR_NS and times_ns.max() <= FAR_NS)


def count_columns(columns: Columns, counting: Counting, spool: Spool) -> None:
    """Count the rows of a countable table, and write them to the spool."""
    at_ns = _arrival_clock(columns)
    counting.rows = len(columns)
    counting.first_ns, counting.last_ns = int(at_ns[0]), int(at_ns[-1])
    partition = counting.order.partitions[0]
    machines = [counting.add_machine(name, partition) for name in columns.names]
    _count_kinds(columns, counting)
    counting.numbered = bool(np.any(columns.seq != NONE))
    epoch = epochs_of(columns, at_ns)
    found = track_numbers(columns, epoch, at_ns, machines)
    groups = group_rows(columns.source)
    _count_records(machines, groups, at_ns, found)
    _count_late(columns, counting, machines, groups, found)
    _read_clocks(columns, counting, machines, groups, at_ns, found)
    _count_jobs(columns, counting, machines, found.copy)
    table = np.empty(len(columns), ROW)
    for name in ("ts_ns", "arrival_ns", "seq", "epoch"):
        table[name] = getattr(columns, name)
    table["at_ns"], table["machine"], table["copy"] = at_ns, columns.source, found.copy
    table["partition"], table["digest"] = partition, 0
    spool.put(table.tobytes())


def _arrival_clock(columns: Columns) -> Ints:
    """Return the time of the arrival clock after each row."""
    came_ns = columns.arrival_ns
    missing = np.flatnonzero(came_ns == NONE)
    if len(missing):
        came_ns = came_ns.copy()
        came_ns[missing] = _stamp_clock(columns, missing)
    return np.maximum.accumulate(came_ns)


def _stamp_clock(columns: Columns, rows: Ints) -> Ints:
    """Return the times of the clock of records without arrivals, for these rows."""
    ts_ns = columns.ts_ns[rows]
    clock = StampClock(AS_WRITTEN.max_ahead_ns)
    newest_ns = np.maximum.accumulate(ts_ns)
    if not np.any(ts_ns[1:] > newest_ns[:-1] + AS_WRITTEN.max_ahead_ns):
        return newest_ns
    sources = map(columns.names.__getitem__, columns.source[rows].tolist())
    return np.fromiter(map(clock.take, ts_ns.tolist(), sources), np.int64, len(rows))


def _count_kinds(columns: Columns, counting: Counting) -> None:
    """Count the records of each source with a number and without."""
    numbered = columns.seq != NONE
    kind = 2 * columns.source + numbered
    kinds, first, counts = np.unique(kind, return_index=True, return_counts=True)
    by_first = np.argsort(first)
    found = (each[by_first].tolist() for each in (kinds, columns.offset[first], counts))
    for each, offset, count in zip(*found, strict=True):
        counting.kinds.put(columns.names[each // 2], bool(each % 2), offset, count)


def _count_records(machines: list[Machine], groups: Groups, at_ns: Ints, found: Numbered) -> None:
    """Count the records of each source, and find its longest silence."""
    ordered_ns = at_ns[groups.order]
    silence_ns = np.zeros(len(ordered_ns), np.int64)
    silence_ns[1:] = ordered_ns[1:] - ordered_ns[:-1]
    silence_ns[groups.starts] = 0
    counts = zip(
        machines,
        (groups.ends - groups.starts).tolist(),
        ordered_ns[groups.starts].tolist(),
        ordered_ns[groups.ends - 1].tolist(),
        np.maximum.reduceat(silence_ns, groups.starts).tolist(),
        *(
            np.add.reduceat(each[groups.order].astype(np.int64), groups.starts).tolist()
            for each in found
        ),
        strict=True,
    )
    for machine, records, first_ns, last_ns, longest_ns, copies, behind in counts:
        machine.records, machine.copies, machine.out_of_sequence = records, copies, behind
        machine.first_ns, machine.at_ns, machine.longest_silence_ns = first_ns, last_ns, longest_ns


def _count_late(
    columns: Columns, counting: Counting, machines: list[Machine], groups: Groups, found: Numbered
) -> None:
    """Find how far records were behind the newest of the stream and of their own source."""
    behind = lateness_of(columns.ts_ns, groups, found.copy)
    counting.newcomer_behind_ns = behind.newcomer_behind_ns
    order, fall_ns = groups.order, behind.fall_ns
    unnumbered = columns.seq[order] == NONE
    chosen = (fall_ns > 0) & unnumbered
    counting.behind_own_ns = to_array(fall_ns[chosen][np.argsort(order[chosen])])
    is_own = columns.ts_ns[order] != columns.arrival_ns[order]
    set_back = (fall_ns > 0) & ~unnumbered & ~found.behind[order] & is_own
    for machine, late_ns, newest_ns, set_back_ns in zip(
        machines,
        behind.late_ns,
        behind.newest_ns.tolist(),
        split_by_group(fall_ns, set_back, groups),
        strict=True,
    ):
        machine.late_ns, machine.newest_ns = late_ns, newest_ns
        machine.set_back_ns = set_back_ns


def _read_clocks(
    columns: Columns,
    counting: Counting,
    machines: list[Machine],
    groups: Groups,
    at_ns: Ints,
    found: Numbered,
) -> None:
    """Read the clocks of all sources, but not from duplicates and records out of sequence."""
    order = groups.order[~(found.copy | found.behind)[groups.order]]
    source, ts_ns, at_ns, came_ns = (
        each[order] for each in (columns.source, columns.ts_ns, at_ns, columns.arrival_ns)
    )
    if counting.arrives:
        reading_ns = ts_ns - np.where(came_ns == NONE, at_ns, came_ns)
        note_readings(source, at_ns, reading_ns, machines)
    else:
        note_jumps(source, ts_ns, machines)


def _count_jobs(columns: Columns, counting: Counting, machines: list[Machine], copy: Flags) -> None:
    """Count the windows of the plain jobs, and which source makes them wrong."""
    jobs, ts_ns, source = counting.jobs, columns.ts_ns, columns.source
    window = ts_ns // jobs.length_ns
    newest_ns = shift(np.maximum.accumulate(ts_ns), -FAR_NS)
    behind_ns = newest_ns - (window + 1) * jobs.length_ns
    dropping = np.searchsorted(np.array(jobs.bounds_ns), behind_ns, side="right")
    dropping[newest_ns <= ts_ns] = 0
    dropped = [dropping > at for at in range(len(jobs.bounds_ns))]
    jobs.put(
        _to_counter(window[~copy]),
        _to_counter(window[copy]),
        [_to_counter(window[each]) for each in dropped],
        [_to_counter(window[each & copy]) for each in dropped],
    )
    shown = dropping > counting.shown
    counted = copy & ~shown
    rows_dropped = np.bincount(source[shown], minlength=len(machines)).tolist()
    copies_counted = np.bincount(source[counted], minlength=len(machines)).tolist()
    for machine, lost, doubled in zip(machines, rows_dropped, copies_counted, strict=True):
        machine.rows_dropped, machine.copies_counted = lost, doubled
    wrong = shown | counted
    windows, index = np.unique(window[wrong], return_inverse=True)
    pairs = np.unique(source[wrong] * len(windows) + index)
    for of, each in zip(
        (pairs // max(1, len(windows))).tolist(),
        windows[pairs % max(1, len(windows))].tolist(),
        strict=True,
    ):
        machines[of].wrong_windows.add(each)


def _to_counter(windows: Ints) -> Counter[int]:
    numbers, counts = np.unique(windows, return_counts=True)
    return Counter(dict(zip(numbers.tolist(), counts.tolist(), strict=True)))
