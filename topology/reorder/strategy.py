"""The waiting strategy of a stream under `reorder.rule: time`, one for each source.

| `strategy` | waits                                  | its parameter                           |
|------------|----------------------------------------|-----------------------------------------|
| `tail`     | as long as all but a few events need   | `accuracy`: the share that is in time   |
| `fixed`    | a given time                           | `wait`                                  |

A source that falls silent is taken to go on at the pace of the arrival clock, so `fixed` holds no
event for longer than it waits; `max_wait` bounds both.
"""

from __future__ import annotations

from collections.abc import Callable

from topology.model.histogram import PPM
from topology.reorder.settings import ReorderConfig
from topology.waiting.fixed import KSlack
from topology.waiting.policy import SlackPolicy
from topology.waiting.tail import OwnTail

AT_ONCE = 0
"""After so long a silence the clock of a source is taken to go on."""


def strategy_of(config: ReorderConfig) -> Callable[[], SlackPolicy]:
    """What makes it."""
    max_wait_ns = config.max_wait_ns
    if config.strategy == "fixed":
        wait_ns = config.wait_ns
        assert wait_ns is not None  # a topology file that does not say how long is refused
        return lambda: KSlack(wait_ns, idle_ns=AT_ONCE)
    return lambda: OwnTail(PPM - config.accuracy_ppm, max_wait_ns=max_wait_ns)
