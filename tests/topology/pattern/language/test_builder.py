"""Examples: what Python writes and the text of the same tree; what cannot be written at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from topology.pattern.language import builder as b
from topology.pattern.language.builder import (
    ALL,
    AMEND,
    ANY,
    BY_KEY,
    EAGER,
    MAXIMAL,
    MINUTE,
    PAST_LAST,
    POSSIBLE,
    REPORT,
    SECOND,
    SLACK,
    STRICT,
    TO_LAST,
    Operand,
    QueryBuilder,
    all_of,
    any_of,
    avg,
    between,
    coalesce,
    count,
    event,
    i,
    is_null,
    like,
    no,
    param,
    query,
    same,
    seq,
    strict,
)
from topology.pattern.language.check import check
from topology.pattern.language.parse import parse_query
from topology.pattern.language.unparse import unparse
from topology.pattern.tree.errors import QueryRefused


def test_the_example_of_the_language() -> None:
    g, t, v, s = event("Gas"), event("Temp").many(), event("Vent"), event("Smoke")
    fire = (
        query("fire", seq(g, t, no(v), s))
        .where(g.percent > param("limit"), t[i + 1].temperature > t[i].temperature, same("room"))
        .within(30 * SECOND)
        .using(ANY)
        .matches(MAXIMAL)
        .emit(EAGER)
        .late(REPORT)
        .select(room=g.room, n=count(t))
    )
    assert fire.build() == parse_query("""
        QUERY fire
        PATTERN SEQ(Gas t0, Temp+ t1[], !Vent t2, Smoke t3)
        WHERE t0.percent > $limit AND t1[i+1].temperature > t1[i].temperature AND [room]
        WITHIN 30 s USING skip_till_any MATCHES MAXIMAL EMIT EAGER LATE REPORT
        RETURN t0.room AS room, count(t1) AS n
    """)


X, Y = event("X").named("x"), event("Y").many().named("y")

CONDITIONS: list[tuple[Operand, str]] = [
    (X.a + 1 <= 2 - X.b, "x.a + 1 <= 2 - x.b"),
    (-X.a * 2 != 7 % X.b, "-x.a * 2 != 7 % x.b"),
    (2 * X.a / X.b < 1 / X.c, "2 * x.a / x.b < 1 / x.c"),
    (X.a > 5, "x.a > 5"),
    ((X.a == 1) & (X.b == 2) & (X.c == 3), "x.a = 1 AND x.b = 2 AND x.c = 3"),
    ((X.a == 1) | ~(X.b == None), "x.a = 1 OR NOT x.b = NULL"),  # noqa: E711
    (X.time - Y[1].time < 5 * MINUTE, "x.time - y[1].time < 5 min"),
    (X["times"]["a b"] == X.pos.x, "x.times.`a b` = x.pos.x"),
    (Y[i].a > avg(Y[:i].a), "y[i].a > avg(y[..i-1].a)"),
    (Y[i - 1].a > avg(Y[: i - 1].a), "y[i-1].a > avg(y[..i-2].a)"),
    (Y[-1].a > count(Y[: i + 1]), "y[last].a > count(y[..i])"),
    (b.sum_(Y.a) > b.min_(Y.a), "sum(y[].a) > min(y[].a)"),
    (b.max_(Y.a) > b.stddev(Y.a), "max(y[].a) > stddev(y[].a)"),
    (is_null(X.a) & b.is_not_null(X.b), "x.a IS NULL AND x.b IS NOT NULL"),
    (between(X.a, 1, 2.5), "x.a BETWEEN 1 AND 2.5"),
    (like(X.b, "a%"), "x.b LIKE 'a%'"),
    (b.one_of(X.a, 1, "b", None), "x.a IN (1, 'b', NULL)"),
    (b.none_of(X.a, True), "x.a NOT IN (TRUE)"),  # noqa: FBT003
    (coalesce(X.a, 0) == b.abs_(X.b), "coalesce(x.a, 0) = abs(x.b)"),
    (b.lower(X.a) == b.upper(X.b), "lower(x.a) = upper(x.b)"),
    (b.sqrt(X.a) == b.length(X.b), "sqrt(x.a) = length(x.b)"),
    (b.call("near", X.a, 3), "near(x.a, 3)"),
    (same("room", "pos.x"), "[room, pos.x]"),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "text"), CONDITIONS, ids=[text for _, text in CONDITIONS])
def test_a_condition_and_its_text(condition: Operand, text: str) -> None:
    built = query("", seq(X, Y)).where(condition).within(SECOND).build()
    assert built == parse_query(f"PATTERN SEQ(X x, Y+ y[]) WHERE {text} WITHIN 1 s")


PATTERNS: list[tuple[Callable[[], b.Pattern], str]] = [
    (lambda: event("A", "B"), "A|B t0"),
    (lambda: seq(event(), event("A").optional()), "SEQ(_ t0, A? t1)"),
    (lambda: event("A").times(2), "A{2} t0"),
    (lambda: event("A").times(2, 5), "A{2,5} t0"),
    (lambda: event("A").times(2, None), "A{2,} t0"),
    (lambda: event("A").many().optional(), "A* t0"),
    (
        lambda: seq(event("A"), strict(event("B")), b.next_(event("C")), b.any_(no(event("D")))),
        "SEQ(A t0, STRICT B t1, NEXT C t2, ANY !D t3)",
    ),
    (
        lambda: all_of(b.loop_any(event("A").many()), any_of(event("B"), event("C").named("c"))),
        "AND(A+ t0[] LOOP ANY, OR(B t1, C c))",
    ),
    (
        lambda: seq(b.greedy(b.loop_strict(event("A").many())), b.loop_next(event("B").many())),
        "SEQ(A+ t0[] LOOP STRICT GREEDY, B+ t1[] LOOP NEXT)",
    ),
]


@pytest.mark.parametrize(("pattern", "text"), PATTERNS, ids=[text for _, text in PATTERNS])
def test_a_pattern_and_its_text(pattern: Callable[[], b.Pattern], text: str) -> None:
    built = query("", pattern()).within(SECOND).build()
    assert built == parse_query(f"PATTERN {text} WITHIN 1 s")


def test_until_may_name_the_group_itself() -> None:
    a, group = event("A"), event("B").many()
    built = query("", seq(a, group.until(group.x > a.x))).within(SECOND).build()
    assert built == parse_query("PATTERN SEQ(A t0, B+ t1 UNTIL (t1.x > t0.x)) WITHIN 1 s")


A = event("A")
START = query("q", seq(A, no(event("B")))).within(SECOND)

OPTIONS: list[tuple[QueryBuilder, str]] = [
    (START, ""),
    (START.using(STRICT), "USING strict"),
    (START.using(ANY), "USING skip_till_any MATCHES MAXIMAL"),
    (START.matches(ALL, limit=5), "MATCHES ALL LIMIT 5"),
    (START.skip(PAST_LAST), "SKIP PAST LAST"),
    (START.skip(TO_LAST, A), "SKIP TO LAST t0"),
    (START.emit(SLACK), "EMIT SLACK"),
    (START.emit(SLACK, 2 * SECOND), "EMIT SLACK 2 s"),
    (START.emit(EAGER), "EMIT EAGER"),
    (START.ties(BY_KEY), "TIES BY KEY"),
    (START.late(AMEND, MINUTE), "LATE AMEND 1 min"),
    (START.uncertain(POSSIBLE), "UNCERTAIN POSSIBLE"),
    (START.select(A.x, A.x + 1, y=A.y), "RETURN t0.x, t0.x + 1, t0.y AS y"),
    (START.into("Found"), "RETURN * INTO Found"),
    (START.select(A.x).into("Found"), "RETURN t0.x INTO Found"),
    (START.where(A.x == 1).where(A.y == 2), ""),
]


@pytest.mark.parametrize(("builder", "text"), OPTIONS)
def test_an_option_and_its_text(builder: QueryBuilder, text: str) -> None:
    built = builder.build()
    where = "WHERE t0.x = 1 AND t0.y = 2" if built.where else ""
    assert built == parse_query(f"QUERY q PATTERN SEQ(A t0, !B t1) {where} WITHIN 1 s {text}")
    assert parse_query(unparse(built)) == built


def test_a_step_changes_nothing_of_what_was_before() -> None:
    before = START.build()
    assert START.using(ANY).where(A.x == 1).select(A.x).build() != before
    assert START.build() == before


def test_a_function_is_a_condition_known_by_name_and_version() -> None:
    def close(one: Any, other: Any) -> bool:
        return bool(one == other)

    a, group = event("A"), event("B").many()
    start = query("", seq(a, group)).within(SECOND)
    first = start.where(b.test(close, a, group, version=2)).build()
    assert first == start.where(b.test(max, a, group, name="close", version=2)).build()
    assert first != start.where(b.test(close, a, group)).build()
    assert [each.code for each in check(first)] == ["W_OPAQUE"]


def test_a_query_without_a_window_is_refused_by_the_check() -> None:
    with pytest.raises(QueryRefused, match="E_WINDOW"):
        check(query("", event("A")).build())


def refused() -> list[tuple[str, Callable[[], Any]]]:
    a, group = event("A"), event("B").many()
    start = query("q", seq(a, group)).within(SECOND)
    return [
        ("write & for and", lambda: (a.x > 1) and (a.x < 2)),
        ("write & for and", lambda: 1 < a.x < 2),
        ("is no value", lambda: start.where(a.x > [1]).build()),
        ("is no value", lambda: start.where(a.x > group).build()),
        ("an event is no value", lambda: start.where(group[1] == 1).build()),
        ("is for aggregates", lambda: start.where(group[:i].x == 1).build()),
        ("leave the index out", lambda: count(group[1])),
        ("is no index", lambda: group[1.5]),
        ("is no index", lambda: group[i:]),
        ("not part of the pattern", lambda: start.where(event("C").x == 1).build()),
        ("not part of the pattern", lambda: start.skip(TO_LAST, event("C"))),
        ("stands twice", lambda: query("", seq(a, a.many())).build()),
        ("in seq\\(\\) only", lambda: query("", all_of(a, no(event("B")))).build()),  # type: ignore[arg-type]
        ("not a group", lambda: no(group)),
        ("none or several", lambda: event("A").times(2).optional()),
        ("is no name", lambda: event("")),
        ("is no name", lambda: event("a`b")),
        ("is no name", lambda: a.named("")),
        ("is no name", lambda: a["`"]),
        ("lets no match pass", lambda: start.matches(ALL, limit=0)),
        ("goes with TO_FIRST", lambda: start.skip(TO_LAST)),
        ("goes with TO_FIRST", lambda: start.skip(PAST_LAST, a)),
        ("goes with SLACK", lambda: start.emit(EAGER, SECOND)),
        ("goes with AMEND", lambda: start.late(AMEND)),
        ("goes with AMEND", lambda: start.late(REPORT, SECOND)),
    ]


@pytest.mark.parametrize(("told", "attempt"), refused())
def test_what_cannot_be_written(told: str, attempt: Callable[[], Any]) -> None:
    with pytest.raises((TypeError, ValueError), match=told):
        attempt()
