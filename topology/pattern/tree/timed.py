"""Conditions that look at the time of an event, which may be another than its reference time.

Where times are not exact, conditions on `.time` of one component alone are taken out of what
indexes are kept by (`timed_apart`): an event that fails one by its reference time may hold it by
its true one.
"""

from __future__ import annotations

from dataclasses import replace

from topology.pattern.tree.mentions import looks_at_time
from topology.pattern.tree.normal_form import (
    Alternative,
    NormalForm,
    Predicate,
    asks_for_null,
)


def timed_apart(form: NormalForm) -> NormalForm:
    """The same, with conditions on the time of one component alone among the predicates."""
    alternatives = tuple(_timed_apart(alternative) for alternative in form.alternatives)
    return replace(form, alternatives=alternatives)


def _timed_apart(alternative: Alternative) -> Alternative:
    components, predicates = [], list(alternative.predicates)
    for part in alternative.components:
        timed = tuple(e for e in part.own if looks_at_time(e) and not asks_for_null(e))
        own = tuple(expr for expr in part.own if expr not in timed)
        components.append(replace(part, own=own) if timed else part)
        about = frozenset((part.index,))
        predicates += [Predicate(expr, about, frozenset(), skips_absent=True) for expr in timed]
    if len(predicates) == len(alternative.predicates):
        return alternative
    return replace(alternative, components=tuple(components), predicates=tuple(predicates))
