"""Finds the plain case of windows: a run of events that only add to open windows.

An event is plain if all of these conditions hold:

* Its query has tumbling or sliding windows over the events that MERGE emits. The query has no
  `early`, no quality target, and not the uncertainty `thesis3`. No window depends on earlier ones
  (`empty`).
* It is a data event in order: not late, and not before W. It is certainly in one slice of time, and
  its time error is no larger than that of earlier events.
* That slice already has a pane, and there is room for one more.
* No window has to be emitted again at the end of the event's instant. W, raised to the event's
  time, closes no window and makes none final.

So nothing is due at any instant of the run. The work at the end of an instant is done once for the
whole run, and only the last instant stays open, as always. The events are read into columns by key,
and added one column at a time. If a query has cells other than a `Tally`, events are added one by
one.

Any other event is processed by itself on the general path (`operator`), which defines the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from topology.answer.frontier import Frontier
from topology.answer.settings import THESIS3
from topology.base.event import DATA, Event
from topology.queries.window.settings import SLIDING, TUMBLING, WindowQuery


class Room(NamedTuple):
    """The limits of a run: its events are in the slice [start, end) and before `limit_ns`.

    A run has at most `vacancies` events, because each of them may open a pane.
    """

    start_ns: int
    end_ns: int
    limit_ns: int
    vacancies: int


def has_plain_case(query: WindowQuery, *, ordered: bool) -> bool:
    return (
        ordered
        and query.window.kind in (TUMBLING, SLIDING)
        and query.emits_every_ns == 0
        and query.quality is None
        and query.uncertainty != THESIS3
        and not query.is_filled
    )


def find_plain_end(
    events: Sequence[Event], begun: int, room: Room, frontier: Frontier, *, heeds_errors: bool
) -> int:
    """Return the index after the last event of the run of plain events that begins at `begun`."""
    start_ns, end_ns, limit_ns, vacancies = room
    watermark_ns, error_ns = frontier.watermark_ns, frontier.error_ns
    at = begun
    for event in events[begun : begun + vacancies]:
        ref_ns = event.ref_time_ns
        if event.kind != DATA or event.late or not watermark_ns <= ref_ns < limit_ns:
            break
        if event.error_ns and heeds_errors:
            reach_ns = event.error_ns
            if reach_ns > error_ns or ref_ns - reach_ns < start_ns or ref_ns + reach_ns >= end_ns:
                break
        watermark_ns = ref_ns
        at += 1
    return at


def find_last_instant(events: Sequence[Event], begun: int, end: int) -> int:
    """Return the index at which the instant of the last event of [begun, end) begins."""
    at_ns = events[end - 1].at_ns
    while end > begun and events[end - 1].at_ns == at_ns:
        end -= 1
    return end
