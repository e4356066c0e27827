"""What REORDER is asked for: the section `reorder` of a stream.

Names and defaults are those of reorder_drift_merge.md section 8. A key that the rule does not look
at is refused: whoever wrote it believes that it counts.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import ValidationInfo, model_validator

from topology.spelling.problem import Fault, refused, refused_at, shown
from topology.spelling.section import Section, Unspelled, key_of
from topology.spelling.values import (
    MAX_INT,
    Count,
    DurationNs,
    Given,
    PositiveNs,
    ProbabilityPpm,
    SizeBytes,
    one_of,
    whole,
)

Rule = Literal["miss", "fixed", "time"]
LatePolicy = Literal["pass", "drop", "side"]
Start = Literal["auto", "zero"] | int
InferRestart = Literal["auto"] | bool
WithoutSeq = Literal["dead", "by_time"]


def _start(value: Any, _: ValidationInfo) -> Any:
    if value == "zero" and isinstance(value, str):
        return 0
    if value == "auto" and isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_INT:
        raise refused(
            f"{shown(value)} is no start", "write auto, zero or the first number expected"
        )
    return value


_START: Final = {"anyOf": [{"enum": ["auto", "zero"]}, {"type": "integer", "minimum": 0}]}


def _infer_restart(value: Any, _: ValidationInfo) -> Any:
    if isinstance(value, bool) or value == "auto":
        return value
    raise refused(
        f"{shown(value)} is not known here",
        "write auto, true or false",
        "write auto, True or False",
    )


TIME: Final = "time"

OF_NUMBERS: Final = (
    "without_seq",
    "start",
    "infer_restart",
    "seq_bits",
    "max_jump",
    "gap_ranges",
    "gap_memory_ns",
)

MOVED_RULES: Final = {
    rule: f"write experimental: {{reorder: {rule}}} beside `reorder`" for rule in ("thesis", "rfc")
}
"""What to write in place of a method of a paper."""


class ReorderConfig(Section):
    """Order within one source: by its sequence numbers, or under `rule: time` by its own
    time. `start: zero` is kept as 0."""

    rule: Annotated[Rule, one_of(Rule, MOVED_RULES)] = "miss"
    """How long a hole is waited for; `time`: sources that number nothing."""
    without_seq: Annotated[WithoutSeq, one_of(WithoutSeq)] = "dead"
    """What becomes of records without a sequence number; under `by_time`, sources whose first event
    has none are put in order by their own time, all others by their numbers."""
    miss_target_ppm: ProbabilityPpm = 1_000
    """Under `rule: miss`, the share of holes that may outlive their wait; of events without a
    number, the share that may be late. Lower it for fewer late events, raise it for a shorter
    wait."""
    max_wait_ns: DurationNs = 500_000_000
    """No hole is waited for longer, and no event without a number waits longer. Raise it where lost
    numbers come after all, lower it where results have to be quick."""
    late: Annotated[LatePolicy, one_of(LatePolicy)] = "pass"
    """What becomes of late events: passed on with a mark, dropped, or to `topics.late`."""
    start: Annotated[Start, Given(_start, _START)] = "auto"
    """The first number of a source; `auto` waits a little for smaller ones."""
    infer_restart: Annotated[
        InferRestart, Given(_infer_restart, {"enum": ["auto", True, False]})
    ] = "auto"
    """Whether small numbers after large ones are a new epoch."""
    seq_bits: Annotated[int, whole(8, 63)] = 63
    """The width of a counter that wraps. Set it to the width of the counter that your sources
    have."""
    max_jump: Count = 1_000_000
    """A number further ahead has to be confirmed by another near it. Raise it where sources skip
    more numbers."""
    max_held: Count = 100_000
    """Events held of one source; at the bound its oldest hole is given up. Raise it where a source
    sends more within `max_wait`."""
    max_held_total: Annotated[Count, Unspelled()] = 1_000_000
    """Events held of all sources of a stream in a partition."""
    max_held_bytes: SizeBytes = 256 * 2**20
    """Bytes held of all sources of a stream in a partition, by reorder and by merge each. Lower it
    where memory is scarce."""
    max_sources: Count = 200_000
    """Sources remembered; beyond, the longest idle one is forgotten. Raise it where there are
    more."""
    forget_after_ns: PositiveNs = 86_400_000_000_000
    """A source silent for so long that holds nothing is forgotten. Lower it where sources leave
    without a bye."""
    gap_ranges: Annotated[Count, Unspelled()] = 10_000
    """Lost stretches remembered of a source, to distinguish late ones from copies."""
    gap_memory_ns: PositiveNs = 3_600_000_000_000
    """How long lost numbers are remembered. Raise it where they come later still, and are called
    `beyond_memory`."""

    @property
    def numbered(self) -> bool:
        """It has sources that number their events."""
        return self.rule != TIME

    @property
    def is_mixed(self) -> bool:
        """It has sources with numbers, and sources without."""
        return self.numbered and self.without_seq == "by_time"

    @model_validator(mode="after")
    def _bounds_agree(self) -> ReorderConfig:
        message = "says nothing under rule `time`, which knows no sequence numbers"
        faults = [
            Fault((key_of(name),), message, "leave it out")
            for name in OF_NUMBERS
            if name in self.model_fields_set and not self.numbered
        ]
        if isinstance(self.start, int) and self.start >= 1 << self.seq_bits:
            message = f"{self.start} does not fit {self.seq_bits} bits"
            faults.append(Fault(("start",), message, "lower start or raise seq_bits"))
        if faults:
            raise refused_at(*faults)
        return self
