"""Examples: which stages run where the file names none, and why."""

from __future__ import annotations

import pytest

from tests.kit.topologies import in_code
from topology.config import parse
from topology.config.groups import topics_read_together

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


SIDES = "sides: {x: {stream: a}, y: {stream: b}}"
JOINED = f"queries: {{q: {{join: interval 40ms, {SIDES}}}}}\n"


@pytest.mark.parametrize(
    ("streams", "joined", "groups"),
    [
        ("a: {keyed_by: stream}", "", []),
        ("a: {}", "", [["events.raw"]]),
        ("a: {keyed_by: stream}, b: {}", "", [["events.raw"]]),
        ("a: {keyed_by: stream}, b: {input: o}", "", [["o"]]),
        ("a: {keyed_by: stream}, b: {keyed_by: stream}", JOINED, [["events.raw"]]),
        ("a: {keyed_by: stream}, b: {keyed_by: stream, input: o}", JOINED, [["events.raw", "o"]]),
        ("a: {}, b: {input: o}, c: {input: p}", JOINED, [["events.raw", "o"], ["p"]]),
    ],
)
def test_the_partitions_in_which_a_stream_may_be_are_read_together(
    streams: str, joined: str, groups: list[list[str]]
) -> None:
    """So are those of streams that a query joins."""
    assert [*topics_read_together(parse(f"streams: {{{streams}}}\n{joined}"))] == groups


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
