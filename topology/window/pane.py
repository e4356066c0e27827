"""What is known of one key in one slice of time.

Proved by: tests/topology/window/test_oracle.py, tests/topology/window/test_worlds.py
"""

from __future__ import annotations

from typing import Any

from topology.model.operator import Plain
from topology.window.cells import Cells, Makers, add, dumped
from topology.window.reading import Values
from topology.window.unsure.event import EdgeEvent, edge_of, loaded


class Pane:
    """`cells` hold what is certainly in the slice, `n` events, and `edges` what may be: each
    such event is in the panes of all slices that it may be in. Once more than `max_edges` were
    unsure the pane is `blurred`: those inside by reference time are in the cells, the others
    forgotten."""

    __slots__ = ("blurred", "cells", "dirty", "edges", "n")

    def __init__(self, cells: Cells) -> None:
        self.cells = cells
        self.edges: list[EdgeEvent] | None = None
        self.blurred = False
        self.dirty = False
        self.n = 0

    def add(self, event: Any, values: Values) -> None:
        add(self.cells, values, event)
        self.n += 1

    def add_edge(self, event: Any, values: Values, span_ns: tuple[int, int], most: int) -> None:
        if self.blurred:
            if span_ns[0] <= event.ref_time_ns < span_ns[1]:
                self.add(event, values)
            return
        if self.edges is None:
            self.edges = []
        self.edges.append(edge_of(event, values))
        if len(self.edges) > most:
            self.blur(span_ns)

    def blur(self, span_ns: tuple[int, int]) -> None:
        for edge in self.edges or ():
            if edge.is_inside(*span_ns):
                self.add(edge, edge.values)
        self.edges = None
        self.blurred = True

    def dump(self) -> Plain:
        edges = [edge.dump() for edge in self.edges or ()]
        return [self.n, dumped(self.cells), edges, self.blurred]


def restored(state: Plain, makers: Makers) -> Pane:
    n, cells, edges, blurred = state
    pane = Pane(makers.load(cells))
    pane.n = n
    pane.edges = [loaded(edge) for edge in edges] or None
    pane.blurred = blurred
    return pane
