"""Values beyond the events of a match: PREV and NEXT in columns, a result for each row, PREV in
conditions.

The laws of `test_engine_laws` also cover PREV in conditions.

Law: values match a search of the list of all events (oracle). This holds in any order of arrival,
with a frontier and over restarts. Each revision follows from the one before, and no final result
changes. A restart changes no result, nor the order of an instant's results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import pytest

from tests.seeds import seeds_of_today
from tests.topology.queries.pattern.following import (
    Reader,
    anew,
    compiled,
    contents,
    current,
    fed,
    followed,
    restarted,
    taken,
)
from tests.topology.queries.pattern.generate import dice, entry, lateness_ns
from tests.topology.queries.pattern.oracle import oracle
from topology.base.result import Finding, MatchResult
from topology.queries.pattern.language.check import check
from topology.queries.pattern.match.compiled import Compiled
from topology.queries.pattern.run.engine import Engine
from topology.queries.pattern.sql.parse import parse_sql
from topology.queries.pattern.store.entry import Entry

WITHIN_NS = 30
NUMBERS = (0, 0.0, 1, 1.0, 2, 2.0, 3)
UP = f"WITHIN INTERVAL '0.0000000{WITHIN_NS + 1}' SECOND DEFINE B AS x > PREV(x)"


def in_sql(text: str) -> Compiled:
    query = parse_sql(text)
    check(query, params={})
    return Compiled(query)


def stream_of(rng: Random, until: int = 60) -> list[Entry]:
    """Return events of two keys in order, some at one instant; some numbers are equal in Python."""
    times = sorted(rng.randrange(until) for _ in range(rng.randint(3, 9)))
    return [
        entry(rng.choice("TTU"), time, at, {"x": rng.choice(NUMBERS), "k": rng.randrange(2)})
        for at, time in enumerate(times)
    ]


def beside(stream: Sequence[Entry], one: Entry, shift: int) -> Any:
    at = [each.identity for each in stream].index(one.identity) + shift
    if not 0 <= at < len(stream) or abs(stream[at].time_ns - one.time_ns) > WITHIN_NS:
        return None
    return stream[at].payload["x"]


def rows_of(found: Reader, stream: Sequence[Entry]) -> Iterator[list[tuple[str, Entry]]]:
    by_seq = {one.event.seq: one for one in stream}
    for result in found.standing.values():
        yield [(member.alias, by_seq[member.seq]) for member in result.members]


def values_of(found: Reader) -> list[Any]:
    return [dict(result.values) for result in found.standing.values()]


def one_row(rows: list[tuple[str, Entry]], stream: Sequence[Entry]) -> list[Any]:
    last_b = rows[-1][1]
    p, n = beside(stream, rows[0][1], -1), beside(stream, last_b, 2)
    return [{"k": rows[0][1].payload["k"], "p": p, "n": n, "c": len(rows)}]


def each_row(rows: list[tuple[str, Entry]], stream: Sequence[Entry]) -> list[Any]:
    return [
        {
            **one.payload,
            "p": beside(stream, one, -2),
            "n": beside(stream, one, 1),
            "c": at,
            "label": alias,
            "f": rows[-1][1].payload["x"],
        }
        for at, (alias, one) in enumerate(rows, start=1)
        if alias == "B"
    ]


BARE = "MATCH_RECOGNIZE (PARTITION BY k {skip} PATTERN (A B{{1,3}}) " + UP + ")"
ONE = (
    "MATCH_RECOGNIZE (PARTITION BY k MEASURES PREV(A.x) AS p, NEXT(LAST(B.x), 2) AS n,"
    " COUNT(*) AS c {skip} PATTERN (A B{{1,3}}) " + UP + ")"
)
EACH = (
    "MATCH_RECOGNIZE (PARTITION BY k MEASURES PREV(x, 2) AS p, NEXT(x) AS n, COUNT(*) AS c,"
    " CLASSIFIER() AS label, FINAL LAST(x) AS f ALL ROWS PER MATCH {skip}"
    " PATTERN ({{- A -}} B{{1,3}}) " + UP + ")"
)
Oracle = Callable[[list[tuple[str, Entry]], Sequence[Entry]], list[Any]]


@pytest.mark.slow
@pytest.mark.parametrize("skip", ["", "AFTER MATCH SKIP TO NEXT ROW", "AFTER MATCH SKIP TO LAST B"])
@pytest.mark.parametrize(("text", "oracle"), [(ONE, one_row), (EACH, each_row)])
def test_sql_values_match_search_of_rows(text: str, oracle: Oracle, skip: str) -> None:
    bare, query = in_sql(BARE.format(skip=skip)), in_sql(text.format(skip=skip))
    seen = 0
    for seed, rng in dice(seeds_of_today(40)):
        stream = stream_of(rng)
        arrivals = rng.sample(stream, len(stream))
        wanted = []
        for rows in rows_of(current(bare, stream), stream):
            key = rows[0][1].payload["k"]
            part = [one for one in stream if one.payload["k"] == key]
            wanted += oracle(rows, part)
        found = values_of(followed(query, arrivals, rng=rng))
        assert sorted(map(repr, found)) == sorted(map(repr, wanted)), seed
        seen += len(found)
    assert seen > 40


@pytest.mark.parametrize(
    "options",
    ["", "MATCHES ALL", "USING skip_till_any MATCHES ALL", "MATCHES BEST SKIP PAST LAST",
     "MATCHES ALL EMIT FINAL"],
)  # fmt: skip
def test_previous_value_is_returned(options: str) -> None:
    text, columns = "SEQ(T a, _ b) WHERE b.x > a.x", "RETURN PREV(a.x) AS p, b.x AS x"
    bare = compiled(text, options, WITHIN_NS)
    query = compiled(text, f"{options} {columns}", WITHIN_NS)
    for seed, rng in dice(seeds_of_today(30)):
        stream = stream_of(rng)
        wanted = [
            {"p": beside(stream, rows[0][1], -1), "x": rows[1][1].payload["x"]}
            for rows in rows_of(current(bare, stream), stream)
        ]
        found = values_of(followed(query, rng.sample(stream, len(stream)), rng=rng))
        assert sorted(map(repr, found)) == sorted(map(repr, wanted)), seed


RISE = (
    "MATCH_RECOGNIZE (PARTITION BY k MEASURES A.x AS u {rows} AFTER MATCH {skip}"
    " PATTERN (A B+ C?) WITHIN INTERVAL '0.000000031' SECOND"
    " DEFINE B AS x >= PREV(x), C AS x < 3)"
)
ROWS = "ALL ROWS PER MATCH"


@pytest.mark.parametrize("skip", ["SKIP TO NEXT ROW", "SKIP PAST LAST ROW"])
@pytest.mark.parametrize("rows", ["", ROWS])
def test_restart_keeps_results_and_order(rows: str, skip: str) -> None:
    query = in_sql(RISE.format(rows=rows, skip=skip))
    for seed, rng in dice(seeds_of_today(40)):
        stream = stream_of(rng, rng.choice((6, 12)))
        arrivals = rng.sample(stream, len(stream)) if rng.random() < 0.7 else stream
        unbroken, shaken = (told(query, arrivals, restarts=each) for each in (False, True))
        assert shaken == unbroken, seed


def test_equal_row_moves_with_its_match() -> None:
    """Earlier rows stay the same, since the last row has the time of the row before it.

    Their match now ends after the match of the other partition.
    """
    times = [(1, "y", 3), (2, "x", 0), (3, "y", 6), (3, "x", 3), (3, "y", 0)]
    rows = [entry("T", at, seq, {"k": k, "x": x}) for seq, (at, k, x) in enumerate(times)]
    query = in_sql(RISE.format(rows=ROWS, skip="SKIP TO NEXT ROW"))
    for restarts in (False, True):
        last = told(query, rows, restarts=restarts)[-1]
        ends = [each.members[0].seq for each in last if isinstance(each, MatchResult)]
        assert ends == [1, 3, 0, 2, 4]


def told(query: Compiled, arrivals: Sequence[Entry], *, restarts: bool) -> list[list[Finding]]:
    """Return the findings after each event and its frontier, and the findings at the end."""
    engine, behind_ns = Engine([query], emits_final=[query.name]), lateness_ns(arrivals)
    found = []
    for one in arrivals:
        engine.accept(anew(one), 0)
        engine.advance(engine.clock_ns - behind_ns, 0)
        found.append(taken(engine))
        if restarts:
            engine = restarted(engine, [query], emits_final=[query.name])
    engine.end(0)
    return [*found, taken(engine)]


DOWN = (
    "MATCH_RECOGNIZE (MEASURES x AS x ALL ROWS PER MATCH AFTER MATCH SKIP PAST LAST ROW"
    " PATTERN (S D*) WITHIN INTERVAL '0.000000031' SECOND DEFINE D AS x < PREV(x))"
)


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 1, 0)])
def test_rows_have_start_and_end_of_match(order: tuple[int, ...]) -> None:
    """Rows arrive in several orders."""
    rows = [entry("T", 10 + at, at, {"x": 10 - at}) for at in range(3)]
    query = in_sql(DOWN)
    standing = followed(query, [rows[at] for at in order], rng=Random(1)).standing.values()
    assert [(each.start_ns, each.end_ns) for each in standing] == [(10, 12)] * 3


@pytest.mark.parametrize(("error_ns", "sure"), [(0, "confirmed"), (12, "uncertain")])
def test_late_row_corrects_previous_value(error_ns: int, sure: str) -> None:
    """With an error, the place of the late row is uncertain, and so is the value."""
    row, late = entry("T", 20, 1, {"x": 2}), entry("U", 10, 0, {"x": 1}, error_ns=error_ns)
    engine = fed([compiled("T a", "RETURN PREV(a.x) AS p", 30)], [row, late])
    found = [each for each in taken(engine) if isinstance(each, MatchResult)]
    told = [(each.op, each.values["p"], each.confidence) for each in found]
    assert told == [("emit", None, "confirmed"), ("update", 1, sure)]


@pytest.mark.parametrize(
    ("query", "within_ns", "found"),
    [
        ("SEQ(T a, T b) WHERE PREV(b.p) < a.p", 100, ["0 3", "1 3"]),
        ("T a WHERE PREV(a.p) IS NULL", 100, ["0"]),
        ("T a WHERE PREV(a.p, 2) IS NULL", 15, ["0", "1", "2", "3"]),
        ("T a WHERE PREV(a.p, 2) = 5", 20, ["2"]),
        ("T a WHERE PREV(a.p) = 5 AND [id]", 100, ["2"]),
    ],
)
def test_condition_can_read_previous_value(query: str, within_ns: int, found: list[str]) -> None:
    """Each event is late once."""
    prices = [entry("T", 10 * at, at, {"p": p, "id": at % 2}) for at, p in enumerate((5, 6, 4, 7))]
    asked = compiled(query, within=within_ns)
    wanted = oracle(asked.form, prices)
    assert [" ".join(str(e.event.seq) for _, e in it.label()) for it in wanted] == found
    for late in prices:
        arrivals = [*(one for one in prices if one is not late), late]
        assert current(asked, arrivals).contents() == contents(asked, wanted), late
