"""Examples: texts and their queries, and mistakes with their messages.

Law: any text gives queries or QueryRefused, in bounded time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topology.queries.pattern.language.expected import list_wanted
from topology.queries.pattern.language.parse import MAX_TEXT, parse, parse_query
from topology.queries.pattern.tree import syntax
from topology.queries.pattern.tree.errors import MAX_ERRORS, SHOWN_CHARS, QueryError, QueryRefused
from topology.queries.pattern.tree.syntax import UNBOUNDED, EventNode, Item, Negation, Seq
from topology.queries.pattern.tree.walk import MAX_DEPTH, find_components

S = 1_000_000_000

PUBLISHED = {
    "LimeCEP 1": """
        PATTERN SEQ(!ROOM a, STEPS+ b[])
        WHERE b[i+1].value > b[i].value
        WITHIN 10 minutes""",
    "LimeCEP 2": """
        PATTERN SEQ(HR+ a[], SWEAT b)
        WHERE a[i].value < a[i+1].value
        AND b.levelIncreased = true
        WITHIN 5 minutes""",
    "LimeCEP 3": """
        PATTERN SEQ( GasLeakSensor a, TemperatureSensor+ b[], SmokeDetector c )
        WHERE a.percentage > thresholdGas
        AND b[i+1].temperature > b[i].temperature
        AND c.percentage >= thresholdSmoke
        WITHIN 30 seconds""",
    "LimeCEP 4": "PATTERN SEQ(A a, B b, C c) WITHIN 10 ms",
    "LimeCEP 5": "PATTERN SEQ(A a, B[] b+, C c) WITHIN 10 ms",
    "LimeCEP 6": "PATTERN SEQ(A[] a+, B[] b+, C c) WITHIN 10 ms",
    "LimeCEP a+b+c+a.query": "PATTERN SEQ(a+ a[], b+ b[], c+ c[], a)\nWITHIN 100 min",
    "LimeCEP test1.query": "PATTERN SEQ(Steps+ a, Stairs+ b, Bedroom c)\nWITHIN 10 min",
    "LimeCEP sase-ab+c-stam.query": """
        PATTERN SEQ(Stock a, Stock+ b[], Stock c)
        WHERE a.symbol = 0
        AND b[1].symbol = 1
        AND b[i].symbol = b[i-1].symbol
        AND c.symbol = 2
        WITHIN 100 ms USING skip_till_any""",
    "SASE, out of order": """
        PATTERN SEQ(SHELF s, !(CHECKOUT c), EXIT e)
        WHERE s.id = c.id AND c.id = e.id
        WITHIN 1 hour""",
    "SASE, selection": """
        PATTERN SEQ(Stock+ a[], Stock b)
        WHERE [symbol] AND a[1].volume > 1000 AND a[i].price > avg(a[..i-1].price)
            AND b.volume < 0.8 * a[last].volume
        WITHIN 1 hour USING skip_till_next""",
    "a few of everything": """
        QUERY all_of_it
        PATTERN SEQ(OR(A a, AND(B b, C c)), STRICT D? d, _{2,3} LOOP NEXT UNTIL (d.x > 1), !E)
        WHERE a.x IS NULL OR coalesce(b.x, 0) + 1 BETWEEN 1 AND $high AND c.name LIKE 'a%'
        WITHIN 1.5 h USING skip_till_any MATCHES ALL LIMIT 100 SKIP TO LAST d
        EMIT SLACK 2 s TIES BY KEY UNCERTAIN POSSIBLE
        RETURN d.x AS x, sum(d.x) INTO Found;""",
}


def test_published_query_has_expected_tree() -> None:
    assert parse_query(PUBLISHED["LimeCEP 1"]) == syntax.Query(
        node=Seq(
            (Item(Negation(("ROOM",), "a")), Item(EventNode(("STEPS",), "b", 1, UNBOUNDED))),
        ),
        where=syntax.Compare(
            ">",
            syntax.Ref("b", ("value",), syntax.Each(1)),
            syntax.Ref("b", ("value",), syntax.Each(0)),
        ),
        within_ns=600 * S,
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("PATTERN SEQ(A a, B[] b+) WITHIN 1 s", "pattern seq(A a, B+ b[]) within 1 second"),
        ("PATTERN SEQ(A a, B+ b) WITHIN 1 s", "PATTERN SEQ(A a, B+ b[]) WITHIN 1000 ms"),
        ("PATTERN SEQ(A, !B) WITHIN 1 s", "PATTERN SEQ(A, !(B)) WITHIN 1 s -- the end"),
        ("PATTERN SEQ(A, B) WITHIN 1 s", "PATTERN SEQ(A _1, B _2) WITHIN 1 s;"),
        ("PATTERN A{2,} a WITHIN 1 s", "PATTERN -- the A's\n`A`{2,} `a` WITHIN 1 s"),
        ("PATTERN A a WITHIN 1 s RETURN *", "PATTERN A a WITHIN 1 s"),
        ("PATTERN A a WITHIN 1 s RETURN a.x", "PATTERN A a WITHIN 1 s RETURN a.x AS `a.x`"),
        (
            "PATTERN SEQ(A a, B b) WITHIN 1 s USING Skip_Till_Any",
            "PATTERN SEQ(A a, B b) WITHIN 1 s USING skip_till_any",
        ),
        (
            "PATTERN A a WHERE a.x > -5 AND limit0 = 1 WITHIN 1 s",
            "PATTERN A a WHERE (a.x > -5) AND $limit0 = 1 WITHIN 1 s",
        ),
    ],
)
def test_two_spellings_are_one_query(one: str, other: str) -> None:
    assert parse_query(one) == parse_query(other)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SEQ(A, B) WITHIN 1 s", "next one eager"),
        ("SEQ(A, B) WITHIN 1 s USING strict", "strict one eager"),
        ("SEQ(A, B) WITHIN 1 s USING skip_till_any", "any maximal eager"),
        ("SEQ(A, B) WHERE a.x = 1 WITHIN 1 s USING skip_till_any", "any maximal eager"),
        ("SEQ(A, B) WITHIN 1 s USING skip_till_any MATCHES ALL", "any all eager"),
        ("SEQ(A, B, !C) WITHIN 1 s", "next one final"),
        ("SEQ(A, !B, C?) WITHIN 1 s", "next one final"),
        ("SEQ(A, !B, C) WITHIN 1 s", "next one eager"),
        ("OR(A, SEQ(B, !C)) WITHIN 1 s", "next one final"),
        ("SEQ(A, B, !C) WITHIN 1 s EMIT EAGER", "next one eager"),
    ],
)
def test_defaults_depend_on_query(text: str, expected: str) -> None:
    query = parse_query(f"PATTERN {text}")
    assert f"{query.strategy} {query.matches} {query.emit}" == expected


def test_other_defaults_are_fixed() -> None:
    query = parse_query("PATTERN A WITHIN 1 s")
    assert query == syntax.Query(EventNode(("A",), "_1"), S)
    assert (query.skip, query.ties, query.uncertain) == ("none", "strict", "nominal")


WHERE = "first.key = last.next.limit AND i.pattern = $where AND [all, event.by]"


@pytest.mark.parametrize(
    ("text", "aliases"),
    [
        ("SEQ(A x, !B, OR(C, D y), E+)", ["x", "_2", "_3", "y", "_5"]),
        # These words are reserved only elsewhere.
        (f"SEQ(A first, s last, min i) WHERE {WHERE}", ["first", "last", "i"]),
        ("SEQ(Sets sets, B b) WHERE sets.sets > 1", ["sets", "b"]),
    ],
)
def test_unnamed_events_get_aliases(text: str, aliases: list[str]) -> None:
    query = parse_query(f"PATTERN {text} WITHIN 1 s")
    assert [each.alias for each in find_components(query.node)] == aliases


def test_equality_ignores_source_places() -> None:
    text = "PATTERN SEQ(A a,\n  B b)\nWHERE a.x >\n  b.y WITHIN 1 s"
    query: Any = parse_query(text)
    assert repr(query.where.right.span) == repr(syntax.Span(4, 3, 3))
    assert query == parse_query(" ".join(text.split()))


@pytest.mark.parametrize(
    ("texts", "length_ns"),
    [
        (["1 ns", "0.000000001 second"], 1),
        (["2us"], 2_000),
        (["1.5 ms"], 1_500_000),
        (["1 s", "1 SEC"], S),
        (["3 Minutes"], 180 * S),
        (["24 hours", "1 day"], 86_400 * S),
    ],
)
def test_durations_have_many_spellings(texts: list[str], length_ns: int) -> None:
    assert {parse_query(f"PATTERN A WITHIN {text}").within_ns for text in texts} == {length_ns}


REFUSED = [
    # Text; code and place of each error (column and length, and the line unless it is the first);
    # a part of the message.
    ("", "E_SYNTAX 1+1", "a query is like PATTERN"),
    ("PATERN A WITHIN 1 s", "E_SYNTAX 1+6", "did you mean `PATTERN`?"),
    ("PATTERN SEQU(A, B) WITHIN 1 s", "E_SYNTAX 13+1", "did you mean `SEQ`"),
    ("PATTERN A\nWHERE x = 1", "E_SYNTAX 2:12+1", "WITHIN 10 s"),
    ("PATTERN A WHERE a.x = 'b WITHIN 1 s", "E_SYNTAX 23+13", "is not closed"),
    ("PATTERN A `b WITHIN 1 s", "E_SYNTAX 11+13", "is not closed"),
    ("PATTERN SEQ(A, B", "E_SYNTAX 17+1", "a parenthesis is not closed"),
    ("PATTERN A a § WITHIN 1 s", "E_SYNTAX 13+1", "means nothing here"),
    ('PATTERN A a WHERE a.x = "b" WITHIN 1 s', "E_SYNTAX 25+1", "in single quotes"),
    ("PATTERN A a WHERE a.x = 1 && a.y = 2 WITHIN 1 s", "E_SYNTAX 27+1", "write AND"),
    ("PATTERN A WITHIN 1 s USING any", "E_SYNTAX 28+3", "PARTITION, SKIP_TILL_ANY, SKIP"),
    ("PATTERN A WITHIN 1 s USING skip_till_nxt", "E_SYNTAX 28+13", "mean `SKIP_TILL_NEXT`"),
    ("PATTERN A WITHIN 1 s USING skip_till_any_match", "E_SYNTAX 28+19", "`SKIP_TILL_ANY`"),
    ("PATTERN A WITHIN 1 s USING strict_contiguity", "E_SYNTAX 28+17", "or STRICT is expected"),
    ("PATTERN A a WHERE strict AND a.x = 1 WITHIN 1 s", "E_SYNTAX 19+6", "USING strict after"),
    ("PATTERN A a LOOP GREEDY GREEDY WITHIN 1 s", "E_SYNTAX 25+6", "`GREEDY` where"),
    ("PATTERN A+ a GREEDY WITHIN 1 s", "E_SYNTAX 14+6", "write LOOP GREEDY"),
    ("PATTERN A WITHIN 1 s LATE REPORT", "E_SYNTAX 22+4", "`LATE` where EMIT, MATCHES"),
    ("EVENT SEQ(A, B) WITHIN 1 s", "E_SYNTAX 1+5", "write PATTERN"),
    ("PATTERN A a WITHIN 1 s SELECT a.x", "E_SYNTAX 24+6", "write RETURN"),
    ("PATTERN SEQ(A, ~B) WITHIN 1 s", "E_SYNTAX 16+1", "write ! for a negation"),
    ("PATTERN SEQ(A, NOT B b) WITHIN 1 s", "E_SYNTAX 16+3", "write ! for a negation"),
    ("PATTERN A a WHERE a.x == 1 WITHIN 1 s", "E_SYNTAX 23+2", "write ="),
    ("PATTERN A a WHERE a.x <> 1 WITHIN 1 s", "E_SYNTAX 23+2", "write !="),
    ("PATTERN A WITHIN 1 s MATCHES ALL MATCHES ONE", "E_SYNTAX 34+11", "written twice"),
    ("PATTERN A WITHIN 1 s MATCHES ALL LIMIT 0", "E_SYNTAX 34+7", "1 or more"),
    ("PATTERN A|_ WITHIN 1 s", "E_SYNTAX 11+1", "write `_` alone"),
    ("PATTERN A WITHIN 1 s;;", "E_SYNTAX 22+1", "`;` where"),
    ("PATTERN SEQ(any, B) WITHIN 1 s", "E_SYNTAX 16+1", "back-ticks: `any`"),
    ("PATTERN A a WITHIN 1 s WHERE a.x = 1", "E_SYNTAX 24+5", "before WITHIN"),
    ("PATTERN A a WITHIN 1 s RETURN a.x USING strict", "E_SYNTAX 35+5", "and RETURN"),
    (
        "PATTERN SEQ(Query a, B where) WHERE limit = 1 WITHIN 1 s",
        "E_RESERVED 13+5, E_RESERVED 24+5, E_RESERVED 37+5",
        "reserved word",
    ),
    ("PATTERN A WITHIN 10", "E_WINDOW 18+2", "like 10 s"),
    ("PATTERN A WITHIN 1 secnd", "E_WINDOW 18+7", "did you mean `second`?"),
    ("PATTERN A WITHIN 5m", "E_WINDOW 18+2", "did you mean `min`?"),
    ("PATTERN A WITHIN 5 w", "E_WINDOW 18+3", "units are ns, us"),
    ("PATTERN A WITHIN 0 s", "E_WINDOW 18+3", "more than 0"),
    ("PATTERN A WITHIN -5 s", "E_WINDOW 18+4", "more than 0"),
    ("PATTERN A WITHIN 0.5 ns", "E_WINDOW 18+6", "whole number of nanoseconds"),
    ("PATTERN A WITHIN 53376 d", "E_WINDOW 18+7", "2^62 ns"),
    ("PATTERN SEQ(A, B)+ LOOP GREEDY WITHIN 1 s", "E_QUANT 9+22", "the events inside"),
    ("PATTERN OR(A, !B) WITHIN 1 s", "E_NOT_PLACE 15+2", "into a SEQ"),
    ("PATTERN OR(!B FOR 1 s, !C FOR 2 s) WITHIN 1 s", "E_NOT_PLACE 24+10", "AND for both at once"),
    ("PATTERN SEQ(A, !B+ b[]) WITHIN 1 s", "E_NOT_PLACE 16+7", "write it like !B b"),
    ("PATTERN SEQ(A, !SEQ(B, C)) WITHIN 1 s", "E_NOT_PLACE 16+10", "only one event"),
    ("PATTERN !A WITHIN 1 s", "E_NOT_ALONE 9+2", "of a negation alone"),
    ("PATTERN A+ a WHERE a[j].x = 1 WITHIN 1 s", "E_INDEX 22+1", "i, i-1"),
    ("PATTERN A+ a WHERE sum(a.x, 2) = 1 WITHIN 1 s", "E_FUNCTION 20+11", "sum(b[].x)"),
    ("PATTERN A+ a WHERE summ(a[].x) = 1 WITHIN 1 s", "E_FUNCTION 25+5", "`sum`?"),
    (f"PATTERN A WHERE a.x = {'9' * 101} WITHIN 1 s", "E_LITERAL 23+101", "too long"),
    ("PATTERN A WHERE a.x = 1e999 WITHIN 1 s", "E_LITERAL 23+5", "too long"),
    (
        "QUERY q PATTERN A WITHIN 1 s; QUERY q PATTERN A WITHIN 1 s",
        "E_ALIAS_TWICE 31+28",
        "two queries",
    ),
]


def places(found: Iterable[QueryError]) -> str:
    """Return code, line, column and length of each error, as in `E_QUANT 9+3, E_QUANT 2:13+8`."""
    return ", ".join(
        f"{each.code} {'' if each.line == 1 else f'{each.line}:'}{each.column}+{each.length}"
        for each in found
    )


def refusal_of(text: str) -> QueryRefused:
    with pytest.raises(QueryRefused) as refused:
        parse(text)
    return refused.value


@pytest.mark.parametrize(("text", "errors", "told"), REFUSED)
def test_error_has_place_and_remedy(text: str, errors: str, told: str) -> None:
    refusal = refusal_of(text)
    assert places(refusal.errors) == errors
    assert told in str(refusal)


def test_long_line_is_cut_at_error() -> None:
    text = f"PATTERN A WHERE {'a.x = 1 AND ' * 100}\tb.x § 1 {'AND a.x = 1 ' * 100} WITHIN 1 s"
    line, caret = str(refusal_of(text)).splitlines()[3:5]
    assert line[caret.index("^")] == "§"
    assert "\t" not in line
    assert len(line) < SHOWN_CHARS + 20


def test_errors_of_script_are_collected() -> None:
    """At most `MAX_ERRORS` errors are collected."""
    refusals = map(
        refusal_of,
        ("PATTERN A;\nPATTERN A WITHIN 1 s;\nPATTERN B WITHIN 1", "x;\n" * (2 * MAX_ERRORS)),
    )
    lines = [[each.line for each in refusal.errors] for refusal in refusals]
    assert lines == [[1, 3], list(range(1, MAX_ERRORS + 1))]


def test_second_query_is_refused() -> None:
    with pytest.raises(QueryRefused, match="a second query"):
        parse_query("PATTERN A WITHIN 1 s; PATTERN B WITHIN 1 s")


def test_nesting_is_bounded() -> None:
    def nested(levels: int) -> str:
        return f"PATTERN A a WHERE {'NOT (' * levels}a.x = 1{')' * levels} WITHIN 1 s"

    # Each NOT, the comparison and its operands are a level; parentheses alone are none.
    assert len(parse(nested(MAX_DEPTH - 2))) == 1
    in_parentheses = f"{'(' * MAX_DEPTH}a.x = 1{')' * MAX_DEPTH}"
    assert len(parse(f"PATTERN A a WHERE {in_parentheses} WITHIN 1 s")) == 1
    for text in (
        nested(MAX_DEPTH - 1),
        f"PATTERN A a WHERE ({in_parentheses}) WITHIN 1 s",
        f"PATTERN A a WHERE a.x = {' + '.join(['1'] * 2 * MAX_DEPTH)} WITHIN 1 s",
        f"PATTERN {'SEQ(' * MAX_DEPTH}A{')' * MAX_DEPTH} WITHIN 1 s",
    ):
        with pytest.raises(QueryRefused, match="E_TOO_LARGE"):
            parse(text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "PATTERN A a WHERE " + "(" * (MAX_TEXT // 2),
        "PATTERN A a WHERE " + "(" * 40_000 + "a.x" + ")" * 40_000 + " = 1 WITHIN 1 s",
        "PATTERN A a WHERE a.x = " + "1+" * 20_000 + "1 WITHIN 1 s",
        "PATTERN " + "SEQ(" * 15_000 + "A" + ")" * 15_000 + " WITHIN 1 s",
        "PATTERN A a WHERE " + "NOT(" * 15_000 + "a.x" + ")" * 15_000 + " WITHIN 1 s",
        ";" * (MAX_TEXT - 1),
        "'" * (MAX_TEXT - 1),
        "`a" * (MAX_TEXT // 3),
        "-" * (MAX_TEXT - 1),
        "9" * (MAX_TEXT - 1),
        "PATTERN A WITHIN " + "9" * (MAX_TEXT - 30) + " s",
        "PATTERN SEQ(" + "A strict," * 10_000 + "A) WITHIN 1 s",
        " " * MAX_TEXT,
        " " * (MAX_TEXT + 1),
    ],
)
def test_hostile_texts_are_parsed_soon(text: str) -> None:
    began = time.process_time()
    told = ""
    try:
        parse(text)
    except QueryRefused as refused:
        told = str(refused)
    assert len(told) < 40_000
    assert time.process_time() - began < 20


SCRAPS = """
    PATTERN SEQ ( ) , A a B b[] + * ? { } 1 2.5 'x' WHERE AND OR NOT ! [ ] . a.x b[i].x = < IN
    BETWEEN IS NULL LIKE WITHIN 1 s 10 min USING strict skip_till_any MATCHES ALL ONE LIMIT SKIP
    TO NEXT EMIT SLACK RETURN AS INTO ; -- ` ' § count(b[]) LOOP UNTIL ANY QUERY $ | _
"""
WORDS = st.sampled_from([*SCRAPS.split(), "\n", " ", "..", "-"])
AMISS = st.builds(
    lambda text, start, length, word: text[:start] + word + text[start + length :],
    st.sampled_from(sorted(PUBLISHED.values())),
    st.integers(0, max(map(len, PUBLISHED.values()))),
    st.integers(0, 20),
    WORDS,
)
"""A good query in which one piece is replaced."""


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(st.one_of(st.text(max_size=200), st.lists(WORDS, max_size=40).map(" ".join), AMISS))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    errors, told = [], ""
    try:
        queries = parse(text)
    except QueryRefused as refused:
        errors, told, queries = refused.errors, str(refused), []
    assert bool(queries) is not bool(errors)
    assert told.startswith("error[E_") is bool(errors)
    lines = text.split("\n")
    for error in errors:
        assert 1 <= error.line <= len(lines)
        assert 1 <= error.column <= len(lines[error.line - 1]) + 1


def test_message_lists_expected_words() -> None:
    clauses = ["_EMIT", "_MATCHES", "_RETURN", "_SKIP", "_WHERE", "_WITHIN"]
    assert list_wanted(clauses) == "EMIT, MATCHES, RETURN, SKIP, WHERE or WITHIN"
    assert list_wanted([*clauses, "_USING"]) == "EMIT, MATCHES, RETURN, SKIP, USING or the like"
