"""Defines a query of the topology file: a window, a join, a pattern or a detector.

Each kind is a class in the package of its operator (`settings`), with the keys that it may have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Discriminator, Tag

from topology.answer.settings import AnswerSettings
from topology.queries.detector.settings import DetectorQuery
from topology.queries.join.settings import JoinQuery
from topology.queries.pattern.settings import PatternQuery
from topology.queries.window.settings import WindowQuery
from topology.spelling.problem import (
    Fault,
    find_nearest,
    format_value,
    make_refusal,
    make_refusal_at,
    suggest,
)

KINDS: Final[Mapping[str, type[AnswerSettings]]] = {
    each.kind: each for each in (WindowQuery, JoinQuery, PatternQuery, DetectorQuery)
}
"""The class of each kind of query, by the key that only this kind has."""

NO_KEY: Final = "there is no such key"
_REMEDY: Final = "write exactly one of the keys `window`, `join`, `pattern` and `detector`"


def kind_of(query: AnswerSettings | Mapping[str, object]) -> str:
    """Return the kind of a query, or of a mapping that has the key of exactly one kind."""
    if isinstance(query, AnswerSettings):
        return query.kind
    return next(kind for kind in KINDS if kind in query)


def _require_one_kind(value: Any) -> Any:
    """Return the value; raise an error unless it is of one kind."""
    if isinstance(value, AnswerSettings):
        return value
    given = {} if value is None else value
    if not isinstance(given, Mapping):
        raise make_refusal(f"{format_value(value)} is not a mapping", _REMEDY)
    kinds = [kind for kind in KINDS if kind in given]
    if len(kinds) > 1:
        raise make_refusal(f"has {' and '.join(kinds)}", _REMEDY)
    if kinds:
        return given
    if misspelt := [key for key in given if find_nearest(key, KINDS) is not None]:
        texts = {key: suggest(key, [*KINDS]) for key in misspelt}
        raise make_refusal_at(*(Fault((key,), NO_KEY, text) for key, text in texts.items()))
    raise make_refusal("is not a window, join, pattern or detector", _REMEDY)


QueryConfig = Annotated[
    Annotated[WindowQuery, Tag("window")]
    | Annotated[JoinQuery, Tag("join")]
    | Annotated[PatternQuery, Tag("pattern")]
    | Annotated[DetectorQuery, Tag("detector")],
    Discriminator(kind_of),
    BeforeValidator(_require_one_kind),
]
"""A query of any kind; only the keys of its kind are allowed."""
