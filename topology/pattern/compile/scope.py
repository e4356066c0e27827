"""Defines the meaning of the names in an expression: events, parameters, a user's functions.

An *environment* is given to a query from outside, and is the same for all of its expressions. A
*scope* belongs to one alternative: it adds the place of each alias in a binding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from topology.model.user_functions import Texts
from topology.pattern.compile.neighbours import Neighbours
from topology.pattern.tree.normal_form import Alternative

Function = Callable[..., Any]
"""A user's function from values to a value."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The parameters and functions that a query is given from outside.

    `params`: the values of parameters by name. `functions`: the user's own by name. `texts`: the
    source texts of functions by kind and name. `neighbours`: those of the query that is evaluated
    right now.
    """

    params: Mapping[str, Any] = field(default_factory=dict)
    functions: Mapping[str, Function] = field(default_factory=dict)
    neighbours: Neighbours = field(default_factory=Neighbours)
    texts: Texts = field(default_factory=dict)


NO_ENVIRONMENT: Final = Environment()


@dataclass(frozen=True, slots=True)
class Scope:
    """The names in the expressions of one alternative.

    `slots`: the place of each alias in a binding. An alias without a slot is absent, since it
    belongs to another alternative. `groups`: the slots that are groups. `labels`: the labels of the
    first slots' events. `whole_at`: in a binding up to a row, the place where the slots of the
    whole match begin.
    """

    slots: Mapping[str, int]
    groups: frozenset[int] = frozenset()
    environment: Environment = NO_ENVIRONMENT
    labels: tuple[str, ...] = ()
    whole_at: int = 0

    @classmethod
    def of(cls, alternative: Alternative, environment: Environment) -> Scope:
        """Return the scope with the slots of the components, then those of the negations."""
        slots = {component.alias: component.index for component in alternative.components}
        for at, blocker in enumerate(alternative.blockers, start=len(slots)):
            slots[blocker.alias] = at
        groups = frozenset(c.index for c in alternative.components if c.is_group)
        labels = tuple(c.label or c.alias for c in alternative.components)
        return cls(slots, groups, environment, labels)
