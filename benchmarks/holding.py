"""Measure the cost and the effect of ordering: holds, descents, late events, gaps.

* *hold* of an event: the time from its arrival until it is emitted. Late events do not wait.
* *descents* are counted within each source over the output, which includes late events passed on.
  `accuracy` = 1 - descents left / descents injected, and may be negative.
* *late*: events that arrived after their gap had been declared. They are passed on out of order
  here; with `late: drop` only these events would be lost.
* *aside*: events that are also late, and possibly duplicates. They are before the first number of
  the source, or in a finished epoch. They go to the side topic under every policy.
* *never came*: numbers declared missing that no event ever filled, so lost on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, Protocol

from benchmarks.harness import Columns, mean, quantile
from benchmarks.tables import count, format_ms, format_share
from benchmarks.workloads.rows import Row
from topology.base.event import DATA, Event
from topology.base.outcome import Gap, Late, Step

BATCH = 1_000
"""The number of events per batch, which affects only the speed."""


class Fed(Protocol):
    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step: ...


class Driven(Fed, Protocol):
    def on_end(self, now_ns: int) -> Step: ...


@dataclass(slots=True)
class Holding:
    """The counts and holds of one run's output."""

    released: int = 0
    descents: int = 0
    late: int = 0
    aside: int = 0
    gaps: int = 0
    missing: int = 0
    filled: int = 0
    holds_ns: list[int] = field(default_factory=list)
    _last_ts_ns: dict[str, int] = field(default_factory=dict)

    def take_step(self, step: Step) -> None:
        for event in step.released:
            if event.kind == DATA:
                self._count_released(event)
        for report in step.reports:
            if isinstance(report, Gap):
                self.gaps += 1
                self.missing += report.last - report.first + 1
            elif isinstance(report, Late):
                self.aside += 1

    def _count_released(self, event: Event) -> None:
        self.released += 1
        self.holds_ns.append(event.at_ns - event.arrival_ns)
        if event.late:
            self.late += 1
            self.filled += event.late == "gap"
        last_ns = self._last_ts_ns.get(event.source)
        if last_ns is not None and event.ts_ns < last_ns:
            self.descents += 1
        self._last_ts_ns[event.source] = event.ts_ns

    def close(self) -> Holding:
        self.holds_ns.sort()
        return self

    @property
    def never_came(self) -> int:
        return self.missing - self.filled

    @property
    def mean_ns(self) -> float:
        return mean(self.holds_ns)

    def quantile_ns(self, share: float) -> int:
        return quantile(self.holds_ns, share)

    def accuracy(self, injected: int) -> float:
        return 1 - self.descents / injected if injected else 1.0


COLUMNS: Final[Columns] = {
    "left": lambda one, _: count(one.descents),
    "late": lambda one, _: count(one.late),
    "late %": lambda one, _: format_share(one.late, one.released),
    "aside": lambda one, _: count(one.aside),
    "gaps": lambda one, _: count(one.gaps),
    "never came": lambda one, _: count(one.never_came),
    "mean ms": lambda one, _: format_ms(one.mean_ns),
    "p50 ms": lambda one, _: format_ms(one.quantile_ns(0.5)),
    "p99 ms": lambda one, _: format_ms(one.quantile_ns(0.99)),
    "max ms": lambda one, _: format_ms(one.quantile_ns(1)),
}

Make = Callable[[Row, int], Event]


def make_event_factory(epoch: int = 0) -> Make:
    def make(row: Row, offset: int) -> Event:
        return Event("default", row.source, epoch, row.seq, row.ts_ns, row.arrival_ns, offset)

    return make


def run(operator: Driven, rows: Sequence[Row], make: Make) -> Holding:
    """Run all rows through the operator, end the input, and return the counts of the output."""
    holding = Holding()
    events = (make(row, at) for at, row in enumerate(rows))
    holding.take_step(operator.on_end(feed(operator, events, holding.take_step)))
    return holding.close()


def feed(operator: Fed, events: Iterator[Event], said: Callable[[Step], None]) -> int:
    """Feed events to the operator in batches, and return the last arrival.

    The events must be new, because the operator modifies them.
    """
    now_ns = 0
    while batch := list(islice(events, BATCH)):
        now_ns = batch[-1].arrival_ns
        said(operator.on_batch(batch, now_ns))
    return now_ns


def count_source_descents(rows: Iterable[Any]) -> int:
    """Count the descents within each source, as the rows arrive."""
    last_ns: dict[str, int] = {}
    found = 0
    for row in rows:
        found += row.ts_ns < last_ns.get(row.source, row.ts_ns)
        last_ns[row.source] = row.ts_ns
    return found
