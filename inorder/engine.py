"""Topologies in code, and their replay in this process; needs the distribution `inorder-engine`.

    from inorder.engine import QueryConfig, RawEvent, StreamConfig, Topology, pattern, replay

    topology = Topology(
        streams={"default": StreamConfig()},
        queries={"pair": QueryConfig(pattern=pattern("PATTERN SEQ(A a, B b) WITHIN 1 s"))},
    )
    for record in replay(topology, [RawEvent(source="s", seq=0, ts_ns=1, type="A")]):
        ...

`Topology` is the value that a YAML file gives (`parse`), and the one a worker runs. Names of fields
carry their units (`max_wait_ns`). What is wrong is a ValueError: pydantic's ValidationError of a
section made in code, TopologyError of a file or of a whole, QueryRefused of a pattern's text. What
is no topology or no event at all is a TypeError. A replay needs no Kafka and no clock: the same
input gives the same records, and those of `inorder replay`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

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
        SpeculateConfig,
        StageConfig,
        StreamConfig,
        TopicsConfig,
        Topology,
        TopologyError,
        Window,
        parse_with,
        pattern,
    )
    from topology.config import parse as parse_file
    from topology.config.user_functions import given_functions
    from topology.detector.detector import Detector, Emitted, Found
    from topology.detector.item import Seen
    from topology.flow.batches import batches
    from topology.flow.instants import whole_instants
    from topology.flow.replay import Replay
    from topology.model.outcome import Step
    from topology.pattern.tree.errors import QueryRefused
    from topology.window.aggregates.custom import Function
    from topology.wire.json_lines import step_lines
    from topology.wire.line_reader import Content, LineReader, Row, bears_arrivals, reading_of
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
    "Detector",
    "Emitted",
    "Found",
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
    "Seen",
    "SideConfig",
    "SpeculateConfig",
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

INPUTS: Final = "RawEvent, ClockSample, ClockOffset, or mappings"


def parse(
    source: str | bytes | Mapping[str, Any],
    functions: Mapping[str, Callable[..., Any]] | None = None,
    aggregates: Mapping[str, Function] | None = None,
    detectors: Mapping[str, Any] | None = None,
) -> Topology:
    """The topology that YAML text describes, or the mapping of such a text. Functions of your own
    are given here; a file that the text names behind `functions:` is for workers, and not run.

    Raises TopologyError with every problem, its line and its remedy.
    """
    if not isinstance(source, str | bytes | Mapping):
        raise TypeError(f"{source!r} is no topology; give a Topology, or the text of a file")
    if functions is None and aggregates is None and detectors is None:
        return parse_file(source)
    return parse_with(source, given_functions(functions, aggregates, detectors))


def runnable(
    topology: Topology | str,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    aggregates: Mapping[str, Function] | None = None,
    detectors: Mapping[str, Any] | None = None,
) -> Topology:
    """The topology, or the one that the text describes; with these functions, if any are given.
    TopologyError if it asks for others."""
    if not isinstance(topology, Topology):
        topology = parse(topology, functions, aggregates, detectors)
    elif functions is not None or aggregates is not None or detectors is not None:
        topology = topology.with_functions(functions, aggregates, detectors)
    topology.check_functions()
    return topology


def replay(
    topology: Topology | str, inputs: Iterable[Input], *, to_end: bool = True
) -> Iterator[Record]:
    """The records that follow from the inputs, in the order they happen.

    `topology` may be the text of a file. Inputs come in the order of their arrival; they are read
    as the records are asked for, so an endless input is fine. An input that cannot be used is a
    `DeadRecord`; what is none at all (a text, a list) is a TypeError when its turn comes. `to_end`:
    the input is over after the last one, and what is held leaves in order (results that only the
    end decides are `uncertain` and not `final`); without it the replay ends with what had been
    emitted by then. Where the first event has no arrival, stamps are taken as they
    are: such inputs show nothing about clocks.

    Raises TopologyError where the topology names functions of a user's that it does not have.
    """
    whole = runnable(topology)
    check_many("inputs", inputs, INPUTS)
    steps = whole_instants(_steps(whole, inputs, to_end=to_end), whole)
    return (record for step in steps for record in records_of(step))


def check_many(name: str, given: Any, of: str) -> None:
    """TypeError for what is not many: one alone, or nothing."""
    if isinstance(given, Mapping | str | bytes) or not isinstance(given, Iterable):
        raise TypeError(f"{name} is of type {type(given).__name__}; give a list of {of}")


def _steps(topology: Topology, inputs: Iterable[Input], *, to_end: bool) -> Iterator[Step]:
    bears, read = bears_arrivals(Reader(topology).contents(inputs))
    run = Replay(topology if bears else topology.without_arrivals())
    for contents, until_ns in batches(read):
        if (step := run.on_inputs(contents, until_ns)) is not None:
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
        each: Any
        for each in inputs:
            self._number += 1
            if isinstance(each, Mapping):
                row = Row(self._number, each)
            elif isinstance(each, RawEvent | ClockSample | ClockOffset):
                row = Row(self._number, each.line(), ts_is_instant=True)
            else:
                wrong = f"input {self._number} is of type {type(each).__name__}"
                raise TypeError(f"{wrong}; give {INPUTS}, each by itself")
            yield self._lines.read(row)


def records_of(step: Step) -> Iterator[Record]:
    """The output of a step, in the order of its instants."""
    return (record_of(line) for line in step_lines(step))
