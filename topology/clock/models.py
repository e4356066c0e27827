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
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from topology.clock.cell import ClockCell
from topology.clock.measured import MeasuredClock
from topology.clock.settings import ClockConfig
from topology.model.kept import Shape, ShapeRefused, ValueKind, Written
from topology.model.operator import Plain
from topology.model.sample import Sample

BEFORE_ALL: Final = -(1 << 63)


class Measuring(Protocol):
    """The clock of one source by its rounds. `segment` counts the clock's jumps; the others count
    rounds that had no effect, or that others contradict."""

    segment: int
    rejected: int

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

    SHAPE: ClassVar[Shape]

    def dump(self) -> Plain: ...

    def load(self, row: Plain, written: Written | None = None) -> None: ...


class Rounds(NamedTuple):
    """How rounds become a clock: by the model `made`, with these settings. `model` names it in a
    state, so that one of another model is not read."""

    config: ClockConfig
    model: str = "polygon"
    made: Callable[[ClockConfig], Measuring] = MeasuredClock

    def clock(self) -> Measuring:
        """One without samples."""
        return self.made(self.config)


FOLDED: Final = "folded/"
"""Begins the key of the state under which it is written, behind that of CLOCK."""


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
        twin.load(self.measured.dump())
        return twin

    def dump(self) -> Plain:
        said = [self.rounds.model, self.measured.SHAPE.digest]
        return [*said, *self.place, self.segments, self.measured.dump()]


def unfolded(rounds: Rounds, row: Plain) -> Folded | None:
    """Return what was dumped; None: of another model. ShapeRefused if it cannot be read."""
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


class OfModel(ValueKind):
    """The kind of the clock that rounds make, or None. One of another model is passed over."""

    def __init__(self, shape: Shape) -> None:
        super().__init__("measured", is_plain=False, kinds=[shape])
        self._shape = shape

    def dump(self, value: Any) -> Plain:
        return None if value is None else self._shape.dump(value)

    def load(self, plain: Plain, written: Written | None, owner: Any, field: str) -> Any:
        if plain is None or (written is not None and not written.names(self._shape)):
            return None
        return self._shape.load(plain, written, owner, field)
