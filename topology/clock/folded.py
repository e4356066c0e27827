"""What the oldest rounds of a source say, in place of them: the model that has taken them.

A source that sends for the first time, or again after it was forgotten, takes all rounds since
ever, one after the other. The model that those at the beginning make is the same whoever takes
them, and much smaller than they are. So whoever knows that all of some have been taken by those who
know the source, and that nobody who comes may ask for less than all of them, folds them and keeps
the model instead. A newcomer begins with a copy, and goes on with the rounds behind.

Cost: that of the model for each round, and of its snapshot for a copy.
"""

from __future__ import annotations

from typing import Any, Final

from topology.clock.models import Measuring, Rounds
from topology.clock.sample import Sample
from topology.model.operator import Plain

BEFORE_ALL: Final = -(1 << 63)


class Folded:
    """`place` (arrival, offset) of the newest round in it; `segments`: how often the rounds have
    ended a segment of the clock."""

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
