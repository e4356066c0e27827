"""Judge the clocks of sources by their readings: the offset, its error, jumps and drift.

The readings are those of `clock_readings`. If three or more sources have a reading in a stretch of
time, their median is subtracted from each. Stretches with few readings are skipped.

A valley is a stretch with a smaller reading than both an earlier and a later stretch. Valleys are
filled, because delays cause them: no delay makes a reading larger. A clock has jumped if the step
between two neighbouring stretches differs from its usual pace by more than `JUMP_NS`. The step must
also exceed `NOISY` times the usual difference of neighbours. A single stretch that stands out is
not a jump.

A segment begins at the start and after each jump. Its level is the median of its readings. The
offset of a source is its last level, compared with the median of the others' levels. If two are in
the middle, the nearer one counts. If there are fewer than two others, the reference is the arrivals
themselves.

The bound of an offset covers how far the delays of two sources' quickest records may differ, which
cannot be measured from one side. It is the largest of three: `PASSIVE_FLOOR_NS` as in CLOCK, the
distance within which half of the others are from their median, and the usual difference of
neighbouring readings.

If rows have no arrivals, clocks cannot be compared. Only jumps are judged then
(`recordings.audit.stamp_jumps`), and no clock is corrected.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from statistics import linear_regression, median, median_low
from typing import Final

from recordings.audit.clock_readings import ReadingSpan, median_of, nearer_median
from recordings.audit.machine import Machine
from topology.order.clock.settings import PASSIVE_FLOOR_NS

S: Final = 1_000_000_000
PPM: Final = 1_000_000
PPB_PER_PPM: Final = 1_000
WRONG_NS: Final = 1 * S
"""The offset beyond which a clock is called wrong, if the offset also exceeds its bound."""
JUMP_NS: Final = 1 * S
DRIFTS_PPM: Final = 50.0
DRIFTS_NS: Final = 200_000_000
"""The minimum distance that a drifting clock has moved in total."""
NOISY: Final = 8
"""The factor by which a jump or a drift exceeds the usual difference of neighbouring readings."""
FEW: Final = 4
"""A stretch with fewer readings than the usual number divided by this factor is skipped."""
LEAST_STRETCHES: Final = 8
"""The minimum number of stretches for a drift; also the number of parts to measure the pace over.
"""


@dataclass(frozen=True, slots=True)
class JudgedClock:
    """The judgment of one source's clock, compared with the others.

    Attributes:
        offset_ns: How far the clock is ahead.
        error_ns: The bound of the offset's error.
        drift_ppm: The drift, or None if it cannot be determined.
        jumps: The number of jumps.
        segments: The start of each segment, and how far the clock is ahead in it. The first one
            applies from the beginning.
        course: The readings that a picture shows.
        drifts: Whether the clock drifts.
    """

    offset_ns: int
    error_ns: int
    drift_ppm: float | None
    jumps: int
    segments: tuple[tuple[int, int], ...]
    course: tuple[ReadingSpan, ...] = field(repr=False)
    drifts: bool = False

    @property
    def is_wrong(self) -> bool:
        """Whether the clock jumps, drifts, or has an offset beyond its bound and `WRONG_NS`."""
        return self.jumps > 0 or self.drifts or abs(self.offset_ns) > max(WRONG_NS, self.error_ns)

    @property
    def middle_ns(self) -> int:
        """The middle of the course, at which a drifting clock has its offset."""
        return median_of([stretch.at_ns for stretch in self.course]) or 0

    def mended_ns(self, ts_ns: int, at_ns: int) -> int:
        """Return the corrected timestamp of a record with `ts_ns`, which arrived at `at_ns`.

        The correction is the clock's offset from the median of the others at that time.
        """
        if self.drifts and self.drift_ppm is not None:
            since_ns = at_ns - self.middle_ns
            return ts_ns - self.offset_ns - round(self.drift_ppm * since_ns / PPM)
        offset_ns = self.segments[0][1]
        for since, later_ns in self.segments:
            if at_ns >= since:
                offset_ns = later_ns
        return ts_ns - offset_ns


def judge(machines: list[Machine]) -> dict[str, JudgedClock]:
    """Return the judgment of each source's clock, by name; sources without readings are absent."""
    width_ns = max((machine.readings.width_ns for machine in machines), default=1)
    courses = {machine.name: machine.readings.stretches(width_ns) for machine in machines}
    courses = {name: course for name, course in courses.items() if course}
    courses = _without_shared({name: _drop_sparse(course) for name, course in courses.items()})
    filled = {name: _fill(course) for name, course in courses.items()}
    noises = {name: _measure_noise_ns(course) for name, course in courses.items()}
    segments = {name: _find_segments(filled[name], noises[name]) for name in filled}
    rising = sorted(levels[-1][1] for levels in segments.values())
    drifts = {name: _measure_drift_ppm(filled[name], len(segments[name])) for name in segments}
    slopes = sorted(round(ppm * PPB_PER_PPM) for ppm in drifts.values() if ppm is not None)
    shared_ppm = (median_of(slopes) or 0) / PPB_PER_PPM if len(slopes) > 2 else 0.0
    found = {}
    for name, levels in segments.items():
        middle_ns, apart_ns = _summarize_others(rising, levels[-1][1])
        course, ppm = courses[name], drifts[name]
        if ppm is not None:
            ppm = round(ppm - shared_ppm, 1) + 0.0
        moved_ns = abs(ppm or 0.0) * (course[-1].at_ns - course[0].at_ns) / PPM
        found[name] = JudgedClock(
            levels[-1][1] - middle_ns,
            max(PASSIVE_FLOOR_NS, apart_ns, noises[name]),
            ppm,
            len(levels) - 1,
            tuple((since_ns, level_ns - middle_ns) for since_ns, level_ns in levels),
            tuple(one._replace(reading_ns=one.reading_ns - middle_ns) for one in course),
            drifts=abs(ppm or 0.0) > DRIFTS_PPM
            and moved_ns > max(DRIFTS_NS, 2 * apart_ns, NOISY * noises[name]),
        )
    return found


def _without_shared(courses: dict[str, list[ReadingSpan]]) -> dict[str, list[ReadingSpan]]:
    """Return the readings minus the median of each stretch with three or more sources.

    An outage moves all readings of a stretch. So does a history that is loaded faster than it
    happened.
    """
    if len(courses) < 3:
        return courses
    at: dict[int, list[int]] = {}
    for course in courses.values():
        for stretch in course:
            at.setdefault(stretch.at_ns, []).append(stretch.reading_ns)
    middle = {at_ns: median_low(found) for at_ns, found in at.items() if len(found) >= 3}
    if not middle:
        return courses
    return {
        name: [
            stretch._replace(reading_ns=stretch.reading_ns - middle[stretch.at_ns])
            for stretch in course
            if stretch.at_ns in middle
        ]
        or course
        for name, course in courses.items()
    }


def _drop_sparse(course: list[ReadingSpan]) -> list[ReadingSpan]:
    """Return the stretches without those that have few readings.

    After the last regular record of a source, only its late records arrive, which would mislead.
    """
    usual = median_of(sorted(stretch.readings for stretch in course)) or 1
    return [stretch for stretch in course if stretch.readings * FEW >= usual]


def _fill(course: list[ReadingSpan]) -> list[ReadingSpan]:
    """Return the stretches with their valleys filled, since delays cause valleys."""
    before, highest_ns = [], course[0].reading_ns
    for stretch in course:
        highest_ns = max(highest_ns, stretch.reading_ns)
        before.append(highest_ns)
    filled, highest_ns = [], course[-1].reading_ns
    for stretch, before_ns in zip(reversed(course), reversed(before), strict=True):
        highest_ns = max(highest_ns, stretch.reading_ns)
        filled.append(stretch._replace(reading_ns=min(before_ns, highest_ns)))
    return filled[::-1]


def _measure_noise_ns(course: list[ReadingSpan]) -> int:
    """Return the usual difference between the readings of two neighbouring stretches."""
    steps = [abs(b.reading_ns - a.reading_ns) for a, b in pairwise(course)]
    return median_of(sorted(steps)) or 0


def _find_segments(course: list[ReadingSpan], noise_ns: int) -> list[tuple[int, int]]:
    """Return the start and the level of each segment."""
    jump_ns = max(JUMP_NS, NOISY * noise_ns)
    pace = _measure_pace(course)

    def has_jumped(before: ReadingSpan, after: ReadingSpan) -> bool:
        expected_ns = pace * (after.at_ns - before.at_ns)
        return abs(after.reading_ns - before.reading_ns - expected_ns) > jump_ns

    parts: list[list[ReadingSpan]] = [[course[0]]]
    for stretch in course[1:]:
        if has_jumped(parts[-1][-1], stretch):
            back = len(parts) > 1 and len(parts[-1]) == 1
            if back and not has_jumped(parts[-2][-1], stretch):
                parts.pop()  # The removed stretch differed from both its neighbours.
            else:
                parts.append([])
        parts[-1].append(stretch)
    return [
        (part[0].at_ns, median_of(sorted(stretch.reading_ns for stretch in part)) or 0)
        for part in parts
    ]


def _measure_pace(course: list[ReadingSpan]) -> float:
    """Return the usual gain of a clock per unit of time, which a few jumps do not change.

    It is measured over several stretches, because between neighbours it is hidden by noise.
    """
    apart = max(1, len(course) // LEAST_STRETCHES)
    pairs = zip(course, course[apart:], strict=False)
    paces = [(b.reading_ns - a.reading_ns) / (b.at_ns - a.at_ns) for a, b in pairs]
    return median(paces) if len(course) >= LEAST_STRETCHES else 0.0


def _summarize_others(rising: list[int], own_ns: int) -> tuple[int, int]:
    """Return the median of the others' levels, and the distance within which half of them are.

    Both are 0 if there are fewer than two others.
    """
    others = list(rising)
    others.remove(own_ns)
    if len(others) < 2:
        return 0, 0
    middle_ns = nearer_median(others, own_ns)
    return middle_ns, _half_distance_ns(others, middle_ns)


def _half_distance_ns(each_ns: list[int], middle_ns: int) -> int:
    return sorted(abs(one_ns - middle_ns) for one_ns in each_ns)[(len(each_ns) - 1) // 2]


def _measure_drift_ppm(course: list[ReadingSpan], segments: int) -> float | None:
    if segments > 1 or len(course) < LEAST_STRETCHES:
        return None
    first = course[0]
    at_s = [(stretch.at_ns - first.at_ns) / S for stretch in course]
    reading_us = [(stretch.reading_ns - first.reading_ns) / 1_000 for stretch in course]
    return linear_regression(at_s, reading_us).slope
