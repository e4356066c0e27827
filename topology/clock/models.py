"""What turns rounds of time sync into a clock: one interface, and the models by name.

* `polygon` (default): what the rounds of all servers leave possible (`topology.clock.measured`).
* `thesis`: the least round trip, as published (`topology.clock.published.thesis`).

Proved by: tests/topology/clock/published/test_thesis.py, tests/laws/test_laws.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from topology.clock.cell import ClockCell
from topology.clock.measured import MeasuredClock
from topology.clock.published.thesis import ThesisClock
from topology.clock.sample import Sample
from topology.clock.settings import ClockModel, ClockSettings
from topology.model.operator import Plain


class Measuring(Protocol):
    """The clock of one source by its rounds. `segment` counts the clock's jumps; the others count
    rounds that had no effect, or that others contradict."""

    segment: int
    rejected: int
    late: int
    jumps: int

    @property
    def falsetickers(self) -> int: ...

    def add(self, sample: Sample) -> None:
        """In arrival order."""

    def begin_segment(self) -> None:
        """The events say that the clock has jumped: what is known of it is dropped."""

    def cell(self, ts_ns: int) -> ClockCell:
        """Offset and error over the stretch of the source's time that holds `ts_ns`."""

    def skew_ppb(self) -> int | None:
        """The best guess at its rate, for people; None: there is none."""

    def snapshot(self) -> Plain: ...

    def restore(self, state: Plain) -> None: ...


MODELS: Final[Mapping[ClockModel, Callable[[ClockSettings], Measuring]]] = {
    "polygon": MeasuredClock,
    "thesis": ThesisClock,
}
