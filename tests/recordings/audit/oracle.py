"""Oracle of an audit: its figures by their definitions, slow and obviously right.

All rows are kept, and each figure is computed from scratch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from math import ceil
from typing import Any, Final

from recordings.audit.row import AuditRow
from tests.topology.order.reorder import oracle_waits as waits
from tests.topology.order.reorder.oracle import Arrival, reorder

WAIT_NS: Final = 500_000_000
"""The default of `reorder.max_wait`."""
MISS_PPM: Final = 1_000
"""The default of `reorder.miss_target`."""


def with_epochs(rows: Sequence[AuditRow]) -> list[AuditRow]:
    """Return the rows; those without epochs get them from the oracle of REORDER.

    The oracle needs rising arrival times, so each counts as the largest so far.
    """
    numbered = [at for at, row in enumerate(rows) if row.seq is not None]
    came_ns = accumulate(
        (row.ts_ns if row.arrival_ns is None else row.arrival_ns for row in rows), max
    )
    at_ns = [*came_ns]
    arrivals = [
        Arrival(at_ns[at], rows[at].source, rows[at].seq or 0, rows[at].ts_ns, rows[at].epoch)
        for at in numbered
    ]
    end_ns = at_ns[-1] if rows else 0
    answer = reorder(arrivals, waits.miss(MISS_PPM, WAIT_NS), max_wait_ns=WAIT_NS, end_ns=end_ns)
    found = [*rows]
    for at, fate in zip(numbered, answer.fates, strict=True):
        found[at] = rows[at]._replace(epoch=fate.epoch)
    return found


def copies_of(rows: Sequence[AuditRow]) -> list[bool]:
    seen: set[tuple[object, ...]] = set()
    copies = []
    for row in rows:
        key = (row.source, row.epoch, row.seq)
        copies.append(row.seq is not None and key in seen)
        seen.add(key)
    return copies


def brute_force(
    given: Sequence[AuditRow], length_ns: int, bounds_ns: Sequence[int], *, apart: bool = False
) -> dict[str, Any]:
    """Return the object of `--json`, without the figures about the engine and clocks."""
    rows = with_epochs(given)
    copies = copies_of(rows)
    first = [row for row, copy in zip(rows, copies, strict=True) if not copy]
    sources = sorted({row.source for row in rows})
    late = late_of(first, apart=apart)
    total = counts(first, rows, copies, late)
    return {
        "records": len(rows),
        "machines": len(sources),
        **total,
        "late_ms": {
            name: ranked([ns for _, ns in late], share)
            for name, share in
            {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "max": 1.0}.items()
        },
        "by_machine": {
            source: {
                "records": sum(row.source == source for row in rows),
                **counts(
                    [row for row in first if row.source == source],
                    [row for row in rows if row.source == source],
                    [c for row, c in zip(rows, copies, strict=True) if row.source == source],
                    [each for each in late if each[0].source == source],
                ),
            }
            for source in sources
        },
        "windows": windows(rows, copies, length_ns, bounds_ns, apart=apart),
    }  # fmt: skip


def late_of(first: Sequence[AuditRow], *, apart: bool) -> list[tuple[AuditRow, int]]:
    """Return the rows that are out of time order, with their lateness."""
    found = []
    newest: dict[int, int] = {}
    for row in first:
        part = row.partition if apart else 0
        if part in newest and row.ts_ns < newest[part]:
            found.append((row, newest[part] - row.ts_ns))
        newest[part] = max(newest.get(part, row.ts_ns), row.ts_ns)
    return found


def counts(
    first: Sequence[AuditRow],
    rows: Sequence[AuditRow],
    copies: Sequence[bool],
    late: Sequence[object],
) -> dict[str, int | None]:
    numbered = any(row.seq is not None for row in rows)
    missing = behind = 0
    for source, epoch in {(row.source, row.epoch) for row in first}:
        numbers = [r.seq or 0 for r in first if (r.source, r.epoch) == (source, epoch)]
        missing += len(set(range(min(numbers), max(numbers) + 1)) - set(numbers)) if numbered else 0
        behind += sum(n < max(numbers[:i], default=n) for i, n in enumerate(numbers))
    return {
        "copies": sum(copies) if numbered else None,
        "missing": missing if numbered else None,
        "out_of_sequence": behind if numbered else None,
        "out_of_time": len(late),
    }


def windows(
    rows: Sequence[AuditRow],
    copies: Sequence[bool],
    length_ns: int,
    bounds_ns: Sequence[int],
    *,
    apart: bool,
) -> dict[str, Any]:
    truth = Counter(
        row.ts_ns // length_ns for row, copy in zip(rows, copies, strict=True) if not copy
    )
    parts = {row.partition for row in rows} if apart else {0}
    lateness = {}
    for bound_ns in bounds_ns:
        counted: Counter[int] = Counter()
        newest: dict[int, int] = {}
        dropped = copied = 0
        for row, copy in zip(rows, copies, strict=True):
            window = row.ts_ns // length_ns
            complete = len(newest) == len(parts)
            if complete and (window + 1) * length_ns <= min(newest.values()) - bound_ns:
                dropped += 1
            else:
                counted[window] += 1
                copied += copy
            part = row.partition if apart else 0
            newest[part] = max(newest.get(part, row.ts_ns), row.ts_ns)
        wrong = sum(counted[w] != truth[w] for w in counted.keys() | truth.keys())
        lateness[str(bound_ns // 1_000_000)] = {
            "wrong": wrong,
            "rows_dropped": dropped,
            "copies_counted": copied,
        }
    return {"length_ms": length_ns // 1_000_000, "all": len(truth), "lateness": lateness}


def ranked(each: Sequence[int], share: float) -> float:
    """Return the value at the nearest rank, in ms."""
    rising = sorted(each)
    return rising[max(0, ceil(round(share * len(rising), 6)) - 1)] / 1e6 if rising else 0.0


def pruned(said: Any, like: Any) -> Any:
    """Return the keys of `said` that `like` has."""
    if isinstance(like, dict):
        return {name: pruned(said[name], value) for name, value in like.items()}
    return said
