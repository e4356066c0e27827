"""What a replay came to: the balance, in all and per source, and the wait.

    in = event + late + duplicate + dead + held

`in` counts event lines and dead lines. A late event that was passed on counts as late; why events
were late is told by cause.
A dead line without a readable source is in the totals only. The reasons of dead lines are
counted, each with its first line; and what each query told: `stand` are those shown and
not taken back, `uncertain` those shown with times that could be otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli.printable import printable
from cli.waits import Waits
from topology.config.stages import CHAIN
from topology.model.event import DATA, Event
from topology.model.outcome import Duplicate, Gap, Late, Malformed, Report, Step
from topology.model.result import CONFIRMED, EMIT, RETRACT, UPDATE, Finding, Overflow

BALANCE: Final = ("event", "late", "duplicate", "dead", "held")
COUNTED: Final = ("in", *BALANCE, "gaps")
NS_PER_MS: Final = 1e6
NS_PER_S: Final = 1e9


MOST_DEAD: Final = 0.5
"""A larger share of dead lines is told loudly."""

LOUD_FROM: Final = 20
"""Lines that are all dead are a failure from so many on; fewer may be a trial."""

TOLD_REASONS: Final = 5

LOOKING: Final = tuple(link.name for link in CHAIN if link.is_asked)
UNUSED: Final = {
    "unkeyed": "events without a key",
    "unpartitioned": "events without a key",
    "unreadable": "payloads that are no JSON",
    "skipped": "values that an aggregate cannot use",
    "failed": "times that a function of the user's own raised",
    "unsure": "events whose time is too uncertain",
    "far": "events at times beyond all reckoning",
    "expired": "events that came for what was final",
    "refused": "events left out at a bound",
    "given_up": "given up at a bound",
}
"""Figures of operators that look at events, in words."""


class DeadReason:
    """How many lines were dead for it, and the first of them."""

    def __init__(self, first: Malformed) -> None:
        self.count = 0
        self.line = first.offset
        self.detail = first.detail
        self._at_ns = first.at_ns

    def add(self, other: DeadReason) -> None:
        """More of them, from elsewhere."""
        self.count += other.count
        if other._at_ns < self._at_ns:
            self.line, self.detail, self._at_ns = other.line, other.detail, other._at_ns


class Summary:
    """Counts as the replay goes on."""

    def __init__(self) -> None:
        self.sources: dict[str, Counter[str]] = {}
        self._nameless: Counter[str] = Counter()
        self._unread = 0
        self.lines = 0
        """Good and dead, without those of clocks."""
        self._clock_lines = 0
        self._control = 0
        self._waits = Waits()
        self._late_by_cause: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()
        self._moved: Counter[str] = Counter()
        self._dead: dict[str, DeadReason] = {}
        self._queries: dict[str, Counter[str]] = {}
        self._seconds = 0.0
        self.cpu_seconds = 0.0

    def _of(self, source: str | None) -> Counter[str]:
        if source is None:
            return self._nameless
        found = self.sources.get(source)
        if found is None:
            found = self.sources[source] = Counter()
        return found

    def took_clock_lines(self, count: int) -> None:
        self._clock_lines += count

    def read(self, lines: Iterable[Event | Malformed]) -> None:
        for line in lines:
            self.lines += 1
            self._unread += isinstance(line, Malformed)
            if isinstance(line, Event) and line.kind != DATA:
                self._control += 1
            else:
                self._of(line.source)["in"] += 1

    def said(self, step: Step) -> None:
        for event in step.released:
            if event.kind == DATA:
                self._of(event.source)["late" if event.late else "event"] += 1
                if event.late:
                    self._late_by_cause[event.late] += 1
                self._waits.each_ns.append(event.at_ns - event.arrival_ns)
        for report in step.reports:
            self._report(report)
        for finding in step.results:
            self._found(finding)

    def _report(self, report: Report) -> None:
        match report:
            case Gap():
                self._of(report.source)["gaps"] += 1
            case Late():
                self._of(report.event.source)["late"] += 1
                self._late_by_cause[report.reason] += 1
            case Duplicate():
                self._of(report.event.source)["duplicate"] += 1
            case Malformed():
                self._of(report.source)["dead"] += 1
                self._dead.setdefault(report.reason, DeadReason(report)).count += 1
                if report.kind:  # a control line that cannot be used is a dead line
                    self._of(report.source)["in"] += 1
                    self._control -= 1

    def _found(self, finding: Finding) -> None:
        counts = self._queries.setdefault(finding.query, Counter())
        if isinstance(finding, Overflow):
            counts["overflow"] += 1
            return
        counts[finding.op] += 1
        counts["uncertain"] += finding.op == EMIT and finding.confidence != CONFIRMED

    def holds(self, events: Iterable[Event]) -> None:
        for event in events:
            self._of(event.source)["held"] += 1

    def takes_over(self, events: Iterable[Event]) -> None:
        """What an earlier run held: it comes in once more."""
        for event in events:
            self._of(event.source)["in"] += 1

    def left_out(self, figures: Iterable[Mapping[str, int]]) -> None:
        """What queries made no use of, by the figures of each stream."""
        for each in figures:
            for name, value in each.items():
                operator, _, reason = name.partition("_")
                if value and operator in LOOKING and reason in UNUSED:
                    self._left_out[f"{operator}: {UNUSED[reason]}"] += value

    def clocks(self, figures: Iterable[Mapping[str, int]]) -> None:
        """What `unsynced: estimate` has done, by the figures of each stream."""
        for each in figures:
            self._moved["known"] += each.get("clock_sources", 0)
            self._moved["sources"] += each.get("clock_moved", 0)
            self._moved["events"] += each.get("clock_contradicted", 0)
            self._moved["by_ns"] = max(self._moved["by_ns"], each.get("clock_moved_ns", 0))

    def add(self, other: Summary) -> None:
        """What else was said, of other streams or other lines."""
        for source, counts in other.sources.items():
            self._of(source).update(counts)
        self._nameless.update(other._nameless)
        self.lines += other.lines
        self._unread += other._unread
        self._clock_lines += other._clock_lines
        self._control += other._control
        self._waits.join(other._waits)
        self._late_by_cause.update(other._late_by_cause)
        self._left_out.update(other._left_out)
        widest_ns = max(self._moved["by_ns"], other._moved["by_ns"])
        self._moved.update(other._moved)
        self._moved["by_ns"] = widest_ns
        for reason, dead in other._dead.items():
            known = self._dead.setdefault(reason, dead)
            if known is not dead:
                known.add(dead)
        for query, told in other._queries.items():
            self._queries.setdefault(query, Counter()).update(told)
        self.cpu_seconds += other.cpu_seconds

    def thin(self) -> None:
        """Keep no more of the waits than can be sent."""
        self._waits.thin()

    def took(self, seconds: float, cpu_seconds: float) -> None:
        self._seconds = seconds
        self.cpu_seconds = cpu_seconds

    # -- the result ------------------------------------------------------------------------

    def totals(self) -> dict[str, int]:
        every = [self._nameless, *self.sources.values()]
        return {name: sum(counts[name] for counts in every) for name in COUNTED}

    def wait_ms(self) -> dict[str, float]:
        return self._waits.in_ms()

    def late_by_cause(self) -> dict[str, int]:
        """Why events were late, the commonest first (docs/operators/merge.md)."""
        return dict(sorted(self._late_by_cause.items(), key=lambda each: (-each[1], each[0])))

    def results(self) -> dict[str, dict[str, int]]:
        """The figures of each query that told anything."""
        return {
            query: {
                "stand": counts[EMIT] - counts[RETRACT],
                **{name: counts[name] for name in (EMIT, UPDATE, RETRACT)},
                "uncertain": counts["uncertain"],
                **({"overflow": counts["overflow"]} if counts["overflow"] else {}),
            }
            for query, counts in sorted(self._queries.items())
        }

    def dead_reasons(self) -> list[tuple[str, DeadReason]]:
        """The commonest first."""
        return sorted(self._dead.items(), key=lambda each: (-each[1].count, each[1].line))

    @property
    def all_unread(self) -> bool:
        """Not one line of many could be read; what a topology rejects is an answer."""
        return self._unread == self.lines >= LOUD_FROM

    def alarm(self) -> str | None:
        """What to say where most lines are dead."""
        totals = self.totals()
        dead, whole = totals["dead"], totals["in"]
        if not whole or dead <= MOST_DEAD * whole:
            return None
        reason, first = self.dead_reasons()[0]
        return (
            f"{dead:,} of {whole:,} lines are dead, most of them as {reason}; line {first.line}:"
            f" {first.detail}"
        )

    def estimated(self) -> str | None:
        """In one line, where clocks were moved by arrivals alone; None where none was."""
        moved = self._moved
        if not moved["sources"] and not moved["events"]:
            return None
        return (
            f"clock: {moved['sources']:,} of {moved['known']:,} sources were moved, by at most"
            f" {moved['by_ns'] / NS_PER_S:.3f} s, and {moved['events']:,} events by themselves, as"
            " arrivals showed wrong clocks (unsynced: estimate); where stamps are right, as in old"
            " data, write clock: {unsynced: trust}"
        )

    def document(self) -> dict[str, Any]:
        totals = self.totals()
        return {
            **totals,
            "clock": self._clock_lines,
            "control": self._control,
            "wait_ms": self.wait_ms(),
            "events_per_cpu_second": round(totals["in"] / max(self.cpu_seconds, 1e-9)),
            "seconds": round(self._seconds, 6),
            **({"late_by_cause": self.late_by_cause()} if self._late_by_cause else {}),
            **({"results": self.results()} if self._queries else {}),
            **({"moved": self._moved_document()} if self.estimated() else {}),
            **({"dead_reasons": self._dead_document()} if self._dead else {}),
            **({"left_out": dict(sorted(self._left_out.items()))} if self._left_out else {}),
            "sources": {
                source: {name: counts[name] for name in COUNTED}
                for source, counts in sorted(self.sources.items())
            },
        }

    def _moved_document(self) -> dict[str, Any]:
        by_ms = self._moved["by_ns"] / NS_PER_MS
        return {"sources": self._moved["sources"], "by_ms": by_ms, "events": self._moved["events"]}

    def _dead_document(self) -> dict[str, dict[str, Any]]:
        return {
            reason: {"count": dead.count, "line": dead.line, "detail": dead.detail}
            for reason, dead in self.dead_reasons()
        }

    def json(self) -> str:
        return orjson.dumps(self.document()).decode()

    def table(self) -> str:
        """For people: a row per source, the totals, and the wait."""
        table = Table(title="balance: in = event + late + duplicate + dead + held")
        table.add_column("source")
        for name in COUNTED:
            table.add_column(name, justify="right")
        rows = sorted(self.sources.items())
        for source, counts in rows[:MAX_ROWS]:
            table.add_row(Text(printable(source)), *(str(counts[name]) for name in COUNTED))
        if len(rows) > MAX_ROWS:
            table.add_row(f"… {len(rows) - MAX_ROWS} more", *("" for _ in COUNTED))
        table.add_section()
        table.add_row("all", *(str(count) for count in self.totals().values()))
        console = Console(width=100)
        with console.capture() as capture:
            console.print(table)
            wait = self.wait_ms()
            console.print(
                f"wait ms: mean {wait['mean']:.3f}, p50 {wait['p50']:.3f},"
                f" p99 {wait['p99']:.3f}, max {wait['max']:.3f};"
                f" {self._seconds:.2f} s"
            )
            if self._late_by_cause:
                told = ", ".join(f"{cause} {n}" for cause, n in self.late_by_cause().items())
                console.print(f"late by cause: {told}", highlight=False, soft_wrap=True)
            for line in (*self._told_results(), *self._told_dead()):
                console.print(line, highlight=False, markup=False, soft_wrap=True)
            for what, count in sorted(self._left_out.items()):
                console.print(f"left out by queries: {what}: {count}", highlight=False)
        return capture.get()

    def _told_results(self) -> Iterator[str]:
        for query, counts in self.results().items():
            said = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
            yield f"results of {query}: {said}"

    def _told_dead(self) -> Iterator[str]:
        reasons = self.dead_reasons()
        for reason, dead in reasons[:TOLD_REASONS]:
            yield f"dead: {dead.count:,} {reason}; first in line {dead.line}: {dead.detail}"
        if len(reasons) > TOLD_REASONS:
            yield f"dead: {len(reasons) - TOLD_REASONS} more reasons; `--json` has them all"


MAX_ROWS: Final = 40
"""Sources shown to people; programs get all."""
