"""Law: MERGE continues while REORDER is restored repeatedly and emits events again, as with
`at_least_once`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

import pytest

from tests.kit.events import copies
from tests.seeds import seeds_of_today
from tests.topology.order.merge.against_oracle import MS
from tests.topology.order.merge.test_operator import operator as new_merge
from tests.topology.order.reorder.test_operator import operator as new_reorder
from topology.base.event import NO_EPOCH, Event
from topology.order.merge.operator import Merge
from topology.order.reorder.operator import Reorder

SEEDS: Final = seeds_of_today(60)
CHECKPOINT: Final = 15
"""Events between two checkpoints of REORDER."""


def sent(rng: Random) -> list[Event]:
    """Return events of eight sources, each sending for a while; some numbers are lost or late."""
    rows = []
    for source in "abcdefgh":
        ts = rng.randrange(50)
        for seq in range(rng.randrange(10, 80)):
            ts += rng.choice((1, 5, 10, 30))
            if rng.random() > 0.05:
                rows.append((ts + rng.choice((1, 1, 2, 3, 20, 60, 100)), source, seq, ts))
    return [
        Event("default", source, NO_EPOCH, seq, ts * MS, at * MS, offset=offset)
        for offset, (at, source, seq, ts) in enumerate(sorted(rows))
    ]


class Stages:
    """A REORDER and the MERGE that reads its output; the clock of MERGE never goes back."""

    def __init__(self) -> None:
        self.reorder: Reorder = new_reorder(start="auto")
        self.merge: Merge = new_merge()
        self.now_ns = 0

    def emit(self, released: Sequence[Event]) -> None:
        read = copies(released)
        for event in read:
            self.now_ns = event.at_ns = max(self.now_ns, event.at_ns)
            event.ref_time_ns = event.ts_ns
        if read:
            self.merge.on_batch(read, self.now_ns)

    def restore(self, state: Mapping[str, Any], held: Sequence[Event]) -> None:
        self.reorder = new_reorder(start="auto")
        self.reorder.restore(state, copies(held))


@pytest.mark.slow
def test_law_no_source_stays_blocked() -> None:
    repeated = 0
    for seed in SEEDS:
        rng = Random(seed)
        stages, events = Stages(), sent(rng)
        at, checkpoint = 0, None
        while at < len(events):
            (event,) = copies([events[at]])
            stages.emit(stages.reorder.on_batch([event], event.at_ns).released)
            at += 1
            if at % CHECKPOINT == 0:
                checkpoint = at, stages.reorder.snapshot(), copies([*stages.reorder.iter_held()])
            if checkpoint is not None and rng.random() < 0.02:
                repeated += at - checkpoint[0]
                stages.restore(*checkpoint[1:])
                at = checkpoint[0]
                checkpoint = None
        for later in range(1, 40):
            now_ns = events[-1].at_ns + later * 100 * MS
            stages.emit(stages.reorder.on_time(now_ns).released)
            stages.merge.on_time(now_ns)
            stages.now_ns = now_ns
        figures = stages.merge.figures()
        assert (figures["queued"], figures["blocked"]) == (0, 0), f"seed {seed}"
    assert repeated > 100
