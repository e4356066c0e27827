"""Examples: the stages of a file that names none, and why."""

from __future__ import annotations

import pytest

from tests.kit.topologies import in_code
from topology.config import TopologyError, parse

JOIN = "queries:\n  q: {join: interval 40ms, sides: {x: {stream: a}, y: {stream: b}}}\n"
BY_STREAM = "a: {keyed_by: stream}, b: {keyed_by: stream}"


@pytest.mark.parametrize(
    ("text", "stages", "why"),
    [
        ("streams: {default: {}}", ["all"], "in which records of `default` may be"),
        ("streams: {default: {}}\ntopics: {partitions: 1}", ["all"], "records of `default` may be"),
        ("streams: {default: {keyed_by: stream}}", ["all"], "each partition is a task"),
        ("streams: {a: {keyed_by: stream}, b: {}}", ["all"], "records of `a`, `b` may be"),
        (f"streams: {{{BY_STREAM}}}\n{JOIN}", ["all"], "records of `a`, `b` may be"),
        ("streams: {default: {}}", ["all"], "the file names no stages, and one task reads"),
        ("streams: {default: {}}\nstages: [all]", ["all"], "`all` has what the file needs"),
        ("streams: {default: {}}\nstages: [all, detector]", ["all"], "has what the file needs"),
        ("streams: {default: {}}\nstages: [reorder, merge]", ["reorder", "merge"], "names the"),
        ("streams: {default: {}}\nstages: [reorder+merge]", ["reorder+merge"], "names the stages"),
    ],
)
def test_single_stage_is_the_default(text: str, stages: list[str], why: str) -> None:
    """A file that names no stages has the single stage `all`, and named stages stay as written."""
    topology = parse(text)
    assert [stage.name for stage in topology.stages] == stages
    assert why in topology.cut.why
    assert topology.fused == (stages in (["all"], ["reorder+merge"]))


@pytest.mark.parametrize("stages", ["all, window", "reorder, all", "all, all", "detector, all"])
def test_only_detector_can_follow_all(stages: str) -> None:
    """One line reports the error, however many operators are named twice."""
    said = (
        "stages (line 2): `all` has all operators, so only `detector` can follow it;"
        " write [all] alone, or name each stage: [reorder+merge, window]"
    )
    with pytest.raises(TopologyError) as refused:
        parse(f"streams: {{default: {{}}}}\nstages: [{stages}]")
    assert str(refused.value) == said


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
def test_related_topics_are_read_together(
    streams: str, joined: str, groups: list[list[str]]
) -> None:
    """Partitions that can contain the same stream are read together, and so are those of joined
    streams.
    """
    assert parse(f"streams: {{{streams}}}\n{joined}").topics_read_together == groups


def test_detectors_have_their_own_stage() -> None:
    """A detector that hangs then delays no other operator. A detector that needs MERGE or other
    results shares their stage.
    """
    text = """
streams: {default: {}}
queries:
  w: {window: tumbling 1s, aggregate: {n: count()}, answer: speculate}
  x: {window: tumbling 1s, aggregate: {n: count()}}
  p: {pattern: 'PATTERN SEQ(A a, B b) WITHIN 1 s'}
  j: {join: interval 1s, sides: {x: {type: A}, y: {type: B}}, answer: speculate}
"""
    assert [stage.name for stage in parse(text).stages] == ["all"]
    for settings, names in [
        ("", ["all", "detector"]),
        (", answer: speculate", ["all"]),
        (", reads: [x]", ["all"]),
    ]:
        found = in_code(f"{text}  d: {{detector: z{settings}}}\n")
        assert [stage.name for stage in found.stages] == names
        assert [stage.name for stage in found.stages if "detector" in stage.operators] == names[-1:]
