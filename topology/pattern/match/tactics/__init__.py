"""How the matches of a unit are found: see `topology.pattern.match.evaluation`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topology.pattern.compile.expression import Function
from topology.pattern.match.evaluation import Tactic
from topology.pattern.match.tactics.exhaustive import Enumeration, Exhaustive, Finder
from topology.pattern.match.tactics.one import One
from topology.pattern.match.tactics.slices import Slices, can_slice
from topology.pattern.tree.normal_form import NormalForm

__all__ = ["exhaustive", "tactic_for"]


def tactic_for(
    form: NormalForm,
    params: Mapping[str, Any] | None = None,
    functions: Mapping[str, Function] | None = None,
) -> Tactic:
    """The cheapest that is right for the query."""
    if form.query.matches == "one" and form.query.strategy != "any":
        return One(form, params, functions)
    finders: list[Finder] = [
        Slices(form, alternative, params, functions)
        if can_slice(form, alternative)
        else Exhaustive(form, alternative, params, functions)
        for alternative in form.alternatives
    ]
    return Enumeration(form, finders)


def exhaustive(
    form: NormalForm,
    params: Mapping[str, Any] | None = None,
    functions: Mapping[str, Function] | None = None,
) -> Tactic:
    """The one that needs no condition, for all modes but ONE."""
    return Enumeration(form, [Exhaustive(form, a, params, functions) for a in form.alternatives])
