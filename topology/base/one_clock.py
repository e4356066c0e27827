"""Computes bounds of the distance in event time between two events.

The event time of each is within its error. If one clock stamped both events (`has_one_clock`), the
bounds are tighter. Both timestamps then have the same clock offset. So the difference of the
timestamps (`ts`) is the distance, except for the clock's drift in between.

Corrected timestamps do not give these tighter bounds. Within a segment the offset is estimated
repeatedly, and a timestamp is raised to stay monotonic. So each event may have another correction.

If the two bounds contradict each other, the timestamps are wrong and only the errors are used.

Windows use the common offset itself (`topology.queries.window.unsure.shifts`), with the same
`Play`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from topology.base.event import Event

PPM: Final = 1_000_000


class Play(NamedTuple):
    """The limits within which a clock's offset counts as constant.

    `skew_ppm` is the largest drift of the clock in millionths of the elapsed time. `granularity_ns`
    is the resolution of its timestamps.
    """

    skew_ppm: int
    granularity_ns: int = 0

    def over(self, distance_ns: int) -> int:
        return self.granularity_ns + -(-distance_ns * self.skew_ppm // PPM)


STEADY: Final = Play(0)

Distance = tuple[int, int]
"""The smallest and the largest distance in ns, negative if the second event is earlier."""


def has_one_clock(one: Event, other: Event) -> bool:
    """Return whether one clock stamped both events without a jump in between."""
    return (
        one.source == other.source
        and one.epoch == other.epoch
        and one.segment == other.segment
        and one.stream == other.stream
    )


def distance(one: Event, other: Event, error_ns: int, play: Play) -> Distance:
    """Return the bounds of the distance in event time from one event to the other.

    `error_ns` is the sum of both events' errors.
    """
    apart_ns = other.ref_time_ns - one.ref_time_ns
    least_ns, most_ns = apart_ns - error_ns, apart_ns + error_ns
    if error_ns and has_one_clock(one, other):
        stamped_ns = other.ts_ns - one.ts_ns
        play_ns = play.over(abs(stamped_ns))
        if stamped_ns - play_ns <= most_ns and stamped_ns + play_ns >= least_ns:
            least_ns = max(least_ns, stamped_ns - play_ns)
            most_ns = min(most_ns, stamped_ns + play_ns)
    return least_ns, most_ns
