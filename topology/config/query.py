"""Defines a query, and checks each query by itself.

The settings of each kind of query are in the package of its operator (`settings`).
`topology.pattern` parses patterns. Its errors include the line and column in the pattern's own
text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import PlainSerializer, ValidationInfo, model_validator

from topology.answer.rules import SPECULATE
from topology.answer.settings import BOUNDS, KeyText
from topology.detector.settings import DetectorSettings
from topology.join.settings import AS_OF, FULL, MIN_SIDES, SIDES, JoinSettings
from topology.pattern.settings import PatternSettings
from topology.spelling.problem import Fault, format_value, meant, refuse, refused_at
from topology.spelling.section import key_of
from topology.spelling.values import Given, user_functions_of
from topology.window.settings import WindowSettings, fill_faults

if TYPE_CHECKING:
    from topology.pattern.tree.syntax import Query
else:
    Query = Any  # Most files have no pattern, and pydantic does not need this type.

KINDS: Final = ("window", "join", "pattern", "detector")


def pattern(text: str, functions: Collection[str] = ()) -> Query:
    """Return the parsed pattern in `text`, which may be a MATCH_RECOGNIZE clause of SQL.

    Pass the result to `QueryConfig(pattern=...)`. `functions` names the user's own functions, which
    the topology must then have (`with_functions`). A topology cannot give values to parameters.
    `QueryRefused` is raised with every mistake, its line and column.
    """
    # Importing the pattern language with its grammar takes longer than importing all other
    # settings, and most files have no pattern.
    from topology.pattern.language.check import check
    from topology.pattern.language.parse import parse_query
    from topology.pattern.sql.parse import is_sql, parse_sql

    given: Any = text
    if not isinstance(given, str):
        raise TypeError(f"{given!r} is not text; write it like PATTERN SEQ(A a, B b) WITHIN 5 s")
    query = parse_sql(text) if is_sql(text) else parse_query(text)
    check(query, text, params={}, functions=functions)
    return query


def _pattern(value: Any, info: ValidationInfo) -> Query:
    from topology.pattern.tree import syntax
    from topology.pattern.tree.errors import QueryRefused

    if isinstance(value, syntax.Query):
        return _without_parameters(value)
    if not isinstance(value, str) or not value.strip():
        remedy = 'write it like "PATTERN SEQ(A a, B b) WITHIN 5 s"'
        raise refuse(f"{format_value(value)} is not a pattern", remedy)
    try:
        return pattern(value, user_functions_of(info).functions)
    except QueryRefused as problem:
        raise refused_at(*(_fault(error) for error in problem.errors)) from None


def _without_parameters(query: Query) -> Query:
    from topology.pattern.tree.syntax import Param
    from topology.pattern.tree.walk import expressions, walk

    for expr in expressions(query):
        for part in walk(expr):
            if isinstance(part, Param):
                message = f"the parameter `${part.name}` has no value"
                raise refuse(message, "write the value itself: a topology has no parameters")
    return query


def _fault(error: Any) -> Fault:
    place = f" (line {error.line}, column {error.column} of the pattern)" if error.line else ""
    return Fault(
        (),
        f"{error.message}{place}",
        error.hint or f"see {error.code} in docs/reference/pattern_grammar.md",
        is_yaml=False,
    )


ONLY_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "window": ("where", "aggregate", "early", "max_windows", "empty", "hold"),
    "join": ("sides", "outer", "values", "max_events", "max_rows"),
    "detector": ("max_keys", "max_events", "reads"),
}
"""The fields that only queries of certain kinds may have, by kind."""

NOT_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "pattern": ("key", "uncertainty", "correct_for"),
    "join": ("stream",),
    "detector": ("quality", "uncertainty"),
}

NO_KIND: Final = "window, join, pattern or detector"


class QueryConfig(DetectorSettings, JoinSettings, WindowSettings, PatternSettings):
    """One query: a window with aggregates, a join, a pattern, or a detector."""

    pattern: (
        Annotated[Query, Given(_pattern, {"type": "string"}), PlainSerializer(attrgetter("text"))]
        | None
    ) = None
    """A pattern (docs/guides/patterns.md), or a MATCH_RECOGNIZE clause of SQL whose FROM names the
    stream (docs/guides/match_recognize.md)."""

    @model_validator(mode="after")
    def _stream_behind_from(self) -> QueryConfig:
        if self.stream is None and self.pattern is not None and self.pattern.stream:
            self.__dict__["stream"] = self.pattern.stream
        return self

    @property
    def kinds(self) -> list[str]:
        """The kinds that the keys of the query select. A valid query has exactly one."""
        return [kind for kind in KINDS if getattr(self, kind) is not None]

    @property
    def kind(self) -> str:
        return self.kinds[0]

    def faults(self) -> Iterator[Fault]:
        if len(self.kinds) != 1:
            has = f"has {' and '.join(self.kinds)}" if self.kinds else f"is not a {NO_KIND}"
            yield Fault((), has, "write exactly one of `window`, `join`, `pattern` and `detector`")
            return
        named = self.pattern.stream if self.pattern is not None else ""
        if named and self.stream not in (None, named):
            message = f"is `{self.stream}`, but FROM of the pattern names `{named}`"
            yield Fault(("stream",), message, "leave it out, or name the same stream")
        yield from self._unfit_keys()
        if self.window is not None and self.aggregate is None:
            yield Fault((), "a window without `aggregate`", "write aggregate: {n: count()}")
        elif self.window is not None:
            yield from fill_faults(self)
        if self.join is not None:
            yield from _join_faults(self)
        if self.speculate is not None and self.answer != SPECULATE:
            message = f"has no effect with `answer: {self.answer}`"
            yield Fault(("speculate",), message, "write answer: speculate, or leave it out")

    def _unfit_keys(self) -> Iterator[Fault]:
        """Yield a fault for each key that this kind of query may not have."""
        kind, written = self.kind, {key_of(name) for name in self.model_fields_set}
        owners = {key: of for of, keys in [*ONLY_OF.items()][::-1] for key in keys}
        for key, of in owners.items():
            if key in written and key not in ONLY_OF.get(kind, ()):
                yield Fault((key,), f"belongs to a {of}, not to a {kind}", "leave it out")
        for key in NOT_OF.get(kind, ()):
            if key in written:
                yield Fault((key,), f"has no effect on a {kind}", "leave it out")


def _join_faults(query: QueryConfig) -> Iterator[Fault]:
    if query.sides is None:
        yield Fault((), "a join without `sides`", SIDES)
        return
    for name, value in (query.values or {}).items():
        if value.side not in query.sides:
            message = f"there is no side `{value.side}`"
            yield Fault(("values", name), message, meant(value.side, query.aliases))
    unkeyed = [alias for alias, side in query.sides.items() if not (side.key or query.key)]
    if unkeyed and len(unkeyed) < len(query.sides):
        remedy = "write key: payload.x, or one for all sides"
        message = "has no key, but other sides have one"
        yield Fault(("sides", unkeyed[0]), message, remedy)
    parts = {alias: _parts(side.key or query.key) for alias, side in query.sides.items()}
    if not unkeyed and len(set(parts.values())) > 1:
        message = "has keys with different numbers of values, which are never equal"
        yield Fault(("sides",), message, "write as many paths for each side")
    if query.condition.kind == AS_OF:
        yield from _as_of_faults(query)
    if query.uncertainty in ("plain", "thesis3"):
        message = f"{query.uncertainty} is for aggregates only"
        yield Fault(("uncertainty",), message, "write ignore, expected or bounds")


def _parts(key: KeyText | None) -> int:
    """Return the number of values of a key that is a list, and 0 for any other key."""
    return len(key) if isinstance(key, tuple) else 0


def _as_of_faults(query: QueryConfig) -> Iterator[Fault]:
    if query.sides is not None and len(query.sides) > MIN_SIDES:
        message = "an as-of join has two sides: the events, and those that are newest for them"
        yield Fault(("sides",), message, "write a query for each further side")
    if query.outer == FULL:
        message = "full is not for an as-of join, in which an event may be the newest for many"
        yield Fault(("outer",), message, "write inner or left")
    if query.uncertainty == BOUNDS:
        message = "bounds is not for an as-of join, which has one row for each event"
        yield Fault(("uncertainty",), message, "write ignore or expected")
