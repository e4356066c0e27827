"""The places at which an operator keeps events, and a restart that gives them back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from topology.base.event import Event, copy_event, offset_of
from topology.base.operator import Operator
from topology.base.outcome import Step
from topology.stage.ledger import Ledger
from topology.stage.node import Node
from topology.stage.stage import Stage


def ledger_of(operator: Operator) -> Ledger | None:
    """Return the ledger of a stage or a chain; an operator alone has none."""
    if isinstance(operator, Stage):
        return operator.ledger
    nodes: list[Node] = getattr(operator, "nodes", [])  # of a chain, or of one within an operator
    return nodes[0].ledger if nodes else None


def places_of(operator: Operator) -> dict[Event, int]:
    """Return the kept events in log order with their places; those of an operator alone are 1."""
    ledger = ledger_of(operator)
    held = sorted(operator.iter_held(), key=offset_of)
    return {event: 1 if ledger is None else ledger.places_of(event) for event in held}


def twins(places: Mapping[Event, int]) -> dict[Event, int]:
    return {copy_event(event): at for event, at in places.items()}


def give_back(operator: Operator, state: Mapping[str, Any], places: Mapping[Event, int]) -> None:
    """Restore an operator, with events at these places."""
    ledger = ledger_of(operator)
    if ledger is not None:
        ledger.add(places)
    operator.restore(state, [*places])


class Keeping:
    """The events that an operator alone says that it keeps."""

    def __init__(self) -> None:
        self.events: dict[Event, None] = {}

    def add(self, step: Step) -> None:
        self.events |= dict.fromkeys(step.kept)
        for event in step.freed:
            self.events.pop(event, None)

    def begin_with(self, held: Iterable[Event]) -> None:
        self.events = dict.fromkeys(held)
