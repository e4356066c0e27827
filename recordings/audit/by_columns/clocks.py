"""Read the clocks of all sources by columns, as `ClockReadings` and `StampJumps` do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from recordings.audit.by_columns.grouped import Ints, group_rows
from recordings.audit.clock_readings import FIRST_WIDTH_NS, MAX_STRETCHES
from recordings.audit.machine import Machine
from recordings.audit.stamp_jumps import AHEAD_NS, BACK_NS


def note_readings(source: Ints, at_ns: Ints, reading_ns: Ints, machines: Sequence[Machine]) -> None:
    """Note the readings of rows that are grouped by source, and within it in order of `at_ns`."""
    number = at_ns // FIRST_WIDTH_NS
    readings = np.ones(len(source), np.int64)
    width = np.zeros(len(machines), np.int64)  # How often the stretches of a source were widened.
    source, number, reading_ns, readings = _merge(source, number, reading_ns, readings)
    while True:
        many = np.bincount(source, minlength=len(machines)) > MAX_STRETCHES
        if not many.any():
            break
        width += many
        number = np.where(many[source], number // 2, number)
        source, number, reading_ns, readings = _merge(source, number, reading_ns, readings)
    starts = np.searchsorted(source, np.arange(len(machines) + 1)).tolist()
    numbers, largest, counts = number.tolist(), reading_ns.tolist(), readings.tolist()
    for machine, widened, begin, end in zip(
        machines, width.tolist(), starts, starts[1:], strict=False
    ):
        found = {numbers[at]: (largest[at], counts[at]) for at in range(begin, end)}
        machine.readings.put(FIRST_WIDTH_NS << widened, found)


def _merge(source: Ints, number: Ints, reading_ns: Ints, readings: Ints) -> tuple[Ints, ...]:
    """Merge neighbours of the same source and stretch."""
    if not len(source):
        return source, number, reading_ns, readings
    changes = np.ones(len(source), np.bool_)
    changes[1:] = (source[1:] != source[:-1]) | (number[1:] != number[:-1])
    starts = np.flatnonzero(changes)
    largest = np.maximum.reduceat(reading_ns, starts)
    return source[starts], number[starts], largest, np.add.reduceat(readings, starts)


def note_jumps(source: Ints, ts_ns: Ints, machines: Sequence[Machine]) -> None:
    """Note the timestamps of rows that are grouped by source, in their order."""
    if not len(source):
        return
    groups = group_rows(source)
    step_ns = np.zeros(len(ts_ns), np.int64)
    step_ns[1:] = ts_ns[1:] - ts_ns[:-1]
    step_ns[groups.starts] = 0
    may_jump = np.logical_or.reduceat((step_ns > AHEAD_NS) | (step_ns < -BACK_NS), groups.starts)
    for of, begin, end, is_odd in zip(
        source[groups.starts].tolist(),
        groups.starts.tolist(),
        groups.ends.tolist(),
        may_jump.tolist(),
        strict=True,
    ):
        jumps = machines[of].jumps
        for each_ns in ts_ns[begin if is_odd else end - 1 : end].tolist():
            jumps.note(each_ns)
