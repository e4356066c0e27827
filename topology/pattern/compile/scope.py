"""What the names in an expression stand for: events, parameters, a user's functions.

An *environment* is what a query is given from outside, the same for all of its expressions. A
*scope* is that of one alternative: it adds the place of each alias in a binding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from topology.model.user_functions import Texts, UserFunctions
from topology.pattern.compile.neighbours import Neighbours
from topology.pattern.tree.normal_form import Alternative

Function = Callable[..., Any]
"""A user's own: of values, giving a value."""


@dataclass(frozen=True, slots=True)
class Environment:
    """`params`: the values of parameters by name. `functions`: a user's own by name, and `texts`:
    those of them that have one. `neighbours`: of the query that is evaluated right now."""

    params: Mapping[str, Any] = field(default_factory=dict)
    functions: Mapping[str, Function] = field(default_factory=dict)
    neighbours: Neighbours = field(default_factory=Neighbours)
    texts: Texts = field(default_factory=dict)

    @classmethod
    def of(cls, own: UserFunctions) -> Environment:
        """Return the environment of a topology's patterns."""
        return cls(functions=own.functions, texts=own.texts)


NO_ENVIRONMENT: Final = Environment()


@dataclass(frozen=True, slots=True)
class Scope:
    """`slots`: the place of each alias in a binding; `groups`: which of the slots are groups. An
    alias that has no slot (it is of another alternative) is absent. `labels`: what the events of
    the first slots are called. `whole_at`: where a binding up to a row is followed by the slots of
    the whole match."""

    slots: Mapping[str, int]
    groups: frozenset[int] = frozenset()
    environment: Environment = NO_ENVIRONMENT
    labels: tuple[str, ...] = ()
    whole_at: int = 0

    @classmethod
    def of(cls, alternative: Alternative, environment: Environment) -> Scope:
        """The slots of its components, then those of its negations."""
        slots = {component.alias: component.index for component in alternative.components}
        for at, blocker in enumerate(alternative.blockers, start=len(slots)):
            slots[blocker.alias] = at
        groups = frozenset(c.index for c in alternative.components if c.is_group)
        labels = tuple(c.label or c.alias for c in alternative.components)
        return cls(slots, groups, environment, labels)

    def with_absent(self, aliases: Iterable[str]) -> Scope:
        """With a slot, behind all others, for each of the aliases that has none."""
        slots = dict(self.slots)
        for alias in aliases:
            slots.setdefault(alias, len(slots))
        return replace(self, slots=slots)
