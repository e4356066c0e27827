"""Connects one stage of the topology to real topics, for one process.

An arrangement is fixed once at the start, from the topology and from the topics' numbers of
partitions. All partitions of the process share it. Its contract lists the facts on which a saved
state depends (`topology.config.change`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from aiokafka.structs import TopicPartition
from msgspec import Raw

from agents.kafka import stage_topics
from agents.kafka.partition_queue import PartitionGroup, make_single_group
from agents.kafka.rights import Kind, list_rights
from agents.kafka.stage_topics import ORDERED, RAW, SEQUENCED
from agents.stage import outlet as outlets
from agents.stage.inlet import Inlet, MappedInlet, OrderedInlet, RawInlet, SequencedInlet
from agents.state.changelog import STATE_FORMAT, Progress, encode
from agents.state.notes import Spilled
from codec import make_scan
from codec.face import Target
from codec.values.mapped import field_reader, find_short_path, registered_schemas
from codec.values.payloads import payload_readers, tables_of
from codec.values.registered import RegisteredSchemas
from codec.values.schema_fault import SchemaFault
from topology.config import ClockConfig, StageConfig, StreamConfig, Topology, change
from topology.config.change import Contract, StreamContract
from topology.config.stages import MERGE, REORDER
from topology.order.clock.drift_table import DriftTable
from topology.records.header_reader import HeaderReader
from topology.records.header_writer import HeaderWriter
from topology.records.signed import SignatureCheck
from topology.stage.lanes import MOST_LANES, Lanes
from topology.stage.query_digest import query_digest
from topology.stage.registry import shapes_of
from topology.stage.stage import Stage


class ArrangementError(Exception):
    """The topology does not fit the topics; the message states the remedy."""


@dataclass(frozen=True)
class Arrangement:
    """A stage with its topics and everything else from which its partitions are built.

    Attributes:
        partitions: Number of partitions of each topic that the stage reads or writes.
        upstream: The table of upstream partitions (`topology.config.change`), in a stage that
            writes or reads the header `lane`.
        masters: The master keys that verify signed streams.
    """

    topology: Topology
    stage: StageConfig
    partitions: Mapping[str, int]
    upstream: list[tuple[str, int, int]]
    masters: tuple[bytes, ...] = field(default=(), repr=False)

    @cached_property
    def lane_places(self) -> tuple[tuple[str, int], ...]:
        """The input partitions, indexed by their number in the header `lane`."""
        return tuple(change.partitions_in_table(self.upstream))

    @cached_property
    def operator_names(self) -> list[str]:
        """The operators of the stage that have work; queries are the work of some of them."""
        return [name for name in self.stage.operators if self.topology.has_work(name)]

    @property
    def is_first(self) -> bool:
        """Whether the stage reads the input topics, so that it takes time from arrival times."""
        return self.reads == RAW

    @cached_property
    def reads(self) -> str:
        return stage_topics.reads(self.topology, self.stage)

    @property
    def is_query_only(self) -> bool:
        """Whether the stage writes no events, only results."""
        return not {REORDER, MERGE} & set(self.operator_names)

    @property
    def writes_progress(self) -> bool:
        """Whether the next stage waits for progress of each input partition."""
        return REORDER in self.operator_names and MERGE not in self.operator_names

    @property
    def inputs(self) -> list[str]:
        return stage_topics.inputs_of(self.topology, self.stage)

    @property
    def group(self) -> str:
        return stage_topics.group_of(self.topology, self.stage)

    @property
    def single_partition_streams(self) -> frozenset[str]:
        """The streams that this stage puts in order by REORDER and MERGE together.

        The topology file declares that each of them is in one partition of its input (`keyed_by:
        stream`).
        """
        if not {REORDER, MERGE} <= {*self.operator_names}:
            return frozenset()
        streams = self.topology.streams.items()
        return frozenset(name for name, stream in streams if stream.keyed_by == "stream")

    @cached_property
    def together(self) -> list[list[str]]:
        """The input topics whose partitions one task reads, for each task with several."""
        return [
            topics
            for topics in stage_topics.group_inputs(self.topology, self.stage)
            if sum(self.partitions[topic] for topic in topics) > 1
        ]

    @cached_property
    def _groups(self) -> dict[TopicPartition, PartitionGroup]:
        """The group of each input partition of a stage that reads several partitions together."""
        found: dict[TopicPartition, PartitionGroup] = {}
        places = [TopicPartition(*place) for place in self.lane_places]
        for topics in self.together:
            lanes = tuple(place for place in places if place.topic in topics)
            found |= {lane: PartitionGroup(lanes[0], lanes) for lane in lanes}
        return found

    def group_of(self, partition: TopicPartition) -> PartitionGroup:
        """Return the input partitions that one task reads together, with this one among them."""
        return self._groups.get(partition) or make_single_group(partition)

    @cached_property
    def tasks(self) -> list[TopicPartition]:
        """The names of all tasks of the stage, sorted."""
        counts = {topic: self.partitions[topic] for topic in self.inputs}
        found = (TopicPartition(topic, n) for topic, count in counts.items() for n in range(count))
        return sorted({self.group_of(partition).name for partition in found})

    def lanes_of(self, source: TopicPartition) -> list[tuple[int, TopicPartition]]:
        """Return the partitions that the task of this name reads, with the numbers of their lanes.

        They are counted from the first one, which names the task. So they stay the same if others
        come behind them or go, also if the task had one partition before.
        """
        lanes = self.group_of(source).lanes
        if len(lanes) == 1:
            return [(0, source)]
        places = self._places_from(source)
        return [(places.index(lane), lane) for lane in lanes]

    def _places_from(self, source: TopicPartition) -> tuple[tuple[str, int], ...]:
        """Return the input partitions from this one on, in the order of `lane_places`."""
        return self.lane_places[self.lane_places.index(source) :]

    def held_limit_bytes(self, source: TopicPartition) -> int:
        """Return the maximum payload in bytes that the task of this name may buffer.

        It is the sum of the limits of REORDER, for each lane, and of MERGE for the task's streams.
        An alignment of several lanes needs the largest of these limits once more.
        """
        lanes, names = self.group_of(source).lanes, self.operator_names
        held = sum(
            stream.reorder.max_held_bytes
            for lane in lanes
            for stream in self.streams_of(lane.topic).values()
            if REORDER in names
        )
        streams = self.streams_of_task(source).values()
        queued = [stream.reorder.max_held_bytes for stream in streams if MERGE in names]
        aligns = REORDER not in names or len(lanes) > 1
        return held + sum(queued) + (max(queued, default=0) if aligns else 0)

    def streams_of_task(self, source: TopicPartition) -> dict[str, StreamConfig]:
        """Return the streams whose records can be in the partitions of the task of this name."""
        topics = dict.fromkeys(lane.topic for lane in self.group_of(source).lanes)
        found: dict[str, StreamConfig] = {}
        for topic in topics:
            found |= self.streams_of(topic)
        return found

    def streams_of(self, topic: str) -> dict[str, StreamConfig]:
        """Return the streams whose records can be in this input topic."""
        if self.reads == SEQUENCED:
            return dict(self.topology.streams)
        streams, is_ordered = self.topology.streams.items(), self.reads == ORDERED
        return {n: s for n, s in streams if topic == (s.output if is_ordered else s.input)}

    def lanes_by_stream(
        self, source: TopicPartition
    ) -> dict[str, list[tuple[int, TopicPartition]]]:
        """Return the streams of the task of this name, each with the lanes that have its records.

        In a topic that stages write, the stream is in one partition.
        """
        if self.is_first:
            lanes = self.lanes_of(source)
            return {
                name: [lane for lane in lanes if lane[1].topic == stream.input]
                for name, stream in self.streams_of_task(source).items()
            }
        streams = self.streams_of(source.topic)
        come = [n for n in streams if self._partition_of(n, source.topic) == source.partition]
        return {name: [(0, source)] for name in come}

    def changelog(self, source: TopicPartition) -> tuple[str, int]:
        application, stage = self.topology.application, self.stage.name
        topic = stage_topics.changelog_topic(application, stage, source.topic)
        return topic, source.partition

    @property
    def changelogs(self) -> list[str]:
        return [self.changelog(TopicPartition(topic, 0))[0] for topic in self.inputs]

    @property
    def needs_whole(self) -> set[str]:
        """The topics whose partitions must all be read: inputs, upstream and clock topics."""
        topics = self.topology.topics
        upstream = (
            stage_topics.list_upstream_inputs(self.topology) if self.reads == SEQUENCED else ()
        )
        return {*self.inputs, *upstream, *({topics.clock} & self.partitions.keys())}

    def contract(self, source: TopicPartition) -> Contract:
        """Return the contract of a partition: the facts on which its saved state depends.

        The operators' own settings are not part of it.
        """
        topology, names = self.topology, self.operator_names
        written = self._write(source)
        streams = {
            name: StreamContract(
                stream.input if self.is_first else "",
                "/".join(map(str, written[name])) if name in written else "",
                stream.reorder.numbered or REORDER not in names,
                change.reading_of(stream, is_derived=not self.is_first),
            )
            for name, stream in self.streams_of_task(source).items()
        }
        targets, tables = stage_topics.results_of(topology, self.stage)
        results = {f"results of {kind}": topic for kind, topic in targets.items()}
        results |= {f"queries.{name}.output": topic for name, topic in tables.items()}
        queries = {
            name: self._query_digests[name]
            for name, query in topology.queries.items()
            if query.kind in names and topology.read_by(query) <= streams.keys()
        }
        return Contract(
            topology.application,
            self.stage.name,
            self.inputs,
            shapes_of(names),
            streams,
            results,
            queries,
            self.upstream,
        )

    def progress(self, source: TopicPartition, topic_id: str = "") -> Progress:
        """Return the progress for the first state of a partition that has none yet."""
        contract = Raw(encode(self.contract(source)))
        return Progress(0, [], contract, topic_id, STATE_FORMAT, entries=0, digest=0)

    @cached_property
    def _query_digests(self) -> dict[str, str]:
        return {name: query_digest(self.topology, name) for name in self.topology.queries}

    @property
    def clocks(self) -> list[ClockConfig]:
        """The clock settings of the time-synced streams whose timestamps this stage corrects.

        If there are any, the stage needs the drift table.
        """
        stamps = REORDER in self.operator_names
        streams = self.topology.streams.values() if stamps else ()
        return [stream.clock for stream in streams if stream.clock.sync != "none"]

    def operators(self, source: TopicPartition, table: DriftTable | None = None) -> Stage:
        streams = self.streams_of_task(source)
        names, lanes = self.operator_names, self.lanes(source)
        return Stage(self.topology, names, lanes, streams, table, make_scan=make_scan)

    def lanes(self, source: TopicPartition) -> Lanes | None:
        """Return the lanes of a task, or the upstream partitions of `events.sequenced`; else None.

        A task of one lane has no alignment.
        """
        if len(self.group_of(source).lanes) > 1:
            numbers = (number for number, _ in self.lanes_of(source))
            return Lanes(self._places_from(source), frozenset(numbers))
        if self.reads != SEQUENCED:
            return None
        come = {
            stream.input
            for name, stream in self.topology.streams.items()
            if self._partition_of(name, source.topic) == source.partition
        }
        awaited = (lane for lane, (topic, _) in enumerate(self.lane_places) if topic in come)
        return Lanes(self.lane_places, frozenset(awaited))

    def inlet(self, source: TopicPartition) -> Inlet:
        if self.is_first:
            return make_input_inlet(self.topology, source.topic, self.masters, source.partition)
        if self.reads == ORDERED:
            return make_ordered_inlet(self.topology, source.topic)
        streams = self.streams_of(source.topic)
        headers = next(iter(streams.values())).headers
        sequenced = SequencedInlet(HeaderReader(headers), len(self.lane_places))
        _set_payload_readers(sequenced, streams, tables_of(self.topology))
        return sequenced

    def make_outlet(self, source: TopicPartition) -> outlets.Outlet:
        streams = self.streams_of_task(source)
        writer = HeaderWriter(next(iter(streams.values())).headers)
        if self.is_query_only:
            return outlets.Outlet()
        if MERGE in self.operator_names:
            return outlets.OrderedOutlet(writer, self._write(source))
        lane = self.lane_places.index((source.topic, source.partition))
        return outlets.SequencedOutlet(writer, self._write(source), lane)

    def _write(self, source: TopicPartition) -> dict[str, tuple[str, int]]:
        """Return the output topic and partition of each stream that can be in this input topic."""
        topics = stage_topics.events_of(self.topology, self.stage)
        come = self.streams_of_task(source)
        return {
            n: (topic, self._partition_of(n, topic)) for n, topic in topics.items() if n in come
        }

    def make_result_outlet(self) -> outlets.ResultOutlet:
        targets, tables = stage_topics.results_of(self.topology, self.stage)
        widths = self.partitions
        return outlets.ResultOutlet(
            {kind: (topic, widths[topic]) for kind, topic in targets.items()},
            {query: (topic, widths[topic]) for query, topic in tables.items()},
        )

    def make_side_outlet(self, source: TopicPartition) -> outlets.SideOutlet:
        late = {name: s.reorder.late for name, s in self.topology.streams.items()}
        lanes = self.group_of(source).lanes
        sources: list[Target] = [*self._places_from(source)] if len(lanes) > 1 else [source]
        return outlets.SideOutlet(sources, self.topology.topics, self.partitions, late)

    def _partition_of(self, stream: str, topic: str) -> int:
        return outlets.partition_of(self.topology.partition_name_of(stream), self.partitions[topic])


def make_ordered_inlet(topology: Topology, topic: str) -> Inlet:
    """Return the inlet of an ordered topic, which also reads the values that queries need."""
    streams = {name: each for name, each in topology.streams.items() if each.output == topic}
    ordered = OrderedInlet(HeaderReader(next(iter(streams.values())).headers))
    _set_payload_readers(ordered, streams, tables_of(topology))
    return ordered


def _set_payload_readers(
    inlet: Inlet, streams: Mapping[str, StreamConfig], tables: Mapping[str, RegisteredSchemas]
) -> None:
    """Make the inlet read the values that queries need from the payloads."""
    try:
        payloads = payload_readers(streams, tables)
    except SchemaFault as fault:
        raise ArrangementError(f"the schema {fault}") from None
    if payloads:
        inlet.payloads, inlet.registered = payloads, tuple(tables.values())


def make_input_inlet(
    topology: Topology,
    topic: str,
    masters: tuple[bytes, ...] = (),
    partition: int = 0,
    *,
    checks: bool = True,
) -> RawInlet:
    """Return the inlet of an input topic, which also reads the values that queries need.

    Streams that share an input topic share its header contract or mapping. Streams that are ordered
    by time need no sequence number. A caller that writes nothing may set `checks` to False, which
    turns the signature check off. Raises ArrangementError if signatures must be checked but there
    is no master key.
    """
    streams = {name: s for name, s in topology.streams.items() if s.input == topic}
    signed = [name for name, s in streams.items() if s.signed and checks]
    if signed and not masters:
        raise ArrangementError(f"stream {signed[0]} is signed; {NO_MASTERS}")
    reader = HeaderReader(topology.headers_of(topic), topology.reading(topic))
    registered = registered_schemas(topology, topic)
    tables = {} if registered is None else {topic: registered}
    try:
        fields = field_reader(topology, topic, registered)
    except SchemaFault as fault:
        raise ArrangementError(f"the schema {fault}") from None
    most_bytes = topology.topics.max_record_bytes
    check = None
    if signed:
        check = SignatureCheck(streams[signed[0]].signed_headers(), signed, masters)
    inlet = RawInlet(reader, most_bytes, check)
    if fields is not None:
        known, short = tuple(tables.values()), find_short_path(fields)
        inlet = MappedInlet(fields, reader, most_bytes, partition, known, short, Spilled, check)
    _set_payload_readers(inlet, streams, tables)
    return inlet


NO_MASTERS: Final = (
    "name the file of the master keys in INORDER_MASTER_KEYS_FILE (one key in hex per line, from"
    " `openssl rand -hex 32`), or write `signed: false`"
)


def topics_of(topology: Topology, stage: StageConfig) -> list[str]:
    """Return the topics to which the stage has rights, whose partitions it must count."""
    return sorted(
        right.name
        for right in list_rights(topology, stage)
        if right.kind == Kind.TOPIC and not right.prefixed
    )


def arrange(
    topology: Topology,
    stage: StageConfig,
    partitions: Mapping[str, int],
    masters: tuple[bytes, ...] = (),
    lanes: Sequence[tuple[str, int, int]] = (),
) -> Arrangement:
    """Return the arrangement of a stage on these topics.

    `lanes` are the upstream partitions that the existing state has numbered
    (`topology.config.change`); new ones are numbered after them. Raises ArrangementError in three
    cases:
    - a changelog has fewer partitions than its input;
    - there are more input partitions than a task can read;
    - master keys are missing.
    """
    whole = {topic for each in stage_topics.group_inputs(topology, stage) for topic in each}
    for topic in stage_topics.inputs_of(topology, stage):
        changelog = stage_topics.changelog_topic(topology.application, stage.name, topic)
        needed = 1 if topic in whole else partitions[topic]
        if partitions[changelog] < needed:
            raise ArrangementError(
                f"{changelog} has {partitions[changelog]} partitions, {topic} has {needed}; run"
                " `inorder topics create --grow` to make them equal, and restart all workers"
            )
    upstream: list[tuple[str, int, int]] = []
    if stage_topics.reads(topology, stage) in (RAW, SEQUENCED):
        upstream = change.extend_table(
            lanes, {t: partitions[t] for t in stage_topics.list_upstream_inputs(topology)}
        )
    arrangement = Arrangement(topology, stage, partitions, upstream, masters)
    if len(arrangement.lane_places) > MOST_LANES:
        raise ArrangementError(
            f"the inputs have {len(arrangement.lane_places)} partitions, and a worker can tell"
            f" {MOST_LANES} apart"
        )
    if arrangement.is_first:
        for topic in arrangement.inputs:
            make_input_inlet(topology, topic, masters)
    return arrangement
