"""Defines the section `reorder` of a stream: the settings of REORDER.

A key that the chosen rule ignores is refused, because its author expects it to have an effect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import ValidationInfo

from topology.spelling.problem import Fault, format_value, make_refusal
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
InferRestart = Literal["auto", True, False]
WithoutSeq = Literal["dead", "by_time"]


def _start(value: Any, _: ValidationInfo) -> Any:
    if value == "zero":
        return 0
    if value == "auto" or (type(value) is int and 0 <= value <= MAX_INT):
        return value
    raise make_refusal(
        f"{format_value(value)} is not a start", "write auto, zero or the first sequence number"
    )


_RANGE: Final = {"type": "string", "examples": ["1 to 65535", "0 to 9999"]}
_START: Final = {"anyOf": [{"enum": ["auto", "zero"]}, {"type": "integer", "minimum": 0}]}


class SeqRange(NamedTuple):
    """The numbers of a counter that wraps: after `last` comes `first` again."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first} to {self.last}"

    @property
    def modulus(self) -> int:
        """How many numbers it has."""
        return self.last - self.first + 1

    @property
    def bits(self) -> int | None:
        """The `seq_bits` that mean the same, or None if there are none."""
        bits = self.last.bit_length()
        is_width = not self.first and self.modulus == 1 << bits
        return bits if is_width and LEAST_BITS <= bits < NO_WRAP else None


def seq_range_of(text: str) -> SeqRange:
    """Return the range that a text such as `1 to 65535` states.

    Raises:
        ValueError: The text states no range.
    """
    found = re.fullmatch(r"([0-9]{1,19}) to ([0-9]{1,19})", text)
    if found is not None:
        seq_range = SeqRange(int(found[1]), int(found[2]))
        if seq_range.first < seq_range.last <= MAX_INT:
            return seq_range
    raise ValueError("is not a range of numbers; write it like 1 to 65535")


def _seq_range(value: Any, _: ValidationInfo) -> SeqRange:
    try:
        return seq_range_of(str(value))
    except ValueError as wrong:
        message, remedy = str(wrong).split("; ")
        raise make_refusal(f"{format_value(value)} {message}", remedy) from None


LEAST_BITS: Final = 8
NO_WRAP: Final = 63
"""The `seq_bits` of a counter that does not wrap."""

TIME: Final = "time"

OF_IDS: Final = ("id_memory_ns", "max_ids")
OF_NUMBERS: Final = (
    "without_seq",
    "start",
    "infer_restart",
    "seq_bits",
    "seq_range",
    "max_jump",
    "gap_ranges",
    "gap_memory_ns",
)


class ReorderConfig(Section):
    """The order within one source, by its sequence numbers, or under `rule: time` by its own time.

    `start: zero` is kept as 0.
    """

    rule: Annotated[Rule, one_of(Rule)] = "miss"
    """How long a gap is awaited: as `miss_target` asks (`miss`), or always `max_wait` (`fixed`).
    Under `time`, sources have no sequence numbers, and each is ordered by its own time."""
    without_seq: Annotated[WithoutSeq, one_of(WithoutSeq)] = "dead"
    """Whether a record without a sequence number is a dead letter (`dead`) or is ordered by time
    (`by_time`). Under `by_time` the first event of a source decides for the source."""
    miss_target_ppm: ProbabilityPpm = 1_000
    """Under `rule: miss`, the share of gaps that may outlive their wait. Without sequence numbers,
    the share of events that may be late. Lower it for fewer late events, raise it for a shorter
    wait."""
    max_wait_ns: DurationNs = 500_000_000
    """The longest wait for a gap, and the longest wait of an event without a sequence number. Raise
    it if missing events arrive later, lower it if results have to be quick."""
    late: Annotated[LatePolicy, one_of(LatePolicy)] = "pass"
    """The policy for late events: emit them with a mark (`pass`), drop them (`drop`), or write them
    to `topics.late` (`side`)."""
    start: Annotated[Start, Given(_start, _START)] = "auto"
    """The first sequence number of a source: `zero`, or another one, like `1`. `auto` waits up to
    `max_wait` for smaller numbers."""
    infer_restart: Annotated[InferRestart, one_of(InferRestart)] = "auto"
    """Whether small numbers after large ones begin a new epoch: in records without one (`auto`), in
    all records (`true`), or in none (`false`). `true` ignores the epochs that records contain."""
    seq_bits: Annotated[int, whole(LEAST_BITS, NO_WRAP)] = NO_WRAP
    """The width in bits of a counter that wraps. Set it to the width of the counter that your
    sources have."""
    seq_range: Annotated[SeqRange, Given(_seq_range, _RANGE, has_text=True)] | None = None
    """The first and the last number of a counter that wraps, in place of `seq_bits`: `1 to 65535`
    if it skips 0, `0 to 9999` if it is decimal. Other numbers are dead letters (`seq_range`)."""
    max_jump: Count = 1_000_000
    """A number further ahead needs another number near it as confirmation. Raise it if sources skip
    more numbers."""
    max_held: Count = 100_000
    """The largest number of buffered events of one source. At the bound its oldest gap is given up.
    Raise it if a source sends more within `max_wait`."""
    max_held_total: Annotated[Count, Unspelled()] = 1_000_000
    """The largest number of buffered events of all sources of a stream in a partition."""
    max_held_bytes: SizeBytes = 256 * 2**20
    """The largest payload that reorder and merge each buffer for a stream in a partition. Lower it
    if memory is scarce."""
    max_sources: Count = 200_000
    """The largest number of sources that are remembered. Beyond it, the source that has been idle
    longest is forgotten. Raise it if there are more."""
    forget_after_ns: PositiveNs = 86_400_000_000_000
    """A source that is silent for this long, and has no buffered events, is forgotten. Lower it if
    sources leave without an end-of-stream marker."""
    gap_ranges: Annotated[Count, Unspelled()] = 10_000
    """The number of lost ranges remembered per source, to tell late events from duplicates."""
    gap_memory_ns: PositiveNs = 3_600_000_000_000
    """How long numbers that were given up are remembered. Raise it if events are late by
    `beyond_memory`."""

    id_memory_ns: PositiveNs = 3_600_000_000_000
    """How long after its first event the id of `fields.id` makes further events of its source
    duplicates, by arrival times. Raise it if records are sent again later."""
    max_ids: Count = 1_000_000
    """The largest number of ids that are remembered for a stream in a partition. Beyond it the
    oldest are forgotten early (`inorder_reorder_ids_forgotten_total`). Lower it if memory is
    scarce."""

    @property
    def numbered(self) -> bool:
        """Whether sources may number their events."""
        return self.rule != TIME

    @property
    def counter(self) -> SeqRange | None:
        """The numbers of the sources' counters, or None if these do not wrap."""
        width = SeqRange(0, (1 << self.seq_bits) - 1) if self.seq_bits < NO_WRAP else None
        return self.seq_range or width

    @property
    def is_mixed(self) -> bool:
        """Whether the stream may have sources with numbers and sources without."""
        return self.numbered and self.without_seq == "by_time"

    def faults(self) -> Iterator[Fault]:
        for name in OF_NUMBERS:
            if name in self.model_fields_set and not self.numbered:
                message = "has no effect under rule `time`, which uses no sequence numbers"
                yield Fault((key_of(name),), message, "leave it out")
        if self.seq_range is not None and "seq_bits" in self.model_fields_set:
            message = "says where numbers wrap, and `seq_range` does too"
            yield Fault(("seq_bits",), message, "leave one of them out")
        counter = self.counter
        if isinstance(self.start, int) and not has_number(counter, self.start):
            message = f"{self.start} does not fit {self.seq_bits} bits"
            remedy = "lower start or raise seq_bits"
            if self.seq_range is not None:
                message = f"{self.start} is not a number of `seq_range: {self.seq_range}`"
                remedy = f"write start: {self.seq_range.first}"
            yield Fault(("start",), message, remedy)


def has_number(counter: SeqRange | None, number: int) -> bool:
    """Return whether a source may send this number; it may send any if its counter never wraps."""
    return counter is None or counter.first <= number <= counter.last
