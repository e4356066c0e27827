"""An example of a new operator: it drops events outside an area.

The module follows CONTRIBUTING's steps for a new operator, so that they stay true. `settings.py`
would hold `AreaConfig`, and `operator.py` the rest down to `Area`; its link in the chain and its
row are written elsewhere. A field of `StreamConfig` would hold its section, for which `build` takes
the default here. A dropped event is a dead letter, so every input still ends as emitted, late,
duplicate, dead or held.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import orjson

from topology.base.event import DATA, Event
from topology.base.operator import Figure, Figures, Operator
from topology.base.outcome import Step, make_dead_letter
from topology.base.payload import read_payload
from topology.config.stages import CHAIN, MERGE, Link
from topology.spelling.section import Section
from topology.stage.build import Site
from topology.stage.registry import ROWS, OperatorRow
from topology.state.saved import INT, Shape
from topology.state.saved_operator import SavedOperator
from topology.state.tables import SavedState

AREA: Final = "area"
OUTSIDE: Final = "outside_area"

FIGURES: Final = {"outside": Figure("Events outside of the area", is_total=True)}
AREA_STATE: Final = Shape("area", 1, _outside=INT)


class AreaConfig(Section):
    """Bounds of x: the section `area` of a stream."""

    low: float = 0.0
    """The smallest x inside."""
    high: float = 50.0
    """The smallest x above the area."""


class Area(SavedOperator):
    """A filter that lets events with `low` <= x < `high` pass, and all control events."""

    def __init__(self, config: AreaConfig) -> None:
        self._low, self._high = config.low, config.high
        self._outside = 0
        self._saved = SavedState("own", AREA_STATE)

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        step = Step(now_ns)
        for event in events:
            if event.kind != DATA or self._low <= self._x_of(event) < self._high:
                step.released.append(event)
            else:
                self._outside += 1
                detail = f"x is not in [{self._low}, {self._high})"
                step.reports.append(make_dead_letter(event, event.at_ns, OUTSIDE, detail))
        return step

    def figures(self) -> Figures:
        return {"outside": self._outside}

    def _x_of(self, event: Event) -> float:
        payload = read_payload(event.value)
        return float(payload["x"]) if isinstance(payload, dict) and "x" in payload else 0.0


def build(site: Site) -> Operator:
    return Area(AreaConfig())


def with_area() -> tuple[tuple[Link, ...], tuple[OperatorRow, ...]]:
    """Return the chain with the operator after MERGE, and the rows with its row."""
    behind = [link.name for link in CHAIN].index(MERGE) + 1
    return (*CHAIN[:behind], Link(AREA), *CHAIN[behind:]), (*ROWS, OperatorRow(AREA, "area", build))


def payload(x: float) -> bytes:
    return orjson.dumps({"x": x})
