"""Examples: which topics a stage reads and writes, however the chain is cut."""

from __future__ import annotations

import pytest
from aiokafka.structs import TopicPartition

from agents.stage.arrangement import Arrangement, ArrangementError, arrange, topics_of
from agents.stage.outlet import OrderedOutlet, SequencedOutlet
from topology.config import parse
from topology.config.change import differences, refusals
from topology.flow.stage import Stage


@pytest.mark.parametrize(
    ("stages", "name", "reads", "outlet", "operators"),
    [
        ("[reorder, merge]", "reorder", "events.raw", SequencedOutlet, ["reorder", "clock"]),
        ("[reorder, merge]", "merge", "events.sequenced", OrderedOutlet, ["merge"]),
        ("[reorder+merge]", "reorder+merge", "events.raw", OrderedOutlet, None),
        ("[reorder, merge+window]", "merge+window", "events.sequenced", OrderedOutlet, ["merge"]),
        (
            "[reorder+merge+window+pattern]",
            "reorder+merge+window+pattern",
            "events.raw",
            OrderedOutlet,
            ["reorder", "clock", "merge"],
        ),
    ],
)
def test_a_cut_reads_and_writes(
    stages: str, name: str, reads: str, outlet: type, operators: list[str] | None
) -> None:
    topology = parse(f"streams: {{default: {{keyed_by: stream}}}}\nstages: {stages}")
    stage = next(stage for stage in topology.stages if stage.name == name)
    partitions = dict.fromkeys(topics_of(topology, stage), 4)
    arrangement = arrange(topology, stage, partitions)
    source = TopicPartition(reads, 1)
    assert arrangement.inputs == [reads]
    assert type(arrangement.outlet(source)) is outlet
    running = arrangement.operators(source)
    assert isinstance(running, Stage)
    if operators is not None:
        assert [node.name for node in running.chains["default"].nodes] == operators
    assert (running.alignment is not None) == (reads == "events.sequenced")
    assert ("events.ordered" in partitions) == (outlet is OrderedOutlet)


@pytest.mark.parametrize(
    ("stages", "name", "reads", "pattern_place"),
    [
        ("[reorder, merge+window]", "merge+window", "events.sequenced", 0),
        (
            "[reorder+merge+window+pattern]",
            "reorder+merge+window+pattern",
            "events.raw",
            32,
        ),
    ],
)
def test_windows_that_do_not_wait_for_the_merge_are_in_its_stage(
    stages: str, name: str, reads: str, pattern_place: int
) -> None:
    """What is beside them has the same place in a stream without windows."""
    topology = parse(
        f"streams: {{a: {{keyed_by: stream}}, b: {{keyed_by: stream}}}}\nstages: {stages}\n"
        "queries:\n"
        "  w: {stream: a, window: tumbling 1s, aggregate: {n: count()}, answer: speculate}\n"
        "  x: {stream: a, window: tumbling 1s, aggregate: {n: count()}}\n"
        "  p: {stream: b, pattern: 'PATTERN SEQ(A a, B b) WITHIN 1 s'}\n"
    )
    stage = next(stage for stage in topology.stages if stage.name == name)
    arrangement = arrange(topology, stage, dict.fromkeys(topics_of(topology, stage), 4))
    source = TopicPartition(reads, 1)
    assert arrangement.inputs == [reads]
    assert type(arrangement.outlet(source)) is OrderedOutlet
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
    assert (running.alignment is not None) == (reads == "events.sequenced")
    contract = arrangement.contract(source)
    assert contract.shapes.keys() == {*first, *stage.operators}
    assert (contract.stage, [*contract.streams]) == (name, ["a", "b"])


def test_lanes_are_counted_over_all_inputs() -> None:
    topology = parse("streams: {a: {input: raw.a}, b: {input: raw.b}}")
    stage = topology.stages[1]
    partitions = dict.fromkeys(topics_of(topology, stage), 4) | {"raw.a": 2, "raw.b": 3}
    assert arrange(topology, stage, partitions).lane_places == (
        *[("raw.a", each) for each in range(2)],
        *[("raw.b", each) for each in range(3)],
    )


@pytest.mark.parametrize(
    ("text", "stage", "topic", "mib"),
    [
        ("streams: {default: {}}", "reorder", "events.raw", 256),
        ("streams: {default: {}}", "merge", "events.sequenced", 512),
        ("streams: {default: {keyed_by: stream}}", "reorder+merge", "events.raw", 512),
        ("streams: {default: {reorder: {max_held_bytes: 1MiB}}}", "merge", "events.sequenced", 2),
        ("streams: {a: {output: a}, b: {output: b}}", "reorder", "events.raw", 512),
    ],
)
def test_what_a_partition_may_hold(text: str, stage: str, topic: str, mib: int) -> None:
    topology = parse(text)
    (found,) = (each for each in topology.stages if each.name == stage)
    arrangement = arrange(topology, found, dict.fromkeys(topics_of(topology, found), 8))
    assert arrangement.held_limit_bytes(topic) == mib << 20


def test_a_changelog_with_too_few_partitions_is_refused() -> None:
    topology = parse("streams: {default: {}}")
    stage = topology.stages[0]
    partitions = dict.fromkeys(topics_of(topology, stage), 4)
    partitions["inorder.reorder.events.raw.changelog"] = 2
    with pytest.raises(ArrangementError, match="run `inorder topics create --grow`"):
        arrange(topology, stage, partitions)


def test_a_signed_stream_needs_master_keys_in_the_stage_that_reads_it() -> None:
    topology = parse("streams: {default: {signed: true}}\nstages: [reorder, merge]")
    reorder, merge = topology.stages
    counts = [dict.fromkeys(topics_of(topology, each), 4) for each in (reorder, merge)]
    with pytest.raises(ArrangementError, match="stream default is signed; name the file"):
        arrange(topology, reorder, counts[0])
    arranged = arrange(topology, reorder, counts[0], (bytes(32),))
    assert "masters" not in repr(arranged)
    arrange(topology, merge, counts[1])


BEFORE = "streams: {default: {}}\n"
QUERY = "queries:\n  w: {stream: default, window: tumbling 1s, aggregate: {n: count()}}\n"


def arranged(text: str, name: str, **partitions: int) -> Arrangement:
    topology = parse(text)
    stage = next(stage for stage in topology.stages if stage.name == name)
    counts = dict.fromkeys(topics_of(topology, stage), 4)
    return arrange(
        topology, stage, counts | {t.replace("_", "."): n for t, n in partitions.items()}
    )


def test_a_state_whose_output_has_grown_is_accepted_only_where_no_stream_moves() -> None:
    source = TopicPartition("events.sequenced", 1)
    two = arranged(BEFORE, "merge", events_ordered=2)
    places = {n: arranged(BEFORE, "merge", events_ordered=n) for n in range(3, 12)}
    stays = [n for n, grown in places.items() if grown.contract(source) == two.contract(source)]
    assert 0 < len(stays) < len(places)
    for count, grown in places.items():
        found = differences(two.contract(source), grown.contract(source), grown.topology)
        assert bool(refusals(found)) == (count not in stays)
