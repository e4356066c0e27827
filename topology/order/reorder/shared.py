"""Defines the settings, measurements and losses that the buffers of one REORDER operator share.

It also computes the payload size of an event, and the full number from a counter that wraps.
"""

from __future__ import annotations

from typing import Final

from topology.base.event import Event
from topology.order.reorder.buffer import Totals
from topology.order.reorder.lost import LostPages
from topology.order.reorder.recent import Recents
from topology.order.reorder.sequence import UNSTARTED
from topology.order.reorder.settings import ReorderConfig
from topology.order.reorder.timeout import FILL_TIMES, FillTimes
from topology.state.saved import INT, Shape

SHARED: Final = Shape("reorder.shared", 1, blocking_until_ns=INT, times=FILL_TIMES)


class Shared(Totals):
    """The settings, measurements and losses that the buffers of one operator share.

    `modulus` is the number of values of a counter that wraps, or 0 if counters do not wrap. `first`
    is its first number, or 0, and `last` its last one, or -1 if counters do not wrap. `inferred` is
    the number of epochs that were inferred.
    """

    def __init__(self, stream: str, config: ReorderConfig) -> None:
        super().__init__()
        self.stream = stream
        self.config = config
        self.start = config.start if isinstance(config.start, int) else UNSTARTED
        counter = config.counter
        self.modulus = 0 if counter is None else counter.modulus
        self.first, self.last = (0, -1) if counter is None else counter
        self.max_wait_ns = config.max_wait_ns
        self.max_jump = config.max_jump
        self.ignores_epoch = config.infer_restart is True
        self.infers = config.infer_restart is not False
        self.times = FillTimes(config.miss_target_ppm)
        self.lost = LostPages(config.gap_ranges, config.gap_memory_ns)
        self.recents = Recents(max(self.start, self.first))
        self.inferred = 0
        self.blocking_until_ns = -1


def size_of(event: Event) -> int:
    """Return the payload bytes of a buffered event, or 0 if its payload is not bytes."""
    value = event.value
    return len(value) if isinstance(value, bytes) else 0


def unwrap_number(raw: int, modulus: int, near: int) -> int:
    """Return the number congruent to `raw` that is nearest to `near`, upward on a tie.

    It is below the first number of the counter if `raw` was sent before a wrap and `near` after it.
    It is correct while events are out of order by less than half the modulus.
    """
    distance = (raw - near) % modulus
    if distance > modulus // 2:
        distance -= modulus
    return near + distance
