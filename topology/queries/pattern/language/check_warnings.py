"""Warns of queries that are valid but probably not what the user meant, or unexpectedly expensive.

Only queries without errors are examined.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from topology.queries.pattern.tree.errors import Findings
from topology.queries.pattern.tree.free_groups import is_free
from topology.queries.pattern.tree.normal_form import Alternative, Blocker, Component, NormalForm
from topology.queries.pattern.tree.syntax import (
    FROM_START,
    Between,
    Compare,
    Constant,
    Duration,
    EventNode,
    Expr,
    Query,
    Ref,
    Span,
)
from topology.queries.pattern.tree.walk import find_components, split_conjuncts
from topology.queries.pattern.tree.words import COMPARED, MIRRORED, quote_path

Bound = tuple[float, int]
"""A number and an offset: the bound is just below the number (-1), at it (0), or just above it (1).
"""


def add_warnings(form: NormalForm, clause: Span, findings: Findings) -> None:
    """Add the warnings to the findings; `clause` is the place of MATCHES or USING in the text."""
    spans = {each.alias: each.span for each in find_components(form.node)}
    if form.query.matches not in FROM_START:
        _warn_of_costs(form, clause, spans, findings)
    for alternative in form.alternatives:
        for blocker in alternative.blockers:
            if _is_implied(blocker, alternative):
                message = "no event can occur between STRICT neighbours"
                findings.add(
                    "W_NEG_STRICT", spans[blocker.alias], message, "leave the negation out"
                )
    _warn_of_contradictions(form.query, findings)


def _warn_of_costs(
    form: NormalForm, clause: Span, spans: Mapping[str, Span], findings: Findings
) -> None:
    query = form.query
    for group in _find_choosing_groups(form, is_all=query.matches == "all"):
        name = group.label or group.alias
        message = f"each additional event in `{name}` can double the number of matches"
        hint = (
            "MATCHES MAXIMAL reports only the largest ones"
            if query.matches == "all" and query.strategy == "any"
            else "LIMIT bounds the number of results of one event"
        )
        findings.add("W_EXPONENTIAL", spans[group.alias], message, hint)
    groups = [each for each in find_components(query.node) if isinstance(each, EventNode)]
    if any(each.is_group for each in groups) and (
        query.matches == "all" or any(_find_choosing_groups(form, is_all=False))
    ):
        message = "a match is identified by all its events: corrections retract it and emit another"
        hint = "for updates in place, use MATCHES ONE, or MAXIMAL with free groups"
        findings.add("W_CONTENT_ID", clause, message, hint)


def _find_choosing_groups(form: NormalForm, *, is_all: bool) -> Iterator[Component]:
    """Yield the groups for which any subset of the fitting events may form a match.

    If `is_all`, these are all groups with skip-till-any between their events; otherwise free groups
    are excluded.
    """
    for alternative in form.alternatives:
        for component in alternative.components:
            grows = component.is_group and component.loop == "any"
            if grows and (is_all or not is_free(alternative, component)):
                yield component


def _is_implied(blocker: Blocker, alternative: Alternative) -> bool:
    behind = [alternative.components[index] for index in blocker.right]
    is_between = bool(blocker.left and blocker.right)
    return is_between and all(part.edge == "strict" and not part.is_optional for part in behind)


def _warn_of_contradictions(query: Query, findings: Findings) -> None:
    bounds: dict[Ref, tuple[Bound, Bound]] = {}
    for expr in split_conjuncts(query.where):
        if _is_false(expr):
            findings.add("W_ALWAYS_FALSE", expr.span, "this condition never holds")
        ranged = _range_of(expr)
        if ranged is None:
            continue
        ref, low, high = ranged
        lowest, highest = bounds.get(ref, (low, high))
        bounds[ref] = max(low, lowest), min(high, highest)
        if bounds[ref][0] > bounds[ref][1]:
            message = (
                f"no `{ref.alias}.{quote_path(ref.path)}` is in this range and the earlier ones"
            )
            findings.add("W_ALWAYS_FALSE", expr.span, message)


def _number_of(expr: Expr) -> float | None:
    match expr:
        case Duration(ns):
            return ns
        case Constant(value) if isinstance(value, int | float) and not isinstance(value, bool):
            return value
        case _:
            return None


def _is_false(expr: Expr) -> bool:
    if isinstance(expr, Between):
        low, high = _number_of(expr.low), _number_of(expr.high)
        return low is not None and high is not None and low > high
    if not isinstance(expr, Compare):
        return False
    left, right = _number_of(expr.left), _number_of(expr.right)
    if left is None or right is None:
        return False
    return not COMPARED[expr.operator](left, right)


def _range_of(expr: Expr) -> tuple[Ref, Bound, Bound] | None:
    """Return the range of values for which a comparison of an attribute with a number is true.

    The result consists of the attribute, the lower bound and the upper bound. It is None for any
    other expression.
    """
    if not isinstance(expr, Compare):
        return None
    operator: str = expr.operator
    ref, number = expr.left, _number_of(expr.right)
    if number is None:
        ref, number = expr.right, _number_of(expr.left)
        operator = MIRRORED[operator]
    if not isinstance(ref, Ref) or number is None or operator == "!=":
        return None
    low = number if operator in {"=", ">", ">="} else float("-inf")
    high = number if operator in {"=", "<", "<="} else float("inf")
    return ref, (low, int(operator == ">")), (high, -int(operator == "<"))
