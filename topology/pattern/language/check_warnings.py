"""What a query may say but hardly means, and what may cost more than one thinks.

Asked only of queries without errors.
"""

from __future__ import annotations

from collections.abc import Iterator

from topology.pattern.tree.errors import Findings
from topology.pattern.tree.free_groups import is_free
from topology.pattern.tree.normal_form import EDGES, Component, NormalForm, normalise, parts_of
from topology.pattern.tree.partial_order import NegatedSpot, Part
from topology.pattern.tree.syntax import (
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
from topology.pattern.tree.turns import Turns
from topology.pattern.tree.walk import components, conjuncts
from topology.pattern.tree.words import COMPARED, MIRRORED

Bounds = tuple[float, bool, float, bool]
"""Lowest, whether that is excluded, highest, whether that is."""


def warn(query: Query, clause: Span, findings: Findings) -> None:
    """`clause`: the place of MATCHES or USING."""
    _costs(query, clause, findings)
    for part in parts_of(Turns(query.node)):
        for gap in part.gaps:
            if _is_implied(gap, part, query):
                message = "nothing can happen between neighbours that are STRICT"
                findings.add("W_NEG_STRICT", gap.negation.span, message, "leave the negation out")
    _contradictions(query, findings)


def _costs(query: Query, clause: Span, findings: Findings) -> None:
    if query.matches in FROM_START:
        return
    form = normalise(query)
    spans = {each.alias: each.span for each in components(query.node)}
    for group in _choosing(form, is_all=query.matches == "all"):
        name = group.label or group.alias
        message = f"each event more in `{name}` can double the number of matches"
        hint = (
            "MATCHES MAXIMAL gives the largest ones only"
            if query.matches == "all" and query.strategy == "any"
            else "LIMIT bounds how many one event can bring"
        )
        findings.add("W_EXPONENTIAL", spans.get(name, clause), message, hint)
    groups = [each for each in components(query.node) if isinstance(each, EventNode)]
    if any(each.is_group for each in groups) and (
        query.matches == "all" or any(_choosing(form, is_all=False))
    ):
        message = "a match is known by all its events: corrections retract it and emit another"
        hint = "a result that is updated in place needs MATCHES ONE, or MAXIMAL with free groups"
        findings.add("W_CONTENT_ID", clause, message, hint)


def _choosing(form: NormalForm, *, is_all: bool) -> Iterator[Component]:
    """Groups of which every subset may be a match."""
    for alternative in form.alternatives:
        for component in alternative.components:
            grows = component.is_group and component.loop == "any"
            if grows and (is_all or not is_free(alternative, component)):
                yield component


def _is_implied(gap: NegatedSpot, part: Part, query: Query) -> bool:
    return bool(gap.left and gap.right) and all(
        (part.spots[index].edge or EDGES[query.strategy]) == "strict"
        and part.spots[index].node.minimum > 0
        for index in gap.right
    )


def _contradictions(query: Query, findings: Findings) -> None:
    bounds: dict[Ref, Bounds] = {}
    for expr in conjuncts(query.where):
        if _is_false(expr):
            findings.add("W_ALWAYS_FALSE", expr.span, "this condition never holds")
        ranged = _range(expr)
        if ranged is None:
            continue
        ref, limits = ranged
        bounds[ref] = _both(bounds[ref], limits) if ref in bounds else limits
        if _is_empty(bounds[ref]):
            message = f"no `{ref.alias}.{'.'.join(ref.path)}` is in this range and the others asked"
            findings.add("W_ALWAYS_FALSE", expr.span, message)


def _number(expr: Expr) -> float | None:
    match expr:
        case Duration(ns):
            return ns
        case Constant(value) if isinstance(value, int | float) and not isinstance(value, bool):
            return value
        case _:
            return None


def _is_false(expr: Expr) -> bool:
    if isinstance(expr, Between):
        low, high = _number(expr.low), _number(expr.high)
        return low is not None and high is not None and low > high
    if not isinstance(expr, Compare):
        return False
    left, right = _number(expr.left), _number(expr.right)
    if left is None or right is None:
        return False
    return not COMPARED[expr.operator](left, right)


def _range(expr: Expr) -> tuple[Ref, Bounds] | None:
    """The values of an attribute for which a comparison with a number holds."""
    if not isinstance(expr, Compare):
        return None
    operator: str = expr.operator
    ref, number = expr.left, _number(expr.right)
    if number is None:
        ref, number = expr.right, _number(expr.left)
        operator = MIRRORED[operator]
    if not isinstance(ref, Ref) or number is None or operator == "!=":
        return None
    low = number if operator in {"=", ">", ">="} else float("-inf")
    high = number if operator in {"=", "<", "<="} else float("inf")
    return ref, (low, operator == ">", high, operator == "<")


def _both(one: Bounds, other: Bounds) -> Bounds:
    low = max(one[:2], other[:2])
    high = min(one[2:], other[2:], key=lambda bound: (bound[0], not bound[1]))
    return (*low, *high)


def _is_empty(bounds: Bounds) -> bool:
    low, is_above, high, is_below = bounds
    return low > high or (low == high and (is_above or is_below))
