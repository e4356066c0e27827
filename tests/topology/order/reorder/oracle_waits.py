"""Oracle of the wait for a gap: the four rules, each computed from the whole history.

A rule answers from a `History`: the events of the stream before the one that revealed the gap.
Readings where reorder_drift_merge.md is open:

* `miss`: each missing number that arrives gives a sample, even if several are in one gap. Here n is
the number of gaps opened before this one. A source is warm with 32 samples or 100 openings ever.
Otherwise the stream's counts are used if they are warm, otherwise the cap. Openings and samples of
each epoch count. With fewer gaps than 1 / miss (2,048 at most) the wait is longer by binary digits
of that over binary digits of the gaps.

* `thesis`, `rfc`: the cap until the source is warm by the same count; the stream's histogram is not
used. Each update rounds down once. The values of t_inter are arrivals of two consecutive numbers
that were both emitted in the instant and by the act of their own arrival. Those of t_buffer are
each event that was emitted later than it arrived, in the order of emission. The hold of a start or
an epoch counts like any other. The second sample's deviation is taken from the updated average
(thesis) or the old one (rfc), as for all later ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from tests.topology.base.oracle_histogram import HALVE_EVERY, MILLION, UNIT, Histogram

WARM_FILLED: Final = 32
WARM_OPENED: Final = 100


class Opened(NamedTuple):
    """An event revealed a gap."""

    source: str


class Filled(NamedTuple):
    """A missing number arrived, `fill_ns` after its gap was revealed."""

    source: str
    fill_ns: int


Happening = Opened | Filled


class Left(NamedTuple):
    """An emitted event; `unheld`: emitted by its own arrival."""

    epoch: int
    seq: int
    arrived_ns: int
    left_ns: int
    unheld: bool


@dataclass
class History:
    """A history of the events before a gap of `source` was revealed."""

    source: str
    happenings: list[Happening]
    look_back: Callable[[], list[Left]]

    @cached_property
    def left(self) -> list[Left]:
        """Return the emitted events from `source`, in the order of emission."""
        return self.look_back()


Rule = Callable[[int, History], int]
"""(known_at_ns, history) -> ns to wait."""


def fixed(wait_ns: int) -> Rule:
    return lambda _known_at_ns, _history: wait_ns


def miss(miss_ppm: int, max_wait_ns: int) -> Rule:
    """Return the rule `miss`, which adds up the history as it grows; use each returned rule for one
    run only.
    """
    stream = Histogram()
    sources: dict[str, Histogram] = {}
    taken = 0

    def wait_ns(known_at_ns: int, history: History) -> int:
        nonlocal taken
        for happening in history.happenings[taken:]:
            source = sources.setdefault(happening.source, Histogram())
            for counts in (source, stream):
                if isinstance(happening, Filled):
                    counts.add(happening.fill_ns)
                else:
                    counts.count()
        taken = len(history.happenings)
        own = sources.get(history.source, Histogram())
        chosen = own if _warm(own) else stream
        if not _warm(chosen):
            return max_wait_ns
        longest_ns = chosen.quantile_ns(miss_ppm) * 5 // 4
        enough = min(MILLION // miss_ppm, HALVE_EVERY // 2)
        holes = max(1, chosen.n // UNIT)
        if holes < enough:
            longest_ns = longest_ns * len(f"{enough:b}") // len(f"{holes:b}")
        return min(max_wait_ns, longest_ns)

    return wait_ns


def _warm(counts: Histogram) -> bool:
    return counts.values >= WARM_FILLED or counts.total >= WARM_OPENED


def thesis(max_wait_ns: int, alpha_ppm: int = 600_000, beta_ppm: int = 600_000) -> Rule:
    """Return the rule (3.1)-(3.11) in the printed order."""
    return _printed(max_wait_ns, alpha_ppm, beta_ppm, factor=2, updated=True)


def rfc(max_wait_ns: int, alpha_ppm: int = 600_000, beta_ppm: int = 600_000) -> Rule:
    """Return the rule that takes the deviation from the old average and adds it four times."""
    return _printed(max_wait_ns, alpha_ppm, beta_ppm, factor=4, updated=False)


def _printed(
    max_wait_ns: int, alpha_ppm: int, beta_ppm: int, *, factor: int, updated: bool
) -> Rule:
    def wait_ns(known_at_ns: int, history: History) -> int:
        own = [h for h in history.happenings if h.source == history.source]
        filled = sum(isinstance(h, Filled) for h in own)
        if filled < WARM_FILLED and len(own) - filled < WARM_OPENED:
            return max_wait_ns
        t_inter = _smoothed(_intervals(history.left), alpha_ppm, factor, updated=updated)
        t_buffer = _smoothed(_holds(history.left), beta_ppm, factor, updated=updated)
        return min(max_wait_ns, max(t_inter, t_buffer))

    return wait_ns


def _intervals(left: list[Left]) -> list[int]:
    unheld = {(event.epoch, event.seq): event for event in left if event.unheld}
    return [
        event.arrived_ns - unheld[event.epoch, event.seq - 1].arrived_ns
        for event in unheld.values()
        if (event.epoch, event.seq - 1) in unheld
    ]


def _holds(left: list[Left]) -> list[int]:
    return [event.left_ns - event.arrived_ns for event in left if not event.unheld]


def _smoothed(samples: list[int], old_ppm: int, factor: int, *, updated: bool) -> int:
    """Return average + factor * deviation, each smoothed with `old_ppm` for the old value."""
    if not samples:
        return 0

    def mixed(old: int, new: int) -> int:
        return (old_ppm * old + (MILLION - old_ppm) * new) // MILLION

    average, deviation = samples[0], 0
    for number, x in enumerate(samples[1:]):
        old_average, average = average, mixed(average, x)
        distance = abs(x - (average if updated else old_average))
        deviation = mixed(deviation, distance) if number else distance
    return average + factor * deviation
