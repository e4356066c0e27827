"""What the buffers of REORDER share: settings (asked for, and as plain values) and counts.

`Shared` is one per operator; with it every buffer knows what all of them hold.
"""

from __future__ import annotations

from typing import Literal, Protocol

from topology.model.event import Event
from topology.reorder.buffer import Totals
from topology.reorder.sequence import UNSTARTED
from topology.reorder.timeout import FillTimes

Rule = Literal["miss", "fixed", "time"]
LatePolicy = Literal["pass", "drop", "side"]
Start = Literal["auto", "zero"] | int
InferRestart = Literal["auto"] | bool


class TableSettings(Protocol):
    """What REORDER is asked for, by numbers or by time: what becomes of late events, how long one
    waits at most, and how much is kept."""

    late: LatePolicy
    max_wait_ns: int
    max_held: int
    max_held_total: int
    max_held_bytes: int
    max_sources: int
    forget_after_ns: int


class NumberSettings(TableSettings, Protocol):
    """What REORDER by sequence numbers is asked for."""

    rule: Rule
    miss_target_ppm: int
    start: Start
    infer_restart: InferRestart
    seq_bits: int
    max_jump: int
    gap_ranges: int
    gap_memory_ns: int


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

    def __init__(self, stream: str, position: int, config: NumberSettings) -> None:
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
