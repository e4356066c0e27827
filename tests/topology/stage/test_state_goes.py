"""Law: finished work leaves nothing in the state, in the snapshot, or in a table of all changes."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.kit.places import give_back, places_of
from tests.kit.topologies import in_code
from tests.laws.streams import in_log_order
from tests.seeds import seeds_of_today
from topology.base.event import NO_EPOCH, Event
from topology.base.operator import Changes
from topology.config import Topology
from topology.queries.pattern.operator import PATTERN
from topology.stage.stage import Stage
from topology.state.saved import SHAPES

SEEDS = seeds_of_today(6)
MS = 1_000_000
START = 1_700_000_000_000 * MS
LONG_AFTER_NS = 7_200_000 * MS

QUALITY = "quality: {accuracy: 90%, max_wait: 300ms}"
SKIPS = ("", "SKIP PAST LAST", "SKIP TO NEXT")
PATTERNS = "\n".join(
    f'  p{n}: {{stream: a, pattern: "PATTERN SEQ(A x, B y) WHERE [id] WITHIN 2 s {skip}"}}'
    for n, skip in enumerate(SKIPS)
)
FILE = f"""
streams: {{a: {{clock: {{unsynced: trust}}}}, b: {{clock: {{unsynced: trust}}}}}}
correct_for: 4s
queries:
  fixed: {{stream: a, window: sliding 2s every 500ms, key: payload.id, aggregate: {{n: count()}}}}
  early: {{stream: a, window: tumbling 1s, early: 300ms, aggregate: {{n: count()}}, finals: true}}
  session: {{stream: b, window: session 700ms, key: payload.id, aggregate: {{n: count()}}}}
  near: {{join: interval 400ms, sides: {{x: {{stream: a}}, y: {{stream: b}}}}, outer: full}}
  cells: {{join: tumbling 1s, sides: {{x: {{stream: a}}, y: {{stream: b}}}}, outer: left,
          max_events: 9}}
{PATTERNS}
  waiting: {{stream: a, pattern: "PATTERN SEQ(A x, B y) WITHIN 2 s", {QUALITY}}}
"""
STAND = {SHAPES, "query", "engine", "promises", "promise"}
"""Names of parts that stay as long as there are queries."""


def raw_events(rng: Random, n: int = 250) -> list[Event]:
    """Return events whose keys come and go, so many partitions are idle long before the end."""
    events = []
    seqs = dict.fromkeys(("a0", "a1", "b0", "b1"), -1)
    ms = 0
    for at in range(n):
        ms += rng.choice((5, 40, 40, 200, 3_000 if rng.random() < 0.05 else 20))
        source = rng.choice(list(seqs))
        seqs[source] += 1
        arrival_ms = ms + (rng.randrange(700) if rng.random() < 0.2 else 1)
        event = Event(
            source[0], source, NO_EPOCH, seqs[source], START + ms * MS, START + arrival_ms * MS
        )
        event.type = rng.choice("AB")
        event.value = b'{"id": %d}' % (at // 25 + rng.randrange(3))
        events.append(event)
    return in_log_order(events)


class Table:
    """A table with the rows of a changelog."""

    def __init__(self) -> None:
        self.rows: dict[str, Any] = {}
        self.names: set[str] = set()

    def apply(self, changes: Changes) -> None:
        for key, value in changes.items():
            self.names.add(key)
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value


def operators_keys(rows: dict[str, Any]) -> set[str]:
    """Return the last part of the names of keys of windows, patterns and joins."""
    kept = {key for key in rows if any(f"\n{name}/" in key for name in ("window", "pattern"))}
    kept |= {key for key in rows if key.startswith("\n")}
    return {key.rpartition("\n")[2].rpartition("/")[2] for key in kept}


@pytest.mark.slow
def test_finished_work_has_no_state() -> None:
    names: set[str] = set()
    for seed in SEEDS:
        names |= final_table(seed).names
    assert any("barrier/" in name for name in names), "or the test says nothing"
    assert any("unit/" in name for name in names)


def final_table(seed: int) -> Table:
    """Return the table when all work is finished."""
    rng = Random(seed)
    asked = in_code(FILE)
    operators = ["reorder", "merge", "window", "pattern", "join"]
    stage, table = Stage(asked, operators), Table()
    todo = raw_events(rng)
    while todo:
        size = rng.choice((1, 7, 30))
        batch, todo = todo[:size], todo[size:]
        stage.on_batch(batch, batch[-1].at_ns)
        now_ns = batch[-1].at_ns
        if rng.random() < 0.5:
            table.apply(stage.changes())
            assert table.rows == stage.snapshot()
        if rng.random() < 0.1:
            table.apply(stage.changes())
            held = places_of(stage)
            stage = Stage(asked, operators)
            give_back(stage, table.rows, held)
    stage.on_time(now_ns + LONG_AFTER_NS)
    table.apply(stage.changes())
    table.apply(stage.changes())
    assert table.rows == stage.snapshot()
    assert operators_keys(table.rows) <= STAND

    held = places_of(stage)
    stage = Stage(without_waiting(asked), operators)
    give_back(stage, table.rows, held)
    table.apply(stage.changes())
    assert table.rows == stage.snapshot()
    assert not waiting_queries(table)
    return table


def without_waiting(asked: Topology) -> Topology:
    rest = {name: query for name, query in asked.queries.items() if name != "waiting"}
    return asked.model_copy(update={"queries": rest})


def waiting_queries(table: Table) -> list[str]:
    """Return the queries that wait, by the state of PATTERN."""
    rows = (row for key, row in table.rows.items() if key.endswith("/promises"))
    return [name for row in rows for name in row[PATTERN.fields.index("_targets")]]


def test_restart_drops_targets_of_old_query() -> None:
    asked = in_code(FILE)
    stage, table = Stage(asked, ["pattern"]), Table()
    table.apply(stage.changes())
    assert waiting_queries(table) == ["waiting"]
    after = Stage(without_waiting(asked), ["pattern"])
    after.restore(table.rows, [])
    table.apply(after.changes())
    assert table.rows == after.snapshot()
    assert not waiting_queries(table)
