"""Computes extreme sums over possible worlds, in which each clock has a single error.

The event time is ts + theta, where theta is the amount by which the source's clock is slow. Within
one segment of the clock, theta is constant. Each uncertain event allows the theta in [ref - err -
ts, ref + err - ts], so the clock's theta is in all of these intervals. As theta increases, events
enter and leave a window one by one, so the sum of their sizes is a step function. Its extremes over
the allowed theta are the extremes of that clock. Clocks are independent, so their extremes add up.

These bounds are much narrower than with a free choice for each event. If a source sends evenly,
about as many events leave at one edge as enter at the other.

A slack allows for the drift of clocks. Over the window, theta changes by at most the play of its
clock (`topology.base.one_clock`) over the distance from the window's middle. An event within the
slack of an edge may be on either side of it. The slack grows with the window. So for long windows
the two edges are better treated separately, because each then needs slack only for its own
uncertain events. The narrower of the two results is used. If the events of one clock allow no
common theta, its timestamps are broken, and each event may be in or out independently.

Cost: O(m log m) for m uncertain events.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from topology.base.one_clock import Play
from topology.queries.window.aggregates.sums import find_free_spread
from topology.queries.window.unsure.event import Span, UnsureEvent

Sized = tuple[UnsureEvent, int]
"""An event, and the size that it adds to the sum if it is in the window."""
Spread = tuple[int, int]


def spread(events: Sequence[Sized], span: Span, play: Play) -> Spread:
    """Return the smallest and the largest sum of sizes in the span, over all possible worlds."""
    clocks: dict[tuple[str, int, int], list[Sized]] = {}
    for event, size in events:
        clocks.setdefault(event.clock, []).append((event, size))
    low = high = 0
    for own in clocks.values():
        least, most = _find_clock_spread(own, span, play)
        low += least
        high += most
    return low, high


def _find_clock_spread(events: Sequence[Sized], span: Span, play: Play) -> Spread:
    start_ns, end_ns = span
    error_ns = max(event.error_ns for event, _ in events)
    slack_ns = play.over((end_ns - start_ns) // 2 + error_ns + 1)
    low, high = _find_shared_spread(events, span, slack_ns)
    at_start: list[Sized] = []
    at_end: list[Sized] = []
    at_both: list[Sized] = []
    for event, size in events:
        ends_inside = event.ref_time_ns + event.error_ns < end_ns
        begins_inside = event.ref_time_ns - event.error_ns >= start_ns
        where = at_start if ends_inside else at_end if begins_inside else at_both
        where.append((event, size))
    slack_ns = play.over(error_ns + 1)
    parts = [_find_shared_spread(part, span, slack_ns) for part in (at_start, at_end) if part]
    parts.append(_find_free_spread(at_both))
    return max(low, sum(part[0] for part in parts)), min(high, sum(part[1] for part in parts))


def _find_free_spread(events: Sequence[Sized]) -> Spread:
    """Return the smallest and the largest sum if each event may be in or out independently."""
    return find_free_spread([size for _, size in events])


def _find_shared_spread(events: Sequence[Sized], span: Span, slack_ns: int) -> Spread:
    """Return the smallest and the largest sum if all events share one theta, within the slack."""
    least = max(event.ref_time_ns - event.error_ns - event.ts_ns for event, _ in events) - slack_ns
    most = min(event.ref_time_ns + event.error_ns - event.ts_ns for event, _ in events) + slack_ns
    if least > most:
        return _find_free_spread(events)
    lower: list[tuple[int, int]] = []
    upper: list[tuple[int, int]] = []
    for event, size in events:
        enters, leaves = span[0] - event.ts_ns, span[1] - event.ts_ns
        wide, narrow = (upper, lower) if size > 0 else (lower, upper)
        wide += [(enters - slack_ns, size), (leaves + slack_ns, -size)]
        if enters + slack_ns < leaves - slack_ns:
            narrow += [(enters + slack_ns, size), (leaves - slack_ns, -size)]
    return _find_lowest(lower, least, most), -_find_lowest(
        [(at, -size) for at, size in upper], least, most
    )


def _find_lowest(steps: list[tuple[int, int]], first: int, last: int) -> int:
    """Return the smallest value on [first, last] of a step function that starts at 0.

    Each step (`at`, `size`) adds `size` from `at` on.
    """
    level = lowest = sum([size for at, size in steps if at <= first])
    inside = sorted([step for step in steps if first < step[0] <= last])
    for (at, size), (following, _) in pairwise([*inside, (last + 1, 0)]):
        level += size
        if following > at and level < lowest:
            lowest = level
    return lowest
