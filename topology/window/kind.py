"""What all kinds of windows share: the windows of one query, whatever decides where they begin."""

from __future__ import annotations

from typing import Any

from topology.answer.frontier import Frontier
from topology.model.event import Event
from topology.model.native import mypyc_attr
from topology.model.operator import Figures
from topology.model.tables import Table
from topology.window.cells import Makers, Values
from topology.window.results import WindowEmitter
from topology.window.settings import WindowSettings


@mypyc_attr(allow_interpreted_subclasses=True)
class WindowKind:
    """The windows of one query. `expired`, `refused` and `given_up` only grow; `tables` are what is
    state of it."""

    tables: list[Table[Any, Any]]

    def __init__(
        self, query: WindowSettings, makers: Makers, frontier: Frontier, emitter: WindowEmitter
    ) -> None:
        self._max_windows = query.max_windows
        self._max_edge_events = query.max_edge_events
        self._early_ns = query.emits_every_ns
        self._emits_finals = query.emits_finals
        self._makers = makers
        self._frontier = frontier
        self._emitter = emitter
        self._heeds_errors = query.heeds_errors
        self.expired = 0
        self.refused = 0
        self.given_up = 0

    def add(self, event: Event, key: str, values: Values) -> None:
        raise NotImplementedError

    def settle(self) -> None:
        """The instant is over: emit what the frontier has closed, correct what has changed, forget
        what is final."""
        raise NotImplementedError

    def is_due(self, frontier: Frontier) -> bool:
        """With the frontier there, something would be emitted or forgotten."""
        raise NotImplementedError

    @property
    def has_fresh(self) -> bool:
        """Something is to be emitted early."""
        return False

    def emit_early(self) -> None:
        """Emit what has changed of windows that are open."""

    def figures(self) -> Figures:
        return {"expired": self.expired, "refused": self.refused, "given_up": self.given_up}

    def loaded(self) -> None:
        """The frontier is there, and so are the tables."""
