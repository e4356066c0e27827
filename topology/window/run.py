"""The plain case of windows: a run of events that do nothing but belong to windows that are open.

An event is plain if all of this holds; what is not plain takes the general path (`operator`), one
event at a time, which is the definition:

* its query has windows of fixed times over what MERGE lets go, and no `early`, no quality target
  and not the uncertainty `thesis3`;
* it is an event, in order (not late, and not before W), certainly in one slice of time, and no
  less sure than what came before;
* that slice has a pane already, and there is room for one more;
* nothing waits for its instant to be over to be emitted anew, and W, up to the event, closes no
  window and makes none final.

So nothing is due at any instant of the run, what one instant after the other would have done is
done once, and only the last one is left open, as always. The events are read into columns by key,
and added a column at a time. Where a query has other aggregates than a `Tally` holds they are added
one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from topology.answer.frontier import Frontier
from topology.answer.settings import THESIS3
from topology.model.event import DATA, Event
from topology.window.settings import SLIDING, TUMBLING, WindowSettings


class Room(NamedTuple):
    """Where plain events may lie: [start, end) is the slice, W stays below `limit_ns`; at most
    `vacancies` may open a pane."""

    start_ns: int
    end_ns: int
    limit_ns: int
    vacancies: int


def has_plain_case(query: WindowSettings, *, ordered: bool) -> bool:
    return (
        ordered
        and query.windows.kind in (TUMBLING, SLIDING)
        and query.emits_every_ns == 0
        and query.quality is None
        and query.uncertainty != THESIS3
    )


def plain_until(
    events: Sequence[Event], begun: int, room: Room, frontier: Frontier, *, heeds_errors: bool
) -> int:
    """Return how far the run that begins there goes."""
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


def last_instant(events: Sequence[Event], begun: int, end: int) -> int:
    """Where the instant of the last event of [begun, end) begins."""
    at_ns = events[end - 1].at_ns
    while end > begun and events[end - 1].at_ns == at_ns:
        end -= 1
    return end
