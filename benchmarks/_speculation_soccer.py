"""Speculation on the recorded soccer trace: a match of two hours, tagged by two people, each for
one team, who are minutes apart, and who correct a few tags hours later.

The detector follows the ball: an attempt at goal, and the passes of the team that led to it with
none of the other team between. The arrival clock is the latest tag so far, so latencies are in time
of the match: how much later was the other team tagged? What a team corrects at the end comes behind
its own tags, where nothing waits for it: it is late in every way but that of K.
"""

from __future__ import annotations

import csv
import gzip
from typing import Any, Final, NamedTuple

from benchmarks import traces
from benchmarks.baselines.alpha import Fixed, Policy
from benchmarks.tables import Table
from topology.answer.spending import WHOLE
from topology.detector.detector import Detector, Found, behaviour_of
from topology.detector.item import LogEntry, Seen, before, behind
from topology.detector.unit import LATE, Unit
from topology.model.result import EMIT

MS: Final = 1_000_000
SECOND: Final = 1_000 * MS
HELD_S: Final = 15
"""A pass that long ago does not count."""

State = tuple[str, tuple[int, ...]]


def _step(state: State, event: Seen) -> tuple[State, Found | None]:
    team, passes = state
    if event.type == "Pass":
        if team != event.source:
            passes = ()
        kept = tuple(each for each in passes if event.time_ns - each < HELD_S * SECOND)
        return (event.source, (*kept, event.time_ns)), None
    if event.type == "Shot":
        led = len(passes) if team == event.source else 0
        start_ns = passes[0] if led else event.time_ns
        return ("", ()), Found({"team": event.source, "passes": led}, start_ns=start_ns)
    return state, None


ATTEMPTS: Final = Detector(_step, ("", ()))


class Outcome(NamedTuple):
    """`settled_s` of what stands; `affected`: results behind what came late, which retraction in
    full takes back, and results that were in fact told otherwise."""

    settled_s: list[float]
    current: int
    emitted: int
    changed: int
    affected: int
    again: int
    late: int


def trace() -> list[Seen]:
    """In the order of arrival. TraceAbsent where it is not there."""
    path = traces.folder() / "soccer_tagging" / "match_2058004.csv.gz"
    if not path.exists():
        raise traces.TraceAbsent(path)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [
            Seen(row["event"], int(row["event_ms"]) * MS, None, row["source"], 0, number)
            for number, row in enumerate(csv.DictReader(file))
        ]


def run(events: list[Seen], policy: Policy, *, by_numbers: bool) -> Outcome:
    """`by_numbers`: final is what both have passed; else nothing is, until the end."""
    unit = Unit(behaviour_of(ATTEMPTS), b"")
    heard: dict[str, int] = {}
    clock_ns = late = emitted = changed = affected = 0
    first_ns: dict[str, int] = {}
    current: dict[str, Any] = {}
    for seen in events:
        clock_ns = max(clock_ns, seen.time_ns)
        heard[seen.source] = max(heard.get(seen.source, 0), seen.time_ns)
        late += unit.put("", LogEntry(seen)) == LATE
        frontier_ns = min(heard.values()) if by_numbers and len(heard) == 2 else 0
        read_ns = max(frontier_ns, clock_ns - policy.wait_ns(clock_ns - frontier_ns))
        log = unit.logs.get("")
        if log is not None and log.dirty:
            since = min(log.dirty)
            affected += sum(each.cause >= since for each in log.outs)
        records = unit.advance(behind(read_ns), before(frontier_ns))
        for record in records:
            emitted += record.op == EMIT
            changed += record.op != EMIT
            current[record.output.id] = record.op != "retract"
            first_ns[record.output.id] = clock_ns - record.output.end_ns
    for record in unit.end(clock_ns):
        current[record.output.id] = record.op != "retract"
        first_ns.setdefault(record.output.id, clock_ns - record.output.end_ns)
    left = [id_ for id_, live in current.items() if live]
    settled_s = sorted(first_ns[id_] / SECOND for id_ in left)
    again = unit.counts.replayed
    return Outcome(settled_s, len(left), emitted, changed, affected, again, late)


def table() -> Table:
    """Latency in s of the match. TraceAbsent where the trace is not there."""
    events = trace()
    table = Table(
        f"soccer_tagging: {len(events)} tags",
        ("run", "p50", "mean", "stand", "changed", "in full", "again", "late"),
    )
    rows: list[tuple[str, Policy, bool]] = [
        ("K, alpha 1: all at the end", Fixed(WHOLE), False),
        ("K, alpha 0", Fixed(0), False),
        ("frontier, no speculation", Fixed(WHOLE), True),
        ("frontier, half of the wait", Fixed(WHOLE // 2), True),
        ("frontier, wait 0", Fixed(0), True),
    ]
    for name, policy, by_numbers in rows:
        found = run(events, policy, by_numbers=by_numbers)
        settled = found.settled_s
        table.add(
            name,
            f"{settled[len(settled) // 2]:.0f}",
            f"{sum(settled) / len(settled):.0f}",
            str(found.current),
            f"{found.changed} of {found.emitted}",
            str(found.affected),
            f"{found.again / len(events):.2f}",
            str(found.late),
        )
    return table
