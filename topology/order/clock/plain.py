"""Corrects runs of plain events of one source, at a small cost per event.

The event before a run has already been corrected. An event belongs to the run if

* no event of another source comes between;
* its arrival makes no further report apply;
* its timestamp is in the same cell, with constant offset and error;
* its reading (arrival - timestamp) neither contradicts the clock nor moves the smallest reading;
* it is neither a control event nor late, its time does not decrease, and it is not too far behind;
* there are no votes for a jump of the clock, and no event of the source was ever set back.

So all events of the run get the same offset, error and segment. Cost: O(1) per event, with a small
constant.
"""

from __future__ import annotations

from topology.base.event import DATA, Event
from topology.order.clock.source_clock import SourceClock


def correct_plain_run(
    clock: SourceClock, batch: list[Event], at: int, jump_min_ns: int, max_behind_ns: int
) -> int:
    """Correct the plain events from the index `at` on, and return the index after the last of them.

    The event before `at` is of the source of `clock` and has already been corrected.
    """
    cell = clock.cell
    if cell.offset_step_ns or cell.error_step_ns or (clock.watched and not clock.steady):
        return at
    source = clock.source
    offset_ns, error_ns, segment = cell.offset_ns, cell.error_ns, clock.segment
    start_ns = cell.start_ns
    end_ns = min(cell.end_ns, clock.bin_end_ns)
    least_ns = max(clock.least_reading_ns, clock.notable_ns)
    most_ns = max_behind_ns + offset_ns
    due_ns = clock.due_ns
    received_ns = clock.last_arrival_ns
    newest_ns = clock.ref_time_ns
    first, last = at, len(batch)
    while at < last:
        event = batch[at]
        ts_ns = event.ts_ns
        arrival_ns = event.arrival_ns
        ref_time_ns = ts_ns + offset_ns if offset_ns else ts_ns
        if (
            event.source != source
            or event.kind != DATA
            or event.late
            or ref_time_ns < newest_ns
            or not start_ns <= ts_ns < end_ns
            or not least_ns <= arrival_ns - ts_ns <= most_ns
            or arrival_ns >= due_ns
        ):
            break
        if arrival_ns > received_ns:
            received_ns = arrival_ns
        event.ref_time_ns = newest_ns = ref_time_ns
        event.error_ns = error_ns
        event.segment = segment
        at += 1
    if at > first:
        clock.ref_time_ns = newest_ns
        clock.newest_ts_ns = max(clock.newest_ts_ns, newest_ns - offset_ns)
        clock.last_arrival_ns = received_ns
        if clock.watched:
            clock.fallen_ns = newest_ns - offset_ns - jump_min_ns
    return at
