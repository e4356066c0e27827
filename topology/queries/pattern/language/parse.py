"""Parses the text of pattern queries.

The language is described in `docs/guides/patterns.md`, and its grammar is in grammar.lark.

A script has one or more queries, separated by `;`. Each error is reported with its place and, if
one can be guessed, a remedy. After an error, parsing continues with the next query. If a reserved
word is used as a name, parsing continues within the query. The meaning of a query is checked in
`topology.queries.pattern.language.check`, not here.

Bounds: MAX_TEXT characters; MAX_DEPTH levels of nesting; MAX_ERRORS errors; MAX_DIGITS digits in a
number. Any text results in queries or in `QueryRefused`. Cost: linear in the text, about 1 ms for a
query of ten lines. The parser's tables are built once, in 0.1 to 0.2 s.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol, Self, cast

from lark import Token, Tree
from lark.exceptions import UnexpectedToken

from topology.queries.pattern.language.expected import hint_for_token, list_wanted, translate
from topology.queries.pattern.language.lexing import (
    END,
    NAME,
    STRANGE,
    UNCLOSED,
    grammar,
    is_reserved,
)
from topology.queries.pattern.language.read_conditions import place_of
from topology.queries.pattern.language.read_query import QueryReader
from topology.queries.pattern.tree.errors import MAX_ERRORS, Findings, shorten
from topology.queries.pattern.tree.syntax import Constant, Expr, Query, Span
from topology.queries.pattern.tree.walk import MAX_DEPTH, find_too_deep, find_too_deep_in

MAX_TEXT: Final = 100_000
"""The maximum number of characters in a script."""

_INSTEAD: Final = {
    '"': "write a string in single quotes",
    "‘": "write a string in straight quotes, like 'a'",
    "&": "write AND",
    "~": "write ! for a negation",
    "==": "write =",
    "<>": "write !=",
}
"""The remedies for signs that have their place in other languages."""


class ParserSteps(Protocol):
    """The methods of lark's interactive parser that this module uses."""

    def feed_token(self, token: Token) -> Any: ...
    def feed_eof(self, last_token: Token) -> Any: ...
    def accepts(self) -> set[str]: ...
    def copy(self, deepcopy_values: bool) -> Self: ...


def parse(text: str) -> list[Query]:
    """Return the queries of a script in the order of the text; raise QueryRefused for errors."""
    findings = Findings()
    if len(text) > MAX_TEXT:
        message = f"the text has {len(text)} characters, more than {MAX_TEXT}"
        findings.add("E_TOO_LARGE", Span(1, 1, 1), message, "split it into several scripts")
        findings.raise_errors(text)
    read = [_read_query(text, chunk, findings) for chunk in _split_queries(text, findings)]
    queries = [query for query in read if query is not None]
    findings.report_repeated_names(
        "queries", [(query.name, query.span) for query in queries if query.name]
    )
    findings.raise_errors(text)
    return queries


def parse_query(text: str) -> Query:
    """Return the only query of a text; raise QueryRefused for errors or a second query."""
    queries = parse(text)
    if len(queries) > 1:
        findings = Findings()
        message = "there is a second query, but only one is expected"
        findings.add("E_SYNTAX", queries[1].span, message, "leave one of them out")
        findings.raise_errors(text)
    return queries[0]


def parse_condition(text: str, findings: Findings) -> Expr:
    """Return the condition in a text; after an error, which `findings` has, it means nothing."""
    chunk, *others = _split_queries(text, findings)
    deep = _find_too_deep(chunk)
    if len(text) > MAX_TEXT or others or deep is not None:
        message = "a condition is one expression, shorter and less nested"
        findings.add("E_TOO_LARGE", Span(1, 1, 1), message, "shorten it")
        return Constant(None)
    tree = _parse_tree(chunk, findings, "expr")
    expr: Expr = Constant(None) if tree is None else QueryReader(findings).transform(tree)
    if (deepest := find_too_deep_in(expr)) is not None:
        findings.report_too_deep(deepest.span, MAX_DEPTH)
    return expr


def _split_queries(text: str, findings: Findings) -> Iterator[list[Token]]:
    """Yield the tokens of each query, including its `;` or a token for the end of the text."""
    chunk: list[Token] = []
    is_first = True
    for token in grammar().lex(text):
        if len(findings.errors) >= MAX_ERRORS:
            return
        chunk.append(token)
        if token.type == END:
            yield chunk
            chunk = []
            is_first = False
    if chunk or is_first:
        lines = text.split("\n")
        at, line, column = len(text), len(lines), len(lines[-1]) + 1
        if chunk:
            last: Any = chunk[-1]
            at, line, column = last.end_pos, last.end_line, last.end_column
        yield [*chunk, Token("$END", "", at, line, column, end_pos=at)]


def _read_query(text: str, chunk: Sequence[Token], findings: Findings) -> Query | None:
    deep = _find_too_deep(chunk)
    if deep is not None:
        findings.report_too_deep(place_of(deep), MAX_DEPTH)
        return None
    tree = _parse_tree(chunk, findings)
    if tree is None:
        return None
    query: Query = QueryReader(findings).transform(tree)
    deepest = find_too_deep(query)
    if deepest is not None:
        findings.report_too_deep(deepest.span, MAX_DEPTH)
        return None
    return replace(query, text=text[chunk[0].start_pos : chunk[-1].start_pos].rstrip())


def _find_too_deep(chunk: Sequence[Token]) -> Token | None:
    """Return the first parenthesis that is nested deeper than MAX_DEPTH, or None.

    Because of this limit, the code that reads the tree may use recursion.
    """
    depth = 0
    for token in chunk:
        depth += (token.type == "LPAR") - (token.type == "RPAR")
        if depth > MAX_DEPTH:
            return token
    return None


def _parse_tree(
    chunk: Sequence[Token], findings: Findings, start: str = "query"
) -> Tree[Any] | None:
    """Return the parse tree of one query; after an error, report it and return None.

    `start` is the rule of the grammar for the whole text.
    """
    parser = cast(ParserSteps, grammar().parse_interactive(start=start))
    *words, end = chunk
    for place, token in enumerate(words):
        if token.type in UNCLOSED or token.type == STRANGE:
            _report_strange(token, findings)
            return None
        # The parser may reduce rules before it rejects a token. That cannot be undone, so keep a
        # copy.
        before = parser.copy(deepcopy_values=False) if is_reserved(token) else None
        try:
            parser.feed_token(token)
        except UnexpectedToken:
            if before is None or not _feed_as_name(before, chunk, place):
                _report_unexpected(parser.accepts(), chunk, place, findings)
                return None
            _report_reserved(token, findings)
            if len(findings.errors) >= MAX_ERRORS:
                return None
            parser = before
    try:
        tree: Tree[Any] = parser.feed_eof(end)
    except UnexpectedToken:
        _report_unexpected(parser.accepts(), chunk, len(words), findings)
        return None
    return tree


def _feed_as_name(parser: ParserSteps, chunk: Sequence[Token], place: int) -> bool:
    """Feed a reserved word to the parser as a name; return whether the next token may follow it."""
    before, token, after = chunk[place - 1], chunk[place], chunk[place + 1]
    accepted = parser.accepts()
    if NAME not in accepted or translate(accepted, token, before):
        return False
    parser.feed_token(Token.new_borrow_pos(NAME, str(token), token))
    return ("$END" if after.type == END else after.type) in parser.accepts()


def _report_reserved(token: Token, findings: Findings) -> None:
    message = f"`{shorten(token)}` is a reserved word"
    hint = f"choose another name, or write it in back-ticks: `{shorten(token)}`"
    findings.add("E_RESERVED", place_of(token), message, hint)


def _report_strange(token: Token, findings: Findings) -> None:
    if token.type in UNCLOSED:
        what, quote = ("string", "'") if token.type == "OPEN_STRING" else ("name", "`")
        message, hint = f"the {what} is not closed", f"close it with {quote}"
    else:
        message = f"`{shorten(token)}` means nothing here"
        hint = _INSTEAD.get(token, "leave it out")
    findings.add("E_SYNTAX", place_of(token), message, hint)


def _report_unexpected(
    accepted: Collection[str], chunk: Sequence[Token], place: int, findings: Findings
) -> None:
    token = chunk[place]
    before = chunk[place - 1] if place else None
    found = f"`{shorten(token)}`" if str(token) else "the end of the text"
    message = f"{found} where {list_wanted(accepted)} is expected"
    findings.add("E_SYNTAX", place_of(token), message, hint_for_token(accepted, token, before))
