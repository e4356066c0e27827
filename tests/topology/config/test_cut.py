"""Examples: which stages run where the file names none, and why."""

from __future__ import annotations

import pytest

from tests.kit.topologies import in_code
from topology.config import parse
from topology.config.cut import scattered

ONE = ["reorder+merge", "window", "pattern", "join"]
TWO = ["reorder", "merge", "window", "pattern", "join"]
JOIN = "queries:\n  q: {join: interval 40ms, sides: {x: {stream: a}, y: {stream: b}}}\n"


@pytest.mark.parametrize(
    ("text", "stages", "why"),
    [
        ("streams: {default: {}}", TWO, "may be in several partitions of events.raw"),
        ("streams: {default: {}}\ntopics: {partitions: 1}", ONE, "`topics.partitions` is 1"),
        ("streams: {default: {keyed_by: stream}}", ONE, "`keyed_by: stream`"),
        ("streams: {a: {keyed_by: stream}, b: {}}", TWO, "sources of stream `b`"),
        (
            "streams: {default: {}}\nstages: [reorder, merge]\ntopics: {partitions: 1}",
            ["reorder", "merge"],
            "names the stages",
        ),
        ("streams: {default: {}}\nstages: [reorder+merge]", ["reorder+merge"], "names the stages"),
        (f"streams: {{a: {{}}, b: {{}}}}\ntopics: {{partitions: 1}}\n{JOIN}", ONE, "is 1"),
        (
            f"streams: {{a: {{}}, b: {{input: other}}}}\ntopics: {{partitions: 1}}\n{JOIN}",
            TWO,
            "streams a and b are joined",
        ),
        (
            (
                f"streams: {{a: {{keyed_by: stream}}, b: {{keyed_by: stream}}}}\n"
                f"topics: {{partitions: 2}}\n{JOIN}"
            ),
            TWO,
            "streams a and b are joined",
        ),
    ],
)
def test_the_stages_follow_from_where_streams_lie(text: str, stages: list[str], why: str) -> None:
    topology = parse(text)
    assert [stage.name for stage in topology.stages] == stages
    assert why in topology.cut.why
    assert topology.fused == ("reorder+merge" in stages)


FUSED = "stages: [reorder+merge+window]\n"
TWO_STREAMS = f"streams: {{a: {{keyed_by: stream}}, b: {{input: other}}}}\n{FUSED}"


@pytest.mark.parametrize(
    ("text", "partitions", "streams"),
    [
        (f"streams: {{default: {{}}}}\n{FUSED}", {"events.raw": 3}, ["default"]),
        (f"streams: {{default: {{}}}}\n{FUSED}", {"events.raw": 1}, []),
        (f"streams: {{default: {{}}}}\n{FUSED}", {}, []),
        ("streams: {default: {}}\ntopics: {partitions: 1}", {"events.raw": 3}, ["default"]),
        (f"streams: {{default: {{keyed_by: stream}}}}\n{FUSED}", {"events.raw": 3}, []),
        ("streams: {default: {}}", {"events.raw": 3}, []),
        (TWO_STREAMS, {"events.raw": 3, "other": 2}, ["b"]),
        (TWO_STREAMS, {"events.raw": 3, "other": 1}, []),
    ],
)
def test_sources_in_several_partitions_are_put_in_order_by_two_stages(
    text: str, partitions: dict[str, int], streams: list[str]
) -> None:
    topology = parse(text)
    found = list(scattered(topology.streams, topology.stages, partitions))
    assert [each.stream for each in found] == streams
    for each in found:
        assert f"{partitions[each.topic]} partitions of {each.topic}" in each.what
        assert each.remedy.startswith("either write `keyed_by: stream` if the producers key")


def test_streams_that_cannot_share_a_topic_are_told_so_with_the_remedy() -> None:
    other = f"streams: {{a: {{}}, b: {{input: b, headers: {{ts_unit: ms}}}}}}\n{FUSED}"
    (one,) = scattered(parse(other).streams, parse(other).stages, {"b": 2})
    assert "give all streams the same headers and make reorder and merge two stages" in one.remedy


@pytest.mark.parametrize(
    ("partitions", "first"), [(1, ["reorder+merge"]), (2, ["reorder", "merge"])]
)
def test_what_reads_accepted_events_is_in_the_stage_of_the_merge(
    partitions: int, first: list[str]
) -> None:
    """With the others of its kind; detectors follow the windows that they read."""
    text = f"""
streams: {{default: {{}}}}
topics: {{partitions: {partitions}}}
queries:
  w: {{window: tumbling 1s, aggregate: {{n: count()}}, answer: speculate}}
  x: {{window: tumbling 1s, aggregate: {{n: count()}}}}
  p: {{pattern: 'PATTERN SEQ(A a, B b) WITHIN 1 s'}}
  j: {{join: interval 1s, sides: {{x: {{type: A}}, y: {{type: B}}}}, answer: speculate}}
"""
    *before, merging = first
    stages = [stage.name for stage in parse(text).stages]
    assert stages == [*before, f"{merging}+window+join", "pattern"]
    reading = f"{text}  d: {{detector: z, reads: [x]}}\n"
    stages = [stage.name for stage in in_code(reading).stages]
    assert stages == [*before, f"{merging}+window+join+pattern+detector"]
