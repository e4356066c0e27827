"""Examples: how many records wait for a cut, by how long the last one took."""

from __future__ import annotations

import gc

import pytest

from agents.stage.cutting import CUT_S, FEWEST, CutSize

MAX_BATCH = 20_000


@pytest.mark.parametrize(
    ("seconds", "records", "then"),
    [
        pytest.param(0.6, 20_000, 3_333, id="too long: as many as fit"),
        pytest.param(5.0, 20_000, FEWEST, id="never fewer than that"),
        pytest.param(CUT_S, 20_000, 20_000, id="just in time"),
        pytest.param(0.001, 20_000, 20_000, id="never more than the setting"),
        pytest.param(2.0, 0, 20_000, id="a tick alone says nothing of records"),
    ],
)
def test_what_a_cut_leads_to(seconds: float, records: int, then: int) -> None:
    cutting = CutSize(MAX_BATCH)
    cutting.took(seconds, records)
    assert cutting.records == then


def test_quick_cuts_lead_back_step_by_step() -> None:
    cutting = CutSize(MAX_BATCH)
    cutting.took(0.6, 20_000)
    seen = []
    for _ in range(4):
        cutting.took(0.01, cutting.records)
        seen.append(cutting.records)
    assert seen == [6_666, 13_332, 20_000, 20_000]
    cutting.took(0.05, 20_000)  # neither long nor quick
    assert cutting.records == 20_000


def test_a_small_setting_is_kept() -> None:
    cutting = CutSize(500)
    cutting.took(3.0, 500)
    assert cutting.records == 500


def test_no_garbage_is_looked_for_in_a_cut() -> None:
    assert gc.isenabled()
    with CutSize(10).timed(1):
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_cut_that_fails_leaves_the_collector_at_work() -> None:
    with pytest.raises(OverflowError), CutSize(10).timed(1):
        raise OverflowError
    assert gc.isenabled()


def test_who_collects_nothing_collects_nothing_after_a_cut() -> None:
    gc.disable()
    try:
        with CutSize(10).timed(1):
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
