"""Examples: the topics that a stage reads and writes, for each split into stages."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from aiokafka.structs import TopicPartition

from agents.kafka import stage_topics
from agents.stage.arrangement import Arrangement, ArrangementError
from agents.stage.outlet import OrderedOutlet, SequencedOutlet
from tests.agents.records import arranged
from topology.config import Topology
from topology.config.change import find_differences, format_refusals
from topology.stage.stage import Stage

SPLIT = ("[reorder, merge+window]", "merge+window", "events.sequenced")
FUSED = ("[reorder+merge+window+pattern]", "reorder+merge+window+pattern", "events.raw")
CUTS: list[tuple[str, str, str, type, list[str] | None]] = [
    ("[reorder, merge]", "reorder", "events.raw", SequencedOutlet, ["reorder", "clock"]),
    ("[reorder, merge]", "merge", "events.sequenced", OrderedOutlet, ["merge"]),
    ("[reorder+merge]", "reorder+merge", "events.raw", OrderedOutlet, None),
    (*SPLIT, OrderedOutlet, ["merge"]),
    (*FUSED, OrderedOutlet, ["reorder", "clock", "merge"]),
]


@pytest.mark.parametrize(("stages", "name", "reads", "outlet", "operators"), CUTS)
def test_stage_has_its_topics(
    stages: str, name: str, reads: str, outlet: type, operators: list[str] | None
) -> None:
    text = f"streams: {{default: {{keyed_by: stream}}}}\nstages: {stages}"
    arrangement = arranged(text, name, 4)
    source = TopicPartition(reads, 1)
    assert arrangement.inputs == [reads]
    assert type(arrangement.make_outlet(source)) is outlet
    running = arrangement.operators(source)
    assert isinstance(running, Stage)
    if operators is not None:
        assert [node.name for node in running.chains["default"].nodes] == operators
    assert (running.alignment is not None) == (reads == "events.sequenced")
    assert ("events.ordered" in arrangement.partitions) == (outlet is OrderedOutlet)


@pytest.mark.parametrize(("stages", "name", "reads", "pattern_place"), [(*SPLIT, 0), (*FUSED, 32)])
def test_speculative_window_is_in_merge(
    stages: str, name: str, reads: str, pattern_place: int
) -> None:
    """Queries on a stream without windows keep their place."""
    text = (
        f"streams: {{a: {{keyed_by: stream}}, b: {{keyed_by: stream}}}}\nstages: {stages}\n"
        "queries:\n"
        "  w: {stream: a, window: tumbling 1s, aggregate: {n: count()}, answer: speculate}\n"
        "  x: {stream: a, window: tumbling 1s, aggregate: {n: count()}}\n"
        "  p: {stream: b, pattern: 'PATTERN SEQ(A a, B b) WITHIN 1 s'}\n"
    )
    arrangement = arranged(text, name, 4)
    source = TopicPartition(reads, 1)
    running = arrangement.operators(source)
    running.begin(running.streams)
    first = ["reorder", "clock"] if reads == "events.raw" else []
    names = {name: [node.name for node in each.nodes] for name, each in running.chains.items()}
    assert names["a"] == [*first, "merge", "window", "accepted window"]
    assert names["b"] == [*first, "merge", *["pattern"] * bool(pattern_place)]
    patterns = [node for node in running.chains["b"].nodes if node.name == "pattern"]
    assert sum(node.place for node in patterns) == pattern_place
    queries = [node for chain in running.chains.values() for node in chain.nodes[len(first) + 1 :]]
    assert not any(node.place & running.waiting_places for node in queries)
    contract = arrangement.contract(source)
    assert contract.shapes.keys() == {*first, *name.split("+")}
    assert (contract.stage, [*contract.streams]) == (name, ["a", "b"])


CUT = "\nstages: [reorder, merge]"
SMALL = "reorder: {max_held_bytes: 1MiB}"


@pytest.mark.parametrize(
    ("text", "stage", "topic", "mib"),
    [
        (f"streams: {{default: {{}}}}{CUT}", "reorder", "events.raw", 256),
        (f"streams: {{default: {{}}}}{CUT}", "merge", "events.sequenced", 512),
        (f"streams: {{default: {{{SMALL}}}}}{CUT}", "merge", "events.sequenced", 2),
        (f"streams: {{a: {{output: a}}, b: {{output: b}}}}{CUT}", "reorder", "events.raw", 512),
        ("streams: {default: {keyed_by: stream}}", "all", "events.raw", 512),
        # REORDER of each of eight lanes, MERGE, and the alignment
        (f"streams: {{default: {{{SMALL}}}}}", "all", "events.raw", 10),
    ],
)
def test_buffer_limit_sums_operators(text: str, stage: str, topic: str, mib: int) -> None:
    assert arranged(text, stage, 8).held_limit_bytes(TopicPartition(topic, 0)) == mib << 20


def test_lanes_count_from_own_partition() -> None:
    """A task of one partition keeps its lane numbers when another partition is added."""
    two = "streams: {a: {input: ra}, b: {input: rb}}"
    first, second = (TopicPartition("rb", number) for number in range(2))
    assert arranged(two, "all", 1).lanes_of(first) == [(0, first)]
    grown = arranged(two, "all", 1, {"rb": 2})
    assert grown.lanes_of(first) == [(0, first), (1, second)]
    lanes = grown.lanes(first)
    assert lanes is not None
    assert lanes.places == (first, second)


def test_narrow_changelog_is_refused() -> None:
    few = {"inorder.reorder.events.raw.changelog": 2}
    with pytest.raises(ArrangementError, match="run `inorder topics create --grow`"):
        arranged(f"streams: {{default: {{}}}}{CUT}", 0, 4, few)
    one = {"inorder.all.events.raw.changelog": 1}
    assert arranged("streams: {default: {}}", 0, 4, one).together == [["events.raw"]]


def test_signed_stream_needs_keys() -> None:
    text = "streams: {default: {signed: true}}\nstages: [reorder, merge]"
    with pytest.raises(ArrangementError, match="stream default is signed; name the file"):
        arranged(text, "reorder", 4)
    assert "masters" not in repr(arranged(text, "reorder", 4, masters=(bytes(32),)))
    arranged(text, "merge", 4)


def test_output_growth_must_move_no_stream() -> None:
    def grown_to(count: int) -> Arrangement:
        return arranged(f"streams: {{default: {{}}}}{CUT}", "merge", 4, {"events.ordered": count})

    source = TopicPartition("events.sequenced", 1)
    two = grown_to(2)
    places = {count: grown_to(count) for count in range(3, 12)}
    stays = [n for n, grown in places.items() if grown.contract(source) == two.contract(source)]
    assert 0 < len(stays) < len(places)
    for count, grown in places.items():
        found = find_differences(two.contract(source), grown.contract(source), grown.topology)
        assert bool(format_refusals(found)) == (count not in stays)


def test_poll_properties_are_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "streams: {default: {}}\nstages: [reorder, merge]"
    arrangements = [arranged(text, name, 4) for name in ("reorder", "merge")]

    def found() -> list[tuple[bool, bool]]:
        return [(each.is_first, each.writes_progress) for each in arrangements]

    assert found() == [(True, True), (False, False)]
    has_work, reads = Mock(), Mock()
    monkeypatch.setattr(Topology, "has_work", has_work)
    monkeypatch.setattr(stage_topics, "reads", reads)
    assert found() == [(True, True), (False, False)]
    assert (has_work.called, reads.called) == (False, False)
