"""What the buffers of REORDER share: settings as plain values, and counts.

`Shared` is one per operator; with it every buffer knows what all of them hold.
"""

from __future__ import annotations

from topology.model.event import Event
from topology.reorder.buffer import Totals
from topology.reorder.sequence import UNSTARTED
from topology.reorder.settings import ReorderConfig, Start
from topology.reorder.timeout import FillTimes


class SourceSettings:
    """The settings of REORDER as plain values, read in the hot path."""

    __slots__ = (
        "gap_memory_ns",
        "gap_ranges",
        "ignore_epoch",
        "infer_restart",
        "late",
        "max_jump",
        "max_wait_ns",
        "miss_ppm",
        "modulus",
        "position",
        "rule",
        "start",
        "stream",
    )

    def __init__(self, stream: str, position: int, config: ReorderConfig) -> None:
        self.stream = stream
        self.position = position
        self.rule = config.rule
        self.late = config.late
        self.miss_ppm = config.miss_target_ppm
        self.max_wait_ns = config.max_wait_ns
        self.start = first_number(config.start)
        self.infer_restart = config.infer_restart in ("auto", True)
        self.ignore_epoch = config.infer_restart is True
        self.modulus = 1 << config.seq_bits if config.seq_bits < 63 else 0
        self.max_jump = config.max_jump
        self.gap_ranges = config.gap_ranges
        self.gap_memory_ns = config.gap_memory_ns


def first_number(start: Start) -> int:
    if isinstance(start, int):
        return start
    return 0 if start == "zero" else UNSTARTED


class Shared(Totals):
    """What the buffers of one operator share: fill times of all, and what they hold."""

    __slots__ = ("blocking_until_ns", "settings", "times")

    def __init__(self, settings: SourceSettings) -> None:
        super().__init__()
        self.settings = settings
        self.times = FillTimes(settings.miss_ppm)
        self.blocking_until_ns = -1


def size_of(event: Event) -> int:
    """Payload bytes an event keeps in memory while held, as far as known."""
    value = event.value
    return len(value) if isinstance(value, bytes) else 0


def extended(raw: int, modulus: int, near: int) -> int:
    """The number congruent to `raw` nearest to `near`, upward on a tie; below 0 where the
    counter has wrapped to 0 between the two.

    Valid while the disorder is smaller than half the modulus (1.5, wrap).
    """
    distance = (raw - near) % modulus
    if distance > modulus // 2:
        distance -= modulus
    return near + distance
