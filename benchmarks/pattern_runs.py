"""Run one pattern query over one stream, by the engine or a baseline, and measure its cost.

Queries are written in a short form: `ab+c` is SEQ(A a, B+ b, C c). ONE is evaluated under
skip-till-next, MAXIMAL under skip-till-any. The measured time includes making the events. After
each event the engine receives the time up to which the input is complete: the newest time less the
slack.
"""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from benchmarks.baselines.buffered_nfa import BufferedNFA
from benchmarks.baselines.eager import Eager
from benchmarks.baselines.sequence import Exploded, Members
from benchmarks.baselines.sequence import Sequence as Asked
from benchmarks.harness import cpu_s
from benchmarks.workloads.keyed import SLACK_NS
from topology.base.event import WATERMARK, Event
from topology.base.outcome import Step
from topology.base.result import (
    EMIT,
    RETRACT,
    UPDATE,
    Finding,
    MatchResult,
    MatchSetResult,
    Overflow,
)
from topology.queries.pattern.language.parse import parse_query
from topology.queries.pattern.match.compiled import Compiled
from topology.queries.pattern.operator import Pattern
from topology.queries.pattern.run.engine import Engine
from topology.queries.pattern.settings import PatternQuery
from topology.queries.pattern.store.entry import Entry

Feed = Sequence[tuple[int, str]]
"""Pairs of time and type in order of arrival; all times differ."""

NO_LIMIT: Final = 1_000_000_000
BATCH: Final = 100


def compile_query(
    text: str, within: int, *, any_: bool, limit: int = NO_LIMIT, name: str = "", sets: bool = False
) -> Compiled:
    parts = [f"{part[0].upper()}{part[1:]} {part[0]}" for part in _parts(text)]
    as_sets = " AS SETS" if sets else ""
    using = f"USING skip_till_any MATCHES MAXIMAL{as_sets} LIMIT {limit}" if any_ else ""
    query = parse_query(f"PATTERN SEQ({', '.join(parts)}) WITHIN {within} ns {using}")
    return Compiled(replace(query, name=name) if name else query)


def _parts(text: str) -> list[str]:
    return re.findall(r"[a-j]\+?", text)


def entries(feed: Feed) -> Iterator[Entry]:
    for when, type_ in feed:
        yield Entry(Event("s", "s", 0, when, when, 0, type=type_), None)


@dataclass(slots=True)
class Cost:
    """The CPU seconds and the results of a run; `sets` has the number of matches by id."""

    events: int
    seconds: float
    emitted: int = 0
    updated: int = 0
    retracted: int = 0
    overflowed: int = 0
    exploded: bool = False
    sets: dict[str, int] = field(default_factory=dict)

    @property
    def current(self) -> int:
        return sum(self.sets.values()) if self.sets else self.emitted - self.retracted

    @property
    def rate(self) -> float:
        return self.events / self.seconds


def measure_engine(queries: Sequence[Compiled], feed: Feed, slack: int = 0) -> Cost:
    engine = Engine(queries)
    cost, step = Cost(len(feed), 0.0), Step(0)
    gc.collect()
    began = time.process_time()
    for entry in entries(feed):
        engine.accept(entry, 0)
        engine.advance(engine.clock_ns - slack, 0)
        engine.flush(step)
        if step.results:
            _count(step.results, cost)
        step.freed.clear()
    engine.end(0)
    cost.seconds = time.process_time() - began
    engine.flush(step)
    _count(step.results, cost)
    return cost


def _count(findings: list[Finding], cost: Cost) -> None:
    """Count the findings, and remove them."""
    for finding in findings:
        if isinstance(finding, Overflow):
            cost.overflowed += 1
        elif isinstance(finding, MatchResult | MatchSetResult):
            if isinstance(finding, MatchSetResult):
                cost.sets[finding.id] = finding.count
            cost.emitted += finding.op == EMIT
            cost.updated += finding.op == UPDATE
            cost.retracted += finding.op == RETRACT
    findings.clear()


def find_engine_matches(query: Compiled, feed: Feed) -> set[Members]:
    """Return the matches of the query that are current at the end of the feed."""
    engine = Engine([query])
    for entry in entries(feed):
        engine.accept(entry, 0)
    engine.end(0)
    current: dict[str, Members] = {}
    step = Step(0)
    engine.flush(step)
    for finding in step.results:
        assert isinstance(finding, MatchResult)
        parts: dict[str, tuple[int, ...]] = {}
        for member in finding.members:
            parts[member.alias] = (*parts.get(member.alias, ()), member.ref_time_ns)
        current.pop(finding.id, None)
        if finding.op != RETRACT:
            current[finding.id] = tuple(parts.values())
    return set(current.values())


def keyed_query() -> Compiled:
    query = parse_query("PATTERN SEQ(A a, B b, C c) WHERE [k] WITHIN 1 s")
    return Compiled(replace(query, name="abc"))


def measure_operator(events: Sequence[Event], *, is_plain: bool) -> float:
    """Return the CPU seconds of a keyed sequence before the merge, as a worker runs it.

    Each batch has `BATCH` events and a watermark. If `is_plain`, events in order may take the plain
    path.
    """
    settings = {"abc": PatternQuery.model_construct(changes_for_ns=SLACK_NS)}
    operator = Pattern(Engine([keyed_query()], is_plain=is_plain), settings, ordered=False)

    def work() -> None:
        for at in range(0, len(events), BATCH):
            batch = events[at : at + BATCH]
            last = batch[-1]
            mark = Event("", "", 0, 0, last.ref_time_ns, last.at_ns, kind=WATERMARK)
            operator.on_batch([*batch, mark], last.at_ns)

    return cpu_s(work)


def measure_buffered_nfa(asked: Asked, feed: Feed, slack: int) -> Cost:
    nfa = BufferedNFA(asked, slack)
    return _measure_baseline(
        lambda *event: (len(nfa.accept(*event)), 0), lambda: len(nfa.end()), feed
    )


def measure_eager(asked: Asked, feed: Feed, slack: int) -> Cost:
    return _measure_baseline(Eager(asked, slack).accept, lambda: 0, feed)


def _measure_baseline(
    accept: Callable[[int, str], tuple[int, int]], end: Callable[[], int], feed: Feed
) -> Cost:
    """Measure a baseline; `accept` returns how many matches an event adds and retracts."""
    cost = Cost(len(feed), 0.0)
    began = time.process_time()
    try:
        for event in feed:
            emitted, retracted = accept(*event)
            cost.emitted += emitted
            cost.retracted += retracted
        cost.emitted += end()
    except Exploded:
        cost.exploded = True
    cost.seconds = time.process_time() - began
    return cost
