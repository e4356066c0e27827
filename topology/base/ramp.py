"""Represents many watermarks of an idle stream by one event, a ramp.

If no source is live and nothing is buffered, the watermark follows the arrival clock at a fixed
distance. It advances at each multiple of `heartbeat`, called a beat. It does the same if all live
sources are ahead of the clock. One record for each beat would be five records a second that nobody
needs, perhaps for days. So MERGE emits one event for all beats that pass at once, a *ramp*. It is
the watermark of its last beat, with these fields:

* `arrival_ns`, the first beat that it represents;
* `seq`, the number of beats besides the last;
* `ts_ns`, the completeness frontier at the first beat. From there the frontier rises with the
  clock, at most to `complete_ns`.

An operator that decides by watermarks must behave as if each of them had arrived at its own
instant. Otherwise its results would depend on how much time passed in one call. `iter_due_beats`
yields the beats at which something has to be decided. It may yield more beats, which changes
nothing.

A record on a topic may be a ramp or the watermark of one beat. Readers must not rely on the number
of records.

Cost: O(log beats) calls of `is_due` for each beat at which something is decided.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from topology.base.event import WATERMARK, Event

IsDue = Callable[[Sequence[Event]], bool]
"""A function that returns whether these watermarks, of one instant, or later ones decide anything.
"""
DUE: Final = True


def is_ramp(event: Event) -> bool:
    return event.kind == WATERMARK and event.seq > 0


def make_ramp(watermark: Event, since_ns: int, every_ns: int, complete_ns: int) -> None:
    """Turn the watermark into a ramp whose first beat is `since_ns`.

    The completeness frontier was `complete_ns` at that beat.
    """
    watermark.arrival_ns = since_ns
    watermark.seq = (watermark.at_ns - since_ns) // every_ns
    watermark.ts_ns = complete_ns


def beat_interval_ns(event: Event) -> int:
    return (event.at_ns - event.arrival_ns) // event.seq


def watermark_at(event: Event, beat_ns: int) -> Event:
    """Return the watermark of the ramp at one of its beats."""
    watermark_ns = event.ref_time_ns - (event.at_ns - beat_ns)
    watermark = Event(event.stream, "", 0, 0, watermark_ns, beat_ns, kind=WATERMARK)
    watermark.complete_ns = min(event.complete_ns, event.ts_ns + beat_ns - event.arrival_ns)
    watermark.error_ns, watermark.error_all_ns = event.error_ns, event.error_all_ns
    return watermark


def cut_part(event: Event, first_ns: int, last_ns: int) -> Event:
    """Return the part of the ramp from the beat `first_ns` to the beat `last_ns`."""
    watermark = watermark_at(event, last_ns)
    if first_ns < last_ns:
        make_ramp(
            watermark, first_ns, beat_interval_ns(event), watermark_at(event, first_ns).complete_ns
        )
    return watermark


def iter_due_beats(ramps: Sequence[Event], is_due: IsDue) -> Iterator[list[Event]]:
    """Yield the watermarks of each beat at which something is due, one beat at a time.

    The caller must process each list before it asks for the next. `ramps` are ramps of several
    streams, with beats at the same times.
    """
    every_ns = min([beat_interval_ns(event) for event in ramps if event.seq], default=1)
    left = list(ramps)
    beat_ns = min(event.arrival_ns for event in left)
    while left:
        active = [event for event in left if event.arrival_ns <= beat_ns]
        ends = [event.at_ns for event in active]
        ends += [event.arrival_ns - every_ns for event in left if event.arrival_ns > beat_ns]
        count = (min(ends) - beat_ns) // every_ns
        beat_ns += every_ns * bisect_left(
            range(count),
            DUE,
            key=lambda n: is_due([watermark_at(event, beat_ns + n * every_ns) for event in active]),
        )
        yield [watermark_at(event, beat_ns) for event in active]
        beat_ns += every_ns
        left = [event for event in left if event.at_ns >= beat_ns]
        if left:
            beat_ns = max(beat_ns, min(event.arrival_ns for event in left))


def iter_pieces(
    events: Sequence[Event], now_ns: int, is_due: IsDue
) -> Iterator[tuple[Sequence[Event], int]]:
    """Yield the batch of one stream in pieces, each with the time at its end.

    A ramp is replaced by its beats at which something is due. The caller must process each piece
    before it asks for the next.
    """
    begun = 0
    for at, event in enumerate(events):
        # This is `is_ramp`, inlined because it runs for each event.
        if event.kind == WATERMARK and event.seq > 0:
            if begun < at:
                yield events[begun:at], events[at - 1].at_ns
            for watermarks in iter_due_beats([event], is_due):
                yield watermarks, watermarks[0].at_ns
            begun = at + 1
    yield events[begun:] if begun else events, now_ns


def side_by_side(events: Sequence[Event]) -> Iterator[tuple[list[Event], list[Event]]]:
    """Yield the events of several streams in the order of `at_ns`, as pairs of ramps and others.

    A pair has either parts of ramps (for `iter_due_beats`), or the other events that follow. No
    part of a ramp extends beyond the instant of another event.
    """
    others = [event for event in events if not is_ramp(event)]
    instants_ns = [event.at_ns for event in others]
    parts: dict[int, list[Event]] = {}
    for event in events:
        if is_ramp(event):
            for at, piece in _split_ramp(event, instants_ns):
                parts.setdefault(at, []).append(piece)
    begun = 0
    for at in sorted(parts):
        yield [], others[begun:at]
        yield parts[at], []
        begun = at
    yield [], others[begun:]


def _split_ramp(event: Event, instants_ns: Sequence[int]) -> Iterator[tuple[int, Event]]:
    """Cut a ramp at the instants; yield each part with the number of instants before it."""
    first_ns, every_ns = event.arrival_ns, beat_interval_ns(event)
    while first_ns <= event.at_ns:
        last_ns = event.at_ns
        at = bisect_left(instants_ns, first_ns)
        if at < len(instants_ns) and instants_ns[at] < last_ns:
            last_ns = first_ns + (instants_ns[at] - first_ns) // every_ns * every_ns
        yield at, cut_part(event, first_ns, last_ns)
        first_ns = last_ns + every_ns
