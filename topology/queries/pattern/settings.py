"""Defines the settings of a pattern query.

`topology.queries.pattern` parses patterns. Its errors include the line and column in the pattern's
own text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

from pydantic import PlainSerializer, ValidationInfo

from topology.answer.settings import OfStream, WithTarget
from topology.order.clock.settings import ClockConfig
from topology.spelling.problem import Fault, format_value, make_refusal, make_refusal_at
from topology.spelling.section import Unspelled
from topology.spelling.values import Given, user_functions_of

if TYPE_CHECKING:
    from topology.queries.pattern.tree.syntax import Query
else:
    Query = Any  # Most files have no pattern, and pydantic does not need this type.


LIKE: Final = 'write it like "PATTERN SEQ(A a, B b) WITHIN 5 s"'


def pattern(text: str, functions: Collection[str] = ()) -> Query:
    """Return the parsed pattern in `text`, which may be a MATCH_RECOGNIZE clause of SQL.

    Pass the result to `PatternQuery(pattern=...)`. `functions` names the user's own functions,
    which the topology must then have (`with_functions`). A topology cannot give values to
    parameters.
    `QueryRefused` is raised with every mistake, its line and column.
    """
    # Importing the pattern language with its grammar takes longer than importing all other
    # settings, and most files have no pattern.
    from topology.queries.pattern.language.check import check
    from topology.queries.pattern.language.parse import parse_query
    from topology.queries.pattern.sql.parse import is_sql, parse_sql

    given: Any = text
    if not isinstance(given, str):
        raise TypeError(f"{given!r} is not text; write it like PATTERN SEQ(A a, B b) WITHIN 5 s")
    query = parse_sql(text) if is_sql(text) else parse_query(text)
    check(query, text, params={}, functions=functions)
    return query


def _pattern(value: Any, info: ValidationInfo) -> Query:
    from topology.queries.pattern.tree import syntax
    from topology.queries.pattern.tree.errors import QueryRefused

    if isinstance(value, syntax.Query):
        return _without_parameters(value)
    if not isinstance(value, str) or not value.strip():
        raise make_refusal(f"{format_value(value)} is not a pattern", LIKE)
    try:
        return pattern(value, user_functions_of(info).functions)
    except QueryRefused as problem:
        raise make_refusal_at(*(_fault(error) for error in problem.errors)) from None


def _without_parameters(query: Query) -> Query:
    from topology.queries.pattern.tree.syntax import Param
    from topology.queries.pattern.tree.walk import find_expressions, walk

    for expr in find_expressions(query):
        for part in walk(expr):
            if isinstance(part, Param):
                message = f"the parameter `${part.name}` has no value"
                raise make_refusal(message, "write the value itself: a topology has no parameters")
    return query


def _fault(error: Any) -> Fault:
    place = f" (line {error.line}, column {error.column} of the pattern)" if error.line else ""
    return Fault(
        (),
        f"{error.message}{place}",
        error.hint or f"see {error.code} in docs/reference/pattern_grammar.md",
        is_yaml=False,
    )


class PatternQuery(WithTarget, OfStream):
    """A query with a pattern. `clock` has the clock settings of its stream."""

    kind: ClassVar = "pattern"

    pattern: Annotated[
        Query,
        Given(_pattern, {"type": "string"}, instead=LIKE),
        PlainSerializer(attrgetter("text")),
    ]
    """A pattern (docs/guides/patterns.md), or a MATCH_RECOGNIZE clause of SQL whose FROM names the
    stream (docs/guides/match_recognize.md)."""
    clock: Annotated[ClockConfig, Unspelled()] = ClockConfig.make_default()
    """How the clocks of its stream are trusted."""

    @property
    def streams(self) -> list[str]:
        """The stream that the query names, or FROM of its pattern."""
        return [self.stream or self.pattern.stream]

    def faults(self) -> Iterator[Fault]:
        yield from super().faults()
        named = self.pattern.stream
        if named and self.stream not in (None, named):
            message = f"is `{self.stream}`, but FROM of the pattern names `{named}`"
            yield Fault(("stream",), message, "leave it out, or name the same stream")
