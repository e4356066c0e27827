"""Queries, checked as far as their spelling goes.

Windows and aggregates: see `window`. Joins: see `join`. Paths: `payload`, or `payload.a.b`. A
pattern is a query of `topology.pattern`, whose errors are told with line and column of its own
text.

Proved by: tests/topology/config/test_reading.py, tests/topology/config/test_problem.py
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field, PlainSerializer, ValidationInfo, model_validator

from topology.config.join import (
    SIDES,
    SIDES_IN_CODE,
    JoinSpelling,
    Key,
    Outer,
    Sides,
    Values,
)
from topology.config.problem import Fault, meant, refused, refused_at, shown
from topology.config.spelling import (
    MILLION,
    Count,
    DurationNs,
    Flag,
    PositiveNs,
    given,
    is_from_file,
    one_of,
    or_nothing,
    share_ppm,
    share_schema,
    text,
    user_functions_of,
    whole_number,
)
from topology.config.stream import Section
from topology.config.user_functions import NAME
from topology.config.window import (
    AGGREGATE,
    WINDOWS,
    Aggregate,
    Window,
    read_aggregates,
    read_window,
)
from topology.pattern.tree.syntax import Query
from topology.query.quality import Guard, Strategy
from topology.speculate.config import Answer

Uncertainty = Literal["plain", "ignore", "thesis3", "expected", "bounds"]

KINDS: Final = ("window", "join", "pattern", "detector")


def _accuracy(value: Any, info: ValidationInfo) -> int:
    if isinstance(value, int) and not is_from_file(info):
        return whole_number(value, 1, 999_999)
    return share_ppm(value, 1, 999_999, "write a share below 100%, like 99% or 0.99")


def pattern(text: str, functions: Collection[str] = ()) -> Query:
    """The pattern that `text` spells, for `QueryConfig(pattern=...)`. `functions`: names of the
    user's own, which the topology must then have (`with_functions`). Raises `QueryRefused`, with
    every mistake, its line and column."""
    # The language with its grammar costs more to import than all the rest of the description, and
    # most files have no pattern.
    from topology.pattern.language.check import check
    from topology.pattern.language.parse import parse_query

    given: Any = text
    if not isinstance(given, str):
        raise TypeError(f"{given!r} is no text; write it like PATTERN SEQ(A a, B b) WITHIN 5 s")
    query = parse_query(text)
    check(query, text, functions=functions)
    return query


def _pattern(value: Any, info: ValidationInfo) -> Query:
    if isinstance(value, Query):
        return value
    if not isinstance(value, str) or not value.strip():
        remedy = 'write it like "PATTERN SEQ(A a, B b) WITHIN 5 s"'
        in_code = 'write pattern("PATTERN SEQ(A a, B b) WITHIN 5 s"), or the text alone'
        raise refused(f"{shown(value)} is not a pattern", remedy, in_code)
    from topology.pattern.tree.errors import QueryRefused

    try:
        return pattern(value, user_functions_of(info).functions)
    except QueryRefused as problem:
        raise refused_at(*(_fault(error) for error in problem.errors)) from None


def _text_of(query: Query) -> str:
    """In a dump, which `_pattern` reads back."""
    from topology.pattern.language.unparse import unparse

    return unparse(query)


def _fault(error: Any) -> Fault:
    place = f" (line {error.line}, column {error.column} of the pattern)" if error.line else ""
    return Fault(
        (), f"{error.message}{place}", error.hint or f"see {error.code} in docs/patterns.md"
    )


class QualityConfig(Section):
    """What share of windows must be right at first, how long that may take, and by which strategy
    (`topology.query.quality`)."""

    accuracy_ppm: Annotated[int, given(_accuracy, share_schema(1, 999_999))] = Field(
        default=990_000, validation_alias="accuracy"
    )
    max_wait_ns: PositiveNs = Field(default=2_000_000_000, validation_alias="max_wait")
    strategy: Annotated[Strategy, one_of(Strategy)] = "risk"
    guard: Annotated[Guard, one_of(Guard)] | None = None
    wait_ns: DurationNs | None = Field(default=None, validation_alias="wait")

    @model_validator(mode="after")
    def _parameters_agree(self) -> QualityConfig:
        faults = [
            Fault((key,), f"is the parameter of strategy `{of}`", "leave it out")
            for key, value, of in (("guard", self.guard, "risk"), ("wait", self.wait_ns, "fixed"))
            if value is not None and self.strategy != of
        ]
        if self.strategy == "fixed" and self.wait_ns is None:
            fault = Fault(
                ("strategy",),
                "`fixed` does not say how long",
                "add wait: 100ms",
                "add wait_ns=100_000_000",
            )
            faults.append(fault)
        if faults:
            raise refused_at(*faults)
        return self


ONLY_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "window": ("aggregate", "early", "max_windows"),
    "join": ("sides", "outer", "values", "max_events", "max_rows"),
    "detector": ("max_keys", "max_events", "reads"),
}
"""Fields that mean something to these kinds of query only."""

NOT_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "pattern": ("key", "uncertainty", "correct_for", "into"),
    "join": ("stream", "into"),
    "detector": ("quality", "uncertainty"),
}


NAMED: Final = {"correct_for": "correct_for_ns", "early": "early_ns"}
"""Keys of the file that have other names in Python."""


def _detector(value: Any, info: ValidationInfo) -> str:
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise refused(f"{shown(value)} is not the name of a detector", "write detector: stops")
    own = user_functions_of(info).detectors
    if is_from_file(info) and value not in own:
        remedy = meant(value, (*own,)) if own else "bring it along (`functions`)"
        raise refused(f"there is no detector `{value}`", remedy)
    return value


def _share(value: Any, info: ValidationInfo) -> int:
    if isinstance(value, int) and not is_from_file(info):
        return whole_number(value, 1, MILLION)
    return share_ppm(value, 1, MILLION, "write a share of a processor, like 50%")


def _withdrawn(value: Any, info: ValidationInfo) -> int:
    if isinstance(value, int) and not is_from_file(info):
        return whole_number(value, 1, MILLION)
    return share_ppm(value, 1, MILLION, "write a share of early results, like 1%")


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
    """What reading ahead may take of a processor (`topology.speculate.budget`), and which share of
    what is told early may be withdrawn (`topology.speculate.stands`); None: any."""

    share_ppm: Annotated[int, given(_share, share_schema(1, MILLION))] = Field(
        default=500_000, validation_alias="share"
    )
    withdrawn_ppm: Annotated[int, given(_withdrawn, share_schema(1, MILLION))] | None = Field(
        default=None, validation_alias="withdrawn"
    )


class QueryConfig(Section):
    """One query: a window with aggregates, a join, a pattern, or a detector. `finals`: a result
    told before it was final is told once more when it is. `early`: open windows that have changed
    are told at multiples of it. `max_windows`: open, or kept for corrections
    (topology.window.config); `max_events`, `max_rows`: of a join (topology.join.config);
    `max_events`, `max_keys`: of a detector (topology.speculate.config). `answer`: what is told
    before it is final. `reads`, `into`: results as events (topology.config.chains).
    `correct_for`: how long late events change a result; None: as long as the file says."""

    stream: Annotated[str, text(r".{1,249}", "the name of a stream", "name a stream")] | None = None
    window: (
        Annotated[Window, given(read_window, {"type": "string", "examples": WINDOWS.split(", ")})]
        | None
    ) = None
    join: JoinSpelling | None = None
    pattern: (
        Annotated[Query, given(_pattern, {"type": "string"}), PlainSerializer(_text_of)] | None
    ) = None
    detector: Annotated[str, given(_detector, {"type": "string"})] | None = None
    answer: Annotated[Answer, one_of(Answer)] = "early"
    speculate: Annotated[SpeculateConfig | None, or_nothing(SpeculateConfig)] = None
    reads: Annotated[tuple[str, ...], given(_reads, _NAMES)] | None = None
    into: Annotated[str, text(r".{1,249}", "a type of events", "name a type")] | None = None
    key: Key | None = None
    aggregate: Annotated[Mapping[str, Aggregate], given(read_aggregates, AGGREGATE)] | None = None
    sides: Sides | None = None
    outer: Annotated[Outer, one_of(Outer)] | None = None
    values: Values | None = None
    quality: Annotated[QualityConfig | None, or_nothing(QualityConfig)] = None
    uncertainty: Annotated[Uncertainty, one_of(Uncertainty)] | None = None
    finals: Flag = False
    correct_for_ns: DurationNs | None = Field(default=None, validation_alias="correct_for")
    early_ns: DurationNs = Field(default=0, validation_alias="early")
    max_windows: Count = 1_000_000
    max_events: Count = 1_000_000
    max_rows: Count = 1_000
    max_keys: Count = 1_000_000

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
        faults = [
            Fault((field,), f"belongs to a {of}, not to a {self.kind}", "leave it out")
            for of, fields in ONLY_OF.items()
            for field in fields
            if field not in own and NAMED.get(field, field) in self.model_fields_set
        ]
        faults = list({fault.path: fault for fault in reversed(faults)}.values())[::-1]
        faults += [
            Fault((field,), f"means nothing to a {self.kind}", "leave it out")
            for field in NOT_OF.get(self.kind, ())
            if NAMED.get(field, field) in self.model_fields_set
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
        faults += _answer_faults(self)
        if faults:
            raise refused_at(*faults)
        return self


def _answer_faults(query: QueryConfig) -> list[Fault]:
    faults = []
    if query.speculate is not None and query.answer not in ("speculate", "auto"):
        message = f"means nothing to `answer: {query.answer}`"
        faults.append(Fault(("speculate",), message, "write answer: speculate, or leave it out"))
    if query.answer == "final" and query.pattern is not None and query.pattern.amend_ns:
        message = "`final` is never taken back, and LATE AMEND takes back what was final"
        faults.append(Fault(("answer",), message, "leave LATE AMEND out, or write answer: early"))
    return faults


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
