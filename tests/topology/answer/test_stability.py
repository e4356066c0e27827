"""Examples and a law: how likely early results stand is said as it comes out, and no more of them
are withdrawn than the query allows."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from inorder.engine import Detector, RawEvent, TopologyError, parse, replay
from inorder.testing import TopologyDriver
from topology.answer.budget import Budget
from topology.answer.spending import WHOLE, Load
from topology.answer.stability import Stability

MS = 1_000_000
START = 1_700_000_000_000 * MS
SPAN = 100 * MS
FAR = 1_000_000 * MS
TOPOLOGY = """\
streams:
  default:
    clock: {{unsynced: trust}}
    merge: {{max_wait: 2s, idle_after: 10s, newcomers: 0s}}
queries:
  after: {{detector: after, answer: speculate{withdrawn}}}
"""


def _after(state: str, event: Any) -> tuple[str, Any]:
    """Who came before, of other sources."""
    return event.source, {"before": state} if state > event.source else None


OWN = {"after": Detector(_after, "")}


def stream(seed: int, seconds: int = 60) -> list[RawEvent]:
    """Three sources, one event in 30 ms each; one lags by up to 400 ms, now and then."""
    dice = Random(seed)
    sent = []
    for source in range(3):
        lag = 0.0
        for seq in range(seconds * 1_000 // 30):
            ts_ns = START + (seq * 30 + dice.randrange(30)) * MS
            if source == 2 and dice.random() < 0.1:
                lag = dice.random() ** 2 * 400
            arrival_ns = ts_ns + int((5 + (lag if source == 2 else 0)) * MS)
            sent.append(RawEvent(source=f"s{source}", seq=seq, ts_ns=ts_ns, arrival_ns=arrival_ns))
    return sorted(sent, key=lambda each: each.arrival_ns or 0)


def rendered(seed: int, withdrawn: str) -> list[tuple[float, bool]]:
    """What was said of each early result, and whether it stood; the first quarter is left out."""
    said = f", speculate: {{withdrawn: {withdrawn}}}" if withdrawn else ""
    topology = parse(TOPOLOGY.format(withdrawn=said), detectors=OWN)
    found: dict[str, tuple[float, bool]] = {}
    outcomes = []
    for each in replay(topology, stream(seed)):
        record: Any = each
        if not hasattr(record, "op"):
            continue
        early = found.pop(record.id, None)
        if early is not None:
            outcomes.append((early[0], False))
        if record.op != "retract" and not record.final and record.end_ns > START + 15_000 * MS:
            assert record.stands is not None or not withdrawn
            found[record.id] = (record.stands or 0.0, True)
    return outcomes + list(found.values())


@pytest.mark.slow
@pytest.mark.parametrize(("withdrawn", "most"), [("1%", 0.02), ("5%", 0.1)])
def test_no_more_is_withdrawn_than_the_query_allows(withdrawn: str, most: float) -> None:
    outcomes = rendered(1, withdrawn)
    assert len(outcomes) > 200
    gone = sum(not stood for _, stood in outcomes)
    assert gone <= most * len(outcomes), (gone, len(outcomes))


@pytest.mark.slow
def test_what_is_said_is_what_comes_out() -> None:
    outcomes = sorted(rendered(2, "100%") + rendered(3, "100%") + rendered(2, "10%"))
    gone = [not stood for _, stood in outcomes]
    assert sum(gone) > 30
    predicted = sum(1 - said for said, _ in outcomes)
    assert predicted == pytest.approx(sum(gone), rel=0.5)
    half = len(outcomes) // 2
    assert sum(gone[:half]) > sum(gone[half:]), "what is said to stand stands more often"


def test_without_the_setting_nothing_is_said() -> None:
    topology = parse(TOPOLOGY.format(withdrawn=""), detectors=OWN)
    records: list[Any] = [each for each in replay(topology, stream(1, 3)) if hasattr(each, "op")]
    assert records
    assert all(each.stands is None for each in records)


def test_hits_and_changes_make_the_chance() -> None:
    budget = Budget(WHOLE)
    stability = Stability(budget.hits_ppm)
    assert stability.of(0, FAR) == WHOLE, "nothing came late"
    for _ in range(100):
        budget.note_late(50 * MS)
        budget.weigh(Load(1_000, 0, SPAN), 200 * MS, 10, 0)
    assert budget.hits_ppm(0, FAR) == pytest.approx(WHOLE // 2, rel=0.15), "50 ms in each 100 ms"
    assert budget.hits_ppm(60 * MS, FAR) == 0
    assert stability.of(0, FAR) < stability.of(40 * MS, FAR) < stability.of(60 * MS, FAR) == WHOLE
    assert stability.of(0, FAR) == pytest.approx(WHOLE / 1.5, rel=0.1), (
        "at first each hit is a change"
    )
    for _ in range(100):
        stability.emitted(0, FAR, is_merged=False)
    assert stability.of(0, FAR) > 0.98 * WHOLE, "of fifty hits none was a change"
    for _ in range(25):
        stability.changed(is_merged=False)
    assert stability.of(0, FAR) == pytest.approx(WHOLE / 1.25, rel=0.05)


def test_what_w_has_passed_is_met_by_what_is_late_alone() -> None:
    stability = Stability(lambda age_ns, ahead_ns: WHOLE)
    for _ in range(98):
        assert stability.emitted(0, FAR, is_merged=True) == WHOLE
    stability.changed(is_merged=True)
    assert stability.emitted(0, FAR, is_merged=True) == 990_000
    assert stability.of(0, FAR) == WHOLE // 2


def test_none_comes_from_behind_w() -> None:
    budget = Budget(WHOLE)
    for _ in range(100):
        budget.note_late(50 * MS)
        budget.weigh(Load(1_000, 0, SPAN), 200 * MS, 10, 0)
    assert budget.hits_ppm(0, 5 * MS) == pytest.approx(WHOLE // 20, rel=0.2)
    assert budget.hits_ppm(10 * MS, 5 * MS) == 0


def test_it_is_kept_over_a_restart() -> None:
    stability = Stability(lambda age_ns, ahead_ns: WHOLE)
    stability.emitted(0, FAR, is_merged=False)
    stability.changed(is_merged=False)
    again = Stability(lambda age_ns, ahead_ns: WHOLE)
    again.restore(stability.snapshot())
    assert again.of(0, FAR) == stability.of(0, FAR)


def test_a_share_that_is_none_is_refused() -> None:
    with pytest.raises(TopologyError, match="withdrawn"):
        parse(TOPOLOGY.format(withdrawn=", speculate: {withdrawn: 0%}"), detectors=OWN)
    with pytest.raises(TopologyError, match="means nothing"):
        TopologyDriver(
            TOPOLOGY.format(withdrawn=", speculate: {withdrawn: 1%}").replace(
                "answer: speculate", "answer: early"
            ),
            detectors=OWN,
        )
