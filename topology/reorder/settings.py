"""What the lanes of REORDER share: the settings as plain values, counts, two readings.

`Shared` is one per operator; with it every lane knows what all of them hold.
"""

from __future__ import annotations

from typing import Any

from topology.model.event import Event
from topology.reorder.sequence import UNSTARTED
from topology.reorder.timeout import FillTimes


class Rules:
    """The settings of REORDER as plain values, read in the hot path."""

    __slots__ = (
        "alpha_ppm",
        "beta_ppm",
        "event_clock",
        "gap_memory_ns",
        "gap_ranges",
        "ignore_epoch",
        "infer_restart",
        "late",
        "max_jump",
        "max_wait_ns",
        "min_wait_ns",
        "miss_ppm",
        "modulus",
        "paced",
        "position",
        "rule",
        "start",
        "stream",
    )

    def __init__(self, stream: str, position: int, config: Any) -> None:
        self.stream: str = stream
        self.position: int = position
        self.rule: str = config.rule
        self.paced: bool = config.rule in ("thesis", "rfc")
        self.late: str = config.late
        self.miss_ppm: int = config.miss_target_ppm
        self.min_wait_ns: int = config.min_wait_ns
        self.max_wait_ns: int = config.max_wait_ns
        self.start: int = {"auto": UNSTARTED, "zero": 0}.get(config.start, config.start)
        self.infer_restart: bool = config.infer_restart in ("auto", True)
        self.ignore_epoch: bool = config.infer_restart is True
        self.modulus: int = 1 << config.seq_bits if config.seq_bits < 63 else 0
        self.max_jump: int = config.max_jump
        self.gap_ranges: int = config.gap_ranges
        self.gap_memory_ns: int = config.gap_memory_ns
        self.alpha_ppm: int = config.alpha_ppm
        self.beta_ppm: int = config.beta_ppm
        self.event_clock: bool = config.estimator_clock == "event"


class Shared:
    """What the lanes of one operator share: fill times of all, and what they hold."""

    __slots__ = ("blocking_until_ns", "held", "held_bytes", "rules", "times")

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.times = FillTimes(rules.miss_ppm)
        self.held = 0
        self.held_bytes = 0
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
