"""How the matches of a unit are found: see `topology.pattern.match.evaluation`."""

from __future__ import annotations

from topology.pattern.compile.scope import NO_ENVIRONMENT, Environment
from topology.pattern.match.evaluation import Tactic
from topology.pattern.match.tactics.exhaustive import Enumeration, Exhaustive, Finder
from topology.pattern.match.tactics.one import One
from topology.pattern.match.tactics.slices import Slices, can_slice
from topology.pattern.tree.normal_form import NormalForm

__all__ = ["exhaustive", "tactic_for"]


def tactic_for(form: NormalForm, environment: Environment = NO_ENVIRONMENT) -> Tactic:
    """The cheapest that is right for the query."""
    if form.query.matches == "one" and form.query.strategy != "any":
        return One(form, environment)
    finders: list[Finder] = [
        Slices(form, alternative, environment)
        if can_slice(form, alternative)
        else Exhaustive(form, alternative, environment)
        for alternative in form.alternatives
    ]
    return Enumeration(form, finders)


def exhaustive(form: NormalForm, environment: Environment = NO_ENVIRONMENT) -> Tactic:
    """The one that needs no condition, for all modes but ONE."""
    return Enumeration(form, [Exhaustive(form, a, environment) for a in form.alternatives])
