"""What the kinds of windows have in common, as WINDOW sees them.

Proved by: tests/topology/window/test_examples.py
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from topology.model.event import Event
from topology.model.operator import Figures, Plain
from topology.query.changes import Journal, Part
from topology.query.frontier import Frontier
from topology.window.reading import Values


class WindowKind(Protocol):
    """The windows of one query. Its state is in parts; `journal` notes which have changed."""

    journal: Journal

    def add(self, event: Event, key: str, values: Values) -> None: ...

    def settle(self) -> None:
        """The instant is over: emit what the frontier has closed, correct what has changed."""

    def is_due(self, frontier: Frontier) -> bool:
        """With the frontier there, something would be emitted or forgotten."""

    @property
    def has_fresh(self) -> bool:
        """Something is to be emitted early."""

    def emit_early(self) -> None: ...

    def figures(self) -> Figures: ...

    def parts(self) -> Iterable[Part]:
        """All that there are."""

    def dump(self, part: Part) -> Plain:
        """As `peek`, now that it is saved."""

    def peek(self, part: Part) -> Plain:
        """None if the part is gone."""

    def load(self, part: Part, state: Plain) -> None: ...

    def loaded(self) -> None:
        """All parts and the frontier are there."""
