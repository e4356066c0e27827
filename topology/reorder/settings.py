"""What REORDER is asked for: the section `reorder` of a stream.

Names and defaults are those of reorder_drift_merge.md section 8. A key that the rule does not look
at is refused: whoever wrote it believes that it counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from pydantic import ValidationInfo, model_validator

from topology.spelling.problem import Fault, refused, refused_at, shown
from topology.spelling.section import Section
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
Strategy = Literal["tail", "fixed"]
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
    ("miss_target_ppm", "miss_target"),
    ("without_seq", "without_seq"),
    ("start", "start"),
    ("infer_restart", "infer_restart"),
    ("seq_bits", "seq_bits"),
    ("max_jump", "max_jump"),
    ("gap_ranges", "gap_ranges"),
    ("gap_memory_ns", "gap_memory"),
)
"""(name in Python, key in the file)."""

OF_TIME: Final = (
    ("strategy", "strategy", ""),
    ("accuracy_ppm", "accuracy", "tail"),
    ("wait_ns", "wait", "fixed"),
)
"""(name, key, the strategy whose parameter it is)."""

INSTEAD: Final = {"miss_target": "write accuracy, one minus it, or leave it out"}

MOVED_RULES: Final = {
    rule: f"write experimental: {{reorder: {rule}}} beside `reorder`" for rule in ("thesis", "rfc")
}
MOVED_STRATEGIES: Final = {"mp": "write experimental: {reorder: mp} beside `reorder`"}
"""What to write in place of a method of a paper."""


class ReorderConfig(Section):
    """Order within one source: by its sequence numbers, or under `rule: time` by its own
    time. `start: zero` is kept as 0."""

    rule: Annotated[Rule, one_of(Rule, MOVED_RULES)] = "miss"
    """How long a hole is waited for; `time`: sources that number nothing."""
    without_seq: Annotated[WithoutSeq, one_of(WithoutSeq)] = "dead"
    """What becomes of records without a sequence number; under `by_time`, sources whose first event
    has none are put in order by their own time, all others by their numbers."""
    strategy: Annotated[Strategy, one_of(Strategy, MOVED_STRATEGIES)] = "tail"
    """Under `rule: time` or `without_seq: by_time`, how long an event without a number waits."""
    accuracy_ppm: ProbabilityPpm = 999_000
    """Under `strategy: tail`, the share of events in order."""
    wait_ns: DurationNs | None = None
    """Under `strategy: fixed`, how long."""
    miss_target_ppm: ProbabilityPpm = 1_000
    """Under `rule: miss`, the share of holes that may outlive their wait."""
    max_wait_ns: DurationNs = 500_000_000
    """No hole is waited for longer."""
    late: Annotated[LatePolicy, one_of(LatePolicy)] = "pass"
    """What becomes of late events: passed on with a mark, dropped, or to `topics.late`."""
    start: Annotated[Start, Given(_start, _START)] = "auto"
    """The first number of a source; `auto` waits a little for smaller ones."""
    infer_restart: Annotated[
        InferRestart, Given(_infer_restart, {"enum": ["auto", True, False]})
    ] = "auto"
    """Whether small numbers after large ones are a new epoch."""
    seq_bits: Annotated[int, whole(8, 63)] = 63
    """The width of a counter that wraps."""
    max_jump: Count = 1_000_000
    """A number further ahead has to be confirmed by another near it."""
    max_held: Count = 100_000
    """Events held of one source; at the bound its oldest hole is given up."""
    max_held_total: Count = 1_000_000
    """Events held of all sources of a stream in a partition."""
    max_held_bytes: SizeBytes = 256 * 2**20
    """The same in bytes."""
    max_sources: Count = 200_000
    """Sources remembered; beyond, the longest idle one is forgotten."""
    forget_after_ns: PositiveNs = 86_400_000_000_000
    """A source silent for so long that holds nothing is forgotten."""
    gap_ranges: Count = 10_000
    """Lost stretches remembered of a source, to distinguish late ones from copies."""
    gap_memory_ns: PositiveNs = 3_600_000_000_000
    """How long they are remembered."""

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
        faults = list(_rule_faults(self))
        if isinstance(self.start, int) and self.start >= 1 << self.seq_bits:
            message = f"{self.start} does not fit {self.seq_bits} bits"
            faults.append(Fault(("start",), message, "lower start or raise seq_bits"))
        if faults:
            raise refused_at(*faults)
        return self


def _rule_faults(config: ReorderConfig) -> Iterator[Fault]:
    given = config.model_fields_set
    if config.numbered and not config.is_mixed:
        for name, key, _ in OF_TIME:
            if name in given:
                message = f"says nothing under rule `{config.rule}`"
                yield Fault(
                    (key,),
                    message,
                    "write rule: time, or leave it out",
                    'write rule="time", or leave it out',
                )
        return
    for name, key in OF_NUMBERS:
        if name in given and not config.numbered:
            message = "says nothing under rule `time`, which knows no sequence numbers"
            yield Fault((key,), message, INSTEAD.get(key, "leave it out"))
    for name, key, strategy in OF_TIME:
        if strategy and name in given and config.strategy != strategy:
            message = f"is the parameter of strategy `{strategy}`, not of `{config.strategy}`"
            yield Fault(
                (key,),
                message,
                f"write strategy: {strategy}, or leave it out",
                f'write strategy="{strategy}", or leave it out',
            )
    if config.strategy != "fixed":
        return
    if config.wait_ns is None:
        yield Fault(
            ("strategy",),
            "`fixed` does not say how long",
            "add wait, like wait: 100ms",
            "add wait_ns, like 100_000_000",
        )
    elif config.wait_ns > config.max_wait_ns:
        message = f"{config.wait_ns} ns is more than max_wait ({config.max_wait_ns} ns)"
        yield Fault(("wait",), message, "lower wait or raise max_wait")
