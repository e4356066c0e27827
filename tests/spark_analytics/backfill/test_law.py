"""Law: a backfill matches a replay of the same lines, byte for byte, without Spark. The pieces that
are read, the number of tasks, one of which dies, and the groups of streams vary. Every other
topology has detectors, and queries of every kind of `answer`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest

from spark_analytics.backfill.kinds import TABLE_OF, TABLES
from tests.spark_analytics.backfill import streams
from tests.spark_analytics.backfill.outputs import backfilled, each_apart, replayed, tabled

FEW = range(12)
MANY = range(1_000, 1_250)


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("seed", FEW)
def test_backfill_matches_replay(seed: int, tmp_path: Path) -> None:
    kinds = agrees(seed, tmp_path)
    assert kinds >= {"event", "gap", "dead"}


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_more_backfills_match_replays(tmp_path: Path) -> None:
    kinds = set[str]().union(*each_apart(MANY, tmp_path, agrees))
    assert kinds >= {"event", "gap", "late", "duplicate", "dead", "window", "match", "join"}


def agrees(seed: int, folder: Path) -> set[str]:
    """Assert that a backfill matches a replay, and return the kinds of lines."""
    rng = Random(seed)
    setting = streams.some(seed, rng, folder)
    events = streams.recording(rng, folder / "events.jsonl")
    if seed % 4 == 2:  # no line has an arrival time
        events.write_text(re.sub(r'"arrival": (\d+|"noon"),', "", events.read_text()))
    wanted, account = replayed(folder / "t.yaml", events)
    piece_bytes, tasks = rng.choice((300, 2_000, 10_000, 1 << 20)), rng.choice((1, 2, 7))
    dies = rng.randrange(tasks)
    summary = backfilled(setting, [events], folder / "out", piece_bytes, tasks, dies)
    assert tabled(folder / "out") == wanted, seed
    for (_, kind), lines in wanted.items():
        columns = {column.key for column in TABLES[TABLE_OF[kind]]}
        assert all({*json.loads(line)} - {"kind"} <= columns for line in lines), (seed, kind)
    assert account.get("arrivals") is False or seed not in FEW or seed % 4 != 2, seed
    assert comparable(summary.document()) == comparable(account), seed
    has_detectors = any('"query":"found_' in line for said in wanted.values() for line in said)
    assert has_detectors == (seed % 2 == 1), seed
    return {kind for _, kind in wanted}


def comparable(account: dict[str, Any]) -> dict[str, Any]:
    """Return the account without figures of the run and without examples of dead letters.

    Several dead letters can be the first at one instant.
    """
    reasons = {name: dead["count"] for name, dead in account.get("dead_reasons", {}).items()}
    measured = {"seconds", "events_per_cpu_second", "dead_reasons"}
    return {name: said for name, said in account.items() if name not in measured} | reasons
