"""What turns rounds of time sync into a clock: one interface, and the settings it is made with.

The model is `topology.clock.measured`: what the rounds of all servers leave possible.

A source that sends for the first time, or again after it was forgotten, takes all rounds since
ever, one after the other. The model that those at the beginning make is the same whoever takes
them, and much smaller than they are. So whoever knows that all of some have been taken by those who
know the source, and that nobody who comes may ask for less than all of them, folds them and keeps
the model instead. A newcomer begins with a copy, and goes on with the rounds behind.

Cost of a fold: that of the model for each round, and of its snapshot for a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from topology.clock.cell import ClockCell
from topology.clock.measured import MeasuredClock
from topology.clock.settings import ClockConfig
from topology.model.operator import Plain
from topology.model.sample import Sample

BEFORE_ALL: Final = -(1 << 63)


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


class Folded:
    """What the oldest rounds of a source say, in place of them. `place` (arrival, offset): of the
    newest round in it; `segments`: how often the rounds have ended a segment of the clock."""

    __slots__ = ("measured", "place", "rounds", "segments")

    def __init__(self, rounds: Rounds) -> None:
        self.rounds = rounds
        self.measured: Measuring = rounds.clock()
        self.place = (BEFORE_ALL, BEFORE_ALL)
        self.segments = 0

    def take(self, sample: Sample) -> None:
        """The next one, in the order of arrival."""
        before = self.measured.segment
        self.measured.add(sample)
        self.place = (sample.arrival_ns, sample.offset)
        if self.measured.segment != before:
            self.segments += 1

    def copied(self) -> Measuring:
        """The model, to go on with."""
        twin = self.rounds.clock()
        twin.restore(self.measured.snapshot())
        return twin

    def snapshot(self) -> Plain:
        return [self.rounds.model, *self.place, self.segments, self.measured.snapshot()]


def unfolded(rounds: Rounds, state: Any) -> Folded | None:
    """From a snapshot; None: that was of another model."""
    model, arrival_ns, offset, segments, measured = state
    if model != rounds.model:
        return None
    folded = Folded(rounds)
    folded.place = (arrival_ns, offset)
    folded.segments = segments
    folded.measured.restore(measured)
    return folded
