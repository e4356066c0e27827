"""Topologies in code, and their replay in this process; needs the distribution `inorder-engine`.

    from inorder.engine import QueryConfig, RawEvent, StreamConfig, Topology, pattern, replay

    topology = Topology(
        streams={"default": StreamConfig()},
        queries={"pair": QueryConfig(pattern=pattern("PATTERN SEQ(A a, B b) WITHIN 1 s"))},
    )
    for record in replay(topology, [RawEvent(source="s", seq=0, ts_ns=1, type="A")]):
        ...

`Topology` is the value that a YAML file gives (`parse`), and the one a worker runs. Names of fields
carry their units (`max_wait_ns`); pydantic's ValidationError says what is wrong. A replay needs no
Kafka and no clock: the same input gives the same records, and those of `inorder replay`.

Proved by: tests/inorder/test_engine.py
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from inorder.records import ClockOffset, ClockSample, RawEvent, Record, record_of

try:
    from topology.config import (
        Aggregate,
        ClockConfig,
        HeaderConfig,
        JoinCondition,
        JoinedValue,
        MergeConfig,
        QualityConfig,
        QueryConfig,
        ReorderConfig,
        SideConfig,
        StageConfig,
        StreamConfig,
        TopicsConfig,
        Topology,
        TopologyError,
        Window,
        parse,
        pattern,
    )
    from topology.flow.instants import whole_instants
    from topology.flow.replay import Replay, batches
    from topology.model.outcome import Step
    from topology.pattern.tree.errors import QueryRefused
    from topology.window.aggregates.custom import Function
    from topology.wire.json_lines import step_lines
    from topology.wire.line_reader import Content, LineReader, Row, reading_of
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] != "topology":
        raise
    remedy = "pip install inorder-engine"
    raise ImportError(f"topologies in code are a part of the engine; {remedy}") from missing

__all__ = [
    "Aggregate",
    "ClockConfig",
    "ClockOffset",
    "ClockSample",
    "Function",
    "HeaderConfig",
    "Input",
    "JoinCondition",
    "JoinedValue",
    "MergeConfig",
    "QualityConfig",
    "QueryConfig",
    "QueryRefused",
    "RawEvent",
    "Record",
    "ReorderConfig",
    "SideConfig",
    "StageConfig",
    "StreamConfig",
    "TopicsConfig",
    "Topology",
    "TopologyError",
    "Window",
    "parse",
    "pattern",
    "replay",
]

Input = RawEvent | ClockSample | ClockOffset | Mapping[str, Any]
"""A mapping is a line of `inorder replay`, read as the command reads it."""


def replay(topology: Topology, inputs: Iterable[Input], *, to_end: bool = True) -> Iterator[Record]:
    """The records that follow from the inputs, in the order they happen.

    Inputs come in the order of their arrival; they are read as the records are asked for, so an
    endless input is fine. What cannot be used is a `DeadRecord`, never an exception. `to_end`: the
    input is over after the last one, and what is held leaves in order; without it the replay ends
    with what had been said by then.

    Raises TopologyError where the topology names functions of a user's that it does not have.
    """
    topology.check_functions()
    steps = whole_instants(_steps(topology, inputs, to_end=to_end), topology)
    return (record for step in steps for record in records_of(step))


def _steps(topology: Topology, inputs: Iterable[Input], *, to_end: bool) -> Iterator[Step]:
    run = Replay(topology)
    for batch in batches(Reader(topology).contents(inputs)):
        if (step := run.on_inputs(batch)) is not None:
            yield step
    if to_end and (step := run.on_end()) is not None:
        yield step


class Reader:
    """Numbers the inputs and reads each as the topology's streams want it; it carries the arrival
    clock from one to the next."""

    def __init__(self, topology: Topology) -> None:
        self._lines = LineReader(reading_of(topology))
        self._number = 0

    def contents(self, inputs: Iterable[Input]) -> Iterator[Content]:
        for each in inputs:
            self._number += 1
            if isinstance(each, Mapping):
                row = Row(self._number, each)
            else:
                row = Row(self._number, each.line(), ts_is_instant=True)
            yield self._lines.read(row)


def records_of(step: Step) -> Iterator[Record]:
    """What a step says, in the order of its instants."""
    return (record_of(line) for line in step_lines(step))
