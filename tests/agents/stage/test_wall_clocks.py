"""Law: the wall clock of a worker changes no answer, whatever it shows, and whenever it steps.

The inputs have append times, so time comes from the brokers. Without brokers
(tests/agents/stage/chain).
"""

from __future__ import annotations

import asyncio
import time
from random import Random

import pytest

from tests.agents.records import Put
from tests.agents.stage.chain import Chain, Wall
from tests.agents.stage.test_history import log_of, text_of
from tests.seeds import seeds_of_today
from topology.config import parse

S = 1_000_000_000
HOUR = 3_600 * S


def stepping(dice: Random, begin_ns: int) -> Wall:
    """A clock that steps by up to an hour, both ways, for some seconds, and drifts."""
    edges_ns = [begin_ns + dice.randrange(60) * S for _ in range(8)]
    steps_ns = [dice.choice((-HOUR, -5 * S, 5 * S, HOUR)) for _ in edges_ns]
    drift_ppm = dice.randrange(-50_000, 50_000)

    def shows(true_ns: int) -> int:
        off_ns = (true_ns - begin_ns) * drift_ppm // 1_000_000
        for edge_ns, step_ns in zip(edges_ns, steps_ns, strict=True):
            if edge_ns <= true_ns < edge_ns + 10 * S:
                off_ns += step_ns
        return true_ns + off_ns

    return shows


def told(seed: int, patch: pytest.MonkeyPatch, wall: Wall | None) -> tuple[list[str], list[Put]]:
    """What all stages wrote, partition by partition, under this wall clock."""
    dice = Random(seed)
    topology = parse(text_of(dice, cut=seed % 2 == 0))
    logs = log_of(dice, topology)
    chain = Chain(topology, logs) if wall is None else Chain(topology, logs, wall=wall)
    dice_of_wall = Random(seed)
    if wall is not None:
        patch.setattr(time, "time_ns", lambda: dice_of_wall.randrange(2 * chain.end_ms) * 1_000_000)
    asyncio.run(chain.through(None, dice, patch))
    patch.undo()
    return [topic for topic, _ in chain.put], [put for _, put in chain.put]


@pytest.mark.parametrize("seed", seeds_of_today(4))
def test_any_wall_clock_gives_the_same_answers(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    topics, expected = told(seed, monkeypatch, None)
    assert expected
    dice = Random(seed)
    begin_ns = 1_700_000_000 * S
    walls = (stepping(dice, begin_ns), lambda _: 0, lambda true_ns: true_ns + HOUR)
    for wall in walls:
        assert told(seed, monkeypatch, wall) == (topics, expected)
