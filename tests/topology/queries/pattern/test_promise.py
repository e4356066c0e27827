"""Quality targets of patterns: a match is emitted once the target allows it, and is then mostly
right.

Example: when a match is emitted. Law: after all corrections the matches are those of a query
without a target. Cuts and restarts change nothing, and the target is kept.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from benchmarks.published.methods import parse
from tests.kit.events import copies
from tests.kit.places import give_back, places_of, twins
from tests.kit.runs import cut, results_of, through_changelog
from tests.seeds import seeds_of_today
from tests.topology.queries.window.streams import MS, START
from tests.topology.queries.window.test_promise import drifting, heard
from topology.base.event import Event
from topology.base.result import EMIT, MatchResult
from topology.stage.chain import Chain
from topology.stage.ledger import Ledger
from topology.stage.registry import chain_of

SEEDS = seeds_of_today(1)
PAIRS = "PATTERN SEQ(A a, !B n, C c) WITHIN 60 ms"
QUALITY = "quality: {accuracy: 90%, max_wait: 500ms}"


def stage(quality: str = QUALITY, pattern: str = PAIRS) -> Chain:
    topology = parse(
        "streams: {default: {clock: {unsynced: trust}}}\n"
        "stages: [reorder, merge+pattern]\nqueries:\n"
        f'  q: {{pattern: "{pattern}", answer: speculate{", " if quality else ""}{quality}}}\n'
    )
    return chain_of(topology, "default", ["merge", "pattern"], Ledger())


def typed(one: Event, kind: str) -> Event:
    one.type, one.value = kind, None
    return one


def made(*texts: str) -> list[Event]:
    """Return events from texts like `a10@11 A`: source `a`, 10 ms, arrival at 11 ms, type A."""
    found = []
    for text in texts:
        place, kind = text.split()
        time, at = place[1:].split("@")
        found.append(typed(heard(place[0], int(time), int(at)), kind))
    return found


def test_match_waits_for_all_sources() -> None:
    """Time is counted in steps of a sixteenth of `max_wait`."""
    eager, patient = stage(quality=""), stage()
    events = made("a10@11 A", "b5@12 D", "a20@21 C", "b35@40 B", "a60@61 D", "b70@71 D")
    first, *_ = results_of(eager, *copies(events))
    assert (first.op, first.at_ns) == (EMIT, START + 21 * MS)
    (only,) = results_of(patient, *copies(events))
    assert (only.op, only.at_ns) == (EMIT, START + 61 * MS)


def test_match_waits_up_to_max_wait() -> None:
    patient = stage()
    results_of(patient, *made("b5@6 D", "a10@11 A", "a20@21 C"))
    due_ns = patient.next_deadline_ns()
    assert due_ns is not None
    (only,) = patient.on_time(START + 900 * MS).results
    assert 520 * MS - 500 * MS // 16 <= only.at_ns - START <= 520 * MS


def stream(seed: int, n: int = 2_000) -> list[Event]:
    rng = Random(seed)
    return [typed(one, rng.choice("ABCD")) for one in drifting(seed, n=n)]


def run(operator: Chain, events: list[Event]) -> list[MatchResult]:
    found = results_of(operator, *copies(events))
    return found + operator.on_end(events[-1].at_ns).results


def standing(results: list[Any]) -> set[tuple[Any, ...]]:
    left: dict[str, Any] = {}
    for result in results:
        left[result.id] = None if result.op == "retract" else result
    return {tuple(result.members) for result in left.values() if result is not None}


@pytest.mark.parametrize("seed", SEEDS)
def test_quality_target_is_kept(seed: int) -> None:
    """After all corrections the matches are those of a query without a target."""
    events = stream(seed)
    eager, patient = run(stage(quality=""), events), run(stage(), events)
    assert standing(patient) == standing(eager)
    assert len(standing(eager)) > 100
    corrected = [sum(result.op != EMIT for result in each) for each in (eager, patient)]
    assert corrected[1] < 0.1 * len(standing(patient))
    assert corrected[1] < corrected[0] / 2


def over(before: Chain, after: Chain) -> Chain:
    """Restart into an operator that can have other settings, and return it."""
    give_back(after, through_changelog(before.snapshot()), twins(places_of(before)))
    return after


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "pattern",
    [
        PAIRS,
        "PATTERN SEQ(A a, B+ b[], C c) WITHIN 40 ms USING skip_till_any MATCHES MAXIMAL",
        "PATTERN SEQ(A a, C c, !B n) WITHIN 30 ms",
        "PATTERN SEQ(A a, B b) WITHIN 40 ms SKIP PAST LAST",
    ],
)
def test_cuts_and_restarts_change_nothing(seed: int, pattern: str) -> None:
    events = stream(seed, n=600)
    plain = run(stage(pattern=pattern), events)
    rng, results = Random(seed), list[Any]()
    operator = stage(pattern=pattern)
    for batch in cut(copies(events), rng, (1, 7, 60)):
        results += operator.on_batch(batch, batch[-1].at_ns).results
        if rng.random() < 0.2:
            operator = over(operator, stage(pattern=pattern))
    results += operator.on_end(events[-1].at_ns).results
    assert standing(results) == standing(plain)
    assert [(r.at_ns, r.id, r.op, r.revision) for r in results] == [
        (r.at_ns, r.id, r.op, r.revision) for r in plain
    ]


@pytest.mark.slow
def test_figures_show_achieved_accuracy() -> None:
    operator = stage()
    results_of(operator, *copies(stream(1)))
    figures = operator.figures()
    assert figures["pattern_target_ppm"] == 900_000
    assert figures["pattern_achieved_ppm"] >= 900_000
    explained = operator.explain()["accepted pattern"]["quality"]["q"]
    assert explained["closed_by"]["probable"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "quality",
    [
        "",
        "quality: {accuracy: 99%, max_wait: 100ms}",
        "quality: {max_wait: 2s}",
        "quality: {}, experimental: {quality: mp}",
        "quality: {}, experimental: {quality: prob_slack}",
        "quality: {}, experimental: {quality: event_driven}",
    ],
)
def test_restart_can_change_target(quality: str) -> None:
    """Matches that waited at the restart are emitted, as are later ones."""
    events = stream(3, n=1_200)
    plain = standing(run(stage(quality=""), events))
    half = next(at for at, event in enumerate(events) if event.at_ns > events[600].at_ns)
    before = stage()
    found = results_of(before, *copies(events[:half]))
    after = over(before, stage(quality=quality))
    found += results_of(after, *copies(events[half:]))
    live = standing(found)
    assert len(live) > 0.8 * len(plain)  # Most matches are emitted before the end.
    found += after.on_end(events[-1].at_ns).results
    assert standing(found) == plain


def test_corrected_match_is_not_emitted() -> None:
    """A gathered correction is due before the target would emit the match."""
    pattern = "PATTERN SEQ(A a, !N n, B b) WITHIN 60 ms EMIT SLACK 30 ms"
    quality = "quality: {max_wait: 80ms}, experimental: {quality: event_driven}"
    events = made("b5@6 D", "a10@11 A", "a20@21 B", "b15@22 N", "a90@300 D")
    assert results_of(stage(quality, pattern=pattern), *events) == []
