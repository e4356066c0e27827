"""Queries, checked as far as their spelling goes.

Windows and aggregates: see `window`. Joins: see `join`. Paths: `payload`, or `payload.a.b`. A
pattern is a query of `topology.pattern`, whose errors are reported with line and column of its own
text.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import PlainSerializer, ValidationInfo, model_validator

from topology.answer.rules import SPECULATE, Answer
from topology.config.experimental import QueryMethods, quality_faults
from topology.config.join import (
    SIDES,
    SIDES_IN_CODE,
    JoinSpelling,
    Key,
    Sides,
    Values,
)
from topology.config.user_functions import NAME
from topology.config.window import (
    AGGREGATE,
    WINDOWS,
    read_aggregates,
    read_window,
)
from topology.join.config import Outer
from topology.spelling.problem import Fault, meant, refused, refused_at, shown
from topology.spelling.section import Section, Unspelled, key_of
from topology.spelling.values import (
    MILLION,
    Count,
    DurationNs,
    Flag,
    Given,
    PositiveNs,
    is_from_file,
    one_of,
    or_nothing,
    share,
    text,
    user_functions_of,
)
from topology.window.config import Aggregate, Window

if TYPE_CHECKING:
    from topology.pattern.tree.syntax import Query
else:
    Query = Any  # pydantic need not know it, and most files have no pattern

Uncertainty = Literal["plain", "ignore", "thesis3", "expected", "bounds"]

KINDS: Final = ("window", "join", "pattern", "detector")


def pattern(text: str, functions: Collection[str] = ()) -> Query:
    """The pattern that `text` spells, a MATCH_RECOGNIZE of SQL too, for `QueryConfig(pattern=...)`.
    `functions`: names of the user's own, which the topology must then have (`with_functions`).
    Parameters have no values in a topology. Raises `QueryRefused`, with every mistake, its line and
    column."""
    # The language with its grammar costs more to import than all the rest of the description, and
    # most files have no pattern.
    from topology.pattern.language.check import check
    from topology.pattern.language.parse import parse_query
    from topology.pattern.sql.parse import is_sql, parse_sql

    given: Any = text
    if not isinstance(given, str):
        raise TypeError(f"{given!r} is no text; write it like PATTERN SEQ(A a, B b) WITHIN 5 s")
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
        in_code = 'write pattern("PATTERN SEQ(A a, B b) WITHIN 5 s"), or the text alone'
        raise refused(f"{shown(value)} is not a pattern", remedy, in_code)
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
                raise refused(message, "write the value in its place: a topology gives none")
    return query


def _text_of(query: Query) -> str:
    """In a dump, which `_pattern` reads back."""
    from topology.pattern.language.unparse import unparse

    return query.sql or unparse(query)


def _fault(error: Any) -> Fault:
    place = f" (line {error.line}, column {error.column} of the pattern)" if error.line else ""
    return Fault(
        (),
        f"{error.message}{place}",
        error.hint or f"see {error.code} in docs/reference/pattern_grammar.md",
    )


MOVED_ANSWERS: Final = {"auto": "write answer: early, final or speculate"}
"""What to write in place of an answer that is gone."""


class QualityConfig(Section):
    """What share of windows must be right at first, and how long that may take
    (`topology.answer.quality_target`)."""

    accuracy_ppm: Annotated[
        int, share(1, MILLION - 1, "write a share below 100%, like 99% or 0.99")
    ] = 990_000
    """The share of first results that must be right. Lower it if an answer that comes sooner counts
    for more than one that is never corrected."""
    max_wait_ns: PositiveNs = 2_000_000_000
    """The longest wait for a first result. Raise it if `accuracy` is missed, lower it if an answer
    is of no use later."""


ONLY_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "window": ("aggregate", "early", "max_windows"),
    "join": ("sides", "outer", "values", "max_events", "max_rows"),
    "detector": ("max_keys", "max_events", "reads"),
}
"""Fields that mean something to these kinds of query only."""

NOT_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "pattern": ("key", "uncertainty", "correct_for"),
    "join": ("stream",),
    "detector": ("quality", "uncertainty"),
}


def _detector(value: Any, info: ValidationInfo) -> str:
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise refused(f"{shown(value)} is not the name of a detector", "write detector: stops")
    own = user_functions_of(info).detectors
    if is_from_file(info) and value not in own:
        remedy = meant(value, (*own,)) if own else "bring it along (`functions`)"
        raise refused(f"there is no detector `{value}`", remedy)
    return value


def _reads(value: Any, _: ValidationInfo) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not names:
        raise refused(f"{shown(value)} is no list of queries", "write reads: [hits]")
    for name in names:
        if not isinstance(name, str):
            raise refused(f"{shown(name)} is not the name of a query", "write reads: [hits]")
    if len({*names}) < len(names):
        raise refused("names one twice", "name it once")
    return tuple(names)


_NAMES: Final = {"type": "array", "items": {"type": "string"}, "examples": [["hits"]]}


class SpeculateConfig(Section):
    """What reading ahead may take of a processor (`topology.answer.budget`)."""

    share_ppm: Annotated[int, share(1, MILLION, "write a share of a processor, like 50%")] = 500_000
    """The share of a processor for all speculative detectors of a stream together. If they ask for
    several shares, the smallest counts. Lower it if the stage does not keep up with its input."""


class QueryConfig(Section):
    """One query: a window with aggregates, a join, a pattern, or a detector."""

    stream: Annotated[str, text(r".{1,249}", "the name of a stream", "name a stream")] | None = None
    """The stream that the query reads. Name it if there are several."""
    upsert: Flag = False
    """Writes the results to a topic of their own, `results.` and the query's name. A retracted
    result is a record without a value there. The compacted topic is the table of current results
    (docs/guides/results.md)."""
    window: (
        Annotated[Window, Given(read_window, {"type": "string", "examples": WINDOWS.split(", ")})]
        | None
    ) = None
    """The windows of a window query."""
    join: JoinSpelling | None = None
    """The condition under which events belong together."""
    pattern: (
        Annotated[Query, Given(_pattern, {"type": "string"}), PlainSerializer(_text_of)] | None
    ) = None
    """A pattern (docs/guides/patterns.md), or a MATCH_RECOGNIZE clause of SQL whose FROM names the
    stream (docs/guides/match_recognize.md)."""
    detector: Annotated[str, Given(_detector, {"type": "string"})] | None = None
    """A detector of your own, by its name in the functions file."""
    answer: Annotated[Answer, one_of(Answer, MOVED_ANSWERS)] = "early"
    """`final` emits final results alone. `early` emits early results and corrects them. `speculate`
    reads the events that the merge accepts, in the merge's stage, and does not wait until the merge
    emits them."""
    speculate: Annotated[SpeculateConfig | None, or_nothing(SpeculateConfig)] = None
    """The limits of a speculative detector."""
    reads: Annotated[tuple[str, ...], Given(_reads, _NAMES)] | None = None
    """The inputs of a detector: its stream, and queries whose results it reads as events. By
    default it reads the stream alone."""
    key: Key | None = None
    """Makes one result for each value of this path."""
    aggregate: Annotated[Mapping[str, Aggregate], Given(read_aggregates, AGGREGATE)] | None = None
    """The names of the values, and how each is computed from a window."""
    sides: Sides | None = None
    """The sides of a join, by name."""
    outer: Annotated[Outer, one_of(Outer)] | None = None
    """Whether events without a partner have a row: none (`inner`), those of the first side
    (`left`), or all (`full`)."""
    values: Values | None = None
    """The names of a row's values, and paths that begin with a side."""
    quality: Annotated[QualityConfig | None, or_nothing(QualityConfig)] = None
    """The quality target: how often the first result must be right, and how long it may take."""
    uncertainty: Annotated[Uncertainty, one_of(Uncertainty)] | None = None
    """How time errors affect the values. The default is `plain` for windows and `expected` for
    joins."""
    finals: Flag = False
    """Whether an early result is emitted once more when it is final."""
    correct_for_ns: DurationNs | None = None
    """How long late events change the query's results. It is at most that of the file, the default.
    Lower it if the state of this query is large."""
    early_ns: DurationNs = 0
    """How often open windows that have changed are emitted. `0ns` emits none early. Set it if
    readers cannot wait for the end of a window."""
    max_windows: Count = 1_000_000
    """The largest number of windows that are open or kept for corrections, over all keys. Raise it
    if there are more keys."""
    max_events: Annotated[Count, Unspelled()] = 1_000_000
    """Events a join or a detector keeps."""
    max_rows: Annotated[Count, Unspelled()] = 1_000
    """Rows one event of a join may have."""
    max_keys: Count = 1_000_000
    """The largest number of keys with a state, of a detector. Raise it if events are left out
    (`refused`)."""
    experimental: Annotated[QueryMethods, or_nothing(QueryMethods)] = QueryMethods.by_default()
    """Published methods in place of the defaults, for comparisons. A version may drop any of
    them."""

    @model_validator(mode="after")
    def _stream_behind_from(self) -> QueryConfig:
        named = self.pattern.stream if self.pattern is not None else ""
        if named and self.stream is None:
            self.__dict__["stream"] = named
        elif named and self.stream != named:
            message = f"is `{self.stream}`, and FROM of the pattern names `{named}`"
            raise refused_at(Fault(("stream",), message, "leave it out, or name the same stream"))
        return self

    @property
    def kind(self) -> str:
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @model_validator(mode="after")
    def _one_kind(self) -> QueryConfig:
        kinds = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(kinds) != 1:
            has = (
                f"has {' and '.join(kinds)}" if kinds else "is no window, join, pattern or detector"
            )
            remedy = "write exactly one of `window`, `join`, `pattern` and `detector`"
            raise refused_at(Fault((), has, remedy))
        own = ONLY_OF.get(self.kind, ())
        written = {key_of(name) for name in self.model_fields_set}
        faults = [
            Fault((field,), f"belongs to a {of}, not to a {self.kind}", "leave it out")
            for of, fields in ONLY_OF.items()
            for field in fields
            if field in written and field not in own
        ]
        faults = list({fault.path: fault for fault in reversed(faults)}.values())[::-1]
        faults += [
            Fault((field,), f"means nothing to a {self.kind}", "leave it out")
            for field in NOT_OF.get(self.kind, ())
            if field in written
        ]
        if self.window is not None and self.aggregate is None:
            faults.append(
                Fault(
                    (),
                    "a window without `aggregate`",
                    "write aggregate: {n: count()}",
                    'write aggregate={"n": Aggregate("count")}',
                )
            )
        if self.join is not None:
            faults += _join_faults(self)
        if self.speculate is not None and self.answer != SPECULATE:
            message = f"means nothing to `answer: {self.answer}`"
            remedy = "write answer: speculate, or leave it out"
            faults.append(Fault(("speculate",), message, remedy))
        faults += quality_faults(self.experimental, has_target=self.quality is not None)
        if faults:
            raise refused_at(*faults)
        return self


def _join_faults(query: QueryConfig) -> list[Fault]:
    if query.sides is None:
        return [Fault((), "a join without `sides`", SIDES, SIDES_IN_CODE)]
    faults = [
        Fault(
            ("values", name), f"there is no side `{value.side}`", meant(value.side, (*query.sides,))
        )
        for name, value in (query.values or {}).items()
        if value.side not in query.sides
    ]
    keyed = [alias for alias, side in query.sides.items() if side.key or query.key]
    if keyed and len(keyed) < len(query.sides):
        alias = next(alias for alias in query.sides if alias not in keyed)
        message = "has no key, and other sides have one"
        faults.append(
            Fault(
                ("sides", alias),
                message,
                "write key: payload.x, or one for all sides",
                'write key="payload.x", or one for all sides',
            )
        )
    if query.uncertainty in ("plain", "thesis3"):
        remedy = "write ignore, expected or bounds"
        message = f"{query.uncertainty} is a way to aggregate"
        faults.append(Fault(("uncertainty",), message, remedy))
    return faults
