"""The topology file: examples of `reorder.rule: time`, accepted and refused."""

from __future__ import annotations

import pytest

from topology.config import ReorderConfig, TopologyError, parse
from topology.reorder.by_time import ReorderByTime
from topology.waiting.tail import OwnTail

MS = 1_000_000


def text(line: str) -> str:
    return f"streams: {{pitch: {{reorder: {{{line}}}}}}}"


def read(line: str) -> ReorderConfig:
    return parse(text(line)).streams["pitch"].reorder


@pytest.mark.parametrize(
    "line", ["rule: time", "rule: time, miss_target: 1%, max_wait: 2s", "rule: time, late: side"]
)
def test_accepted(line: str) -> None:
    assert not read(line).numbered


def test_the_target_is_that_of_the_wait() -> None:
    config = read("rule: time, miss_target: 0.05%, max_wait: 3ms")
    policy = ReorderByTime("pitch", config)._policy()
    assert isinstance(policy, OwnTail)
    assert (policy._allowance.delta_ppm, policy._max_wait_ns) == (500, 3 * MS)


@pytest.mark.parametrize("rule", ["miss", "fixed"])
def test_all_other_rules_need_numbers(rule: str) -> None:
    assert read(f"rule: {rule}").numbered


REFUSED: list[tuple[str, str, str]] = [
    ("rule: tim", "rule", "did you mean `time`?"),
    ("rule: time, miss_target: 100%", "miss_target", "is out of range"),
    ("rule: time, miss_target: 0", "miss_target", "is out of range"),
    *(
        (f"rule: time, {key}", key.partition(":")[0], "uses no sequence numbers; leave it out")
        for key in (
            *("start: zero", "infer_restart: false", "seq_bits: 16", "max_jump: 5"),
            "gap_memory: 1h",
        )
    ),
]


@pytest.mark.parametrize(("line", "key", "words"), REFUSED, ids=[line for line, _, _ in REFUSED])
def test_refused(line: str, key: str, words: str) -> None:
    with pytest.raises(TopologyError) as refused:
        parse(text(line))
    (problem,) = refused.value.problems
    assert problem.path == f"streams.pitch.reorder.{key}"
    assert words in str(problem)


def test_all_that_contradicts_is_told_at_once() -> None:
    with pytest.raises(TopologyError) as refused:
        parse(text("rule: time, seq_bits: 16, start: 3, max_jump: 2"))
    paths = [problem.path.rpartition(".")[2] for problem in refused.value.problems]
    assert sorted(paths) == ["max_jump", "seq_bits", "start"]
