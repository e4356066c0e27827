"""What ordering cost and what it brought: holds, descents, late events, gaps.

* *hold* of an event: from its arrival to its release. Late events do not wait.
* *descents* are counted within each source, over what came out, events passed on late
  included; `accuracy` = 1 - descents left / descents injected, and may be negative.
* *late*: came after its gap had been declared. It is passed on out of order here; under
  `late: drop` just these events would be lost.
* *aside*: late too, and nobody remembers whether it is a copy (before the first number
  of the source, an epoch that is over): goes to the side topic under every policy.
* *never came*: numbers declared missing that no event ever filled, so lost on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from benchmarks.workloads.rows import Row
from topology.model.event import DATA, Event
from topology.model.outcome import Gap, Late, Step

BATCH = 1_000
"""Events told at once: how they are cut changes nothing but the speed."""


class Driven(Protocol):
    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step: ...

    def on_end(self, now_ns: int) -> Step: ...


@dataclass(slots=True)
class Holding:
    """What came out of one run."""

    released: int = 0
    descents: int = 0
    late: int = 0
    aside: int = 0
    gaps: int = 0
    missing: int = 0
    filled: int = 0
    holds_ns: list[int] = field(default_factory=list)
    _last_ts_ns: dict[str, int] = field(default_factory=dict)

    def said(self, step: Step) -> None:
        for event in step.released:
            if event.kind == DATA:
                self._released(event)
        for report in step.reports:
            if isinstance(report, Gap):
                self.gaps += 1
                self.missing += report.last - report.first + 1
            elif isinstance(report, Late):
                self.aside += 1

    def _released(self, event: Event) -> None:
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
        return sum(self.holds_ns) / max(1, len(self.holds_ns))

    def quantile_ns(self, share: float) -> int:
        if not self.holds_ns:
            return 0
        return self.holds_ns[min(len(self.holds_ns) - 1, int(share * len(self.holds_ns)))]

    def accuracy(self, injected: int) -> float:
        return 1 - self.descents / injected if injected else 1.0


Make = Callable[[Row, int], Event]


def event_of(epoch: int = 0) -> Make:
    def make(row: Row, offset: int) -> Event:
        return Event("default", row.source, epoch, row.seq, row.ts_ns, row.arrival_ns, offset)

    return make


def run(operator: Driven, rows: Sequence[Row], make: Make) -> Holding:
    """All rows through the operator, and to the end."""
    holding = Holding()
    now_ns = 0
    for batch in batches(rows, make):
        now_ns = batch[-1].arrival_ns
        holding.said(operator.on_batch(batch, now_ns))
    holding.said(operator.on_end(now_ns))
    return holding.close()


def batches(rows: Sequence[Row], make: Make, size: int = BATCH) -> Iterator[list[Event]]:
    """Fresh events: operators write on those they are given."""
    for begin in range(0, len(rows), size):
        yield [make(row, begin + at) for at, row in enumerate(rows[begin : begin + size])]


def injected(rows: Iterable[Any]) -> int:
    """Descents within each source, as the rows arrive."""
    last_ns: dict[str, int] = {}
    found = 0
    for row in rows:
        found += row.ts_ns < last_ns.get(row.source, row.ts_ns)
        last_ns[row.source] = row.ts_ns
    return found
