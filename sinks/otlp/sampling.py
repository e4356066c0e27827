"""Which events are traced: one in so many, by their identity, so that all stages choose the same.

The low bits of the number are looked at first, which costs next to nothing, and a digest of the
identity then chooses among those few. So with `one_in` 1 000 one event in 32 is looked at twice.
A source that sends fewer than some thousand events is met by chance, by its number 0 or 32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from zlib import crc32

from topology.model.event import DATA, Event

USUAL: Final = 1_000
MAX_STRIDE: Final = 32
WHOLE: Final = 1 << 32

Identity = tuple[str, str, int, int]
"""Stream, source, epoch, number."""


class Sampling:
    """`one_in` 1 takes every event: for tests and looking closely, not for a load."""

    def __init__(self, one_in: int = USUAL) -> None:
        if one_in < 1:
            raise ValueError(f"one in {one_in}: write 1 or more")
        stride = MAX_STRIDE
        while stride > one_in:
            stride //= 2
        self.mask = stride - 1
        self._below = WHOLE * stride // one_in

    def of(self, events: Sequence[Event]) -> list[Event]:
        """The chosen ones, in their order. O(events), some 20 ns each."""
        mask = self.mask
        few = [event for event in events if not event.seq & mask and event.kind == DATA]
        return [event for event in few if self.takes(identity(event))]

    def takes(self, who: Identity) -> bool:
        """For one whose number has no low bits."""
        return crc32("\n".join(map(str, who)).encode()) < self._below


def identity(event: Event) -> Identity:
    return event.stream, event.source, event.epoch, event.seq
