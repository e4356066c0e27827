"""Summarize a replay: the balance of events, in total and for each source, and their waits.

    in = event + late + duplicate + dead + held

`in` counts event lines and dead lines. Late events are counted by cause, whether emitted or not. A
dead line without a readable source is in the totals only. The reasons of dead lines are counted,
each with its first line.

The results of each query are counted, too: `stand` are those that were emitted and not retracted,
and `uncertain` are those whose times could be different.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from agents.watch.deaths import DeadReason, Deaths
from agents.watch.sentences import describe_left_out, open_ends
from recordings.waits import Waits
from topology.base.event import DATA, Event
from topology.base.field_use import FieldUse, join
from topology.base.outcome import Duplicate, Gap, Late, Malformed, Report, Step
from topology.base.result import CONFIRMED, EMIT, RETRACT, UPDATE, Finding, Overflow
from topology.config import Topology
from topology.config.stages import CHAIN
from topology.stage.unmet import Unmet, make_unmet_check

BALANCE: Final = ("event", "late", "duplicate", "dead", "held")
COUNTED: Final = ("in", *BALANCE, "gaps")
NS_PER_MS: Final = 1e6

LOUD_FROM: Final = 20
"""The minimum number of lines of a replay that fails if all lines are dead.

A shorter replay may be a trial.
"""

LOOKING: Final = tuple(link.name for link in CHAIN if link.evaluates_queries)
UNUSED: Final = {
    "without_key": "events without a key",
    "unreadable": "payloads that are not JSON",
    "skipped": "values that an aggregate cannot use",
    "failed": "errors of the user's functions",
    "error_too_large": "events whose time is too uncertain",
    "out_of_range": "events whose time is out of range",
    "expired": "events whose result was already final",
    "refused": "events left out because of a bound",
    "given_up": "given up because of a bound",
}
"""The description of each operator figure that counts events that could not be used."""


NOTHING: Final[Counter[str]] = Counter()


class Summary:
    """The counts of a replay, updated as it runs."""

    def __init__(self) -> None:
        self.sources: dict[str, Counter[str]] = {}
        self._nameless: Counter[str] = Counter()
        self._unread = 0
        self.lines = 0
        """The number of lines, valid or dead, except clock lines."""
        self._clock_lines = 0
        self._control = 0
        self._waits = Waits()
        self._late_by_cause: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()
        self._field_uses: dict[tuple[str, str], FieldUse] = {}
        self.moved: Counter[str] = Counter()
        self._deaths = Deaths()
        self._queries: dict[str, Counter[str]] = {}
        self._unmet: Unmet | None = None
        self._open_ends: Mapping[str, str] = {}
        self._without_results: dict[str, list[str]] = {}
        """The queries without results, each with the parts that no event matched."""
        self.takes_stamps = False
        """Whether the topology asks to estimate clocks although no line has an arrival."""
        self._seconds = 0.0
        self.cpu_seconds = 0.0

    def _of(self, source: str | None) -> Counter[str]:
        if source is None:
            return self._nameless
        found = self.sources.get(source)
        if found is None:
            found = self.sources[source] = Counter()
        return found

    def check_queries(self, topology: Topology) -> None:
        """Check from now on whether the lines have what the topology's queries need."""
        self._unmet = make_unmet_check(topology)
        self._open_ends = open_ends(topology)

    def count_clock_lines(self, count: int) -> None:
        self._clock_lines += count

    def read(self, lines: Sequence[Event | Malformed]) -> None:
        if self._unmet is not None:
            self._unmet.observe([line for line in lines if isinstance(line, Event)])
        for line in lines:
            self.lines += 1
            self._unread += isinstance(line, Malformed)
            if isinstance(line, Event) and line.kind != DATA:
                self._control += 1
            else:
                self._of(line.source)["in"] += 1

    def count_step(self, step: Step) -> None:
        for event in step.released:
            if event.kind == DATA:
                self._of(event.source)["late" if event.late else "event"] += 1
                if event.late:
                    self._late_by_cause[event.late] += 1
                self._waits.each_ns.append(event.at_ns - event.arrival_ns)
        for report in step.reports:
            self._count_report(report)
        for finding in step.results:
            self._count_finding(finding)

    def _count_report(self, report: Report) -> None:
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
                self._deaths.add(report)
                if report.kind:  # A control line that cannot be used is a dead line.
                    self._of(report.source)["in"] += 1
                    self._control -= 1

    def _count_finding(self, finding: Finding) -> None:
        counts = self._queries.setdefault(finding.query, Counter())
        if isinstance(finding, Overflow):
            counts["overflow"] += 1
            return
        counts[finding.op] += 1
        counts["open"] += finding.op != RETRACT and not finding.final
        counts["uncertain"] += finding.op == EMIT and finding.confidence != CONFIRMED

    def count_held(self, events: Iterable[Event]) -> None:
        for event in events:
            self._of(event.source)["held"] += 1

    def count_resumed(self, events: Iterable[Event]) -> None:
        """Count events that an earlier run left buffered as inputs of this run."""
        for event in events:
            self._of(event.source)["in"] += 1

    def ends(self, queries: Iterable[str]) -> None:
        """Determine, after the last line, which queries have no results and why.

        Args:
            queries: The queries that could have emitted something.
        """
        unmet, self._unmet = self._unmet, None
        if unmet is None:
            return
        for query in queries:
            words = unmet.words(query)
            if query not in self._queries or (words and unmet.is_lasting(query)):
                self._without_results[query] = words

    def left_out(self, figures: Iterable[Mapping[str, int]]) -> None:
        """Count the events that queries could not use, from the figures of each stream."""
        for each in figures:
            for name, value in each.items():
                operator, _, reason = name.partition("_")
                if value and operator in LOOKING and reason in UNUSED:
                    self._left_out[f"{operator}: {UNUSED[reason]}"] += value

    def add_field_uses(self, uses: Iterable[FieldUse]) -> None:
        """Add the values that queries left out, by query and field."""
        for use in uses:
            before = self._field_uses.get((use.query, use.aggregate))
            key = use.query, use.aggregate
            self._field_uses[key] = use if before is None else join(before, use)

    def without_arrivals(self, topology: Topology) -> Topology:
        """Return the topology for a recording without arrivals.

        Record in `takes_stamps` whether a stream had `unsynced: estimate`, which is then replaced.
        """
        policies = {stream.unsynced for stream in topology.streams.values()}
        self.takes_stamps = "estimate" in policies
        return topology.without_arrivals()

    def clocks(self, figures: Iterable[Mapping[str, int]]) -> None:
        """Count the effects of `unsynced: estimate`, from the figures of each stream."""
        for each in figures:
            self.moved["known"] += each.get("clock_sources", 0)
            self.moved["sources"] += each.get("clock_corrected_by_arrival", 0)
            self.moved["events"] += each.get("clock_contradicted", 0)
            self.moved["by_ns"] = max(
                self.moved["by_ns"], each.get("clock_corrected_by_arrival_ns", 0)
            )

    def add(self, other: Summary) -> None:
        """Add the counts of a summary of other streams or other lines."""
        for source, counts in other.sources.items():
            self._of(source).update(counts)
        self._nameless.update(other._nameless)
        self.lines += other.lines
        self._unread += other._unread
        self._clock_lines += other._clock_lines
        self.takes_stamps = self.takes_stamps or other.takes_stamps
        self._control += other._control
        self._waits.join(other._waits)
        self._late_by_cause.update(other._late_by_cause)
        self._left_out.update(other._left_out)
        self.add_field_uses(other._field_uses.values())
        widest_ns = max(self.moved["by_ns"], other.moved["by_ns"])
        self.moved.update(other.moved)
        self.moved["by_ns"] = widest_ns
        self._deaths.join(other._deaths)
        self._without_results |= other._without_results
        self._open_ends = {**self._open_ends, **other._open_ends}
        for query, counts in other._queries.items():
            self._queries.setdefault(query, Counter()).update(counts)
        self.cpu_seconds += other.cpu_seconds

    def thin(self) -> None:
        """Reduce the number of stored waits, so that they can be sent to another process."""
        self._waits.thin()

    def set_times(self, seconds: float, cpu_seconds: float) -> None:
        self._seconds = seconds
        self.cpu_seconds = cpu_seconds

    # -- the result ------------------------------------------------------------------------

    def totals(self) -> dict[str, int]:
        every = [self._nameless, *self.sources.values()]
        return {name: sum(counts[name] for counts in every) for name in COUNTED}

    def wait_ms(self) -> dict[str, float]:
        return self._waits.in_ms()

    def late_by_cause(self) -> dict[str, int]:
        """Return the count of late events by cause, the commonest first (docs/concepts/late.md)."""
        return dict(sorted(self._late_by_cause.items(), key=lambda each: (-each[1], each[0])))

    def results(self) -> dict[str, dict[str, int]]:
        """Return the figures of each query that has results."""
        return {
            query: {
                "stand": counts[EMIT] - counts[RETRACT],
                **{name: counts[name] for name in (EMIT, UPDATE, RETRACT)},
                "uncertain": counts["uncertain"],
                **({"overflow": counts["overflow"]} if counts["overflow"] else {}),
            }
            for query, counts in sorted(self._queries.items())
        }

    def open_end(self) -> str | None:
        """Return a sentence about results that no line will make final, if there are any."""
        asked = self._open_ends.items()
        return next(
            (said for name, said in asked if self._queries.get(name, NOTHING)["open"]), None
        )

    def dead_reasons(self) -> list[tuple[str, DeadReason]]:
        """Return the reasons of dead lines, the commonest first."""
        return self._deaths.reasons()

    @property
    def is_unreadable(self) -> bool:
        """Whether there are at least `LOUD_FROM` lines, and none of them could be read."""
        return self._unread == self.lines >= LOUD_FROM

    def find_alarm(self) -> str | None:
        """Return the warning if most lines are dead, or None."""
        self._deaths.read = self.totals()["in"]
        return self._deaths.find_alarm("line")

    @property
    def was_moved(self) -> bool:
        return bool(self.moved["sources"] or self.moved["events"])

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
            **({"unmet": self._without_results} if self._without_results else {}),
            **({"moved": self._moved_document()} if self.was_moved else {}),
            **({"arrivals": False} if self.takes_stamps else {}),
            **({"dead_reasons": self._dead_document()} if self._deaths.dead else {}),
            **({"left_out": dict(sorted(self._left_out.items()))} if self._left_out else {}),
            **({"unusable": unusable} if (unusable := self._unusable_document()) else {}),
            "sources": {
                source: {name: counts[name] for name in COUNTED}
                for source, counts in sorted(self.sources.items())
            },
        }

    def _moved_document(self) -> dict[str, Any]:
        by_ms = self.moved["by_ns"] / NS_PER_MS
        return {"sources": self.moved["sources"], "by_ms": by_ms, "events": self.moved["events"]}

    def _unusable_document(self) -> list[dict[str, Any]]:
        """Return what is to be said about fields whose values a query left out, with its text."""
        return [
            {"query": query, "aggregate": aggregate, "field": use.field, "kind": kind, "text": text}
            for (query, aggregate), use in sorted(self._field_uses.items())
            for kind, text in describe_left_out(use).items()
        ]

    def _dead_document(self) -> dict[str, dict[str, Any]]:
        return {
            reason: {"count": dead.count, "line": dead.offset, "detail": dead.detail}
            for reason, dead in self.dead_reasons()
        }
