"""True times that events may have: worlds, for the laws of uncertain matches.

Events of one source and segment err alike, as one estimate of one clock corrected them; all
others independently.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from topology.model.event import twin
from topology.pattern.store.entry import Entry

Clock = tuple[str, int, int]


def worlds(rng: Random, entries: Sequence[Entry], count: int) -> Iterator[list[Entry]]:
    """The same events at true times: often at the ends of their intervals, or where others
    are."""
    clocks: dict[Clock, list[Entry]] = {}
    for one in entries:
        clocks.setdefault((one.event.source, one.event.epoch, one.event.segment), []).append(one)
    for _ in range(count):
        marks = [rng.choice((one.low_ns, one.high_ns, one.time_ns)) for one in entries]
        yield [
            moved(one, offset_ns)
            for group in clocks.values()
            for offset_ns in (_offset(rng, group, marks),)
            for one in group
        ]


def _offset(rng: Random, group: Sequence[Entry], marks: Sequence[int]) -> int:
    most = min(one.event.error_ns for one in group)
    near = [offset for mark in marks if abs(offset := mark - group[0].time_ns) <= most]
    if near and rng.random() < 0.4:
        return rng.choice(near)
    return rng.randint(-most, most)


def moved(entry: Entry, offset_ns: int) -> Entry:
    event = twin(entry.event)
    event.ref_time_ns, event.error_ns = entry.time_ns + offset_ns, 0
    return Entry(event, entry.payload)
