"""Defines the interface of the kinds of windows: tumbling, sliding, session and count."""

from __future__ import annotations

from typing import Any

from topology.answer.frontier import Frontier
from topology.base.event import Event
from topology.base.native import mypyc_attr
from topology.base.operator import Figures
from topology.queries.window.cells import Makers, Values
from topology.queries.window.results import WindowEmitter
from topology.queries.window.settings import WindowQuery
from topology.queries.window.unsure.measure import Measure
from topology.state.tables import Table


@mypyc_attr(allow_interpreted_subclasses=True)
class WindowKind:
    """The windows of one query.

    The counts `expired`, `refused` and `given_up` only grow. `tables` contain the state.
    """

    tables: list[Table[Any, Any]]

    def __init__(
        self, query: WindowQuery, makers: Makers, frontier: Frontier, emitter: WindowEmitter
    ) -> None:
        self._max_windows = query.max_windows
        self._max_edge_events = query.max_edge_events
        self._early_ns = query.emits_every_ns
        self._emits_finals = query.emits_finals
        self._makers = makers
        self._measure = Measure(query, makers)
        self._frontier = frontier
        self._beginning = frontier.beginning
        """The query's first instant; windows with possibly unseen events are not emitted."""
        self._emitter = emitter
        self._heeds_errors = query.uses_time_errors
        self.expired = 0
        self.refused = 0
        self.given_up = 0

    def add(self, event: Event, key: str, values: Values) -> None:
        raise NotImplementedError

    def settle(self) -> None:
        """Emit closed windows, correct changed ones, and forget final ones.

        This is called when an instant is over.
        """
        raise NotImplementedError

    def is_due(self, frontier: Frontier) -> bool:
        """Return whether `settle` would emit or forget anything with this frontier."""
        raise NotImplementedError

    @property
    def has_fresh(self) -> bool:
        """Whether any window has changed and may be emitted early."""
        return False

    def emit_early(self) -> None:
        """Emit the windows that are open and have changed."""

    def figures(self) -> Figures:
        return {"expired": self.expired, "refused": self.refused, "given_up": self.given_up}

    def load(self) -> None:
        """Rebuild the derived data after a restore has read the frontier and the tables."""
