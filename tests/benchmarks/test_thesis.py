"""Examples: small runs of the thesis, and properties that hold at any size.

Sync undoes any offset and its bounds hold; a single offset cannot follow skew. Laws: rounds bound
the offset from both sides; a dial is ahead by its offset and skew.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from benchmarks import thesis
from benchmarks.synced import (
    AS_CLIENT_DOES,
    ESTIMATE,
    METHODS,
    POLYGON,
    SYNCED,
    THESIS,
    TRUST,
    replicate_stream,
    run,
    span_of,
)
from benchmarks.thesis import Offsets, measure_offsets, skew
from benchmarks.truth import Truth
from benchmarks.workloads import D3, soccer
from benchmarks.workloads.clocks import (
    AS_CLIENT,
    FIRST_ROUNDS,
    HEAD_START_NS,
    ROUNDS,
    Dial,
    rounds,
    steady,
    unlike_dials,
)
from benchmarks.workloads.laws import MS, S
from benchmarks.workloads.rows import Row
from topology.base.event import Event
from topology.base.outcome import Step
from topology.order.clock.settings import PASSIVE_FLOOR_NS

SHORT = D3.shorten(200)
FIRST_NS = 1_700_000_000 * S
STEPS = {"whole ms": MS, "ns": 1}
TURNED = 2
"""Number of neighbours so close that rounding to ns, which depends on the drift, swaps them."""


@pytest.fixture(scope="module")
def single() -> Sequence[Row]:
    return soccer(SHORT).rows


@pytest.fixture(scope="module", params=STEPS)
def offsets(request: pytest.FixtureRequest, single: Sequence[Row]) -> Offsets:
    return measure_offsets(single, STEPS[request.param], (0, 5 * MS, 3_600 * S))


# -- what is counted ------------------------------------------------------------------------------


def out(*events: tuple[int, int, int, str]) -> Truth:
    """Return the truth of events (true, ref, error, late) in output order, each after 2 ms."""
    truth = Truth(settled_ns=50 * MS)
    step = Step(0)
    for true_ns, ref_ns, error_ns, late in events:
        event = Event("default", "s", 0, 0, true_ns, true_ns, 0, true_ns)
        event.ref_time_ns, event.error_ns, event.late = ref_ns, error_ns, late
        event.at_ns = true_ns + 2 * MS
        step.released.append(event)
    truth.take_step(step)
    return truth


def test_order_is_by_actual_times() -> None:
    truth = out((10 * MS, 1, 0, ""), (60 * MS, 2, 0, ""), (59 * MS, 3, 0, ""), (70 * MS, 4, 0, ""))
    assert (truth.left, truth.left_by_ms, truth.left_settled) == (1, 1, 1)
    assert (truth.behind, truth.worst_ns, truth.beyond, truth.broken) == (1, MS, 1, 4)
    assert (truth.hold_ns, truth.hold_quantile_ns(0.99)) == (2 * MS, 2 * MS)


def test_bounds_explain_disorder() -> None:
    swapped = out((105, 100, 5, ""), (100, 101, 5, ""), (200, 200, 0, ""))
    assert (swapped.left, swapped.behind, swapped.beyond, swapped.broken) == (1, 1, 0, 0)
    at_the_ends = out((110, 105, 5, ""), (100, 105, 5, ""))
    assert (at_the_ends.left, at_the_ends.beyond, at_the_ends.broken) == (1, 0, 0)
    too_far = out((111, 105, 5, ""), (100, 105, 5, ""))
    assert (too_far.beyond, too_far.broken) == (1, 1)


def test_late_event_claims_no_order() -> None:
    truth = out((100, 100, 0, ""), (20, 20, 0, "gap"), (500, 500, 0, "gap"), (101, 101, 0, ""))
    assert (truth.left, truth.behind, truth.late) == (2, 1, 2)
    assert (truth.beyond, truth.worst_ns) == (0, 0)


def test_delayed_source_descends_once() -> None:
    truth = out(*((true, true, 0, "") for true in (10, 20, 30, 11, 21, 29)))
    assert (truth.left, truth.behind, truth.worst_ns) == (1, 3, 19)


# -- clocks ----------------------------------------------------------------------------------------


def test_law_dial_shows_offset_and_skew() -> None:
    dial = Dial(5 * MS, 100_000, FIRST_NS)
    assert dial.shows(FIRST_NS) == FIRST_NS + 5 * MS
    assert dial.shows(FIRST_NS + 60 * S) == FIRST_NS + 60 * S + 5 * MS + 6 * MS
    assert Dial(step_ns=MS).shows(FIRST_NS + MS + 7) == FIRST_NS + MS


@pytest.mark.parametrize("pauses_s", [(60,), AS_CLIENT])
def test_law_rounds_bound_the_offset(pauses_s: Sequence[int]) -> None:
    dials = unlike_dials(["a", "b", "c"], FIRST_NS - HEAD_START_NS)
    heard = rounds(dials, FIRST_NS, FIRST_NS + 300 * S, pauses_s)
    assert len({dial.skew_ppb for dial in dials.values()}) == 3
    for sample in heard:
        dial = dials[sample.source]
        behind_ns = sample.t2_ns - dial.shows(sample.t2_ns)
        slack_ns = 1_000  # the clock's gain during a round
        assert sample.t3_ns - sample.t4_ns - slack_ns <= behind_ns
        assert behind_ns <= sample.t2_ns - sample.t1_ns + slack_ns
        assert sample.arrival_ns > sample.t3_ns


def test_first_rounds_precede_events() -> None:
    heard = rounds({"a": Dial()}, FIRST_NS, FIRST_NS + 119 * S)
    first = [sample for sample in heard if sample.arrival_ns < FIRST_NS]
    assert len(first) == FIRST_ROUNDS
    assert all(sample.arrival_ns + POLYGON.config.activation_ns <= FIRST_NS for sample in first)
    assert len(heard) == FIRST_ROUNDS + 2 * ROUNDS
    assert heard == sorted(heard, key=lambda sample: sample.arrival_ns)


def test_sources_are_shifted_copies(single: Sequence[Row]) -> None:
    rows = list(replicate_stream(single, 3))
    arrivals = [row.arrival_ns for row in rows]
    assert arrivals == sorted(arrivals)
    for i in range(3):
        own = [row for row in rows if row.source == str(i)]
        assert [(row.ts_ns - 3 * MS * i, row.seq) for row in own] == [
            (row.ts_ns, row.seq) for row in single
        ]


# -- the tables ------------------------------------------------------------------------------------


def test_sync_undoes_any_offset(offsets: Offsets) -> None:
    for method in SYNCED:
        at_zero = offsets[method.name, 0]
        for (name, _), truth in offsets.items():
            if name == method.name:
                assert truth.left <= at_zero.left + TURNED
                assert truth.behind <= at_zero.behind + TURNED
                assert truth.left_by_ms == at_zero.left_by_ms
                assert (truth.beyond, truth.broken) == (0, 0)


def test_unsynced_offset_spoils_order(offsets: Offsets) -> None:
    right, ahead = offsets[TRUST.name, 0], offsets[TRUST.name, 5 * MS]
    assert right.beyond == 0
    assert ahead.beyond > right.released // 3
    assert ahead.left > 5 * right.left
    assert 4 * MS <= ahead.worst_ns <= 5 * MS
    hour = offsets[TRUST.name, 3_600 * S]
    assert hour.left <= right.left + 1, "descents alone would call this right"
    assert hour.behind > right.released // 3


def test_estimate_undoes_an_hour(offsets: Offsets) -> None:
    estimated = offsets[ESTIMATE.name, 3_600 * S]
    floor_ns = PASSIVE_FLOOR_NS
    assert estimated.worst_ns <= floor_ns // 2
    assert (estimated.beyond, estimated.broken) == (0, 0)


def test_sync_in_ms_is_exact(single: Sequence[Row]) -> None:
    found = measure_offsets(single, MS, (0, 10 * MS, 60 * S))
    for (name, _), truth in found.items():
        if name in [method.name for method in SYNCED]:
            assert truth.left == found[TRUST.name, 0].left
            assert truth.behind == found[TRUST.name, 0].behind


def test_skew_needs_the_polygon() -> None:
    rows = steady(6, 20, 150).rows
    span = span_of(rows)
    settled_ns = span.first_ns + 60 * S
    dials = skew(100, span.first_ns)
    found = {
        method.name: run(rows, span, dials, method, settled_ns)
        for method in (TRUST, THESIS, POLYGON, AS_CLIENT_DOES)
    }
    polygon, client, single = (found[each.name] for each in (POLYGON, AS_CLIENT_DOES, THESIS))
    assert (polygon.beyond, polygon.broken, client.beyond, client.broken) == (0, 0, 0, 0)
    assert single.broken > 0.9 * single.released
    assert single.beyond > single.released // 20
    assert single.left_settled > 10 * polygon.left_settled
    assert single.left > 10 * client.left
    assert found[TRUST.name].behind > 2 * single.behind


def test_tables_quote_the_thesis() -> None:
    text = thesis.offsets_table(D3.shorten(1_000), MS).markdown()
    text += thesis.skew_table(3).markdown()
    for method in METHODS:
        assert f"| {method.name}, 3 600 000 ms |" in text
    for figure in ("502 560.00", "18 001.00", "| sync: polygon, as client, 200 ppm |"):
        assert figure in text
