"""What one process runs: a stage of the topology, wired to real topics.

Settled once at the start, from the topology and from how many partitions the topics
have; the same value for every partition the process owns. Where `stages:` has changed, or what the
default cut follows from (topology.config.cut), the stage that writes events is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final

from aiokafka.structs import TopicPartition

from agents.kafka.brokers import Brokers
from agents.kafka.rights import Kind, rights
from agents.kafka.stage_topics import (
    ORDERED,
    RAW,
    SEQUENCED,
    changelog_topic,
    group_of,
    inputs_of,
    reads,
    upstream_inputs,
)
from agents.stage.inlet import (
    Inlet,
    MappedInlet,
    OrderedInlet,
    PayloadInlet,
    RawInlet,
    SequencedInlet,
    first_partitions,
)
from agents.stage.outlet import (
    NoOutlet,
    OrderedOutlet,
    Outlet,
    ResultOutlet,
    SequencedOutlet,
    SideOutlet,
    partition_of,
)
from agents.state.changelog import StateRefused
from agents.state.held import Spilled
from codec.values.mapped import field_reader, registered_schemas, short_way
from codec.values.payloads import payload_readers, tables_of
from codec.values.registered import RegisteredSchemas
from codec.values.schema_fault import SchemaFault
from topology.clock.drift_table import DriftTable
from topology.config import ClockConfig, StageConfig, StreamConfig, Topology
from topology.config.stages import MERGE, REORDER, link_of, operators
from topology.flow.registry import in_chain
from topology.flow.stage import Stage
from topology.wire.header_reader import HeaderReader
from topology.wire.header_writer import HeaderWriter
from topology.wire.signed import SignatureCheck


class ArrangementError(Exception):
    """The topology and the topics do not fit; the message states what to do."""


@dataclass(frozen=True)
class Arrangement:
    """`partitions`: how many each topic has that the stage reads or writes.

    `upstream_partitions`: how many input partitions the stage before has, of all its topics.
    `masters`: the master keys by which signed streams are checked.
    """

    topology: Topology
    stage: StageConfig
    partitions: Mapping[str, int]
    upstream_partitions: int
    masters: tuple[bytes, ...] = field(default=(), repr=False)

    @property
    def operator_names(self) -> list[str]:
        """Those of the stage that have work: windows, patterns and joins need queries."""
        return [name for name in self.stage.operators if self.topology.has_work(name)]

    @property
    def is_first(self) -> bool:
        """It reads input topics, whose append time is the clock."""
        return self.reads == RAW

    @property
    def reads(self) -> str:
        return reads(self.topology, self.stage)

    @property
    def only_looks(self) -> bool:
        """It lets no event go into a topic."""
        return not {REORDER, MERGE} & set(self.operator_names)

    @property
    def writes_progress(self) -> bool:
        """The next stage waits for progress of each partition of the input."""
        return REORDER in self.operator_names and MERGE not in self.operator_names

    @property
    def inputs(self) -> list[str]:
        return inputs_of(self.topology, self.stage)

    @property
    def group(self) -> str:
        return group_of(self.topology, self.stage)

    @property
    def in_one_partition(self) -> frozenset[str]:
        """Streams that this stage puts in order whole, on the word of the topology file that each
        lies in one partition of its input."""
        if not {REORDER, MERGE} <= {*self.operator_names}:
            return frozenset()
        streams = self.topology.streams.items()
        return frozenset(name for name, stream in streams if stream.keyed_by == "stream")

    def held_limit_bytes(self, topic: str) -> int:
        """The payload that a partition of this input topic may hold, by the bounds of REORDER and
        MERGE, and of MERGE again where it has upstream partitions to bring in one order."""
        streams = self.streams_of(topic).values()
        found = 0
        if REORDER in self.operator_names:
            found += sum(stream.reorder.max_held_bytes for stream in streams)
        if MERGE in self.operator_names:
            queued = [stream.merge.max_queued_bytes for stream in streams]
            found += sum(queued) + (0 if REORDER in self.operator_names else max(queued, default=0))
        return found

    def streams_of(self, topic: str) -> dict[str, StreamConfig]:
        """The streams whose records can come by this input topic."""
        streams = self.topology.streams
        if self.reads == ORDERED:
            return {name: stream for name, stream in streams.items() if stream.output == topic}
        if self.reads == SEQUENCED:
            return dict(streams)
        return {name: stream for name, stream in streams.items() if stream.input == topic}

    def changelog(self, source: TopicPartition) -> tuple[str, int]:
        topic = changelog_topic(self.topology.application, self.stage.name, source.topic)
        return topic, source.partition

    @property
    def changelogs(self) -> list[str]:
        application, stage = self.topology.application, self.stage.name
        return [changelog_topic(application, stage, topic) for topic in self.inputs]

    @property
    def needs_whole(self) -> set[str]:
        """The topics of which each partition counts: those it reads, and those whose partitions
        are its upstream partitions."""
        topics = self.topology.topics
        upstream = upstream_inputs(self.topology) if self.reads == SEQUENCED else ()
        feeds = {topics.clock, topics.queries} & self.partitions.keys()
        return {*self.inputs, *upstream, *feeds}

    def fingerprint(self, source: TopicPartition) -> list[str]:
        """What the state of a partition depends on beside the settings of its operators, and where
        it has written to: half a stream in one place and half in another is no stream."""
        names = in_chain(self.topology, self.operator_names)
        streams = sorted(self.streams_of(source.topic))
        met = {stream: self.topology.partition_name_of(stream) for stream in streams}
        moved = [f"{stream} with {met[stream]}" for stream in streams if met[stream] != stream]
        by_time = [f"{s} by time" for s in streams if not self.topology.streams[s].reorder.numbered]
        written = [f"{s} to {t}/{p}" for s, (t, p) in sorted(self._written(source).items())]
        found = [
            f"{name} to {topic}" for name, (topic, _) in sorted(self._result_targets().items())
        ]
        by_time = by_time if REORDER in names else []
        return [*names, *streams, *moved, *by_time, *written, *found]

    def accept(self, source: TopicPartition, fingerprint: list[str]) -> None:
        """StateRefused if the state that was found is another arrangement's."""
        mine = self.fingerprint(source)
        if fingerprint == mine:
            return
        was = [part for part in fingerprint if part not in mine] or fingerprint
        differing = [part for part in mine if part not in fingerprint] or mine
        raise StateRefused(
            f"the state of {source.topic}/{source.partition} was made by {', '.join(was)}; now it"
            f" would be {', '.join(differing)}; set another `application:` to begin anew, or put"
            " stages, streams and outputs back as they were"
        )

    @property
    def clocks(self) -> list[ClockConfig]:
        """The clocks of streams that this stage stamps and that sync; they need the drift table."""
        stamps = REORDER in self.operator_names
        streams = self.topology.streams.values() if stamps else ()
        return [stream.clock for stream in streams if stream.clock.sync != "none"]

    def operators(self, source: TopicPartition, table: DriftTable | None = None) -> Stage:
        streams = self.streams_of(source.topic)
        return Stage(self.topology, self.operator_names, self.upstream_partitions, streams, table)

    def inlet(self, source: TopicPartition) -> Inlet:
        if self.is_first:
            topic = source.topic
            inlet = input_reader(self.topology, topic, self.masters, source.partition)
            return with_payloads(self.topology, topic, inlet)
        if self.reads == ORDERED:
            return ordered_reader(self.topology, source.topic)
        streams = self.streams_of(source.topic)
        headers = next(iter(streams.values())).headers
        sequenced = SequencedInlet(HeaderReader(headers), self.upstream_partitions)
        return _reading_payloads(sequenced, streams, tables_of(self.topology))

    def outlet(self, source: TopicPartition) -> Outlet:
        streams = self.streams_of(source.topic)
        writer = HeaderWriter(next(iter(streams.values())).headers)
        if self.only_looks:
            return NoOutlet()
        if MERGE in self.operator_names:
            return OrderedOutlet(writer, self._written(source))
        first = first_partitions({t: self.partitions[t] for t in self.inputs})[source.topic]
        return SequencedOutlet(writer, first + source.partition, self._written(source))

    def _written(self, source: TopicPartition) -> dict[str, tuple[str, int]]:
        """Where the events of each stream go."""
        streams = self.streams_of(source.topic)
        if self.only_looks:
            return {}
        if MERGE in self.operator_names:
            return self._targets({name: stream.output for name, stream in streams.items()})
        return self._targets(dict.fromkeys(streams, self.topology.topics.sequenced))

    def result_outlet(self) -> ResultOutlet:
        names, queries = self.operator_names, self.topology.queries
        tables = {
            query: (topic, self.partitions[topic])
            for query, topic in self.topology.result_tables.items()
            if queries[query].kind in names
        }
        return ResultOutlet(self._result_targets(), tables)

    def _result_targets(self) -> dict[str, tuple[str, int]]:
        """Where the results of each operator go, and over how many partitions."""
        topics = self.topology.result_topics
        return {
            operator: (topics[operator], self.partitions[topics[operator]])
            for operator in self.operator_names
            if operator in topics
        }

    def side_outlet(self, source: TopicPartition) -> SideOutlet:
        late = {name: s.reorder.late for name, s in self.topology.streams.items()}
        place = (source.topic, source.partition)
        return SideOutlet(place, self.topology.topics, self.partitions, late)

    def _targets(self, outputs: Mapping[str, str]) -> dict[str, tuple[str, int]]:
        return {
            stream: (topic, self._partition_of(stream, topic)) for stream, topic in outputs.items()
        }

    def _partition_of(self, stream: str, topic: str) -> int:
        return partition_of(self.topology.partition_name_of(stream), self.partitions[topic])


def with_payloads(topology: Topology, topic: str, inlet: Inlet) -> Inlet:
    """The inlet of an input topic, and what queries read of its values."""
    streams = {name: each for name, each in topology.streams.items() if each.input == topic}
    tables = dict.fromkeys([topic], *inlet.registered) if inlet.registered else {}
    return _reading_payloads(inlet, streams, tables)


def ordered_reader(topology: Topology, topic: str) -> Inlet:
    """The inlet of an ordered topic, and what queries read of its values."""
    streams = {name: each for name, each in topology.streams.items() if each.output == topic}
    ordered = OrderedInlet(HeaderReader(next(iter(streams.values())).headers))
    return _reading_payloads(ordered, streams, tables_of(topology))


def _reading_payloads(
    inlet: Inlet, streams: Mapping[str, StreamConfig], tables: Mapping[str, RegisteredSchemas]
) -> Inlet:
    try:
        payloads = payload_readers(streams, tables)
    except SchemaFault as fault:
        raise ArrangementError(f"the schema {fault}") from None
    return PayloadInlet(inlet, payloads, tuple(tables.values())) if payloads else inlet


def input_reader(
    topology: Topology, topic: str, masters: tuple[bytes, ...] = (), partition: int = 0
) -> RawInlet:
    """Streams that share an input topic share its header contract or mapping; those by time need
    no number. ArrangementError where one is signed and there is no master key to check it by."""
    signed = [name for name, s in topology.streams.items() if s.input == topic and s.signed]
    if signed and not masters:
        raise ArrangementError(f"stream {signed[0]} is signed; {NO_MASTERS}")
    return _input_reader(topology, topic, partition, signed, masters)


def unchecked_reader(topology: Topology, topic: str, partition: int) -> RawInlet:
    """One that checks no signature, for who only looks."""
    return _input_reader(topology, topic, partition, [], ())


def _input_reader(
    topology: Topology, topic: str, partition: int, signed: list[str], masters: tuple[bytes, ...]
) -> RawInlet:
    streams = {name: s for name, s in topology.streams.items() if s.input == topic}
    by_time = [name for name, s in streams.items() if not s.reorder.numbered]
    reader = HeaderReader(topology.headers_of(topic), by_time)
    registered = registered_schemas(topology, topic)
    try:
        fields = field_reader(topology, topic, registered)
    except SchemaFault as fault:
        raise ArrangementError(f"the schema {fault}") from None
    most_bytes = topology.topics.max_record_bytes
    if fields is not None:
        tables = () if registered is None else (registered,)
        short = short_way(fields)
        return MappedInlet(fields, reader, most_bytes, partition, tables, short, Spilled)
    check = SignatureCheck(reader.names, signed, masters) if signed else None
    return RawInlet(reader, most_bytes, check)


NO_MASTERS: Final = (
    "name the file of the master keys in INORDER_MASTER_KEYS_FILE (a line of hex each, `openssl"
    " rand -hex 32`), or write `signed: false`"
)


def topics_of(topology: Topology, stage: StageConfig) -> list[str]:
    """Every topic whose number of partitions the stage needs to know: those it has a right to."""
    return sorted(right.name for right in rights(topology, stage) if right.kind == Kind.TOPIC)


def arrange(
    topology: Topology,
    stage: StageConfig,
    partitions: Mapping[str, int],
    masters: tuple[bytes, ...] = (),
) -> Arrangement:
    """ArrangementError where a changelog does not have its input's partitions, or an input more
    than the cut of the stages rests on, or keys are missing."""
    _look_at_cut(topology, stage, partitions)
    for topic in inputs_of(topology, stage):
        changelog = changelog_topic(topology.application, stage.name, topic)
        if partitions[changelog] < partitions[topic]:
            raise ArrangementError(
                f"{changelog} has {partitions[changelog]} partitions, {topic} has"
                f" {partitions[topic]}; run `inorder topics create --grow` to make them equal, and"
                " restart all workers"
            )
    upstream_partitions = 0
    if reads(topology, stage) == SEQUENCED:
        upstream_partitions = sum(partitions[topic] for topic in upstream_inputs(topology))
    arrangement = Arrangement(topology, stage, partitions, upstream_partitions, masters)
    if arrangement.is_first:
        for topic in arrangement.inputs:
            input_reader(topology, topic, masters)
    return arrangement


def _look_at_cut(topology: Topology, stage: StageConfig, partitions: Mapping[str, int]) -> None:
    if not (topology.cut.rests_on_one and REORDER in stage.operators):
        return
    for topic in inputs_of(topology, stage):
        if partitions[topic] > 1:
            raise ArrangementError(
                f"{topic} has {partitions[topic]} partitions and the topology file says"
                " `topics: {partitions: 1}`, by which reorder and merge are one stage: a stream"
                " that lies in several would not be put in order; write"
                f" `partitions: {partitions[topic]}` there, with `keyed_by: stream` in the stream"
                " if its records are keyed so"
            )


def refuse_another_cut(brokers: Brokers, arrangement: Arrangement) -> None:
    """StateRefused where another cut of this application has written what this stage would write.
    Groups and changelogs bear the name of their stage, so it would find no state and put out
    everything again from the first record. One that has a state of its own has passed this look;
    one that only looks begins anew, as its results bear the same ids; the embedded broker keeps
    nothing that could be found. Blocks."""
    if brokers.is_embedded or arrangement.only_looks or brokers.written(arrangement.changelogs):
        return
    topology = arrangement.topology
    others = dict(others_of(topology, arrangement.stage))
    for changelog in brokers.written(others):
        raise StateRefused(
            f"the application {topology.application} has worked with a stage"
            f" `{others[changelog]}` ({changelog} has its state), and now this one is"
            f" `{arrangement.stage.name}`: {topology.cut.why}. It would begin anew with the first"
            " record of the input and put everything out again. Write the stages as they were, like"
            f" `stages: [{', '.join(_before(others[changelog]))}]`, to go on, or set another"
            " `application:` to begin anew"
        )


def others_of(topology: Topology, stage: StageConfig) -> Iterator[tuple[str, str]]:
    """(changelog, name) of each stage that would write events of this one's in another cut."""
    mine = {each.name for each in topology.stages}
    writing = {REORDER, MERGE} & set(stage.operators)
    for length in range(1, len(operators()) + 1):
        for chosen in combinations(operators(), length):
            other = StageConfig("+".join(chosen), chosen)
            if other.name not in mine and writing & set(chosen):
                for topic in inputs_of(topology, other):
                    yield changelog_topic(topology.application, other.name, topic), other.name


def _before(name: str) -> list[str]:
    """Stages of which this was one."""
    common = [operator for operator in operators() if not link_of(operator).is_rare]
    rest = [operator for operator in common if operator not in name.split("+")]
    return sorted([name, *rest], key=lambda each: operators().index(each.split("+")[0]))
