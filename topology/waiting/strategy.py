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
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from topology.model.histogram import PPM
from topology.waiting.own_tail import OwnTail
from topology.waiting.policy import SlackPolicy
from topology.waiting.published.k_slack import KSlack, MPKSlack

AT_ONCE = 0
"""After so long a silence the clock of a source is taken to go on."""


def strategy_of(config: Any) -> Callable[[], SlackPolicy]:
    """What makes it; `config` is a `topology.config.ReorderConfig`."""
    max_wait_ns: int = config.max_wait_ns
    if config.strategy == "fixed":
        return lambda: KSlack(config.wait_ns, idle_ns=AT_ONCE)
    if config.strategy == "mp":
        return lambda: MPKSlack(measure="arrival", max_k_ns=max_wait_ns, idle_ns=AT_ONCE)
    return lambda: OwnTail(PPM - config.accuracy_ppm, max_wait_ns=max_wait_ns)
