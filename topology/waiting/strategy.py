"""The waiting strategy of a stream under `reorder.rule: time`, one for each source.

| `strategy` | waits                                  | its parameter                           |
|------------|----------------------------------------|-----------------------------------------|
| `tail`     | as long as all but a few events need   | `accuracy`: the share that is in time   |
| `fixed`    | a given time                           | `wait`                                  |
| `mp`       | the largest lateness seen (MP-K-Slack) | none; it never falls                    |

A source that falls silent is taken to go on at the pace of the arrival clock, so `fixed` and
`mp` hold no event for longer than what they wait; `max_wait` bounds all three. Not offered:
AQ-K-Slack and LDOP, which need two parameters each and do worse than `tail`
(docs/waiting.md), and those that promise windows and not events, or look at several sources.

Proved by: tests/topology/config/test_by_time.py, tests/topology/reorder/test_by_time.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

from topology.model.histogram import PPM
from topology.waiting.own_tail import OwnTail
from topology.waiting.policy import SlackPolicy
from topology.waiting.published.k_slack import KSlack, MPKSlack

Strategy = Literal["tail", "fixed", "mp"]

AT_ONCE = 0
"""After so long a silence the clock of a source is taken to go on."""


class StrategySettings(Protocol):
    """What is asked of a source's wait under `reorder.rule: time`."""

    strategy: Strategy
    accuracy_ppm: int
    wait_ns: int | None
    max_wait_ns: int


def strategy_of(config: StrategySettings) -> Callable[[], SlackPolicy]:
    """What makes it."""
    max_wait_ns = config.max_wait_ns
    if config.strategy == "fixed":
        wait_ns = config.wait_ns
        assert wait_ns is not None  # a topology file that does not say how long is refused
        return lambda: KSlack(wait_ns, idle_ns=AT_ONCE)
    if config.strategy == "mp":
        return lambda: MPKSlack(measure="arrival", max_k_ns=max_wait_ns, idle_ns=AT_ONCE)
    return lambda: OwnTail(PPM - config.accuracy_ppm, max_wait_ns=max_wait_ns)
