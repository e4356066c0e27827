"""INTO: matches as events of other patterns.

Law: a chain finds what its queries find one after the other. Each of them then reads the whole
stream with the matches of the queries before it. This holds in any order of arrival, with a
frontier and over restarts. Each revision follows from the one before, and no final result changes.
A step has at most one finding per result, and an update changes something.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from tests.seeds import seeds_of_today
from tests.topology.queries.pattern.following import (
    Changelog,
    Reader,
    anew,
    fed,
    restarted,
    taken,
    told,
)
from tests.topology.queries.pattern.generate import dice, entry, lateness_ns, of_text
from topology.base.result import LEAVES_AS, RETRACT, UPDATE, MatchResult
from topology.queries.pattern.language.parse import parse
from topology.queries.pattern.match.compiled import Compiled
from topology.queries.pattern.match.match_events import MatchEvent
from topology.queries.pattern.run.admit import EXPIRED, REFUSED
from topology.queries.pattern.run.engine import Engine
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.tree.chained_queries import find_chain_errors

INNER = {
    "plain": "SEQ(A a, B b) WHERE [k] WITHIN 10 ns RETURN a.x AS x, b.x AS y INTO AB",
    "all": "SEQ(A a, B b) WITHIN 10 ns MATCHES ALL RETURN a.x AS x, b.x AS y INTO AB",
    "skip": "SEQ(A a, B b) WITHIN 10 ns SKIP PAST LAST RETURN a.x AS x, b.x AS y INTO AB",
    "absent": "SEQ(A a, !B b) WITHIN 6 ns RETURN a.x AS x, a.x AS y INTO AB",
    "silent": "SEQ(A a, !B b FOR 5 ns) WITHIN 9 ns RETURN a.x AS x, a.x AS y INTO AB",
    "group": "SEQ(A a, B+ b[]) WITHIN 10 ns MATCHES BEST RETURN a.x AS x, count(b) AS y INTO AB",
    "final": "SEQ(A a, B+ b[]) WITHIN 10 ns EMIT FINAL RETURN a.x AS x, count(b) AS y INTO AB",
}
OUTER = {
    "then": "SEQ(AB m, C c) WITHIN 20 ns RETURN m.x AS x, c.x AS y",
    "conditions": "SEQ(AB m, C c) WHERE c.x >= m.y WITHIN 20 ns MATCHES ALL RETURN m.y AS y",
    "twice": "SEQ(AB m, AB n) WHERE n.x > m.x WITHIN 30 ns RETURN n.x AS x",
    "behind": "SEQ(C c, AB m) WITHIN 20 ns USING skip_till_any MATCHES ALL",
    "absent": "SEQ(C c, !AB m) WITHIN 15 ns",
    "between": "SEQ(A a, !AB m, C c) WITHIN 20 ns",
    "strict": "SEQ(AB m, STRICT C c) WITHIN 20 ns",
    "next to": "SEQ(A a, STRICT AB m) WITHIN 20 ns RETURN m.y AS y",
    "either": "OR(SEQ(A a, AB m), SEQ(B b, AB m)) WITHIN 20 ns RETURN m.y AS y",
    "both": "AND(B b, AB m) WITHIN 20 ns RETURN m.y AS y",
    "count": "SEQ(C c, AB+ m[]) WITHIN 30 ns MATCHES BEST SKIP PAST LAST RETURN count(m) AS n",
    "any": "SEQ(AB m, C c) WITHIN 20 ns USING skip_till_any EMIT FINAL RETURN m.y AS y",
}


def compiled(*texts: str) -> list[Compiled]:
    named = (f"QUERY q{at} PATTERN {text}" for at, text in enumerate(texts))
    return [Compiled(query) for query in parse("; ".join(named))]


def stream_of(rng: Random, errors: bool) -> list[Entry]:
    times = sorted(rng.randrange(40) for _ in range(rng.randint(3, 12)))
    found = []
    for at, time in enumerate(times):
        payload = {"x": rng.randrange(4), "k": rng.randrange(2)}
        error_ns = rng.choice((0, 0, 2)) if errors else 0
        found.append(entry(rng.choice("AABBC"), time, at, payload, error_ns=error_ns))
    return found


def row(kinds: str) -> list[Entry]:
    """Return events of the given types, one per nanosecond."""
    return [entry(kind, at, at, {"x": 1, "k": 0}) for at, kind in enumerate(kinds)]


def one_after_the_other(queries: Sequence[Compiled], stream: Sequence[Entry]) -> list[str]:
    """Return the last query's current matches after each query has read all events in order.

    A query also reads the matches of the queries before it.
    """
    matches: list[Entry] = []
    standing: dict[str, MatchResult] = {}
    for query in queries:
        engine, reader = Engine([query], max_error_ns=2), Reader()
        engine.levels[0].wirings[0].reads_matches = True
        for one in sorted([*stream, *matches], key=lambda each: each.key):
            new = anew(one)
            new.inner, new.is_sure = one.inner, one.is_sure
            engine.accept(new, 0)
            reader.read(taken(engine))
        engine.end(0)
        reader.read(taken(engine))
        standing = reader.standing
        errors = {one.identity: one.event.error_ns for one in stream}
        for result in standing.values() if query.query.into else ():
            last = max(result.members, key=lambda each: (each[4], *each[1:4]))
            span = {"start_ns": result.start_ns, "end_ns": result.end_ns}
            key = {} if result.key is None else {"key": result.key}
            payload = {**span, **key, **result.values}
            match = MatchEvent(
                query.query.into, query.name, result.id, result.end_ns,
                errors[last.source, last.epoch, last.seq], payload, result.members,
                is_sure=result.confidence == "confirmed",
            )  # fmt: skip
            matches.append(match.entry)
    return shown(standing.values())


def shown(results: object) -> list[str]:
    found = [each for each in results if isinstance(each, MatchResult)]  # type: ignore[attr-defined]
    return sorted(repr((r.id, r.values, r.members, r.confidence)) for r in found)


def run(queries: list[Compiled], arrivals: Sequence[Entry], rng: Random) -> list[str]:
    """Return the last query's current matches at the end."""
    behind_ns = lateness_ns(arrivals)
    names = [each.name for each in queries]
    options: dict[str, Any] = {"max_error_ns": 2, "emits_final": rng.choice(([], names))}
    engine, reader, last = Engine(queries, **options), Reader(), names[-1]
    log = Changelog()

    def read() -> None:
        """Read a step's findings, and check them.

        Each result has at most one finding, and an update changes something.
        """
        findings = [each for each in taken(engine) if isinstance(each, MatchResult)]
        assert len({each.id for each in findings}) == len(findings), findings
        for each in findings:
            if each.op == UPDATE and not (each.final and options["emits_final"]):
                assert told(reader.standing[each.id]) != told(each), each
        reader.read(findings)

    for one in arrivals:
        engine.accept(anew(one), 0)
        read()
        if rng.random() < 0.7:
            engine.advance(engine.clock_ns - behind_ns, 0)
            read()
        if rng.random() < 0.3:
            state = rng.choice((None, log.of(engine)))
            engine = restarted(engine, queries, state, **options)
            assert taken(engine) == []
    engine.end(0)
    read()
    assert engine.counts[EXPIRED] == 0
    assert engine.retained == 0
    return shown(each for each in reader.standing.values() if each.query == last)


def found_in_turn(texts: Sequence[str], count: int, *, errors: bool = False) -> None:
    """Assert that a chain finds what its queries find one after the other."""
    queries = compiled(*texts)
    for seed, rng in dice(seeds_of_today(count)):
        stream = stream_of(rng, errors)
        arrivals = rng.sample(stream, len(stream))
        assert run(queries, arrivals, rng) == one_after_the_other(queries, stream), seed


each_inner = pytest.mark.parametrize("inner", INNER)
each_outer = pytest.mark.parametrize("outer", OUTER)


@pytest.mark.in_turns(3)
@pytest.mark.slow
@each_outer
@each_inner
def test_chain_matches_single_queries(inner: str, outer: str) -> None:
    found_in_turn([INNER[inner], OUTER[outer]], 12)


@pytest.mark.slow
@pytest.mark.parametrize("outer", ["then", "conditions", "behind", "absent", "between", "any"])
@pytest.mark.parametrize("inner", ["plain", "all", "absent", "silent", "final"])
def test_chain_passes_uncertainty_on(inner: str, outer: str) -> None:
    """A match that is found with an uncertain match is itself uncertain."""
    found_in_turn([INNER[inner], OUTER[outer]], 8, errors=True)


def test_chain_can_have_three_queries() -> None:
    between = "SEQ(AB m, C c) WITHIN 20 ns MATCHES ALL RETURN m.x AS x INTO ABC"
    outer = "SEQ(ABC m, !AB n FOR 5 ns) WITHIN 20 ns RETURN m.x AS x"
    found_in_turn([INNER["plain"], between, outer], 60)


@pytest.mark.in_turns(3)
@pytest.mark.slow
@each_outer
@each_inner
def test_final_results_never_change(inner: str, outer: str) -> None:
    """A result that is final for the first events is the same for all of them."""
    queries = compiled(INNER[inner], OUTER[outer])
    for seed, rng in dice(seeds_of_today(100)):
        stream = sorted(stream_of(rng, errors=False), key=lambda one: one.key)
        cut = rng.randrange(len(stream) + 1)
        found, rest = ended(queries, stream[:cut]), ended(queries, stream)
        for id_, result in found.items():
            if result.final and result.confidence not in LEAVES_AS:
                assert said(rest[id_]) == said(result), seed


def ended(queries: Sequence[Compiled], stream: Sequence[Entry]) -> dict[str, MatchResult]:
    """Return the last result of each match of in-order events, with final results emitted again."""
    engine = fed(queries, stream, emits_final=[each.name for each in queries])
    last: dict[str, MatchResult] = {}
    engine.seal(engine.clock_ns)
    engine.end(0)
    for result in taken(engine):
        assert isinstance(result, MatchResult)
        last[result.id] = result
    return last


def said(result: MatchResult) -> tuple[object, ...]:
    confidence = LEAVES_AS.get(result.confidence, result.confidence)
    return result.op == RETRACT, result.values, result.members, confidence


SETS = "USING skip_till_any UNCERTAIN IGNORE MATCHES ALL AS SETS"
TO_X = "A a WITHIN 1 s RETURN * INTO X"


@pytest.mark.parametrize(
    ("texts", "word"),
    [
        (["SEQ(X a, B b) WITHIN 1 s RETURN * INTO X"], "`q0` reads `q0`"),
        (
            [f"SEQ(A a, {a} b) WITHIN 1 s RETURN * INTO {b}" for a, b in ("YX", "XY")],
            "`q0` reads `q1` reads `q0`",
        ),
        ([TO_X, "X x WITHIN 1 s EMIT SLACK"], "is not supported"),
        ([TO_X, f"SEQ(A a, X x) WITHIN 1 s {SETS}"], "cannot be members of sets"),
        (
            [f"SEQ(A a, B b) WITHIN 1 s {SETS} RETURN * INTO X", "X x WITHIN 1 s"],
            "sets of matches, not events",
        ),
    ],
)
def test_chain_error_names_cause(texts: list[str], word: str) -> None:
    (error,) = find_chain_errors([each.query for each in compiled(*texts)])
    assert word in error.message


def test_query_reading_itself_has_one_level() -> None:
    """Such a query is refused when it is read; if it is not, it does not stop a worker."""
    queries = compiled("SEQ(X a, B b) WITHIN 1 s RETURN * INTO X")
    assert len(Engine(queries).levels) == 1


@pytest.mark.parametrize(
    ("events", "most", "events_refused", "matches_refused"),
    [("AABB", 6, 0, 2), ("AABBB", 7, 1, 1)],
)
def test_dropped_match_is_counted(
    events: str, most: int, events_refused: int, matches_refused: int
) -> None:
    inner = "SEQ(A a, B b) WITHIN 5 ns USING skip_till_any MATCHES ALL RETURN * INTO AB"
    queries = compiled(inner, "SEQ(AB m, C c) WITHIN 5 ns")
    engine = fed(queries, row(events), max_retained=most)
    assert (engine.counts[REFUSED], engine.refused) == (events_refused, matches_refused)


def test_unread_matches_leave_the_state() -> None:
    inner, outer = compiled(INNER["plain"], OUTER["then"])
    engine = fed([inner, outer], row("AB"))
    assert any(key.startswith("match/") for key in engine.snapshot())
    alone = restarted(engine, [inner])
    assert not any(key.startswith("match/") for key in alone.snapshot())
    assert any(key.startswith("match/") and row is None for key, row in alone.changes().items())


def test_new_reader_counts_from_now() -> None:
    """A new level has no earlier frontier that would make earlier results final."""
    reader, writer = compiled("SEQ(A a, X x) WITHIN 9 ns", "A a WITHIN 9 ns RETURN a.x AS x INTO X")
    engine = fed([reader], row("AX"), emits_final=["q0"])
    engine.advance(5, 0)
    both = restarted(engine, [reader, writer], emits_final=["q0"])
    both.advance(6, 0)
    both.end(0)
    assert "q0" not in {each.query for each in taken(both)}


def test_absence_keeps_its_own_instant() -> None:
    """A gathered correction is due at 15, and the absence is decided at 1,000."""
    slow, absent = compiled(
        "SEQ(A a, B b) WITHIN 9 ns EMIT SLACK 5 ns", "SEQ(A a, !D d) WITHIN 20 ns EMIT EAGER"
    )
    engine = Engine([slow, absent])
    for one in of_text("a1 b8 b5"):
        engine.accept(one, 10)
    engine.advance_clock(100, 1_000)
    told = {each.query: each.at_ns for each in taken(engine) if isinstance(each, MatchResult)}
    assert told == {"q0": 15, "q1": 1_000}
