"""Readers that follow the findings of a query, and check the current matches at each step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tests.topology.queries.pattern.generate import entry, lateness_ns, shuffled
from tests.topology.queries.pattern.oracle import oracle
from tests.topology.queries.pattern.unparse import unparse
from topology.base.operator import State
from topology.base.outcome import Step
from topology.base.result import CONFIRMED, EMIT, RETRACT, UPDATE, Finding, MatchResult, Overflow
from topology.queries.pattern.language.check import check
from topology.queries.pattern.language.parse import parse_query
from topology.queries.pattern.match.compiled import Compiled
from topology.queries.pattern.match.match import Match
from topology.queries.pattern.run.admit import EXPIRED
from topology.queries.pattern.run.engine import Engine
from topology.queries.pattern.store.entry import Entry, Identity
from topology.queries.pattern.tree.syntax import Query
from topology.stage.stage import Stage

Content = tuple[tuple[str, Identity], ...]
"""Members with their aliases, in one order."""
Standing = dict[Content, str]
"""Confidence by the content of the match."""


@dataclass(repr=False)
class World:
    """A query, its stream in order, and the same events as they arrive."""

    seed: int
    query: Compiled
    stream: list[Entry]
    arrivals: list[Entry]

    def __repr__(self) -> str:
        told = [
            (one, one.event.error_ns, one.event.segment, one.event.ts_ns, one.payload)
            for one in self.stream
        ]
        return f"seed {self.seed}\n{unparse(self.query.query)}\n{told}\n{self.arrivals}"

    def asking(self, **changed: Any) -> Compiled:
        """Return this query with the given changes."""
        return Compiled(replace(self.query.query, **changed))

    @property
    def largest_ns(self) -> int:
        return max(one.event.error_ns for one in self.stream)

    def wanted(self, entries: Iterable[Entry] | None = None) -> list[Content]:
        """Return the matches that the oracle finds in the stream, or in the given entries."""
        found = self.stream if entries is None else entries
        return contents(self.query, oracle(self.query.form, map(anew, found)))

    def is_as_the_oracle_says(self) -> bool:
        """Assert that the engine finds the oracle's matches, and return whether there are any.

        This holds for all events at once, and for a frontier that advances, over restarts. With the
        frontier, no final result changes, nothing stays retained, and all current matches become
        final.
        """
        wanted = self.wanted()
        assert len({*wanted}) == len(wanted), self
        assert current(self.query, self.arrivals).contents() == wanted, self
        reader = followed(self.query, self.arrivals, rng=Random(self.seed), finals=["q"])
        assert reader.contents() == wanted, self
        is_gathered = self.query.query.emit == "slack"  # A retraction may come after the frontier.
        assert reader.final >= set(reader.standing), self
        assert is_gathered or reader.final == set(reader.standing), self
        return bool(wanted)


class Reader:
    """A reader that follows findings, and asserts that each revision follows from the one before.

    Each update must change something or be final.
    """

    def __init__(self) -> None:
        self.standing: dict[str, MatchResult] = {}
        self.final: set[str] = set()
        self.overflows = 0
        self._revisions: dict[str, int] = {}

    def read(self, findings: Iterable[Finding]) -> None:
        said: set[tuple[str, int]] = set()
        for finding in findings:
            if isinstance(finding, Overflow):
                self.overflows += 1
                continue
            assert isinstance(finding, MatchResult)
            self._follow(finding)
            word = (finding.id, finding.at_ns)
            assert word not in said, f"two words at once about {finding}"
            said.add(word)

    def _follow(self, result: MatchResult) -> None:
        id_ = result.id
        assert result.revision == self._revisions.get(id_, -1) + 1, result
        assert id_ not in self.final, f"changed after it was final: {result}"
        self._revisions[id_] = result.revision
        before = self.standing.pop(id_, None)
        if result.op == EMIT:
            assert before is None, f"emitted twice: {result}"
        else:
            assert result.op in (UPDATE, RETRACT)
            assert before is not None, f"nothing to {result.op}: {result}"
        if result.op != RETRACT:
            if before is not None:
                assert result.final or told(before) != told(result), "an update of nothing"
            self.standing[id_] = result
        if result.final:
            self.final.add(id_)

    def contents(self) -> list[Content]:
        return sorted(content(result) for result in self.standing.values())

    def confidences(self) -> Standing:
        """Return the confidence of each current match; assert that no limit left any out."""
        assert self.overflows == 0
        return {content(result): result.confidence for result in self.standing.values()}


def content(result: MatchResult) -> Content:
    return tuple(sorted((m.alias, (m.source, m.epoch, m.seq)) for m in result.members))


def told(result: MatchResult) -> tuple[object, ...]:
    span_ns = result.start_ns, result.end_ns
    return content(result), span_ns, result.confidence, repr(result.values)


def contents(query: Compiled, matches: Iterable[Match]) -> list[Content]:
    """Return the oracle's matches as sorted contents."""
    return sorted(
        tuple(
            sorted(
                (query.aliases[match.alternative][component], one.identity)
                for component, one in match.label()
            )
        )
        for match in matches
    )


def confirmed(found: Standing) -> set[Content]:
    return {match for match, confidence in found.items() if confidence == CONFIRMED}


def missing(query: Compiled, true: Iterable[Content], told: Standing) -> list[Content]:
    """Return the true matches that were not emitted.

    With MAXIMAL, a match that is part of an emitted one is not missing.
    """
    left_out = [match for match in true if match not in told]
    if query.query.matches != "maximal":
        return left_out
    return [match for match in left_out if not any(set(match) <= set(hull) for hull in told)]


def anew(one: Entry) -> Entry:
    """Return a copy of the entry that no engine has seen."""
    return Entry(one.event, one.payload, one.play)


def feed(engine: Engine, reader: Reader, entries: Sequence[Entry]) -> None:
    for one in entries:
        assert engine.accept(anew(one), 0) != EXPIRED
        reader.read(taken(engine))


def taken(engine: Engine) -> list[Finding]:
    step = Step(0)
    engine.flush(step)
    return step.results


def compiled(pattern: str, options: str = "", within: int = 10) -> Compiled:
    return checked(f"QUERY q PATTERN {pattern} WITHIN {within} ns {options}")


def checked(text: str) -> Compiled:
    query = parse_query(text)
    check(query, text, params={})
    return Compiled(query)


def restarted(
    engine: Engine, queries: Sequence[Compiled], state: State | None = None, **options: Any
) -> Engine:
    """Return an engine that continues from this engine's state, or from `state` if it is given."""
    fresh = Engine(queries, **options)
    kept = [anew(one) for one in engine.entries()]
    fresh.restore(engine.snapshot() if state is None else state, kept)
    return fresh


def current(query: Compiled, arrivals: Sequence[Entry], max_error_ns: int | None = None) -> Reader:
    """Return a reader that has read all findings, with no frontier until the end."""
    engine, reader = Engine([query], max_error_ns=max_error_ns), Reader()
    feed(engine, reader, arrivals)
    return _ended(engine, reader)


def followed(
    query: Compiled,
    arrivals: Sequence[Entry],
    *,
    max_error_ns: int | None = None,
    finals: Sequence[str] = (),
    rng: Random | None = None,
) -> Reader:
    """Return a reader that has read all findings, with a frontier so close that no event is late.

    With `rng`, the frontier pauses at times, and the engine is restarted.
    """
    options: dict[str, Any] = {"emits_final": finals, "max_error_ns": max_error_ns}
    engine, reader, behind_ns = Engine([query], **options), Reader(), lateness_ns(arrivals)
    for one in arrivals:
        feed(engine, reader, [one])
        if rng is None or rng.random() < 0.8:
            engine.advance(engine.clock_ns - behind_ns, 0)
            reader.read(taken(engine))
        if rng is not None and rng.random() < 0.3:
            engine = restarted(engine, [query], **options)
    return _ended(engine, reader)


def _ended(engine: Engine, reader: Reader) -> Reader:
    engine.end(0)
    reader.read(taken(engine))
    assert engine.retained == 0
    return reader


def fed(queries: Sequence[Compiled], entries: Iterable[Entry], **options: Any) -> Engine:
    """Return an engine that has accepted the given entries."""
    engine = Engine(queries, **options)
    for one in entries:
        engine.accept(anew(one), 0)
    return engine


def in_step(
    engines: Sequence[Engine],
    arrivals: Sequence[Entry],
    behind_ns: int | None = None,
    rng: Random | None = None,
) -> Iterator[tuple[int, list[list[Finding]]]]:
    """Yield the time and each engine's findings, after each event, each frontier and the end.

    With `rng`, the time between events varies.
    """
    at_ns = 0
    for one in arrivals:
        at_ns += 0 if rng is None else rng.choice((0, 1, 3))
        for engine in engines:
            engine.accept(anew(one), at_ns)
        yield at_ns, [taken(engine) for engine in engines]
        if behind_ns is not None:
            for engine in engines:
                engine.advance(engine.clock_ns - behind_ns, at_ns)
            yield at_ns, [taken(engine) for engine in engines]
    for engine in engines:
        engine.end(at_ns)
    yield at_ns, [taken(engine) for engine in engines]


class Changelog:
    """A table with all changes of its writer."""

    def __init__(self) -> None:
        self.rows: State = {}

    def of(self, writer: Engine | Stage) -> State:
        changed = self.rows | writer.changes()
        self.rows = {key: row for key, row in changed.items() if row is not None}
        return self.rows


def in_any_order(query: Compiled, stream: Sequence[Entry]) -> set[str]:
    """Return the distinct results of ten orders of arrival, as the event times of the matches."""
    orders = (shuffled(Random(seed), stream, 0.9 * (seed > 0), copies=0.2) for seed in range(10))
    return {times(current(query, arrivals), stream) for arrivals in orders}


def times(reader: Reader, stream: Sequence[Entry]) -> str:
    time_of = {one.identity: one.time_ns for one in stream}
    found = [sorted(time_of[identity] for _, identity in it) for it in reader.contents()]
    return " ".join("-".join(map(str, match)) for match in sorted(found))


def of_rows(values: Iterable[Any], name: str = "v") -> list[Entry]:
    """Return rows as events, one second apart; the value is the payload, or stored as `name`."""
    return [
        entry("T", n * 10**9, n, {name: value} if name else value)
        for n, value in enumerate(values, start=1)
    ]


def shown_of_rows(query: Query, rows: Sequence[Entry], orders: int) -> list[tuple[str, Any]]:
    """Return each match's variables with their row numbers, and its values.

    Assert that they are the same in `orders` orders of arrival.
    """
    compiled, told = Compiled(query), list[list[tuple[str, Any]]]()
    for seed in range(orders):
        arrivals = Random(seed).sample(rows, len(rows)) if seed else rows
        told.append([])
        standing = current(compiled, arrivals).standing.values()
        for each in sorted(standing, key=lambda each: (each.start_ns, each.members[0].seq)):
            members = " ".join(f"{m.alias}{m.seq}" for m in each.members)
            told[-1].append((members, dict(each.values)))
        assert told[-1] == told[0], seed
    return told[0]
