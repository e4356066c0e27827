"""Parses MATCH_RECOGNIZE, SQL's notation for patterns, into the tree of the pattern language.

Source: ISO/IEC TR 19075-5 (row pattern recognition), and `WITHIN` of Flink.
docs/guides/match_recognize.md lists the features that are supported, that differ, and that are
refused. The rows of a partition are its events in the order of `ref_time`. Consecutive rows mean
STRICT steps, and SQL's rules of preference mean MATCHES BEST. Events with equal times are ordered
by source, epoch and sequence number (TIES BY KEY).

Bounds: those of `topology.queries.pattern.language.parse`. Any text results in a query or in
`QueryRefused`, which has the first syntax error, or else all errors of meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any, Final, cast

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from topology.queries.pattern.language.parse import MAX_TEXT
from topology.queries.pattern.sql.conditions import (
    RowConditions,
    RowNames,
    column_path,
    key_of,
    report_repeated_names,
)
from topology.queries.pattern.sql.lowering import RowLowering
from topology.queries.pattern.sql.read_clause import RecognizeClause, RecognizeReader
from topology.queries.pattern.sql.row_pattern import can_follow_another
from topology.queries.pattern.tree.defaults import can_be_absent, with_defaults
from topology.queries.pattern.tree.errors import Findings, find_nearest, shorten, suggest
from topology.queries.pattern.tree.syntax import (
    EVERY_FIELD,
    And,
    Column,
    EventNode,
    Expr,
    Node,
    Query,
    RowRef,
    Same,
    Skip,
    Span,
)
from topology.queries.pattern.tree.walk import MAX_DEPTH, flatten, rewrite_events

_BEGINS: Final = re.compile(
    r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*(?:SELECT|MATCH_RECOGNIZE)\b", re.IGNORECASE | re.DOTALL
)
_ASIDE: Final = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|[^()]", re.DOTALL)

MANY: Final = 6
"""The maximum number of expected words that a message lists."""

_WORDS: Final = {
    "NAME": "a name",
    "INT": "a number",
    "STRING": "a string",
    "COMPARISON": "a comparison",
}
_HINTS: Final = {
    "MATCH_RECOGNIZE": "write SELECT * FROM name MATCH_RECOGNIZE (…), or the clause alone",
    "PATTERN": "the clauses are PARTITION BY, ORDER BY, MEASURES, ONE ROW PER MATCH, AFTER MATCH,"
    " PATTERN, WITHIN, SUBSET, DEFINE, in this order",
    "AS": "measures and definitions need AS and a name",
}


def is_sql(text: str) -> bool:
    """Return whether a text begins like SQL; no query of the pattern language does."""
    return _BEGINS.match(text) is not None


def parse_sql(text: str, *, default_within_ns: int | None = None) -> Query:
    """Return the query of a text; raise QueryRefused if the text has errors.

    `default_within_ns` replaces WITHIN in a query that has none.
    """
    findings = Findings()
    clause = _read_clause(text, findings)
    findings.raise_errors(text)
    assert clause is not None, text
    query = _make_query(clause, default_within_ns, findings)
    findings.raise_errors(text)
    return replace(query, text=text)


@cache
def _make_parser() -> Lark:
    """Return the parser; the first call builds its tables, which takes 0.1 s."""
    return Lark.open_from_package(
        "topology.queries.pattern.sql",
        "grammar.lark",
        parser="lalr",
        lexer="contextual",
        maybe_placeholders=False,
        propagate_positions=True,
    )


def _read_clause(text: str, findings: Findings) -> RecognizeClause | None:
    depth = deepest = 0
    for sign in _ASIDE.sub("", text[: MAX_TEXT + 1]):
        depth += 1 if sign == "(" else -1
        deepest = max(deepest, depth)
    if len(text) > MAX_TEXT:
        message = f"the text has {len(text)} characters, more than {MAX_TEXT}"
        findings.add("E_TOO_LARGE", Span(1, 1, 1), message, "shorten it")
        return None
    if deepest > MAX_DEPTH:
        findings.report_too_deep(Span(1, 1, 1), MAX_DEPTH)
        return None
    try:
        tree: Tree[Token] = _make_parser().parse(text)
    except UnexpectedToken as error:
        lines = text.split("\n")
        word, span = str(error.token), Span(len(lines), len(lines[-1]) + 1, 1)
        if word:
            span = Span(error.line, error.column, len(word))
        _report_unexpected(word, span, error.expected, findings)
        return None
    except UnexpectedCharacters as error:
        _report_unexpected(error.char, Span(error.line, error.column, 1), error.allowed, findings)
        return None
    return cast(RecognizeClause, RecognizeReader(findings).transform(tree))


def _report_unexpected(word: str, span: Span, accepted: Iterable[str], findings: Findings) -> None:
    found = f"`{shorten(word)}`" if word else "the end of the text"
    signs = {each.name: each.pattern.value for each in _make_parser().terminals}
    names = sorted(each for each in accepted if each not in {"QUOTED", "$END"})
    words = [_WORDS.get(each) or f"`{signs[each]}`" for each in names if each in signs]
    listed = ", ".join(words if len(words) <= MANY else [*words[:MANY], "the like"])
    close = find_nearest(word, [each for each in names if each.isalpha() and each not in _WORDS])
    hint = f"did you mean `{close}`?" if close and close != word.upper() else ""
    hint = hint or next((_HINTS[each] for each in names if each in _HINTS), "")
    message = f"{found} where {listed or 'the end'} is expected"
    findings.add("E_SYNTAX", span, message, hint)


def _make_query(
    clause: RecognizeClause, default_within_ns: int | None, findings: Findings
) -> Query:
    names = RowNames(clause.pattern, clause.tables, findings)
    _define_unions(clause, names, findings)

    def to_canonical(row: EventNode) -> EventNode:
        return replace(row, alias=names.variables[key_of(row.alias)])

    pattern: Node = rewrite_events(clause.pattern, to_canonical)
    if can_be_absent(pattern):
        message = "the pattern also matches no rows, and an empty match has no place in time"
        hint = "make one row mandatory, for example with + in place of *"
        findings.add("E_ALL_OPTIONAL", clause.span, message, hint)
    lowering = RowLowering([*names.variables.values()], findings)
    node = lowering.node(pattern, clause.span)
    has_lines = clause.all_rows
    conditions = RowConditions(names, pattern, lowering.copies, findings, has_lines=has_lines)
    where: list[Expr] = []
    if clause.partition:
        keys = tuple(column_path(each.parts) for each in clause.partition)
        where.append(Same(keys, span=clause.partition[0].span))
    report_repeated_names(clause.define, findings)
    for each in clause.define:
        variable = names.variables.get(key_of(each.name.text))
        if variable is None:
            names.unknown(each.name.text, each.name.span)
        else:
            where += conditions.of(variable, each.expr)
    for path in clause.order:
        if column_path(path.parts[-1:]) != ("time",):
            message = "rows are always in the order of ref_time"
            findings.add("E_SQL", path.span, message, "write ORDER BY ref_time")
    skip, to = _find_skip(clause, names, pattern, findings)
    clauses = {"WITHIN": clause.within.span} if clause.within is not None else {}
    options: dict[str, Any] = {"matches": "best", "ties": "key", "skip": skip}
    options["strategy"] = "partition" if clause.partition else "strict"
    return Query(
        node=node,
        within_ns=_within_ns(clause, default_within_ns, findings),
        where=flatten(And, where, clause.span) if where else None,
        skip_to=to[0] if to else "",
        skip_also=to[1:],
        columns=_make_columns(clause, conditions, findings),
        all_rows=has_lines,
        span=clause.span,
        clauses=clauses,
        stream=clause.stream,
        **with_defaults(options, node),
    )


def _define_unions(clause: RecognizeClause, names: RowNames, findings: Findings) -> None:
    for name, *members in clause.subset:
        found = [
            each for member in members for each in names.resolve_name(member.text, member.span)
        ]
        if names.of(name.text) is not None:
            message = f"`{shorten(name.text)}` is already a variable"
            findings.add("E_ALIAS_TWICE", name.span, message, "rename the subset")
        else:
            names.unions[key_of(name.text)] = tuple(dict.fromkeys(found))


def _within_ns(clause: RecognizeClause, default_ns: int | None, findings: Findings) -> int:
    """Return the query's window, which is 1 ns shorter than the interval of WITHIN.

    An event exactly one interval later is excluded in SQL, as in Flink. WITHIN of the pattern
    language would include it.
    """
    if clause.within is None and default_ns is None:
        message = "a match has no time limit, so no result would ever be final"
        hint = "write WITHIN INTERVAL '10' SECOND after PATTERN's parenthesis, or set a default"
        findings.add("E_WINDOW", clause.span, message, hint)
        return 1
    length_ns = clause.within.ns if clause.within is not None else default_ns or 0
    if length_ns < 2:
        span = clause.within.span if clause.within is not None else clause.span
        findings.add("E_WINDOW", span, "the window is empty", "write a longer one")
    return length_ns - 1


def _find_skip(
    clause: RecognizeClause, names: RowNames, pattern: Node, findings: Findings
) -> tuple[Skip, tuple[str, ...]]:
    """Return the kind of SKIP, and the variables to which it skips.

    TO NEXT ROW has the kind `none`, because each start has only one match.
    """
    if clause.skip is None:
        return "past_last", ()
    kind, to, span = clause.skip.kind, clause.skip.to, clause.skip.span
    if to is None:
        return kind, ()
    found = names.of(to.text)
    if not found:
        names.unknown(to.text, span)
        return "none", ()
    if not any(can_follow_another(pattern, variable) for variable in found):
        message = f"`{to.text}` is the first row, so the same match would be found forever"
        findings.add("E_SQL", span, message, "write AFTER MATCH SKIP TO NEXT ROW")
    return kind, found


def _make_columns(
    clause: RecognizeClause, conditions: RowConditions, findings: Findings
) -> tuple[Column, ...]:
    """Return the columns of the result.

    These are the columns of PARTITION BY and MEASURES, or those of them that SELECT chooses. If
    each row has a result, SELECT may also choose columns of that row.
    """
    measures = clause.measures or ()
    report_repeated_names(measures, findings)
    found = [Column(conditions.key(path), str(path.parts[-1])) for path in clause.partition]
    found += [Column(conditions.measure(each.expr), str(each.name.text)) for each in measures]
    if clause.chosen is None and clause.all_rows:
        fields = RowRef((), ("payload",), span=clause.span)
        return (Column(fields, EVERY_FIELD), *found)
    if clause.chosen is None:
        return tuple(found) if clause.measures is not None else ()
    by_key = {column.name.upper(): column for column in found}
    chosen: list[Column] = []
    for path in clause.chosen:
        name = str(path.parts[-1])
        column = by_key.get(name.upper())
        if column is None and clause.all_rows:
            column = Column(conditions.key(path, from_last=True), name)
        if column is None:
            message = f"`{shorten(name)}` is not a column of the matches"
            hint = suggest(name, [each.name for each in found], "name a measure, or write *")
            findings.add("E_ATTRIBUTE_UNKNOWN", path.span, message, hint)
        else:
            chosen.append(replace(column, name=path.called or column.name))
    return tuple(chosen)
