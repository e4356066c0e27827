"""Law: the events kept at `max_events` do not depend on the order within one instant, and neither
do any rows below the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from random import Random
from typing import Any

import pytest

from tests.kit.queries import Side, join_query
from tests.kit.runs import results_of
from tests.seeds import seeds_of_today
from tests.topology.queries.join.streams import MS, arriving, history
from topology.base.event import DATA, Event, copy_event
from topology.queries.join.operator import Join
from topology.queries.join.settings import JoinQuery

SEEDS = seeds_of_today(10)
MOST = 6
SIDES = Side("x", "X", key=("key",)), Side("y", "Y", key=("key",))


def config(kind: str, outer: str, max_events: int) -> JoinQuery:
    reach = {"low_ns": -5 * MS, "high_ns": 10 * MS, "size_ns": 20 * MS, "every_ns": 20 * MS}
    settings: dict[str, Any] = {**reach, "new_source_allowance_ns": 0, "max_events": max_events}
    return join_query("q", SIDES, kind, outer=outer, **settings)


def instants(seed: int) -> list[list[Event]]:
    """Return the events by instant, several at a time."""
    rng = Random(seed)
    events = arriving(rng, history(rng, ["X", "Y"], 60), announced=0.1)
    for one in events:
        one.at_ns = one.arrival_ns = -(-one.at_ns // (10 * MS)) * 10 * MS
    return [list(own) for _, own in groupby(events, key=lambda one: one.at_ns)]


def mix_streams(own: Sequence[Event], rng: Random) -> list[Event]:
    """Return the events with their streams mixed; each stream keeps its order."""
    streams = [[one for one in own if one.stream == stream] for stream in "XY"]
    mixed: list[Event] = []
    while any(streams):
        mixed.append(rng.choice([stream for stream in streams if stream]).pop(0))
    return mixed


def run(config: JoinQuery, seed: int, order: int) -> tuple[list[list[str]], list[str], int]:
    """Return the kept events after each instant, the final rows, and the number given up."""
    join, rng = Join(config), Random(order)
    kept: list[list[str]] = []
    rows: dict[str, Any] = {}
    for own in instants(seed):
        found = results_of(join, *mix_streams([copy_event(each) for each in own], rng))
        found += join.on_time(own[-1].at_ns).results
        rows |= {row.id: row for row in found}
        kept.append(sorted(repr(each) for each in join.iter_held() if each.kind == DATA))
    return (
        kept,
        sorted(id_ for id_, row in rows.items() if row.op != "retract"),
        int(join.figures()["given_up"]),
    )


@pytest.mark.slow
@pytest.mark.parametrize("outer", ["inner", "left", "full"])
@pytest.mark.parametrize("kind", ["interval", "sliding"])
@pytest.mark.parametrize("max_events", [MOST, 1_000])
def test_order_in_an_instant_changes_nothing(max_events: int, kind: str, outer: str) -> None:
    """At the bound the kept events are the same, and below it the rows as well."""
    given_up = 0
    for seed in SEEDS:
        first, second = (run(config(kind, outer, max_events), seed, order) for order in (1, 2))
        assert first[0] == second[0], seed
        if max_events > MOST:
            assert first == second, seed
            assert first[1]
        given_up += first[2]
    assert max_events > MOST or given_up > len(SEEDS)
