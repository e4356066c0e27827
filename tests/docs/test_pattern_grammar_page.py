"""Examples: docs/reference/pattern_grammar.md has the language's words and error codes."""

from __future__ import annotations

import re

import pytest
from lark import Lark, UnexpectedInput

from tests import ROOT
from tests.topology.queries.pattern.language.test_check import CODES
from tests.topology.queries.pattern.language.test_parse import PUBLISHED
from topology.queries.pattern.language.check import check
from topology.queries.pattern.language.parse import parse_query
from topology.queries.pattern.tree.errors import QueryRefused
from topology.queries.pattern.tree.words import FREE, KEYWORDS, RESERVED_WORDS

PAGE = (ROOT / "docs" / "reference" / "pattern_grammar.md").read_text("utf-8")
EXAMPLES, GRAMMAR, RESERVED, ERROR = re.findall(r"^```text\n(.*?)^```", PAGE, re.M | re.S)
OF_CHECK = {"W_ABSENCE", "W_ARITY"}
"""Codes that only a topology file, or the functions beside it, can cause."""
TERMINALS = r"""
name: /[^\W\d]\w*/ | /`[^`]+`/
int: /[0-9]+/
number: /[0-9]+(\.[0-9]+)?/
string: /'([^']|'')*'/
%ignore /\s+/
%ignore /--[^\n]*/
"""


def test_each_code_has_a_remedy() -> None:
    remedies = re.findall(r"^\| `([EW]_[A-Z_]+)` \| [^|]+ \|$", PAGE, re.M)
    assert sorted(remedies) == sorted(CODES | OF_CHECK)


@pytest.mark.parametrize("query", EXAMPLES.splitlines())
def test_examples_are_accepted(query: str) -> None:
    check(parse_query(query), query)


def test_shown_error_is_the_real_one() -> None:
    text = "PATTERN SEQ(Gas g, Smoke s)\nWITHIN 5 mintes"
    with pytest.raises(QueryRefused) as refused:
        check(parse_query(text), text)
    assert str(refused.value) == ERROR.rstrip()


def test_grammar_has_each_keyword() -> None:
    words = re.findall(r"\b[A-Z_]+\b", re.sub(r'"[^"]*"', " ", GRAMMAR))
    assert {word.lower() for word in words} == KEYWORDS


@pytest.fixture(scope="module")
def as_written() -> Lark:
    """Return the page's grammar as lark reads it: { } becomes ( )*, and keywords are quoted."""
    rules = re.sub(r"^(\w+) +=", r"\1:", GRAMMAR, flags=re.M)
    parts = re.split(r'("[^"]*")', rules)
    parts[::2] = [
        re.sub(r"\b([A-Z_]+)\b", r'"\1"i', each.replace("{", "(").replace("}", ")*"))
        for each in parts[::2]
    ]
    return Lark("".join(parts) + TERMINALS, parser="earley", start="script")


@pytest.mark.parametrize("query", [*EXAMPLES.splitlines(), *PUBLISHED.values()])
def test_grammar_accepts_known_queries(query: str, as_written: Lark) -> None:
    as_written.parse(query)


@pytest.mark.parametrize("query", ["PATTERN A a", "PATTERN SEQ() WITHIN 1 s", "A a WITHIN 1 s"])
def test_grammar_refuses_invalid_queries(query: str, as_written: Lark) -> None:
    with pytest.raises(UnexpectedInput):
        as_written.parse(query)


def test_reserved_words_are_complete() -> None:
    assert RESERVED.split() == sorted(word.upper() for word in RESERVED_WORDS)
    assert not {word.upper() for word in FREE} & {*RESERVED.split()}
