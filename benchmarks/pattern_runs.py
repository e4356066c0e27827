"""One pattern query over one stream, by the engine or a baseline, with what it cost.

A query is written short: `ab+c` is SEQ(A a, B+ b, C c). ONE is under skip-till-next, MAXIMAL
under skip-till-any. Events are made as they come, within the clock. The engine is told after
each event how far the input is complete: the newest time less the slack, nothing where the slack
is None.
"""

from __future__ import annotations

import gc
import re
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from agents.process.garbage import GC_THRESHOLDS
from benchmarks.baselines.buffered_nfa import BufferedNFA
from benchmarks.baselines.eager import Eager
from benchmarks.baselines.sequence import Exploded, Members
from benchmarks.baselines.sequence import Sequence as Asked
from benchmarks.workloads.keyed import SLACK_NS
from topology.model.event import Event
from topology.model.result import (
    EMIT,
    RETRACT,
    UPDATE,
    MatchResult,
    MatchSetResult,
    Overflow,
)
from topology.pattern.language.parse import parse_query
from topology.pattern.operator import Pattern
from topology.pattern.run.compiled import Compiled
from topology.pattern.run.engine import Engine
from topology.pattern.store.entry import Entry

Feed = Sequence[tuple[int, str]]
"""(time, type) in order of arrival; the times are all different."""

NO_LIMIT: Final = 1_000_000_000
STORE: Final = ("store/entry.py", "store/index.py", "run/admit.py")
"""Where what queries share is made, in `topology/pattern`."""

KB: Final = 1024
BATCH: Final = 100
FAR_NS: Final = 10**12


def compiled(
    text: str,
    within: int,
    *,
    any_: bool,
    limit: int = NO_LIMIT,
    name: str = "",
    sets: bool = False,
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
    """CPU in seconds; `sets`: how many matches each has, by id; `answers_ns`: from the call with an
    event to what it made known, of the events that did. `retained`: the most events held."""

    events: int
    seconds: float
    emitted: int = 0
    updated: int = 0
    retracted: int = 0
    overflowed: int = 0
    retained: int = 0
    answers_ns: Sequence[int] = ()
    exploded: bool = False
    sets: dict[str, int] = field(default_factory=dict)

    @property
    def current(self) -> int:
        return sum(self.sets.values()) if self.sets else self.emitted - self.retracted

    @property
    def rate(self) -> float:
        return self.events / self.seconds

    def answer_ns(self, share: float) -> int:
        """So much of the answers are quicker."""
        if not self.answers_ns:
            return 0
        ordered = sorted(self.answers_ns)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def by_engine(queries: Sequence[Compiled], feed: Feed, slack: int | None = 0) -> Cost:
    engine = Engine(queries)
    cost = Cost(len(feed), 0.0)
    answers: list[int] = []
    gc.collect()
    began = time.process_time()
    for entry in entries(feed):
        asked_ns = time.perf_counter_ns()
        engine.accept(entry, 0)
        if slack is not None:
            engine.advance(engine.clock_ns - slack, 0)
        if engine.findings:
            answers.append(time.perf_counter_ns() - asked_ns)
            _count(engine, cost)
        cost.retained = max(cost.retained, engine.retained)
        engine.freed.clear()
    engine.end(0)
    cost.seconds = time.process_time() - began
    _count(engine, cost)
    cost.answers_ns = answers
    return cost


def _count(engine: Engine, cost: Cost) -> None:
    for finding in engine.findings:
        if isinstance(finding, Overflow):
            cost.overflowed += 1
        elif isinstance(finding, MatchResult | MatchSetResult):
            if isinstance(finding, MatchSetResult):
                cost.sets[finding.id] = finding.count
            cost.emitted += finding.op == EMIT
            cost.updated += finding.op == UPDATE
            cost.retracted += finding.op == RETRACT
    engine.findings.clear()


def found_by_engine(query: Compiled, feed: Feed) -> set[Members]:
    """The matches that stand in the end."""
    engine = Engine([query])
    for entry in entries(feed):
        engine.accept(entry, 0)
    engine.end(0)
    current: dict[str, Members] = {}
    for finding in engine.findings:
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


def by_operator(events: Sequence[Event], *, is_plain: bool) -> float:
    """CPU seconds of a keyed sequence before the merge, as a worker runs it: batches of `BATCH`,
    its settings of the collector. `is_plain`: what is in order may take the plain way."""
    operator = Pattern(Engine([keyed_query()], is_plain=is_plain), SLACK_NS, max_ahead_ns=FAR_NS)
    thresholds = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    began = time.process_time()
    for at in range(0, len(events), BATCH):
        batch = events[at : at + BATCH]
        operator.on_batch(batch, batch[-1].at_ns)
    seconds = time.process_time() - began
    gc.set_threshold(*thresholds)
    gc.unfreeze()
    return seconds


def memory_of_operator(events: Sequence[Event], *, is_plain: bool) -> float:
    """The most that it took over the events at any time, in MB; results are let go at once."""
    tracemalloc.start()
    by_operator(events, is_plain=is_plain)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most / KB / KB


def by_buffered_nfa(asked: Asked, feed: Feed, slack: int) -> Cost:
    nfa = BufferedNFA(asked, slack)
    cost = Cost(len(feed), 0.0)
    answers: list[int] = []
    began = time.process_time()
    try:
        for when, type_ in feed:
            asked_ns = time.perf_counter_ns()
            if found := nfa.accept(when, type_):
                answers.append(time.perf_counter_ns() - asked_ns)
                cost.emitted += len(found)
        cost.emitted += len(nfa.end())
    except Exploded:
        cost.exploded = True
    cost.seconds = time.process_time() - began
    cost.answers_ns = answers
    return cost


def by_eager(asked: Asked, feed: Feed, slack: int) -> Cost:
    eager = Eager(asked, slack)
    cost = Cost(len(feed), 0.0)
    answers: list[int] = []
    began = time.process_time()
    try:
        for when, type_ in feed:
            asked_ns = time.perf_counter_ns()
            emitted, taken_back = eager.accept(when, type_)
            if emitted or taken_back:
                answers.append(time.perf_counter_ns() - asked_ns)
                cost.emitted += emitted
                cost.retracted += taken_back
    except Exploded:
        cost.exploded = True
    cost.seconds = time.process_time() - began
    cost.answers_ns = answers
    return cost


@dataclass(slots=True)
class Weight:
    """Bytes, with every event retained: the store's, and all."""

    store: float
    all: float


def weight(queries: Sequence[Compiled], feed: Feed) -> Weight:
    """For each event; the events themselves apart."""
    events = [Event("s", "s", 0, time, time, 0, type=type_) for time, type_ in feed]
    gc.collect()
    tracemalloc.start()
    engine = Engine(queries)
    for event in events:
        engine.accept(Entry(event, None), 0)
        engine.findings.clear()
    held = tracemalloc.take_snapshot()
    tracemalloc.stop()
    filters = [
        tracemalloc.Filter(inclusive=True, filename_pattern=f"*/topology/pattern/{name}")
        for name in STORE
    ]
    store = sum(trace.size for trace in held.filter_traces(filters).statistics("filename"))
    everything = sum(trace.size for trace in held.statistics("filename"))
    return Weight(store / engine.retained, everything / engine.retained)


def largest_rss_mb() -> float:
    """This process's so far, since its program began; 0 where the system does not tell."""
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return int(found[1]) / KB if found else 0.0
