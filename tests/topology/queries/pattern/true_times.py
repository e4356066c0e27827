"""Possible times of uncertain events: worlds, for the laws of uncertain matches.

Events of one source and segment have one clock, which is behind by one number. Its estimate may
have changed from event to event (`estimated_anew`). All other errors are independent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from random import Random

from topology.base.event import copy_event
from topology.queries.pattern.store.entry import Entry

Clock = tuple[str, int, int]


def estimated_anew(rng: Random, entries: Iterable[Entry], step_ns: int = 1) -> None:
    """Estimate the offsets of the clocks anew at each event, each right within its error."""
    behind: dict[Clock, int] = {}
    for one in entries:
        behind_ns = behind.setdefault(clock_of(one), step_ns * rng.randint(-9, 9))
        most = one.event.error_ns // step_ns
        one.event.ts_ns = one.time_ns - behind_ns - step_ns * rng.randint(-most, most)


def worlds(
    rng: Random, entries: Sequence[Entry], count: int, *, apart: bool = False
) -> Iterator[list[Entry]]:
    """Yield the same events at possible times: often at ends of intervals or at others' times.

    With `apart`, each event has its own clock.
    """
    clocks = [[one] for one in entries] if apart else by_clock(entries)
    for _ in range(count):
        marks = [rng.choice((one.low_ns, one.high_ns, one.time_ns)) for one in entries]
        yield [
            at_true_time(one, behind_ns)
            for group in clocks
            for behind_ns in (_behind(rng, group, marks),)
            for one in group
        ]


def by_clock(entries: Iterable[Entry]) -> list[list[Entry]]:
    clocks: dict[Clock, list[Entry]] = {}
    for one in entries:
        clocks.setdefault(clock_of(one), []).append(one)
    return list(clocks.values())


def clock_of(entry: Entry) -> Clock:
    return entry.event.source, entry.event.epoch, entry.event.segment


def behind_between(group: Iterable[Entry]) -> tuple[int, int]:
    """Return the least and the most by which the clock of these events may be behind."""
    return (
        max(one.low_ns - one.event.ts_ns for one in group),
        min(one.high_ns - one.event.ts_ns for one in group),
    )


def _behind(rng: Random, group: Sequence[Entry], marks: Sequence[int]) -> int:
    least, most = behind_between(group)
    near = [behind for mark in marks if least <= (behind := mark - group[0].event.ts_ns) <= most]
    if near and rng.random() < 0.4:
        return rng.choice(near)
    return rng.randint(least, most)


def at_true_time(entry: Entry, behind_ns: int) -> Entry:
    event = copy_event(entry.event)
    event.ref_time_ns, event.error_ns = event.ts_ns + behind_ns, 0
    return Entry(event, entry.payload)
