"""Examples: the fleet of `make bench-scale`, and its model."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.scale import Cost, Fleet, Model, table_of


def cost(flow: float, checkpoints_hz: float) -> Cost:
    return Cost(1.0, flow, checkpoints_hz, 0.01, 100.0, 15.0, 80_000.0)


def test_each_machine_sends_at_its_rate_and_their_phases_are_spread() -> None:
    fleet = Fleet(machines=4, hz=10)
    rows = fleet.rows(20, seconds=1.0)
    assert len(rows) == fleet.events_hz
    assert [row.arrival_ns for row in rows] == sorted({row.arrival_ns for row in rows})
    assert Counter(row.source for row in rows) == dict.fromkeys(fleet.places(1), 10)
    assert {row.seq for row in rows} == {*range(20, 30)}


def test_machines_are_dealt_over_all_partitions_a_stream_each() -> None:
    places = Fleet(machines=6, hz=1).places(3)
    assert Counter(places.values()) == {("line-000", 0): 2, ("line-001", 1): 2, ("line-002", 2): 2}


def test_prices_are_those_of_two_points_and_tell_the_others() -> None:
    event_s, checkpoint_s = 40e-6, 0.4e-3
    found = {
        point: cost(10_000 * event_s + hz * checkpoint_s, hz)
        for point, hz in (((1, 1), 10.0), ((1, 50), 500.0), ((2, 500), 900.0))
    }
    model = Model.of(found, 10_000)
    assert model is not None
    assert (model.event_s, model.checkpoint_s) == pytest.approx((event_s, checkpoint_s))
    table = table_of(found, 10_000)
    assert [row[5] for row in table.rows] == [row[3] for row in table.rows]
    assert table.note == "an event 40.0 us, a checkpoint 400 us"


def test_without_its_points_there_is_no_model() -> None:
    assert Model.of({(2, 50): cost(0.5, 500.0)}, 10_000) is None
    assert table_of({(2, 50): cost(0.5, 500.0)}, 10_000).rows[0][5] == "-"
