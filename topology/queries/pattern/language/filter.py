"""Reads a filter: a condition on one event, in the language of conditions of patterns.

The event is called `payload`, so `payload.t > 80` reads a field of its payload. `type` and `source`
without a name before them are the event's own. Everything that needs several events is refused, and
so are users' functions.
"""

from __future__ import annotations

from typing import Final

from topology.queries.pattern.language.parse import parse_condition
from topology.queries.pattern.language.value_types import ValueType, ValueTypes
from topology.queries.pattern.tree import syntax
from topology.queries.pattern.tree.errors import Findings, QueryRefused, shorten, suggest
from topology.queries.pattern.tree.walk import split_conjuncts, walk
from topology.queries.pattern.tree.words import FUNCTIONS

EVENT: Final = "payload"
"""The name of the event in a filter."""
OWN: Final = {"type": "", "source": ""}
"""The attributes of the event itself, each with a value of its type."""


def read_filter(text: str) -> syntax.Expr:
    """Return the condition in `text`; raise QueryRefused for errors."""
    findings = Findings()
    expr = parse_condition(text, findings)
    findings.raise_errors(text)
    for part in walk(expr):
        _check_part(part, findings)
    types = PayloadTypes((EVENT,), OWN, findings)
    for each in split_conjuncts(expr):
        types.condition(each)
    findings.raise_errors(text)
    if findings.warnings:  # A filter that nothing meets is a mistake.
        raise QueryRefused(findings.warnings, [], text)
    return expr


def paths_read(expr: syntax.Expr) -> list[tuple[str, ...]]:
    """Return the paths in the payload that a filter reads."""
    return [part.path for part in walk(expr) if isinstance(part, syntax.Ref)]


class PayloadTypes(ValueTypes):
    """A checker of types for which a field of the payload may have any name and type."""

    def _type_of_attribute(self, ref: syntax.Ref | syntax.AggregateCall) -> ValueType | None:
        return None


def _check_part(part: syntax.Expr, findings: Findings) -> None:
    match part:
        case syntax.Ref(alias, _, index) if alias != EVENT or index is not None:
            message = f"`{shorten(alias)}` is not the event of a filter"
            findings.add("E_ALIAS_UNKNOWN", part.span, message, "write a path like payload.t")
        case syntax.Param(name) if name not in OWN:
            message = f"`{shorten(name)}` is not a value of the event"
            hint = (
                f"write {EVENT}.{shorten(name)} for a field"
                if name != EVENT
                else "name a field of it"
            )
            findings.add("E_PARAM", part.span, message, f"{hint}; type and source are values")
        case syntax.Call(function, arguments):
            low, high = FUNCTIONS.get(function, (1, 0))
            if function not in FUNCTIONS:
                message = f"`{shorten(function)}` is not a function of a filter"
                findings.add("E_FUNCTION", part.span, message, suggest(function, FUNCTIONS))
            elif not low <= len(arguments) <= high:
                message = f"`{function}` takes other arguments"
                findings.add("E_FUNCTION", part.span, message, f"write {function}(payload.x)")
        case syntax.AggregateCall() | syntax.Previous() | syntax.Same():
            message = "this compares several events, but a filter sees one"
            findings.add("E_FUNCTION", part.span, message, "compare fields of the payload")
