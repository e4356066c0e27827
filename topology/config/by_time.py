"""Which keys of `reorder` speak of `rule: time`, and which of the other rules.

A key that the rule does not look at is refused: whoever wrote it believes that it counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from topology.config.problem import Fault
from topology.reorder.settings import Rule
from topology.waiting.strategy import StrategySettings

TIME: Final = "time"

OF_NUMBERS: Final = (
    ("miss_target_ppm", "miss_target"),
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


class GivenRule(StrategySettings, Protocol):
    """The section `reorder`, and which of its keys the file gives."""

    rule: Rule

    @property
    def model_fields_set(self) -> set[str]: ...


def rule_faults(config: GivenRule) -> Iterator[Fault]:
    given = config.model_fields_set
    if config.rule != TIME:
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
        if name in given:
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
