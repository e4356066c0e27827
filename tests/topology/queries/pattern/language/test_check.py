"""Examples: every error and warning of a check, with its place.

Law: the check of any tree that a text can express ends in warnings or QueryRefused.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from tests import ROOT
from tests.topology.queries.pattern.language.test_parse import PUBLISHED, REFUSED, places
from tests.topology.queries.pattern.trees import queries
from topology.queries.pattern.language.check import check
from topology.queries.pattern.language.parse import parse_query
from topology.queries.pattern.tree import syntax
from topology.queries.pattern.tree.errors import MAX_ERRORS, QueryRefused, format_errors
from topology.queries.pattern.tree.words import MAX_NS

SOURCES = [
    each.read_text("utf-8") for each in (ROOT / "topology" / "queries" / "pattern").rglob("*.py")
]
CODES = {code for text in SOURCES for code in re.findall(r'"([EW]_[A-Z_]+)"', text)}
"""Every code of an error or a warning that the sources have."""

SETS = "USING skip_till_any MATCHES ALL AS SETS"
MAXIMAL_SETS = "USING skip_till_any MATCHES MAXIMAL AS SETS"

ERRORS: list[tuple[str, str, str]] = [
    # Text; code, column and length of each finding; a part of the message.
    ("SEQ(A a, B a)", "E_ALIAS_TWICE 18+3", "two components are called `a`"),
    ("SEQ(A _2, B)", "E_ALIAS_TWICE 19+1", "called `_2`"),
    ("A a WITHIN 1 s RETURN a.x, a.x", "E_ALIAS_TWICE 36+3", "two columns"),
    ("SEQ(A gas, B b) WHERE gsa.x = 1", "E_ALIAS_UNKNOWN 31+5", "did you mean `gas`?"),
    ("A a WHERE count(b) > 1", "E_ALIAS_UNKNOWN 19+8", "known: `a`"),
    ("A a WITHIN 1 s SKIP TO FIRST b", "E_ALIAS_UNKNOWN 24+15", "known: `a`"),
    ("SEQ(A a, !B b, C) WITHIN 1 s SKIP TO LAST b", "E_ALIAS_ORDER 38+14", "no match"),
    ("SEQ(A a, !B FOR 0 s)", "E_WINDOW 18+10", "above 0"),
    ("SEQ(A a, !B FOR 5 s, STRICT !C FOR 5 s)", "E_NOT_PLACE 37+10", "leave STRICT"),
    ("SEQ(A a, !B FOR 5 s, D? d, !C FOR 5 s)", "E_NOT_PLACE 36+10", "with it and one"),
    ("SEQ(!B FOR 5 s, !C FOR 5 s, A a)", "E_NOT_PLACE 13+10, E_NOT_PLACE 25+10", "before them"),
    ("SEQ(E? e, !B FOR 5 s, !C, A a)", "E_NOT_PLACE 19+10", "mandatory event before them"),
    ("SEQ(E? e, !B FOR 5 s, !C FOR 5 s)", "E_NOT_PLACE 19+10, E_NOT_PLACE 31+10", "before them"),
    ("SEQ(A a, !B FOR 5 s, STRICT C c)", "E_NOT_PLACE 18+10", "write NEXT"),
    ("SEQ(A a, !B FOR 5 s, !C, D d)", "E_NOT_PLACE 18+10", "like !B|C FOR 5 s"),
    ("AND(A a, B+ b UNTIL (a.x > b.x))", "E_ALIAS_ORDER 30+9", "which comes first"),
    ("OR(A a, B+ b UNTIL (a.x > b.x))", "E_ALIAS_ORDER 29+9", "which comes first"),
    ("SEQ(A a, B b) WHERE b[i].x = 1", "E_INDEX 29+6", "`b` is a single event"),
    ("SEQ(A a, !B b, C) WHERE b[1].x = 1", "E_INDEX 33+6", "`b` is a single event"),
    ("SEQ(A+ a, B+ b) WHERE a[i].x = b[i].x", "E_INDEX 31+15", "`a` and `b` cannot both"),
    ("SEQ(A+ a, B+ b) WHERE a[i].x > avg(b[..i-1].x)", "E_INDEX 31+24", "both"),
    ("A a WHERE avg(a[..i-1].x) > 1", "E_INDEX 19+15", "none before it"),
    ("SEQ(A, !B b, C) WHERE count(b) > 1", "E_INDEX 31+8", "nothing to count"),
    ("A+ a WITHIN 1 s RETURN a[i].x", "E_INDEX 32+6", "one value for each i"),
    ("SEQ(A{3,2} a, B{0} b)", "E_QUANT 13+8, E_QUANT 23+6", "write {2,3}"),
    ("A{2000000} a", "E_QUANT 9+12", "more than 1000000"),
    ("SEQ(A, B+? b)", "E_QUANT 16+5", "write MATCHES BEST"),
    ("SEQ(A, B+? LOOP GREEDY) WITHIN 1 s MATCHES BEST", "E_QUANT 16+15", "leave out GREEDY"),
    ("SEQ(A a, B b) WHERE b.x > PREV(b)", "E_FUNCTION 35+7", "write it like PREV(b.x)"),
    ("SEQ(A a, B b) WHERE PREV(b.x, 0) > 1", "E_FUNCTION 29+12", "1 to 1000"),
    ("SEQ(A a, B b) WHERE PREV(c.x) > 1", "E_ALIAS_UNKNOWN 29+9", "no component"),
    ("SEQ(A a, !B b) WHERE PREV(b.x) > 1", "E_INDEX 30+9", "an event of the match"),
    ("A a WITHIN 1 s EMIT SLACK 1 s RETURN PREV(a.x) AS x", "E_MODE 46+9", "leave EMIT SLACK out"),
    ("SEQ(A a LOOP GREEDY, B)", "E_QUANT 13+15", "cannot be GREEDY"),
    ("A a UNTIL (a.x > 1)", "E_UNTIL 20+7", "UNTIL needs a group"),
    (
        "SEQ(A+ a UNTIL (b.x > 1), A a, B{3,2} b)",
        "E_UNTIL 25+7, E_ALIAS_TWICE 35+3, E_QUANT 40+8",
        "before the group",
    ),
    ("SEQ(A+ a UNTIL (b.x > 1), B b, !E FOR 0 s)", "E_UNTIL 25+7, E_WINDOW 40+10", "before the"),
    (
        "SEQ(AND(!C c, !D d), A+ a UNTIL (b.x > 1), B b, !E FOR 0 s)",
        "E_NOT_ALONE 13+15, E_UNTIL 42+7",
        "before the group",
    ),
    ("SEQ(!C c, A+ a UNTIL (c.x = a.x), B b)", "E_UNTIL 31+9", "is negated"),
    ("SEQ(A a, SEQ(B b, C c)+)", "E_QUANT 18+14", "like {1,4}"),
    ("AND(A, SEQ(B){1,2}?) WITHIN 1 s MATCHES BEST", "E_QUANT 16+12", "in their order of time"),
    ("SEQ(A a, SEQ(B b){2} t) WHERE b[0].x = 1", "E_INDEX 39+6", "counted from 1"),
    ("SEQ(A a, SEQ(B b){2} t) WHERE t.x = 1", "E_ALIAS_UNKNOWN 39+3", "count(t)"),
    ("SEQ(A a, SEQ(B b){2} t) WITHIN 1 s RETURN t", "E_ALIAS_UNKNOWN 51+1", "count(t)"),
    ("SEQ(A a, !B FOR 1 s WITHIN 1 s) WITHIN 9 s", "E_SYNTAX 18+21", "leave WITHIN out"),
    ("SEQ(A a, SEQ(B b, C c){0})", "E_QUANT 18+16", "the count is 0"),
    ("SEQ(A a, SEQ(B b, C c){1,2} b)", "E_ALIAS_TWICE 22+3", "called `b`"),
    ("SEQ(SEQ(A a){2}, SEQ(B+ b UNTIL (b.x > a.x)){2})", "E_UNTIL 42+9", "in each turn of its"),
    ("SEQ(A a, SEQ(B b, C c)? LOOP ANY)", "E_QUANT 18+23", "needs a group"),
    ("SEQ(A a LOOP ANY, B)", "E_QUANT 13+12", "LOOP needs a group"),
    ("SEQ(A a, SEQ(B b, C c){1,2}?)", "E_QUANT 18+19", "prefers fewer turns"),
    ("SEQ(A a, SEQ(B? b, C* c){1,2})", "E_QUANT 18+20", "could be empty"),
    ("SEQ(A a, SEQ(B+ b, C c){2}) WHERE b[1].x = 1", "E_INDEX 43+6", "several `b`"),
    ("SEQ(A a, SEQ(B? b, C c){2}) WHERE b[i].x = 1", "E_INDEX 43+6", "or none"),
    ("SEQ(A a, SEQ(B b){2} t) WHERE sum(t[].x) > 1", "E_FUNCTION 39+10", "count(t)"),
    ("SEQ(A a, SEQ(B? b, C? c){0,1} t) WHERE count(t) > 0", "E_FUNCTION 48+8", "always"),
    ("SEQ(A a, SEQ(B b){2}) WITHIN 1 s RETURN b.x + 1", "E_INDEX 49+7", "a list"),
    ("SEQ(A a WITHIN 1 s, B b) WITHIN 9 s", "E_WINDOW 13+3", "there is none"),
    ("SEQ(A a, AND(B b, C c) WITHIN 1 s) WITHIN 9 s", "E_SYNTAX 18+24", "single event"),
    ("SEQ(A a, !B WITHIN 1 s) WITHIN 9 s", "E_SYNTAX 18+13", "write FOR"),
    ("AND(!B FOR 5 s, C c)", "E_NOT_PLACE 13+10", "before the AND"),
    ("SEQ(AND(!B FOR 5 s, C c), D d)", "E_NOT_PLACE 17+10", "before the AND"),
    ("SEQ(A? a, AND(!B FOR 5 s, C c), D d)", "E_NOT_PLACE 23+10", "before the AND"),
    ("SEQ(A* a, E? e, AND(!B FOR 5 s, C c))", "E_NOT_PLACE 29+10", "before the AND"),
    ("SEQ(A? a, SEQ(AND(!B FOR 5 s, C c), D d))", "E_NOT_PLACE 27+10", "before the AND"),
    ("SEQ(AND(A? a, E? e), AND(!B FOR 5 s, C c))", "E_NOT_PLACE 34+10", "before the AND"),
    ("SEQ(OR(A? a, E e), AND(!B FOR 5 s, C c))", "E_NOT_PLACE 32+10", "before the AND"),
    ("SEQ(SEQ(A a, E e)?, AND(!B FOR 5 s, C c))", "E_NOT_PLACE 33+10", "before the AND"),
    ("SEQ(A a, OR(!B FOR 5 s, C c))", "E_MODE 18+19", "MATCHES BEST"),
    ("OR(!B FOR 5 s, C c) WITHIN 9 s MATCHES BEST", "E_NOT_ALONE 12+10", "before the OR"),
    ("SEQ(A a, AND(!B, C c, D d))", "E_NOT_PLACE 22+2", "like !B FOR 5 s"),
    ("OR(A, SEQ(!B, !C))", "E_NOT_ALONE 15+11", "no event beside"),
    ("SEQ(A, !B b, !C c) WHERE b.x = c.x", "E_NOT_TWO 34+9", "cannot relate"),
    ("SEQ(A, !B b, C) WITHIN 1 s RETURN b.x + 1", "E_NOT_RETURN 43+7", "leave it out"),
    ("A WITHIN 1 s USING skip_till_any MATCHES ONE", "E_MODE 42+11", "MAXIMAL or ALL"),
    ("A WITHIN 1 s USING skip_till_any MATCHES BEST", "E_MODE 42+12", "MAXIMAL or ALL"),
    ("A WITHIN 1 s MATCHES BEST UNCERTAIN POSSIBLE", "E_MODE 35+18", "or write MATCHES ALL"),
    ("A WITHIN 1 s MATCHES MAXIMAL", "E_MODE 22+15", "USING skip_till_any"),
    ("SEQ(A, B) WITHIN 1 s USING partition", "E_MODE 30+15", "like [room]"),
    ("SEQ(A, B) WITHIN 1 s MATCHES ALL AS SETS", "E_SETS 30+19", "every step must be under"),
    (f"SEQ(A a, NEXT B b) WITHIN 9 s {SETS}", "E_SETS 59+19", "every step must be under"),
    (f"AND(A a, B b) WITHIN 9 s {SETS}", "E_SETS 54+19", "plain sequence"),
    (f"OR(A a, B b) WITHIN 9 s {SETS}", "E_SETS 53+19", "plain sequence"),
    (f"SEQ(A a, B? b, C c) WITHIN 9 s {SETS}", "E_SETS 60+19", "must not be optional"),
    (f"SEQ(A a, !B, C c) WITHIN 9 s {SETS}", "E_SETS 58+19", "a negation must be tested"),
    (f"SEQ(A a, B+ b, C c) WITHIN 9 s {SETS}", "E_SETS 60+19", "each subset of a group"),
    (f"SEQ(A a, B{{1,3}} b) WITHIN 9 s {MAXIMAL_SETS}", "E_SETS 59+23", "all events between"),
    (f"SEQ(A a, B b) WHERE a.x < b.x WITHIN 9 s {SETS}", "E_SETS 70+19", "a condition between"),
    (f"SEQ(A a, B b) WITHIN 9 s {SETS} SKIP PAST LAST", "E_SETS 54+19", "SKIP applies"),
    (f"SEQ(A a, B b) WITHIN 9 s {SETS} UNCERTAIN NOMINAL", "E_SETS 54+19", "not graded"),
    ("A a WHERE a.x = limt", "E_PARAM 25+4", "did you mean `limit`?"),
    ("SEQ(A, B) WHERE x = 1", "E_PARAM 25+1", "`[x]` if all events agree on it"),
    ("SEQ(A a, B b) WHERE a.x > b", "E_PARAM 35+1", "like b.x"),
    ("A a WHERE sqr(a.x) = 1", "E_FUNCTION 19+8", "did you mean `sqrt`?"),
    ("A a WHERE abs(1, 2) = abs()", "E_FUNCTION 19+9, E_FUNCTION 31+5", "takes 1 argument, not 2"),
    ("A a WHERE sum(a) = 1", "E_FUNCTION 19+6", "sum(a[].x)"),
    ("A a WHERE 'a' > 3", "E_LITERAL 19+7", "`'a'` is text, `3` is a number"),
    ("A a WHERE NOT 'x'", "E_LITERAL 23+3", "is not a condition"),
    ("A a WHERE a.x = 1 AND 5", "E_LITERAL 31+1", "`5` is not a condition"),
    ("A a WHERE a.x + 'b' = 1", "E_LITERAL 25+3", "needs numbers"),
    ("A a WHERE a.x < TRUE", "E_LITERAL 19+10", "have no order"),
    ("A a WHERE a.seq LIKE 'x%'", "E_LITERAL 19+5", "LIKE compares text"),
    ("A a WHERE a.source IN (1, 2)", "E_LITERAL 19+18", "none of these"),
    ("A a WHERE a.seq BETWEEN 1 AND 'x'", "E_LITERAL 19+23", "is text"),
    ("A a WHERE lower(a.seq) = 'x'", "E_LITERAL 25+5", "takes text"),
    ("A a WHERE sum(a.source) > 1", "E_LITERAL 19+13", "takes numbers"),
    ("A a WHERE a.x = $limit AND $limit = 'x'", "E_LITERAL 36+12", "is text"),
    ("A a WHERE a.time.x = 1", "E_ATTRIBUTE_UNKNOWN 19+8", "a.payload.time.x"),
]

WARNINGS: list[tuple[str, str, str]] = [
    (
        "SEQ(A, B+ b) WITHIN 1 s USING skip_till_any MATCHES ALL",
        "W_EXPONENTIAL 16+4, W_CONTENT_ID 53+11",
        "MATCHES MAXIMAL",
    ),
    (
        "SEQ(A, B+ b LOOP ANY) WITHIN 1 s MATCHES ALL",
        "W_EXPONENTIAL 16+13, W_CONTENT_ID 42+11",
        "LIMIT bounds",
    ),
    (
        "SEQ(A, B+ b, C) WHERE b[i].x > b[i-1].x WITHIN 1 s USING skip_till_any",
        "W_EXPONENTIAL 16+4, W_CONTENT_ID 60+19",
        "LIMIT bounds",
    ),
    ("SEQ(A* a, OR(B? b, C c))", "W_EMPTY 9+24", "whichever of them occur"),
    ("SEQ(A, B+ b) WITHIN 1 s MATCHES ALL", "W_CONTENT_ID 33+11", "retract it and emit"),
    ("SEQ(A, !B, C) WITHIN 1 s USING strict", "W_NEG_STRICT 16+2", "leave the negation"),
    ("A a WHERE a.x = NULL", "W_ALWAYS_FALSE 19+10", "IS NULL"),
    ("A a WHERE FALSE", "W_ALWAYS_FALSE 19+5", "never holds"),
    ("A a WHERE 1 > 2", "W_ALWAYS_FALSE 19+5", "never holds"),
    ("A a WHERE a.x BETWEEN 3 AND 2", "W_ALWAYS_FALSE 19+19", "never holds"),
    ("A a WHERE a.x > 5 AND 5 >= a.x", "W_ALWAYS_FALSE 31+8", "in this range"),
    ("A a WHERE a.x = 5 AND a.x < 5", "W_ALWAYS_FALSE 31+7", "in this range"),
]

QUIET = [
    "SEQ(A a, !B FOR 5 s, D? d, E e, !C FOR 5 s)",
    "SEQ(E e, A? a, AND(!B FOR 5 s, C c))",
    "SEQ(AND(E e, A? a), AND(!B FOR 5 s, C c))",
    "SEQ(A, B+ b, C) WITHIN 1 s USING skip_till_any",
    "SEQ(A, B, C) WITHIN 1 s USING skip_till_any MATCHES ALL",
    "SEQ(A, B+ b, C) WHERE b[i].x > b[i-1].x",
    "SEQ(A, STRICT !B, C)",
    "SEQ(A, C, !B) WITHIN 1 s USING strict",
    "SEQ(A+ a UNTIL (a.x > 3 AND a[last].x > 1), B)",
    "SEQ(A a, B+ b UNTIL (b.x > a.x))",
    "SEQ(A a, B? b LOOP GREEDY, C)",
    "SEQ(A a, B b) WHERE a.id = b.id WITHIN 1 s USING partition",
    "SEQ(A a, B b) WHERE [id] WITHIN 1 s USING partition",
    "A a WHERE a.x > 5 AND a.x <= 6 AND a.x != 5 AND a.y = 5 AND a.x >= $limit",
    "A a WHERE a.flag AND NOT a.other AND a.flag = TRUE AND a.x NOT IN (1, 'x', NULL)",
    "A+ a WHERE count(a) > 3 AND min(a.name) = 'x' AND abs(-a[1].x) > sqrt(a[last].x)",
]


def whole(text: str) -> str:
    return f"PATTERN {text}" if "WITHIN" in text else f"PATTERN {text} WITHIN 1 s"


def refusal_of(query: syntax.Query | str, **known: Any) -> QueryRefused:
    """Return the error with which the check refuses a query or its text."""
    text = query if isinstance(query, str) else ""
    with pytest.raises(QueryRefused) as refused:
        check(parse_query(query) if isinstance(query, str) else query, text, **known)
    return refused.value


@pytest.mark.parametrize(("text", "errors", "told"), ERRORS)
def test_error_has_its_place(text: str, errors: str, told: str) -> None:
    refusal = refusal_of(whole(text), params={"limit": 3})
    assert places(refusal.errors) == errors
    assert told in str(refusal)
    assert refusal.errors[0].hint
    assert "^" * min(refusal.errors[0].length, 5) in str(refusal)


@pytest.mark.parametrize(("text", "warnings", "told"), WARNINGS)
def test_warning_has_its_place(text: str, warnings: str, told: str) -> None:
    text = whole(text)
    found = check(parse_query(text), text)
    assert places(found) == warnings
    assert told in format_errors(found, text)
    assert format_errors(found, text).startswith("warning[W_")


@pytest.mark.parametrize("text", QUIET)
def test_good_query_has_no_findings(text: str) -> None:
    assert check(parse_query(whole(text)), params={"limit": 3}) == []


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_queries_pass(name: str) -> None:
    check(parse_query(PUBLISHED[name]))


def test_every_code_has_an_example() -> None:
    tables = [*ERRORS, *WARNINGS, *REFUSED]
    shown = {each.split()[0] for _, found, _ in tables for each in found.split(", ")}
    have_tests_of_their_own = {"E_TOO_LARGE", "E_SQL", "E_ALL_OPTIONAL"}
    assert CODES - shown == have_tests_of_their_own


def test_params_and_functions_are_checked() -> None:
    """Parameters can be bound later."""
    query = parse_query("PATTERN A a WHERE a.x > $limit WITHIN 1 s")
    assert check(query) == check(query, params={"limit": 1, "other": 2}) == []
    assert "`$limit` has no value" in str(refusal_of(query, params={}))
    query = parse_query("PATTERN SEQ(A a, B b) WHERE near(a.x, b.x, 'm') WITHIN 1 s")
    assert check(query, functions={"near"}) == []
    assert "no function `near`" in str(refusal_of(query, functions={"nearer"}))


def turns_in_turns(count: str) -> str:
    return f"SEQ(A a, SEQ(SEQ(B b, C c){count}){count})"


def nested(first: str) -> str:
    one = "SEQ(SEQ(A a{0}, B b{0}){{0,1000000}}, C c{0}){{14,20}}"
    return f"SEQ({first}{', '.join(one.format(number) for number in range(90))})"


SIXTEEN = ", ".join(f"A a{n}" for n in range(16))
TOTAL = " + ".join(f"a{n}.x" for n in range(16))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"SEQ({', '.join(['A'] * 33)})", "E_TOO_LARGE"),
        (f"AND({', '.join(['OR(A, B)'] * 7)})", "E_TOO_LARGE"),
        (f"AND({', '.join(['OR(A, B, C)'] * 4000)})", "E_TOO_LARGE"),
        (turns_in_turns("{1,40}"), "E_TOO_LARGE"),
        (turns_in_turns("{33}"), "E_TOO_LARGE"),
        (turns_in_turns("{1,9999999}"), "E_TOO_LARGE"),
        (nested(""), "more than 10000 alternatives"),
        (nested("A x, A x, "), "more than 10000 alternatives"),  # This has another mistake.
        (f"SEQ({SIXTEEN}){{2}} WHERE {TOTAL} > 0", "has 65536 combinations of turns"),
    ],
)
def test_large_patterns_are_refused(text: str, told: str) -> None:
    """A large pattern is refused before it is written out."""
    assert told in str(refusal_of(whole(text)))


USUAL = parse_query("PATTERN A WITHIN 1 s")


@pytest.mark.parametrize("within_ns", [0, -1, MAX_NS + 1])
def test_window_of_tree_is_checked(within_ns: int) -> None:
    assert str(refusal_of(replace(USUAL, within_ns=within_ns, span=syntax.NOWHERE))) == (
        f"error[E_WINDOW]: the window is {within_ns} ns\n"
        "  = help: it must be above 0 and at most 2^62 ns"
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**100])
def test_constant_without_text_is_refused(value: float) -> None:
    where = syntax.Compare("=", syntax.Ref("_1", ("x",)), syntax.Constant(value))
    assert "E_LITERAL" in str(refusal_of(replace(USUAL, where=where)))


def test_deep_tree_is_refused_early() -> None:
    deep: syntax.Expr = syntax.Constant(1)
    for _ in range(50_000):
        deep = syntax.Negative(deep)
    refusal = refusal_of(replace(USUAL, where=syntax.Compare("=", deep, deep)))
    assert "E_TOO_LARGE" in str(refusal)


def test_errors_are_ordered_and_bounded() -> None:
    conditions = " AND ".join(f"x{n}.y = 1" for n in range(2 * MAX_ERRORS))
    errors = refusal_of(f"PATTERN SEQ(A a, A a) WHERE {conditions} WITHIN 1 s").errors
    columns = [each.column for each in errors]
    assert columns == sorted(columns)
    assert len(columns) == MAX_ERRORS
    assert [each.code for each in errors[:2]] == ["E_ALIAS_TWICE", "E_ALIAS_UNKNOWN"]


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(queries())
def test_any_tree_passes_or_fails(query: syntax.Query) -> None:
    try:
        found = check(query, params={})
    except QueryRefused as refused:
        found = refused.warnings
    assert all(each.is_warning for each in found)
