"""REORDER and its oracle, run side by side on one list of arrivals."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from benchmarks.published.reorder import PacedReorder
from tests.topology.order.reorder import oracle_waits as waits
from tests.topology.order.reorder.oracle import (
    AUTO,
    DUPLICATE,
    EMITTED,
    HELD,
    LATE,
    Answer,
    Arrival,
    reorder,
)
from topology.base.event import DATA, NO_EPOCH, Event
from topology.base.outcome import Duplicate, Gap, Late
from topology.config import ReorderConfig
from topology.order.reorder.operator import Reorder

MS = 1_000_000
MAX_WAIT_MS = 50
MISS_PPM = 10_000

RULES: dict[str, Callable[[], waits.Rule]] = {
    "fixed": lambda: waits.fixed(MAX_WAIT_MS * MS),
    "miss": lambda: waits.miss(MISS_PPM, MAX_WAIT_MS * MS),
    "thesis": lambda: waits.thesis(MAX_WAIT_MS * MS),
    "rfc": lambda: waits.rfc(MAX_WAIT_MS * MS),
}


def arrivals(rng: Random, n: int = 70, sources: int = 2) -> list[Arrival]:
    """Return arrivals out of order, with losses, duplicates, silences, restarts and set-backs.

    Times are whole milliseconds, so that arrivals and deadlines coincide.
    """
    coming: list[Arrival] = []
    for i in range(sources):
        coming += _source(f"s{i}", rng, n // sources)
    return sorted(coming, key=lambda arrival: arrival.at_ns)


def _source(name: str, rng: Random, n: int) -> list[Arrival]:
    epoch = rng.choice((None, None, 0, 2))
    first = rng.choice((0, 0, 1, 40))
    delayed, reach = rng.choice((0.0, 0.1, 0.5, 0.9)), rng.choice((2, 20, 120))
    lost, restarts = rng.choice((0.0, 0.05)), rng.choice((0.0, 0.03))
    fall = rng.choice((0, 0, 20, 200))
    now, seq = 1_000, first
    sent: list[Arrival] = []
    for _ in range(n):
        now += rng.choice((0, 1, 1, 2, 30))
        if rng.random() < restarts:
            if epoch is None:
                now += rng.choice((1, 30, 300))
            else:
                epoch += 1
            seq = first
        if rng.random() >= lost:
            delay = rng.randint(0, reach) if rng.random() < delayed else 0
            at_ns = (now + delay) * MS
            ts = now - (fall if rng.random() < 0.3 else 0)
            sent.append(Arrival(at_ns, name, seq, ts * MS, epoch))
            if rng.random() < 0.04:
                late_ns = rng.randint(0, 100) * MS
                content = rng.choice((None, b"x"))
                sent.append(Arrival(at_ns + late_ns, name, seq, ts * MS, epoch, content))
        seq += 1
    return sent


Verdict = tuple[str, int | None, int, str, bool]


def by_oracle(coming: list[Arrival], rule: str, start: int, **times: Any) -> tuple[Any, ...]:
    answer: Answer = reorder(
        coming, RULES[rule](), max_wait_ns=MAX_WAIT_MS * MS, start=start, **times
    )
    fates = [(f.verdict, f.at_ns, f.epoch, f.reason, f.conflict) for f in answer.fates]
    gaps = [
        (g.at_ns, g.source, g.epoch, g.first, g.last, g.reason, g.known_at_ns, g.ts_before_ns,
         g.ts_after_ns)
        for g in answer.gaps
    ]  # fmt: skip
    return fates, gaps, {source: left for source, left in answer.left.items() if left}


def by_operator(coming: list[Arrival], rule: str, start: int, **times: Any) -> tuple[Any, ...]:
    is_printed = rule in ("thesis", "rfc")
    chosen: dict[str, Any] = {
        "rule": "miss" if is_printed else rule,
        "miss_target_ppm": MISS_PPM,
        "max_wait": f"{MAX_WAIT_MS}ms",
        "start": "auto" if start == AUTO else start,
    }
    config = ReorderConfig(**chosen)
    operator = Reorder("default", config)
    if is_printed:
        operator = PacedReorder("default", config, is_rfc=rule == "rfc")
    events = []
    for offset, a in enumerate(coming):
        epoch = NO_EPOCH if a.epoch is None else a.epoch
        events.append(
            Event("default", a.source, epoch, a.seq, a.ts_ns, a.at_ns, offset, value=a.content)
        )
    step = operator.on_batch(events, events[-1].at_ns)
    reports, released = list(step.reports), list(step.released)
    if "until_ns" in times or "end_ns" in times:
        last = (
            operator.on_end(times["end_ns"])
            if "end_ns" in times
            else operator.on_time(times["until_ns"])
        )
        reports += last.reports
        released += last.released
    fates: list[Verdict] = [(HELD, None, 0, "", False) for _ in coming]
    for event in operator.iter_held():
        fates[event.offset] = (HELD, None, event.epoch, "", False)
    gaps: list[tuple[Any, ...]] = []
    left: dict[str, list[int]] = {}
    for event in released:
        if event.kind != DATA:
            continue
        verdict = LATE if event.late else EMITTED
        fates[event.offset] = (verdict, event.at_ns, event.epoch, event.late, False)
        if not event.late:
            left.setdefault(event.source, []).append(event.offset)
    for report in reports:
        if isinstance(report, Gap):
            gaps.append(
                (report.at_ns, report.source, report.epoch, report.first, report.last,
                 report.reason, report.known_at_ns, report.ts_before_ns, report.ts_after_ns)
            )  # fmt: skip
        elif isinstance(report, Late):
            e = report.event
            fates[e.offset] = (LATE, report.at_ns, e.epoch, report.reason, False)
        elif isinstance(report, Duplicate):
            e = report.event
            fates[e.offset] = (DUPLICATE, report.at_ns, e.epoch, "", report.conflict)
    return fates, sorted(gaps, key=lambda g: (g[0], g[1], g[2], g[3])), left
