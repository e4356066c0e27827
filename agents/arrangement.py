"""What one process runs: a stage of the topology, wired to real topics.

Settled once at the start, from the topology and from how many partitions the topics
have; the same value for every partition the process owns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aiokafka.structs import TopicPartition

from agents.changelog import changelog_topic
from agents.inlet import Inlet, RawInlet, SequencedInlet, lanes_of
from agents.outlet import OrderedOutlet, Outlet, SequencedOutlet, SideOutlet, partition_of
from topology.clock.drift_table import DriftTable
from topology.description import ClockConfig, StreamConfig, Topology
from topology.description import Stage as StageDescription
from topology.header_writer import HeaderWriter
from topology.headers import HeaderReader
from topology.stage import MERGE, REORDER, Stage

BUILT: Final = (REORDER, MERGE)
"""Operators that exist in this version."""


class ArrangementError(Exception):
    """The topology and the topics do not fit; the message says what to do."""


@dataclass(frozen=True)
class Arrangement:
    """`partitions`: how many each topic has that the stage reads or writes.

    `lanes`: how many lanes meet behind the topic upstream of this stage's input.
    """

    topology: Topology
    stage: StageDescription
    partitions: Mapping[str, int]
    lanes: int

    @property
    def operator_names(self) -> list[str]:
        """Those of the stage that this version has; the others have no work without queries."""
        return [name for name in self.stage.operators if name in BUILT]

    @property
    def is_first(self) -> bool:
        return self.operator_names[0] == REORDER

    @property
    def is_last(self) -> bool:
        return MERGE in self.operator_names

    @property
    def inputs(self) -> list[str]:
        return inputs_of(self.topology, self.stage)

    @property
    def group(self) -> str:
        return f"{self.topology.application}.{self.stage.name}"

    def streams_of(self, topic: str) -> dict[str, StreamConfig]:
        """The streams whose records can come by this input topic."""
        streams = self.topology.streams
        if not self.is_first:
            return dict(streams)
        return {name: stream for name, stream in streams.items() if stream.input == topic}

    def changelog(self, source: TopicPartition) -> tuple[str, int]:
        topic = changelog_topic(self.topology.application, self.stage.name, source.topic)
        return topic, source.partition

    def fingerprint(self, source: TopicPartition) -> list[str]:
        """What the state of a partition depends on beside the settings of its operators."""
        return [*self.operator_names, *sorted(self.streams_of(source.topic))]

    @property
    def clocks(self) -> list[ClockConfig]:
        """Of the streams that this stage stamps and that sync; they need the drift table."""
        streams = self.topology.streams.values() if self.is_first else ()
        return [stream.clock for stream in streams if stream.clock.sync != "none"]

    def operators(self, source: TopicPartition, table: DriftTable | None = None) -> Stage:
        streams = self.streams_of(source.topic)
        return Stage(self.topology, self.operator_names, self.lanes, streams, table)

    def inlet(self, source: TopicPartition) -> Inlet:
        if self.is_first:
            return input_reader(self.topology, source.topic)
        headers = next(iter(self.topology.streams.values())).headers
        return SequencedInlet(HeaderReader(headers), self.lanes)

    def outlet(self, source: TopicPartition) -> Outlet:
        streams = self.streams_of(source.topic)
        writer = HeaderWriter(next(iter(streams.values())).headers)
        if self.is_last:
            outputs = {name: stream.output for name, stream in streams.items()}
            return OrderedOutlet(writer, self._targets(outputs))
        outputs = dict.fromkeys(streams, self.topology.topics.sequenced)
        lane = lanes_of({t: self.partitions[t] for t in self.inputs})[source.topic]
        return SequencedOutlet(writer, lane + source.partition, self._targets(outputs))

    def side_outlet(self, source: TopicPartition) -> SideOutlet:
        late = {name: s.reorder.late for name, s in self.topology.streams.items()}
        place = (source.topic, source.partition)
        return SideOutlet(place, self.topology.topics, self.partitions, late)

    def _targets(self, outputs: Mapping[str, str]) -> dict[str, tuple[str, int]]:
        return {
            stream: (topic, partition_of(stream, self.partitions[topic]))
            for stream, topic in outputs.items()
        }


def input_reader(topology: Topology, topic: str) -> RawInlet:
    """Streams that share an input topic share its header contract."""
    headers = next(s.headers for s in topology.streams.values() if s.input == topic)
    return RawInlet(HeaderReader(headers), topology.topics.max_record_bytes)


def inputs_of(topology: Topology, stage: StageDescription) -> list[str]:
    if stage.operators[0] == REORDER:
        return sorted({stream.input for stream in topology.streams.values()})
    return [topology.topics.sequenced]


def upstream_inputs(topology: Topology) -> list[str]:
    """The topics whose partitions are the lanes of `events.sequenced`."""
    return sorted({stream.input for stream in topology.streams.values()})


def topics_of(topology: Topology, stage: StageDescription) -> list[str]:
    """Every topic whose number of partitions the stage needs to know."""
    topics = topology.topics
    wanted = {topics.gaps, topics.late, topics.dead, *inputs_of(topology, stage)}
    if stage.operators[0] != REORDER:
        wanted.update(upstream_inputs(topology))
    elif any(stream.clock.sync != "none" for stream in topology.streams.values()):
        wanted.add(topics.clock)
    if MERGE in stage.operators:
        wanted.update(stream.output for stream in topology.streams.values())
    else:
        wanted.add(topics.sequenced)
    for topic in inputs_of(topology, stage):
        wanted.add(changelog_topic(topology.application, stage.name, topic))
    return sorted(wanted)


def arrange(
    topology: Topology, stage: StageDescription, partitions: Mapping[str, int]
) -> Arrangement:
    """ArrangementError where a changelog does not have its input's partitions."""
    for topic in inputs_of(topology, stage):
        changelog = changelog_topic(topology.application, stage.name, topic)
        if partitions[changelog] < partitions[topic]:
            raise ArrangementError(
                f"{changelog} has {partitions[changelog]} partitions, {topic} has"
                f" {partitions[topic]}; run `inorder topics create` to make them equal"
            )
    lanes = 0
    if stage.operators[0] != REORDER:
        lanes = sum(partitions[topic] for topic in upstream_inputs(topology))
    return Arrangement(topology, stage, partitions, lanes)
