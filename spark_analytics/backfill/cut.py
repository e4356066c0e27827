"""Compute the time up to which an archive is complete; later records are left to the next run.

The topics of an archive are written in parallel, so at any time some of its logs (partitions) reach
further than others. A single run over the whole archive would take all records by arrival. To give
the same result, a run may take a record only if no future record can arrive before it. Each log
gives a lower bound of the arrival of its future records. A run takes the records that arrive before
the smallest of these bounds.

* The bound of a log is the arrival of its last record, because arrivals in a log never decrease.
* A log counts as idle if its last record arrived more than `REST_NS` before the newest record of
  all logs. Its bound is then `REST_NS` before that newest record. Otherwise a partition without new
  records would delay all the others.

A log that counted as idle may later get a record that arrives before its bound.
`find_overtaking_log` finds such a log, because a single run would have given another result.

A declared offset of a clock takes effect after its own arrival (`log_order`). In a log of clock
records, a record that was taken may therefore follow one that was left. So a `Cut` has two offsets
for each log: up to where everything was taken (`offsets`), and up to where records were seen
(`seen`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

NS_PER_MS: Final = 1_000_000
NOTHING_READ: Final = -1
REST_NS: Final = 3_600_000_000_000


class Cut(NamedTuple):
    """The end of a run: an offset or a time for each log, which is named `topic/partition`.

    Attributes:
        offsets: The offset up to which all records were taken.
        seen: The offset up to which records were seen.
        floors_ms: The time in ms before which no record beyond `offsets` arrives.
        until_ns: The time before which all arriving records were taken; None if unknown.
    """

    offsets: Mapping[str, int]
    seen: Mapping[str, int]
    floors_ms: Mapping[str, int]
    until_ns: int | None

    @property
    def topics(self) -> set[str]:
        """The topics that have logs in the cut."""
        return {log.rpartition("/")[0] for log in self.offsets}

    def record(self) -> dict[str, Any]:
        """Return all fields but `offsets` as plain values, from which `read` restores the cut."""
        return {
            "seen": dict(self.seen),
            "floors_ms": dict(self.floors_ms),
            "until_ns": self.until_ns,
        }


def read(offsets: Mapping[str, int], recorded: Mapping[str, Any] | None) -> Cut:
    """Return the cut from the notes of a run; `recorded` is None for a run that read no archive."""
    if recorded is None:
        return Cut(offsets, offsets, {}, None)
    return Cut(offsets, recorded["seen"], recorded["floors_ms"], recorded["until_ns"])


class Jump(NamedTuple):
    """A jump in the offsets of a log: two successive records whose offsets are not consecutive.

    Attributes:
        before: The offset of the first record.
        offset: The offset of the second record.
    """

    before: int
    offset: int


class LogEnd(NamedTuple):
    """The records of a log beyond a cut.

    Attributes:
        first: The first offset.
        last: The last offset.
        arrival_ms: The arrival of the last record.
        new_ms: The arrival of the first record that no run has seen; None if there is none.
        is_stamped: Whether every record has the broker's timestamp.
        jump: The first jump of the offsets, or None.
    """

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


def find_complete_ns(cut: Cut, ends: Mapping[str, LogEnd]) -> int | None:
    """Return the time before which no future record of any log arrives, in ns.

    This is the smallest bound of all logs ever seen. It never decreases from one run to the next.
    It is None if no log was ever seen.
    """
    promised = dict(cut.floors_ms)
    promised.update({log: end.arrival_ms for log, end in ends.items()})
    if not promised:
        return cut.until_ns
    rest_from_ns = max(promised.values()) * NS_PER_MS - REST_NS
    least_ns = min(max(at_ms * NS_PER_MS, rest_from_ns) for at_ms in promised.values())
    return least_ns if cut.until_ns is None else max(cut.until_ns, least_ns)


def find_overtaking_log(cut: Cut, ends: Mapping[str, LogEnd]) -> str | None:
    """Return a log with a new record that arrives before records already taken, or None."""
    until_ns = cut.until_ns
    if until_ns is None:
        return None
    for log, end in sorted(ends.items()):
        if end.new_ms is not None and end.new_ms * NS_PER_MS < until_ns:
            return log
    return None


def find_offset_gap(cut: Cut, ends: Mapping[str, LogEnd]) -> tuple[str, int, int] | None:
    """Return a log with missing offsets, and the first and last of these offsets, or None.

    Either the log does not continue at the next offset, or it has lost records that an earlier run
    saw but did not take.
    """
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
    """Return the cut after a run that has taken all records that arrive before `until_ns`."""
    offsets, seen, floors_ms = dict(cut.offsets), dict(cut.seen), dict(cut.floors_ms)
    for log, end in ends.items():
        seen[log] = max(end.last, seen.get(log, NOTHING_READ))
        first = left.get(log)
        offsets[log] = end.last if first is None else first.offset - 1
        floors_ms[log] = end.arrival_ms if first is None else first.arrival_ms
    return Cut(offsets, seen, floors_ms, until_ns)
