"""Simulate wrong clocks of sources, and the rounds of time sync that measure them.

The workloads' own times are event times, and the sync server's clock shows the same times. A `Dial`
is a source's clock: it has an offset from the start, a skew, and whole steps of its resolution.
Rounds are those of the thesis's evaluation as in data/SYNTHETIC.md 1.5. Each way takes 0.1 ms plus
an exponential delay (mean 0.2 ms), and the server 0.02 ms. There are ten rounds 20 ms apart before
the first event, then bursts of four after the given pauses. The sample is appended to its topic one
more such way after the server's answer.

The same seed gives the same delays for all dials, so two runs differ by their clocks alone.
`steady` is a stream of several hours. Its sources have one rate, and each event is at a random
place in its own period, so that every distance between two sources occurs. The delays are those of
`crowd`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from random import Random
from typing import Final, NamedTuple

from benchmarks.workloads.laws import (
    BASE,
    DELAYS,
    MS,
    START_NS,
    US,
    S,
    constant,
    exponential,
    generator,
    sometimes,
)
from benchmarks.workloads.rows import Row, Workload, in_arrival_order
from topology.base.sample import Sample

WAYS: Final = 7
CLOCKS: Final = 8
"""The purposes of the random generators, as in `laws`."""
MOST_SOURCES: Final = 1_000
"""The maximum number of sources.

Each has its own generator, so its first rounds are independent of later ones.
"""

BILLION: Final = 1_000_000_000
FLOOR_NS: Final = 100 * US
TURNAROUND_NS: Final = 20 * US
FIRST_ROUNDS: Final = 10
ROUNDS: Final = 4
ROUND_EVERY_NS: Final = 20 * MS
EVERY_MINUTE: Final = (60,)
"""The seconds from one burst to the next in the specification; the last value is repeated."""
AS_CLIENT: Final = (5, 10, 20, 40, 60)
"""The pauses of `inorder.sync`, which are shorter until it knows the rate of the clock."""
HEAD_START_NS: Final = 2 * S
"""The time from the first round to the first event: ten rounds, the way, `activation`."""

_QUEUE: Final = exponential(200 * US)
_CROWDED: Final = sometimes(0.12, exponential(50 * MS), constant(0))


class Dial(NamedTuple):
    """A source's clock, which shows whole steps of `step_ns`.

    At `start_ns` it is ahead by `offset_ns`, and from then on it is too fast by `skew_ppb`.
    """

    offset_ns: int = 0
    skew_ppb: int = 0
    start_ns: int = 0
    step_ns: int = 1

    def shows(self, true_ns: int) -> int:
        drift_ns = self.skew_ppb * (true_ns - self.start_ns) // BILLION
        return (true_ns + self.offset_ns + drift_ns) // self.step_ns * self.step_ns


def rounds(
    dials: dict[str, Dial],
    first_ns: int,
    last_ns: int,
    pauses_s: Sequence[int] = EVERY_MINUTE,
    seed: int = 1,
    ways_ns: tuple[int, int] = (0, 0),
) -> list[Sample]:
    """Return samples of all sources, for events from `first_ns` to `last_ns`.

    Each source's samples are in the order of arrival. The clocks are read in ns here, whatever the
    resolution of the events. `ways_ns` are delays added to every way there and back.
    """
    heard: list[Sample] = []
    for number, (source, dial) in enumerate(dials.items()):
        rng = generator(seed * MOST_SOURCES + number, WAYS)
        fine = dial._replace(step_ns=1)
        begins = _begins(first_ns - HEAD_START_NS, last_ns, pauses_s)
        heard += sorted(
            (_round(source, fine, at_ns, rng, ways_ns) for at_ns in begins), key=_arrival
        )
    return heard


def _begins(at_ns: int, last_ns: int, pauses_s: Sequence[int]) -> Iterator[int]:
    count = FIRST_ROUNDS
    for pause_s in chain(pauses_s, repeat(pauses_s[-1])):
        if at_ns > last_ns:
            return
        yield from range(at_ns, at_ns + count * ROUND_EVERY_NS, ROUND_EVERY_NS)
        count, at_ns = ROUNDS, at_ns + pause_s * S


def _round(source: str, dial: Dial, at_ns: int, rng: Random, ways_ns: tuple[int, int]) -> Sample:
    heard_ns = at_ns + ways_ns[0] + _way(rng)
    answered_ns = heard_ns + TURNAROUND_NS
    back_ns = answered_ns + ways_ns[1] + _way(rng)
    appended_ns = answered_ns + _way(rng)
    return Sample(
        source, dial.shows(at_ns), heard_ns, answered_ns, dial.shows(back_ns), appended_ns
    )


def _way(rng: Random) -> int:
    return FLOOR_NS + _QUEUE(rng)


def _arrival(sample: Sample) -> int:
    return sample.arrival_ns


def unlike_dials(sources: Iterable[str], start_ns: int, seed: int = 1) -> dict[str, Dial]:
    """Return dials that are off by at most an hour, and whose skew is at most 100 ppm."""
    rng = generator(seed, CLOCKS)
    return {
        source: Dial(_either_way(rng, 3_600 * S), _either_way(rng, 100_000), start_ns)
        for source in sources
    }


def _either_way(rng: Random, most: int) -> int:
    return int((2 * rng.random() - 1) * most)


def steady(sources: int, rate_hz: int, seconds: int, seed: int = 1) -> Workload:
    """Make a stream in which every source sends once at a random moment of each of its periods."""
    moments, delays = generator(seed, BASE), generator(seed, DELAYS)
    period_ns = S // rate_hz
    rows: list[Row] = []
    for seq in range(seconds * rate_hz):
        for source in range(sources):
            ts_ns = START_NS + seq * period_ns + int(moments.random() * period_ns)
            arrival_ns = ts_ns + MS + _CROWDED(delays)
            rows.append(Row(arrival_ns, f"s{source}", seq, ts_ns))
    return Workload(f"steady x{sources}", seed, in_arrival_order(rows))
