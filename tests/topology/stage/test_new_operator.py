"""Examples and laws: a new operator in the registry runs like all others."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random

import pytest
from prometheus_client import CollectorRegistry

from agents.kafka.stage_topics import inputs_of
from agents.stage.arrangement import arrange, topics_of
from agents.watch.metrics.worker import Metrics
from tests.cli.invoking import inorder
from tests.laws import test_laws as laws
from tests.laws.cases import Case
from tests.laws.streams import raw
from tests.seeds import seeds_of_today
from tests.topology.stage import area
from tests.topology.stage.area import AREA, OUTSIDE, Area, AreaConfig, payload, with_area
from topology.base.event import Event
from topology.config import TopologyError, parse, stages
from topology.stage import registry
from topology.stage.stage import Stage

SEEDS = seeds_of_today(1)
STAGES = "streams: {default: {clock: {unsynced: trust}}}\nstages: [reorder, merge+area, window]\n"
COUNTED = "queries: {n: {window: tumbling 1s, aggregate: {n: count()}}}\n"


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    chain, rows = with_area()
    monkeypatch.setitem(sys.modules, "topology.area.operator", area)
    monkeypatch.setattr(stages, "CHAIN", chain)
    monkeypatch.setattr(registry, "ROWS", rows)


def placed(seed: int) -> list[Event]:
    rng = Random(seed)
    events = raw(seed, n=120, sources=4)
    for event in events:
        event.value = payload(rng.randrange(100))
    return events


STAGE = Case(
    "stage with an area",
    lambda: Stage(parse(STAGES), ("reorder", "merge", AREA)),
    placed,
    stamped_from=4,
    several_operators=True,
)
ALONE = Case("area", lambda: Area(AreaConfig()), placed, replays=False, reorders=False)


LAWS = {name: law for name, law in sorted(vars(laws).items()) if name.startswith("test_")}
OF_REORDER = {
    "test_each_source_is_in_sequence",
    "test_repeated_input_is_not_new",
}


@pytest.mark.parametrize("case", [STAGE, ALONE], ids=repr)
@pytest.mark.parametrize("law", LAWS)
def test_law(law: str, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    if case is ALONE and law in OF_REORDER:
        return
    monkeypatch.setattr(laws, "SEEDS", SEEDS)
    LAWS[law](case)


def test_events_lie_on_both_sides() -> None:
    """If all events lay on one side, the laws above would not test the area."""
    run = laws.Run(STAGE, 0).to_end()
    assert len(run.reports) > 20
    assert len(run.released) > 20


def test_replay_drops_events_outside(tmp_path: Path) -> None:
    file, events = tmp_path / "topology.yaml", tmp_path / "events.jsonl"
    file.write_text(STAGES + COUNTED, encoding="utf-8")
    at_ns = 1_700_000_000_000_000_000
    lines = [
        {"source": "s", "seq": seq, "ts": at_ns + seq, "arrival": at_ns + seq, "payload": {"x": x}}
        for seq, x in enumerate((10, 90, 20, 49, 50))
    ]
    events.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    done = inorder("replay", "--topology", str(file), "--json", str(events))
    assert done.code == 0, done.err
    said = [(line["kind"], line.get("seq"), line.get("reason")) for line in done.lines]
    assert [seq for kind, seq, _ in said if kind == "event"] == [0, 2, 3]
    dead = [(seq, reason) for kind, seq, reason in said if kind == "dead"]
    assert dead == [(1, OUTSIDE), (4, OUTSIDE)]
    (window,) = [line for line in done.lines if line["kind"] == "window"]
    assert window["values"] == {"n": 3}
    assert (done.summary["event"], done.summary["dead"]) == (3, 2)


def test_figures_become_metrics() -> None:
    registered = CollectorRegistry()
    Metrics(registered, "merge")
    families = {family.name: family.documentation for family in registered.collect()}
    assert families["inorder_area_outside"] == "Events outside of the area"


def test_worker_runs_operator_in_stage() -> None:
    topology = parse(STAGES)
    stage = topology.stages[1]
    arrangement = arrange(topology, stage, dict.fromkeys(topics_of(topology, stage), 1))
    assert arrangement.operator_names == ["merge", AREA]
    assert not arrangement.is_query_only
    assert inputs_of(topology, stage) == [topology.topics.sequenced]


@pytest.mark.parametrize("cut", ["[reorder, merge, area]", "[reorder, merge, area+window]"])
def test_stage_without_output_is_refused(cut: str) -> None:
    with pytest.raises(TopologyError, match="emits events.*write merge\\+area|join them"):
        parse(f"streams: {{default: {{}}}}\nstages: {cut}\n{COUNTED}")


def test_operator_is_off_by_default() -> None:
    assert AREA not in parse("streams: {default: {}}").operators
    assert AREA in parse(STAGES).operators
