"""Queries, checked as far as their spelling goes.

Windows: `tumbling 10s`, `sliding 10s every 2s`, `session 5s`, `count 100`.
Paths: `payload`, or `payload.a.b`. Aggregates: see `topology.window.aggregates.built_in`.
Joins: see `join`. A pattern is a query of `topology.pattern`, whose errors are told with line and
column of its own text.

Proved by: tests/topology/config/test_reading.py, tests/topology/config/test_problem.py
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import Field, ValidationInfo, model_validator

from topology.config.join import PATH, JoinSpelling, Key, Outer, Sides, Values
from topology.config.problem import Fault, meant, refused, refused_at, shown
from topology.config.spelling import (
    Count,
    DurationNs,
    Flag,
    PositiveNs,
    check_slide,
    given,
    length_ns,
    one_of,
    or_nothing,
    share_ppm,
    share_schema,
    text,
    user_functions_of,
)
from topology.config.stream import Section
from topology.pattern.tree.syntax import Query
from topology.query.quality import Guard, Strategy
from topology.window.aggregates.built_in import BUILT_IN

Uncertainty = Literal["plain", "ignore", "thesis3", "expected", "bounds"]
WindowKind = Literal["tumbling", "sliding", "session", "count"]

_CALL: Final = re.compile(r"([A-Za-z_0-9]{1,40})\s*\(([^()]{0,2000})\)", re.ASCII)
_AGGREGATE: Final = {
    "type": "object",
    "minProperties": 1,
    "additionalProperties": {
        "type": "string",
        "examples": [each.example for each in BUILT_IN.values()],
    },
}
KINDS: Final = ("window", "join", "pattern")
_WINDOWS: Final = "tumbling 10s, sliding 10s every 2s, session 5s, count 100"


class Window(NamedTuple):
    """`size_ns` is the gap of a session; `events` that of a count window."""

    kind: WindowKind
    size_ns: int = 0
    every_ns: int = 0
    events: int = 0


class Aggregate(NamedTuple):
    """`path` is empty for `count()`, `quantile_ppm` 0 for all but `quantile`."""

    function: str
    path: tuple[str, ...] = ()
    quantile_ppm: int = 0


def _window(value: Any, _: ValidationInfo) -> Window:
    if isinstance(value, Window):
        return value
    if not isinstance(value, str):
        raise refused(f"{shown(value)} is not a window", f"write one of: {_WINDOWS}")
    words = value.split()
    match words:
        case ["tumbling", size]:
            return Window("tumbling", length_ns(size))
        case ["sliding", size, "every", step]:
            return _sliding(value, length_ns(size), length_ns(step))
        case ["sliding", *_]:
            raise refused(f"{shown(value)} does not say how far it slides", _like("sliding"))
        case ["session", gap]:
            return Window("session", length_ns(gap))
        case ["count", number]:
            return Window("count", events=_events(value, number))
        case [("tumbling" | "session" | "count") as kind, *_]:
            raise refused(f"{shown(value)} is not a {kind} window", _like(kind))
    kinds = ("tumbling", "sliding", "session", "count")
    raise refused(f"{shown(value)} is not a window", meant(words[0] if words else "", kinds))


def _like(kind: str) -> str:
    return "write it like " + next(each for each in _WINDOWS.split(", ") if each.startswith(kind))


def _sliding(value: str, size_ns: int, every_ns: int) -> Window:
    check_slide(value, size_ns, every_ns)
    return Window("sliding", size_ns, every_ns)


def _events(value: str, number: str) -> int:
    if not (number.isascii() and number.isdigit()) or len(number) > 18 or int(number) < 1:
        raise refused(f"{shown(value)} is not a number of events", "write it like count 100")
    return int(number)


def _aggregates(value: Any, info: ValidationInfo) -> dict[str, Aggregate]:
    if not isinstance(value, Mapping):
        raise refused(f"{shown(value)} is not a mapping", "write {name: count()}")
    if not value:
        raise refused("is empty", "write at least one, like {n: count()}")
    faults: list[Fault] = []
    read: dict[str, Aggregate] = {}
    own = user_functions_of(info).aggregates
    for name, spelled in value.items():
        if not isinstance(name, str):
            faults.append(Fault((str(name),), f"{shown(name)} is not text", "write it in quotes"))
            continue
        found = _aggregate(spelled, own)
        if isinstance(found, Aggregate):
            read[name] = found
        else:
            faults.append(found._replace(path=(name,)))
    if faults:
        raise refused_at(*faults)
    return read


def _aggregate(spelled: Any, own: Collection[str]) -> Aggregate | Fault:
    if isinstance(spelled, Aggregate):
        return spelled
    call = _CALL.fullmatch(spelled.strip()) if isinstance(spelled, str) else None
    if call is None:
        message = f"{shown(spelled)} is not an aggregate"
        return Fault((), message, "write it like avg(payload.v), in quotes if it holds a comma")
    function, inner = call.groups()
    if function not in BUILT_IN and function not in own:
        remedy = meant(function, (*BUILT_IN, *own))
        return Fault((), f"`{function}` is not an aggregate", remedy)
    known = BUILT_IN.get(function)
    example = known.example if known else f"{function}(payload.v)"
    wanted = known.arguments if known else 1
    arguments = [each.strip() for each in inner.split(",")] if inner.strip() else []
    if len(arguments) != wanted:
        message = f"`{function}` takes {wanted} arguments, not {len(arguments)}"
        return Fault((), message, f"write it like {example}")
    if arguments and re.fullmatch(PATH, arguments[0], re.ASCII) is None:
        message = f"{shown(arguments[0])} is not a path"
        return Fault((), message, f"write it like {example}")
    path = tuple(arguments[0].split(".")) if arguments else ()
    if function != "quantile":
        return Aggregate(function, path)
    return _quantile(path, arguments[1])


def _quantile(path: tuple[str, ...], share: str) -> Aggregate | Fault:
    remedy = f"write it like {BUILT_IN['quantile'].example}"
    found = re.fullmatch(r"(?:0?\.[0-9]{1,6}|0|1)", share, re.ASCII)
    if found is None:
        return Fault((), f"{shown(share)} is not a quantile between 0 and 1", remedy)
    return Aggregate("quantile", path, share_ppm(f"0{share}", 0, 1_000_000, remedy))


def _accuracy(value: Any, _: ValidationInfo) -> int:
    return share_ppm(value, 1, 999_999, "write a share below 100%, like 99% or 0.99")


def pattern(text: str, functions: Collection[str] = ()) -> Query:
    """The pattern that `text` spells, for `QueryConfig(pattern=...)`. `functions`: names of the
    user's own, which the topology must then have (`with_functions`). Raises `QueryRefused`, with
    every mistake, its line and column."""
    # The language with its grammar costs more to import than all the rest of the description, and
    # most files have no pattern.
    from topology.pattern.language.check import check
    from topology.pattern.language.parse import parse_query

    query = parse_query(text)
    check(query, text, functions=functions)
    return query


def _pattern(value: Any, info: ValidationInfo) -> Query:
    if isinstance(value, Query):
        return value
    remedy = 'write it like "PATTERN SEQ(A a, B b) WITHIN 5 s"'
    if not isinstance(value, str) or not value.strip():
        raise refused(f"{shown(value)} is not a pattern", remedy)
    from topology.pattern.tree.errors import QueryRefused

    try:
        return pattern(value, user_functions_of(info).functions)
    except QueryRefused as problem:
        raise refused_at(*(_fault(error) for error in problem.errors)) from None


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
            fault = Fault(("strategy",), "`fixed` does not say how long", "add wait: 100ms")
            faults.append(fault)
        if faults:
            raise refused_at(*faults)
        return self


ONLY_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "window": ("aggregate", "early", "max_windows"),
    "join": ("sides", "outer", "values", "max_events", "max_rows"),
}
"""Fields that mean something to one kind of query only."""

NOT_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "pattern": ("key", "uncertainty", "correct_for"),
    "join": ("stream",),
}


NAMED: Final = {"correct_for": "correct_for_ns", "early": "early_ns"}
"""Keys of the file that have other names in Python."""


class QueryConfig(Section):
    """One query: a window with aggregates, a join, or a pattern. `finals`: a result told before it
    was final is told once more when it is. `early`: open windows that have changed are told at
    multiples of it. `max_windows`: open, or kept for corrections (topology.window.config);
    `max_events`, `max_rows`: of a join (topology.join.config). `correct_for`: how long late events
    change a result; None: as long as the file says."""

    stream: Annotated[str, text(r".{1,249}", "the name of a stream", "name a stream")] | None = None
    window: (
        Annotated[Window, given(_window, {"type": "string", "examples": _WINDOWS.split(", ")})]
        | None
    ) = None
    join: JoinSpelling | None = None
    pattern: Annotated[Query, given(_pattern, {"type": "string"})] | None = None
    key: Key | None = None
    aggregate: Annotated[Mapping[str, Aggregate], given(_aggregates, _AGGREGATE)] | None = None
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

    @property
    def kind(self) -> str:
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @model_validator(mode="after")
    def _one_kind(self) -> QueryConfig:
        kinds = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(kinds) != 1:
            has = f"has {' and '.join(kinds)}" if kinds else "is no window, join or pattern"
            remedy = "write exactly one of `window`, `join` and `pattern`"
            raise refused_at(Fault((), has, remedy))
        faults = [
            Fault((field,), f"belongs to a {of}, not to a {self.kind}", "leave it out")
            for of, fields in ONLY_OF.items()
            for field in fields
            if of != self.kind and NAMED.get(field, field) in self.model_fields_set
        ]
        faults += [
            Fault((field,), f"means nothing to a {self.kind}", "leave it out")
            for field in NOT_OF.get(self.kind, ())
            if NAMED.get(field, field) in self.model_fields_set
        ]
        if self.window is not None and self.aggregate is None:
            faults.append(
                Fault((), "a window without `aggregate`", "write aggregate: {n: count()}")
            )
        if self.join is not None:
            faults += _join_faults(self)
        if faults:
            raise refused_at(*faults)
        return self


def _join_faults(query: QueryConfig) -> list[Fault]:
    if query.sides is None:
        remedy = "write sides: {a: {stream: one}, b: {stream: other}}"
        return [Fault((), "a join without `sides`", remedy)]
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
            Fault(("sides", alias), message, "write key: payload.x, or one for all sides")
        )
    if query.uncertainty in ("plain", "thesis3"):
        remedy = "write ignore, expected or bounds"
        message = f"{query.uncertainty} is a way to aggregate"
        faults.append(Fault(("uncertainty",), message, remedy))
    return faults
