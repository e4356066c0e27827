"""Defines the meaning of the names in an expression: events, parameters and user functions.

An *environment* is passed to a query from outside, and is the same for all of its expressions. A
*scope* belongs to one alternative: it adds the slot of each alias in a binding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from topology.base.user_functions import Texts
from topology.queries.pattern.compile.neighbours import Neighbours
from topology.queries.pattern.tree.normal_form import Alternative

Function = Callable[..., Any]
"""A user's own function, which takes values and returns a value."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The parameters and functions that are passed to a query from outside.

    `params`: the values of parameters by name. `functions`: the user's own functions by name.
    `texts`: the source texts of functions by kind and name. `neighbours`: the lookup for PREV and
    NEXT in the query that is being evaluated.
    """

    params: Mapping[str, Any] = field(default_factory=dict)
    functions: Mapping[str, Function] = field(default_factory=dict)
    neighbours: Neighbours = field(default_factory=Neighbours)
    texts: Texts = field(default_factory=dict)


NO_ENVIRONMENT: Final = Environment()


@dataclass(frozen=True, slots=True)
class Scope:
    """The names in the expressions of one alternative.

    `slots`: the index of each alias in a binding. An alias of another alternative has no slot and
    counts as absent. `groups`: the slots of groups. `labels`: the labels of the components, in the
    order of their slots. `whole_at`: the first slot of the whole match in a binding that also has
    the match up to one row.
    """

    slots: Mapping[str, int]
    groups: frozenset[int] = frozenset()
    environment: Environment = NO_ENVIRONMENT
    labels: tuple[str, ...] = ()
    whole_at: int = 0

    @classmethod
    def of(cls, alternative: Alternative, environment: Environment) -> Scope:
        """Return a scope with a slot for each component, followed by one for each negation."""
        slots = {component.alias: component.index for component in alternative.components}
        for at, blocker in enumerate(alternative.blockers, start=len(slots)):
            slots[blocker.alias] = at
        groups = frozenset(c.index for c in alternative.components if c.is_group)
        labels = tuple(c.label or c.alias for c in alternative.components)
        return cls(slots, groups, environment, labels)
