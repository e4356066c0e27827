"""Defines the interface of a clock model, which turns rounds of time sync into a clock.

The default model is `topology.clock.measured`, which computes the clocks that the rounds of all
servers leave possible.

A source that sends for the first time, or again after it was forgotten, takes all rounds from the
beginning, one by one. The first rounds make the same model for every reader, and the model takes
much less space than the rounds. So they can be folded: the model is stored instead of them. That is
safe once all operators that know the source have taken them, and no later operator may ask for
fewer. A new user of the source begins with a copy of the model and continues with the later rounds.

Cost of a fold: the model's cost for each round. Cost of a copy: a snapshot of the model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from topology.clock.cell import ClockCell
from topology.clock.measured import MeasuredClock
from topology.clock.settings import SINCE_EVER, ClockConfig
from topology.model.kept import Optional, Shape, ShapeRefused, Written
from topology.model.operator import Plain
from topology.model.sample import Sample


class Measuring(Protocol):
    """The clock of one source, computed from its rounds.

    `segment` counts the clock's jumps. `rejected` counts rounds that had no effect, and
    `falsetickers` counts rounds that others contradict.
    """

    segment: int
    rejected: int

    @property
    def falsetickers(self) -> int: ...

    def add(self, sample: Sample) -> None:
        """Add a sample, in arrival order."""

    def begin_segment(self) -> None:
        """Drop the rounds so far, because events show that the clock has jumped."""

    def cell(self, ts_ns: int) -> ClockCell:
        """Return the cell that contains `ts_ns`: offset and error over a stretch of source time."""

    def skew_ppb(self) -> int | None:
        """Return the best estimate of the clock's rate, for people, or None without one."""

    SHAPE: ClassVar[Shape]

    def dump(self) -> Plain: ...

    def load(self, row: Plain, written: Written | None = None) -> None: ...


class Rounds(NamedTuple):
    """A model and its settings, by which rounds are turned into a clock.

    `made` makes the model from the settings. `model` names it in a state, so that the state of
    another model is not read.
    """

    config: ClockConfig
    model: str = "polygon"
    made: Callable[[ClockConfig], Measuring] = MeasuredClock

    def clock(self) -> Measuring:
        """Return a clock without samples."""
        return self.made(self.config)


FOLDED: Final = "folded/"
"""The prefix of a folded model's state key. It comes after the prefix of CLOCK."""


class Folded:
    """A model that replaces the oldest rounds of a source.

    `place` is the (arrival, offset) of the newest round in it. `segments` is how many times the
    rounds have ended a segment of the clock.
    """

    __slots__ = ("measured", "place", "rounds", "segments")

    def __init__(self, rounds: Rounds) -> None:
        self.rounds = rounds
        self.measured: Measuring = rounds.clock()
        self.place = (SINCE_EVER, SINCE_EVER)
        self.segments = 0

    def take(self, sample: Sample) -> None:
        """Add the next sample, in arrival order."""
        before = self.measured.segment
        self.measured.add(sample)
        self.place = (sample.arrival_ns, sample.offset)
        if self.measured.segment != before:
            self.segments += 1

    def copied(self) -> Measuring:
        """Return a copy of the model, which can take further samples."""
        twin = self.rounds.clock()
        twin.load(self.measured.dump())
        return twin

    def dump(self) -> Plain:
        said = [self.rounds.model, self.measured.SHAPE.digest]
        return [*said, *self.place, self.segments, self.measured.dump()]


def unfolded(rounds: Rounds, row: Plain) -> Folded | None:
    """Return a model from its saved row, or None if the row is of another model.

    ShapeRefused is raised if it cannot be read.
    """
    folded = Folded(rounds)
    try:
        model, digest, arrival_ns, offset, folded.segments, measured = row
    except (TypeError, ValueError) as wrong:
        raise ShapeRefused(f"{row!r:.60} is no folded clock") from wrong
    if model != rounds.model:
        return None
    if digest != folded.measured.SHAPE.digest:
        raise ShapeRefused(f"a folded clock of the model {model} is written in another version")
    folded.place = (arrival_ns, offset)
    folded.measured.load(measured)
    return folded


class OfModel(Optional):
    """The kind of a field whose value is a clock made from rounds, or None.

    A clock of another model is read as None.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.name = "measured"
        self._shape = shape

    def load(self, plain: Plain, written: Written | None, owner: Any, field: str) -> Any:
        if written is not None and not written.names(self._shape):
            return None
        return super().load(plain, written, owner, field)
