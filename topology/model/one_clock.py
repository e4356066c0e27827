"""How far two events are apart in true time.

The true time of each lies within its error. Where one clock stamped both (`has_one_clock`) more is
known: what it is behind is one number, so their stamps (`ts`) are as far apart as they are, but for
what a clock may drift over that distance. Their reference times say no more than their errors do:
within a segment the offset is estimated anew, and a stamp is raised to stay monotone, so what was
added may be another number for each event.

Where the two contradict each other the stamps are broken, and the errors alone count.

Windows reckon with the one number itself (`topology.window.unsure.shifts`), and with the same play.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from topology.model.event import Event

PPM: Final = 1_000_000


class Play(NamedTuple):
    """How far a clock is from being one number: `skew_ppm` of time, and the `granularity_ns` of its
    stamps."""

    skew_ppm: int
    granularity_ns: int = 0

    def over(self, distance_ns: int) -> int:
        return self.granularity_ns + -(-distance_ns * self.skew_ppm // PPM)


STEADY: Final = Play(0)

Distance = tuple[int, int]
"""At least and at most so long; below 0 where the other one is earlier."""


def has_one_clock(one: Event, other: Event) -> bool:
    """One clock stamped both, and no jump lies between."""
    return (
        one.source == other.source
        and one.epoch == other.epoch
        and one.segment == other.segment
        and one.stream == other.stream
    )


def distance(one: Event, other: Event, error_ns: int, play: Play) -> Distance:
    """In true time, from one event to the other. `error_ns`: of both together."""
    apart_ns = other.ref_time_ns - one.ref_time_ns
    least_ns, most_ns = apart_ns - error_ns, apart_ns + error_ns
    if error_ns and has_one_clock(one, other):
        stamped_ns = other.ts_ns - one.ts_ns
        play_ns = play.over(abs(stamped_ns))
        if stamped_ns - play_ns <= most_ns and stamped_ns + play_ns >= least_ns:
            least_ns = max(least_ns, stamped_ns - play_ns)
            most_ns = min(most_ns, stamped_ns + play_ns)
    return least_ns, most_ns
