"""What turns rounds of time sync into a clock: one interface, and the settings it is made with.

The model is `topology.clock.measured`: what the rounds of all servers leave possible.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from topology.clock.cell import ClockCell
from topology.clock.measured import MeasuredClock
from topology.clock.sample import Sample
from topology.clock.settings import ClockConfig
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


class Rounds(NamedTuple):
    """How rounds become a clock: by the model `made`, with these settings. `model` names it in a
    state, so that one of another model is not read."""

    config: ClockConfig
    model: str = "polygon"
    made: Callable[[ClockConfig], Measuring] = MeasuredClock

    def clock(self) -> Measuring:
        """One without samples."""
        return self.made(self.config)
