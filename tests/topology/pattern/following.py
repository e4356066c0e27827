"""What a reader of a query's findings believes: the standing matches, checked at each step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from topology.model.result import EMIT, RETRACT, UPDATE, Finding, MatchResult, Overflow
from topology.pattern.language.check import check
from topology.pattern.language.parse import parse_query
from topology.pattern.match.compiled import Compiled
from topology.pattern.match.match import Match
from topology.pattern.run.engine import Engine
from topology.pattern.store.entry import Entry, Identity

Content = tuple[tuple[str, Identity], ...]
"""Members with their aliases, in one order."""


@dataclass(repr=False)
class World:
    """A query, its stream in order, and the same as it arrives."""

    seed: int
    text: str
    query: Compiled
    stream: list[Entry]
    arrivals: list[Entry]

    def __repr__(self) -> str:
        told = [(one, one.event.error_ns, one.payload) for one in self.stream]
        return f"seed {self.seed}\n{self.text}\n{told}\n{self.arrivals}"


class Reader:
    """Follows findings, and asserts that they follow from each other."""

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


def content(result: MatchResult) -> Content:
    return tuple(sorted((m.alias, (m.source, m.epoch, m.seq)) for m in result.members))


def told(result: MatchResult) -> tuple[object, ...]:
    span_ns = result.start_ns, result.end_ns
    return content(result), span_ns, result.confidence, repr(result.values)


def contents(query: Compiled, matches: Iterable[Match]) -> list[Content]:
    """The oracle's matches in the same form."""
    return sorted(
        tuple(
            sorted(
                (query.aliases[match.alternative][component], entry.identity)
                for component, entry in match.labelled()
            )
        )
        for match in matches
    )


def anew(entry: Entry) -> Entry:
    """An entry that no engine has seen."""
    return Entry(entry.event, entry.payload, entry.play)


def feed(engine: Engine, reader: Reader, entries: Sequence[Entry]) -> None:
    for entry in entries:
        engine.accept(anew(entry), 0)
        reader.read(taken(engine))


def taken(engine: Engine) -> list[Finding]:
    findings = list(engine.findings)
    engine.findings.clear()
    engine.freed.clear()
    return findings


def compiled(pattern: str, options: str = "", within: int = 10) -> Compiled:
    text = f"QUERY q PATTERN {pattern} WITHIN {within} ns {options}"
    query = parse_query(text)
    check(query, text)
    return Compiled(query)


def current(query: Compiled, arrivals: Sequence[Entry]) -> Reader:
    engine, reader = Engine([query]), Reader()
    feed(engine, reader, arrivals)
    engine.end(0)
    reader.read(taken(engine))
    return reader


def times(reader: Reader, stream: Sequence[Entry]) -> str:
    time_of = {one.identity: one.time_ns for one in stream}
    found = [sorted(time_of[identity] for _, identity in it) for it in reader.contents()]
    return " ".join("-".join(map(str, match)) for match in sorted(found))
