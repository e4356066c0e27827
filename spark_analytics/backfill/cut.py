"""Up to when an archive is known, so that a run that is gone on with leaves the rest to the next.

The topics of an archive are written side by side, so at any time some of its logs (partitions)
reach further than others. One run over the whole archive takes its records by arrival. A run before
it may therefore take only what nothing can come before any more: what arrives before the least time
that every log has promised.

* A log promises the arrival of its last record, as its clock never goes back.
* One that has been silent for `rest_ns` before the newest record of all is taken to be at rest, and
  promises that time. Else a partition to which nobody writes would hold all the others.

What is left is read by the next run. Where a log that was taken to be at rest brings a record of
before after all, `overtaking` finds it: one run would have said something else.

A declared offset of a clock arrives later than it was appended (`log_order`), so what is taken of a
log about clocks may lie behind what is left of it. Therefore a `Cut` knows both: up to where all
was taken (`offsets`), and up to where it was looked at (`seen`).

Proved by: tests/spark_analytics/backfill/test_cut.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

NS_PER_MS: Final = 1_000_000
NOTHING_READ: Final = -1


class Cut(NamedTuple):
    """Where a run stood, by `topic/partition`. `until_ns`: what arrives before was taken; None:
    nothing is known of that. `floors_ms`: none of the records beyond `offsets` arrives before."""

    offsets: Mapping[str, int]
    seen: Mapping[str, int]
    floors_ms: Mapping[str, int]
    until_ns: int | None

    @property
    def topics(self) -> set[str]:
        """Those whose logs it knows."""
        return {log.rpartition("/")[0] for log in self.offsets}

    def noted(self) -> dict[str, Any]:
        """For `read`, as plain values; `offsets` stand apart."""
        return {
            "seen": dict(self.seen),
            "floors_ms": dict(self.floors_ms),
            "until_ns": self.until_ns,
        }


def read(offsets: Mapping[str, int], noted: Mapping[str, Any] | None) -> Cut:
    """Earlier versions have noted offsets alone, up to which all was taken."""
    if noted is None:
        return Cut(offsets, offsets, {}, None)
    return Cut(offsets, noted["seen"], noted["floors_ms"], noted["until_ns"])


class Jump(NamedTuple):
    """Two offsets of a log, one behind the other, that are not."""

    before: int
    offset: int


class LogEnd(NamedTuple):
    """What lies of a log beyond a cut. `arrival_ms`: of its last record. `new_ms`: of the first
    that no run has seen; None: there is none. `is_stamped`: each bears the time of its append.
    `jump`: the first."""

    first: int
    last: int
    arrival_ms: int
    new_ms: int | None
    is_stamped: bool = True
    jump: Jump | None = None


class Left(NamedTuple):
    """The first record of a log that is left."""

    offset: int
    arrival_ms: int


def until_ns(cut: Cut, ends: Mapping[str, LogEnd], rest_ns: int) -> int | None:
    """The least promise of all logs that have ever been seen; it never goes back. None: there are
    none."""
    promised = dict(cut.floors_ms)
    promised.update({log: end.arrival_ms for log, end in ends.items()})
    if not promised:
        return cut.until_ns
    rest_from_ns = max(promised.values()) * NS_PER_MS - rest_ns
    least_ns = min(max(at_ms * NS_PER_MS, rest_from_ns) for at_ms in promised.values())
    if not cut.offsets.keys() <= promised.keys():  # an earlier version has not noted what they said
        least_ns = min(least_ns, rest_from_ns)
    return least_ns if cut.until_ns is None else max(cut.until_ns, least_ns)


def overtaking(cut: Cut, ends: Mapping[str, LogEnd], told_ns: int | None) -> str | None:
    """A log whose next record arrives before what was taken; `told_ns` stands in for that where the
    cut does not say. None: there is none."""
    until_ns = told_ns if cut.until_ns is None else cut.until_ns
    if until_ns is None:
        return None
    for log, end in sorted(ends.items()):
        if end.new_ms is not None and end.new_ms * NS_PER_MS < until_ns:
            return log
    return None


def hole(cut: Cut, ends: Mapping[str, LogEnd]) -> tuple[str, int, int] | None:
    """A log whose next record is not the next offset, or that has no longer what was seen of it and
    left: its name, and the offsets that are missing, the first and the last. None: there is
    none."""
    for log, last in sorted(cut.offsets.items()):
        end = ends.get(log)
        if end is not None and end.first > last + 1:
            return log, last + 1, end.first - 1
        there = last if end is None else end.last
        seen = cut.seen.get(log, NOTHING_READ)
        if seen > there:
            return log, there + 1, seen
    return None


def behind(
    cut: Cut, ends: Mapping[str, LogEnd], left: Mapping[str, Left], until_ns: int | None
) -> Cut:
    """Where the run stands that has taken what arrives before `until_ns`."""
    offsets, seen, floors_ms = dict(cut.offsets), dict(cut.seen), dict(cut.floors_ms)
    for log, end in ends.items():
        seen[log] = max(end.last, seen.get(log, NOTHING_READ))
        first = left.get(log)
        offsets[log] = end.last if first is None else first.offset - 1
        floors_ms[log] = end.arrival_ms if first is None else first.arrival_ms
    return Cut(offsets, seen, floors_ms, until_ns)
