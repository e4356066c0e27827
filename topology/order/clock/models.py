"""Defines the interface of a clock model, which turns rounds of time sync into a clock.

The default model is `topology.order.clock.measured`. It computes all clocks that are consistent
with the rounds of all servers.

A CLOCK operator to which a source is new, or which has forgotten it, computes the source's clock
from all its rounds, in order. The oldest rounds give every operator the same model, and the model
is much smaller than the rounds. So they can be *folded*: the model is stored in their place. This
is safe once every operator that knows the source has processed these rounds. Also, no operator that
meets the source later may need a model without them. Such an operator starts from a copy of the
model and adds the later rounds.

Folding costs as much as adding each round to the model. A copy costs one snapshot of the model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from topology.base.operator import Plain
from topology.base.sample import Sample
from topology.order.clock.cell import ClockCell
from topology.order.clock.measured import MeasuredClock
from topology.order.clock.settings import SINCE_EVER, ClockConfig
from topology.state.saved import Optional, Shape, ShapeRefused, row_of


class Measuring(Protocol):
    """The clock of one source, computed from its rounds.

    `segment` counts the segments that have ended. `rejected` counts implausible rounds, and
    `falsetickers` counts rounds that were contradicted by others.
    """

    segment: int
    rejected: int

    @property
    def falsetickers(self) -> int: ...

    def add(self, sample: Sample) -> None:
        """Add the next sample, in arrival order."""

    def begin_segment(self) -> None:
        """Drop all earlier rounds, because events show that the clock has jumped."""

    def cell(self, ts_ns: int) -> ClockCell:
        """Return the cell (`order.clock.cell`) that contains `ts_ns`: its offset and error."""

    def skew_ppb(self) -> int | None:
        """Return the estimated rate of the clock in ppb, for display; None without an estimate."""

    SHAPE: ClassVar[Shape]

    def dump(self) -> Plain: ...

    def load(self, row: Plain) -> None: ...


class Rounds(NamedTuple):
    """A clock model with its settings, which together turn rounds into a clock.

    `made` creates a clock of this model from the settings. `model` is its name in saved state, so
    that the state of another model is not loaded.
    """

    config: ClockConfig
    model: str = "polygon"
    made: Callable[[ClockConfig], Measuring] = MeasuredClock

    def clock(self) -> Measuring:
        """Return a new clock without samples."""
        return self.made(self.config)


FOLDED: Final = "folded/"
"""The part of a folded model's state key that follows the prefix of CLOCK."""


class Folded:
    """A model that replaces the oldest rounds of a source.

    `place` is the (arrival, offset) of the newest of these rounds. `segments` is the number of
    segments that they have ended.
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

    def copy(self) -> Measuring:
        """Return a copy of the model, which can take further samples."""
        twin = self.rounds.clock()
        twin.load(self.measured.dump())
        return twin

    def dump(self) -> Plain:
        said = [self.rounds.model, self.measured.SHAPE.digest]
        return [*said, *self.place, self.segments, self.measured.dump()]


def load_folded(rounds: Rounds, row: Plain) -> Folded | None:
    """Return the folded model of a saved row, or None if another model wrote the row.

    Raise ShapeRefused if the row cannot be read.
    """
    folded = Folded(rounds)
    try:
        model, digest, arrival_ns, offset, folded.segments, measured = row
    except (TypeError, ValueError) as wrong:
        raise ShapeRefused(f"{row!r:.60} is not a folded clock") from wrong
    if model != rounds.model:
        return None
    if digest != folded.measured.SHAPE.digest:
        raise ShapeRefused(f"the folded clock of model {model} was written by another version")
    folded.place = (arrival_ns, offset)
    folded.measured.load(measured)
    return folded


class OfModel(Optional):
    """The type of a field whose value is a clock computed from rounds, or None.

    A saved clock of another model is loaded as None.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.name, self.kinds = "clock of a model", ()
        self._shape = shape

    def dump(self, value: Any) -> Plain:
        return None if value is None else (self._shape.digest, self._shape.dump(value))

    def load(self, plain: Plain, owner: Any, field: str) -> Any:
        digest, row = (None, None) if plain is None else row_of(plain, self, 2)
        return self._shape.load(row, owner, field) if digest == self._shape.digest else None
