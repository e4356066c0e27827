"""Examples: which stages run where the file names none, and why."""

from __future__ import annotations

import pytest

from topology.config import parse

ONE = ["reorder+merge", "window", "pattern", "join"]
TWO = ["reorder", "merge", "window", "pattern", "join"]
JOIN = "queries:\n  q: {join: interval 40ms, sides: {x: {stream: a}, y: {stream: b}}}\n"


@pytest.mark.parametrize(
    ("text", "stages", "why"),
    [
        ("streams: {default: {}}", TWO, "may lie in several partitions of events.raw"),
        ("streams: {default: {}}\ntopics: {partitions: 1}", ONE, "`topics.partitions` is 1"),
        ("streams: {default: {keyed_by: stream}}", ONE, "`keyed_by: stream`"),
        ("streams: {a: {keyed_by: stream}, b: {}}", TWO, "sources of stream `b`"),
        (
            "streams: {default: {}}\nstages: [reorder, merge]\ntopics: {partitions: 1}",
            ["reorder", "merge"],
            "names the stages",
        ),
        (
            "streams: {default: {}}\nstages: [reorder+merge]",
            ["reorder+merge"],
            "names the stages",
        ),
        (
            "streams: {default: {}}\ntopics: {partitions: 1}\nwindows_read: sequenced",
            TWO,
            "`windows_read: sequenced` reads the topic between",
        ),
        (f"streams: {{a: {{}}, b: {{}}}}\ntopics: {{partitions: 1}}\n{JOIN}", ONE, "is 1"),
        (
            f"streams: {{a: {{}}, b: {{input: other}}}}\ntopics: {{partitions: 1}}\n{JOIN}",
            TWO,
            "streams a and b are joined",
        ),
        (
            f"streams: {{a: {{keyed_by: stream}}, b: {{keyed_by: stream}}}}\n{JOIN}",
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


def test_only_a_cut_that_rests_on_one_partition_says_so() -> None:
    assert parse("streams: {default: {}}\ntopics: {partitions: 1}").cut.rests_on_one
    keyed = "streams: {default: {keyed_by: stream}}\ntopics: {partitions: 1}"
    assert not parse(keyed).cut.rests_on_one
