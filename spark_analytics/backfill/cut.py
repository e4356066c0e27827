"""The time up to which an archive is known; a run leaves later records to the next run.

The topics of an archive are written in parallel, so at any time some of its logs (partitions) reach
further than others. One run over the whole archive would take the records by arrival. So an earlier
run may take a record only if no record can arrive before it any more: if it arrives before the
earliest of the times that the logs promise.

* A log promises the arrival of its last record, because its clock never goes back.
* A log that has been silent for `REST_NS` before the newest record of all counts as at rest, and
  promises that time. Otherwise a partition to which nobody writes would hold back all the others.

The next run reads the rest. If a log that counted as at rest brings an earlier record after all,
`overtaking` finds it: a single run would have given another answer.

A declared offset of a clock arrives later than it was appended (`log_order`), so in a log about
clocks a taken record may lie behind one that is left. So a `Cut` holds two offsets for each log: up
to where everything was taken (`offsets`), and up to where records were seen (`seen`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

NS_PER_MS: Final = 1_000_000
NOTHING_READ: Final = -1
REST_NS: Final = 3_600_000_000_000


class Cut(NamedTuple):
    """Where a run ended, by `topic/partition`. `until_ns`: records that arrive before were taken;
    None: unknown. `floors_ms`: no record beyond `offsets` arrives before this time."""

    offsets: Mapping[str, int]
    seen: Mapping[str, int]
    floors_ms: Mapping[str, int]
    until_ns: int | None

    @property
    def topics(self) -> set[str]:
        """The topics whose logs are known."""
        return {log.rpartition("/")[0] for log in self.offsets}

    def noted(self) -> dict[str, Any]:
        """Plain values for `read`, which takes `offsets` apart."""
        return {
            "seen": dict(self.seen),
            "floors_ms": dict(self.floors_ms),
            "until_ns": self.until_ns,
        }


def read(offsets: Mapping[str, int], noted: Mapping[str, Any] | None) -> Cut:
    """`noted` is None for a run that read no archive."""
    if noted is None:
        return Cut(offsets, offsets, {}, None)
    return Cut(offsets, noted["seen"], noted["floors_ms"], noted["until_ns"])


class Jump(NamedTuple):
    """Two offsets of a log that should follow each other and do not."""

    before: int
    offset: int


class LogEnd(NamedTuple):
    """The records of a log beyond a cut. `arrival_ms`: the arrival of the last record. `new_ms`:
    the arrival of the first record that no run has seen; None: there is none. `is_stamped`: every
    record has the time of its append. `jump`: the first one."""

    first: int
    last: int
    arrival_ms: int
    new_ms: int | None
    is_stamped: bool = True
    jump: Jump | None = None


class Left(NamedTuple):
    """The first record of a log that is left to the next run."""

    offset: int
    arrival_ms: int


def until_ns(cut: Cut, ends: Mapping[str, LogEnd]) -> int | None:
    """The earliest promise of all logs ever seen; it never goes back. None: there is no log."""
    promised = dict(cut.floors_ms)
    promised.update({log: end.arrival_ms for log, end in ends.items()})
    if not promised:
        return cut.until_ns
    rest_from_ns = max(promised.values()) * NS_PER_MS - REST_NS
    least_ns = min(max(at_ms * NS_PER_MS, rest_from_ns) for at_ms in promised.values())
    return least_ns if cut.until_ns is None else max(cut.until_ns, least_ns)


def overtaking(cut: Cut, ends: Mapping[str, LogEnd]) -> str | None:
    """A log with a new record that arrives before taken ones. None: there is no such log."""
    until_ns = cut.until_ns
    if until_ns is None:
        return None
    for log, end in sorted(ends.items()):
        if end.new_ms is not None and end.new_ms * NS_PER_MS < until_ns:
            return log
    return None


def hole(cut: Cut, ends: Mapping[str, LogEnd]) -> tuple[str, int, int] | None:
    """A log whose next record does not have the next offset, or that has lost records that were
    seen and left: its name, and the first and last missing offset. None: there is no such log."""
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
    """The cut after a run that has taken all records that arrive before `until_ns`."""
    offsets, seen, floors_ms = dict(cut.offsets), dict(cut.seen), dict(cut.floors_ms)
    for log, end in ends.items():
        seen[log] = max(end.last, seen.get(log, NOTHING_READ))
        first = left.get(log)
        offsets[log] = end.last if first is None else first.offset - 1
        floors_ms[log] = end.arrival_ms if first is None else first.arrival_ms
    return Cut(offsets, seen, floors_ms, until_ns)
