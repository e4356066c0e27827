"""Writes the remarks that a reader needs before the numbers of an audit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from cli.printable import escape_unprintable
from recordings.audit.findings import Findings

NAMED: Final = 3
HASTY: Final = 3
"""The minimum ratio of the records' time span to that of their arrivals if a history was loaded."""

STRAY: Final = 1_000
"""At each end of the time span, one record in this many is ignored as a stray."""


def remarks(findings: Findings) -> Iterator[str]:
    """Yield the remarks, the most serious first."""
    several = [machine.name for machine in findings.machines if machine.several_partitions]
    if several:
        yield (
            f"{_name(several)}: in several partitions, so the order within a machine is lost; use"
            " one partition, or a copy with the machine as key, by `inorder produce`"
        )
    wraps = findings.asked.wraps
    if wraps is not None and wraps.range is None and wraps.by_source:
        yield (
            f"{_name([*wraps.by_source])}: numbers wrap, and those of others do not; give"
            " these machines a separate stream, with `seq_range`"
        )
    if lost := findings.counting.without_number:
        yield (
            f"{lost:,} records are of machines without numbers, and dead letters by the proposed"
            " file: under `without_seq: by_time`, machines whose first record has no number would"
            " lose all others; name a field as source that tells both kinds of records apart"
        )
    arrived_ns = findings.counting.last_ns - (findings.counting.first_ns or 0)
    middle = middle_windows(findings)
    happened_ns = (middle[-1] - middle[0]) * findings.jobs.length_ns if middle else 0
    if findings.asked.arrives and happened_ns > max(HASTY * arrived_ns, findings.jobs.length_ns):
        yield (
            f"records arrived {happened_ns / max(arrived_ns, 1):,.0f} times faster than they"
            " happened, as when a history is loaded: waits, rates and silences are those of the"
            " loading"
        )
    for reason, dead in findings.unread.deaths.reasons()[:NAMED]:
        detail = escape_unprintable(dead.detail)
        yield f"unreadable: {dead.count:,} {reason}, the first at {dead.offset}: {detail}"


def _name(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return ", ".join(escape_unprintable(name) for name in names[:NAMED]) + more


def middle_windows(findings: Findings) -> list[int]:
    """Return the windows that have events, ascending, without stray timestamps at either end."""
    truth = findings.jobs.truth
    total = sum(truth.values())
    stray = total // STRAY
    before, inside = 0, []
    for window in sorted(truth):
        before += truth[window]
        if before > stray:
            inside.append(window)
        if before >= total - stray:
            break
    return inside
