"""The topology file: examples of `reorder.rule: time`, accepted and refused."""

from __future__ import annotations

from typing import Any

import pytest

from topology.config import ReorderConfig, TopologyError, parse
from topology.reorder.strategy import strategy_of
from topology.waiting.fixed import KSlack
from topology.waiting.tail import OwnTail

MS = 1_000_000


def text(line: str) -> str:
    return f"streams: {{pitch: {{reorder: {{{line}}}}}}}"


def read(line: str) -> ReorderConfig:
    return parse(text(line)).stream("pitch").reorder


@pytest.mark.parametrize(
    ("line", "strategy", "made"),
    [
        ("rule: time", "tail", OwnTail),
        ("rule: time, accuracy: 99%, max_wait: 2s", "tail", OwnTail),
        ("rule: time, strategy: tail, late: side", "tail", OwnTail),
        ("rule: time, strategy: fixed, wait: 100ms", "fixed", KSlack),
        ("rule: time, strategy: fixed, wait: 0ms", "fixed", KSlack),
    ],
)
def test_accepted(line: str, strategy: str, made: type) -> None:
    config = read(line)
    assert not config.numbered
    assert config.strategy == strategy
    assert type(strategy_of(config)()) is made


def test_what_the_parameters_come_to() -> None:
    config = read("rule: time, accuracy: 99.95%")
    assert config.accuracy_ppm == 999_500
    assert read("rule: time, strategy: fixed, wait: 1.5ms").wait_ns == 1_500_000
    assert strategy_of(read("rule: time, strategy: fixed, wait: 3ms"))().figures() == {
        "slack_ns": 3 * MS
    }


def test_all_other_rules_need_numbers() -> None:
    assert ReorderConfig().numbered
    for rule in ("miss", "fixed"):
        assert read(f"rule: {rule}").numbered


REFUSED: list[tuple[str, str, str]] = [
    ("rule: tim", "rule", "did you mean `time`?"),
    ("rule: time, strategy: fixed", "strategy", "does not say how long; add wait"),
    ("rule: time, strategy: fixed, wait:", "strategy", "does not say how long; add wait"),
    ("rule: time, strategy: fixed, wait: 100", "wait", "has no unit; write 100ms"),
    ("rule: time, strategy: fixed, wait: 501ms", "wait", "lower wait or raise max_wait"),
    ("rule: time, wait: 5ms", "wait", "is the parameter of strategy `fixed`, not of `tail`"),
    ("rule: time, strategy: fixed, wait: 1ms, accuracy: 99%", "accuracy", "write strategy: tail"),
    ("rule: time, strategy: aq", "strategy", "write one of: tail, fixed"),
    ("rule: time, strategy:", "strategy", "has no value"),
    ("rule: time, accuracy: 100%", "accuracy", "is out of range"),
    ("rule: time, accuracy: 0", "accuracy", "is out of range"),
    ("rule: time, miss_target: 0.1%", "miss_target", "write accuracy, one minus it"),
    *(
        (f"rule: time, {key}", key.partition(":")[0], "knows no sequence numbers; leave it out")
        for key in (
            *("start: zero", "infer_restart: false", "seq_bits: 16", "max_jump: 5"),
            *("gap_ranges: 5", "gap_memory: 1h"),
        )
    ),
    ("strategy: tail", "strategy", "says nothing under rule `miss`; write rule: time"),
    ("rule: fixed, wait: 5ms", "wait", "says nothing under rule `fixed`; write rule: time"),
    ("rule: fixed, accuracy: 99%", "accuracy", "says nothing under rule `fixed`"),
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
        parse(text("rule: time, wait: 5ms, seq_bits: 16, start: 3, max_jump: 2"))
    paths = [problem.path.rpartition(".")[2] for problem in refused.value.problems]
    assert sorted(paths) == ["max_jump", "seq_bits", "start", "wait"]


def test_streams_of_one_topic_need_not_agree_on_numbers() -> None:
    source: Any = {"streams": {"a": {"reorder": {"rule": "time"}}, "b": {}}}
    topology = parse(source)
    assert [stream.reorder.numbered for stream in topology.streams.values()] == [False, True]
