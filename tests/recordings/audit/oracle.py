"""The numbers of an audit by their definitions, slow and obviously right: all rows are kept, and
each figure is looked up anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import ceil
from typing import Any

from recordings.audit.row import AuditRow

MARGIN_NS = 500_000_000
"""`reorder.max_wait` as it is by default."""


def with_epochs(rows: Sequence[AuditRow]) -> list[AuditRow]:
    """Where a row names none, the epoch that numbers and stamps of its source show. A number that
    is not above the largest begins a new one with a stamp newer than all, or, where it is one that
    is missing between others, with a stamp beyond that of the largest by more than the margin.
    What is older than the row that began it belongs to the epoch before by a stamp up to those, or,
    if it comes within the margin, by a number above all of both that does not go on the newer."""
    found: list[AuditRow] = []
    came_ns: dict[AuditRow, int] = {}
    now_ns = None
    for row in rows:
        at_ns = row.ts_ns if row.arrival_ns is None else row.arrival_ns
        now_ns = at_ns if now_ns is None else max(now_ns, at_ns)
        if row.seq is None or row.epoch is not None:
            found.append(row)
            continue
        own = [each for each in found if each.source == row.source and each.seq is not None]
        newest = max((each.epoch or 0 for each in own), default=0)
        of_newest = [each for each in own if each.epoch == newest]
        of_before = [each for each in own if each.epoch == newest - 1]
        epoch = newest
        if of_newest:
            begun = next(i for i, each in enumerate(own) if each.epoch == newest)
            known = [each for each in own[:begun] if each.epoch == newest - 1]
            first = own[begun]
            if (
                known
                and row.ts_ns < first.ts_ns
                and (
                    row.ts_ns <= (begins_anew(known, first) or 0)
                    or (
                        row.seq
                        > max(largest(of_before).seq or 0, (largest(of_newest).seq or 0) + 1)
                        and now_ns <= came_ns[first] + MARGIN_NS
                    )
                )
            ):
                epoch = newest - 1
            elif begins_anew(of_newest, row) is not None:
                epoch = newest + 1
        found.append(row._replace(epoch=epoch))
        came_ns.setdefault(found[-1], now_ns)
    return found


def begins_anew(known: Sequence[AuditRow], row: AuditRow) -> int | None:
    """The stamp up to which events are of before, if the row begins an epoch after those."""
    numbers = {each.seq or 0 for each in known}
    number = row.seq or 0
    if number > max(numbers):
        return None
    newest_ns = max(each.ts_ns for each in known)
    is_missing = number not in numbers and number > min(numbers)
    if row.ts_ns > newest_ns and not is_missing:
        return newest_ns
    beyond_ns = largest(known).ts_ns + MARGIN_NS
    return beyond_ns if row.ts_ns > beyond_ns else None


def largest(rows: Sequence[AuditRow]) -> AuditRow:
    """The first one with the largest number."""
    return max(rows, key=lambda row: row.seq or 0)


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
    """The object of `--json`, but for what the engine and clocks say."""
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
    """Those out of time, and by how much."""
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
    """Nearest rank, in ms."""
    rising = sorted(each)
    return rising[max(0, ceil(round(share * len(rising), 6)) - 1)] / 1e6 if rising else 0.0


def pruned(said: Any, like: Any) -> Any:
    """The keys of `said` that `like` has."""
    if isinstance(like, dict):
        return {name: pruned(said[name], value) for name, value in like.items()}
    return said
