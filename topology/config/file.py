"""Defines the top level of a topology file: streams, stages, topics, and how the stages run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import Field, PrivateAttr, ValidationInfo

from inorder.contract import UNIT_NS
from topology.answer.rules import SPECULATE
from topology.answer.settings import AnswerSettings
from topology.base.user_functions import NOTHING, UserFunctions
from topology.config.cut import Cut, choose_stages
from topology.config.fields import Arrival
from topology.config.groups import iter_topic_groups
from topology.config.query import QueryConfig
from topology.config.stages import (
    DETECTOR,
    MERGE,
    REORDER,
    StageConfig,
    link_of,
    list_operators,
    read_stages,
)
from topology.config.stream import HeaderConfig, StreamConfig
from topology.queries.detector.settings import DetectorQuery
from topology.queries.join.settings import JoinQuery
from topology.records.checker import Reading
from topology.spelling.problem import format_value, make_refusal
from topology.spelling.section import Section, Unspelled
from topology.spelling.values import (
    DurationNs,
    Flag,
    Given,
    Named,
    PositiveNs,
    SizeBytes,
    TopicName,
    one_of,
    or_nothing,
    text,
    whole,
)

Q = TypeVar("Q", bound=AnswerSettings)
Delivery = Literal["exactly_once", "at_least_once"]
StateStore = Literal["rocksdb", "redis", "memory"]

MAX_STREAMS: Final = 10_000
MAX_QUERIES: Final = 100_000
MAX_NAME: Final = 249
MAX_PARTITIONS: Final = 10_000
SHORTEST_STUCK_NS: Final = 60_000_000_000
"""The smallest value of `stuck_after_ns`, because a rebalance alone takes ten seconds."""


class TopicsConfig(Section):
    """The topics besides the streams' own, and how topics are made."""

    partitions: Annotated[int, whole(1, MAX_PARTITIONS)] = 8
    """The number of partitions of every topic that `inorder topics create` makes. Raise it if one
    process a stage is not enough."""
    replication: Annotated[int, whole(1, 32_767)] | None = None
    """The number of replicas of every topic. By default the brokers decide. Set it to 3 if the loss
    of a broker must lose nothing."""
    sequenced: TopicName = "events.sequenced"
    """The topic between reorder and merge, if `stages` cuts there."""
    gaps: TopicName = "events.gaps"
    """The topic of gaps: sequence numbers that did not arrive in time."""
    late: TopicName = "events.late"
    """The topic of late events under `late: side`, and of late events that may be duplicates."""
    dead: TopicName = "events.dead"
    """The topic of dead letters: why a record could not be used, and where it is."""
    clock: TopicName = "clock.offsets"
    """The topic of time sync samples and declared offsets."""
    windows: TopicName = "results.windows"
    """The topic of window results."""
    matches: TopicName = "results.matches"
    """The topic of the results of patterns and detectors."""
    joins: TopicName = "results.joins"
    """The topic of join results."""
    resend: TopicName | None = None
    """The topic of requests to send events again (`inorder resend`). By default there is none."""
    max_record_bytes: Annotated[SizeBytes, Unspelled()] = 16 * 2**20
    """The largest record in bytes: key, value and headers. Larger ones are dead letters."""


def _name(value: Any, _: ValidationInfo) -> str:
    if not isinstance(value, str):
        raise make_refusal(f"the name {format_value(value)} is not text", "write it in quotes")
    if not 1 <= len(value) <= MAX_NAME:
        remedy = f"use 1 to {MAX_NAME} characters"
        raise make_refusal(f"the name has {len(value)} characters", remedy)
    if not (value.isascii() and value.isprintable()):
        remedy = "use printable ASCII: A-Z a-z 0-9 . _ - and the like"
        raise make_refusal(f"the name {format_value(value)} is not printable ASCII", remedy)
    return value


Name = Annotated[str, Given(_name, {"type": "string", "minLength": 1, "maxLength": MAX_NAME})]


def _redis_url(value: Any, _: ValidationInfo) -> str:
    # The message does not repeat the value, because it may contain a password.
    known = ("redis://", "rediss://", "unix://")
    if not isinstance(value, str) or not value.startswith(known) or value in known:
        raise make_refusal("is not the URL of a Redis", "write it like redis://127.0.0.1:6379/0")
    before, at = value.partition("://")[2].partition("/")[0].rpartition("@")[:2]
    if (at and ":" in before) or "password=" in value:
        remedy = "leave it out, and set INORDER_REDIS_PASSWORD or INORDER_REDIS_PASSWORD_FILE"
        raise make_refusal("contains a password, which a file should not", remedy)
    return value


_STAGES: Final = {"type": "array", "items": {"type": "string"}, "examples": [["all"]]}


class TopologyFile(Section):
    """A topology file whose sections are each valid. In a `Topology` they also fit together."""

    streams: Annotated[
        Mapping[Name, Annotated[StreamConfig, or_nothing(StreamConfig)]],
        Named("streams: {default: {}}", MAX_STREAMS, least=1),
    ]
    """The streams, by name. The name is the `streamId` of their records."""
    stages_written: Annotated[tuple[StageConfig, ...], Given(read_stages, _STAGES)] | None = Field(
        default=None, validation_alias="stages"
    )
    """The stages of the pipeline; each runs in its own process. By default one stage, `all`, runs
    all operators, and detectors run in one of their own. Name the stages if one core is too little
    (docs/operate/size.md)."""
    queries: Annotated[
        Mapping[Name, QueryConfig],
        Named("queries: {name: {}}", MAX_QUERIES),
    ] = Field(default_factory=dict)
    """The windows, joins, patterns and detectors, by name."""
    functions: Annotated[
        str, text(r".{1,1000}", "the path of a Python file", "write functions: formulas.py")
    ] = ""
    """A Python file beside this one with your own functions, aggregates and detectors."""
    _user_functions: UserFunctions = PrivateAttr(default=NOTHING)
    delivery: Annotated[Delivery, one_of(Delivery)] = "exactly_once"
    """`exactly_once` shows readers committed outputs alone. `at_least_once` shows outputs sooner,
    and repeats some of them after a crash."""
    checkpoint_ns: PositiveNs = 100_000_000
    """How often a stage commits its outputs, state and offsets, and so shows outputs to readers. In
    a backlog it takes up to a second. Raise it if commits cost too much."""
    application: Annotated[
        str,
        text(
            r"[A-Za-z0-9._-]{1,150}",
            "a name that Kafka accepts within group and topic names",
            "use 1 to 150 of the characters A-Z a-z 0-9 . _ -",
        ),
    ] = "inorder"
    """The name in consumer groups, transactions and changelogs. A new name starts with an empty
    state, and needs its own output topics."""
    topics: Annotated[TopicsConfig, or_nothing(TopicsConfig)] = TopicsConfig.make_default()
    """The other topics, and how `inorder topics create` makes all of them."""
    state: Annotated[StateStore, one_of(StateStore)] = "rocksdb"
    """The store of the local copy of the state. The changelog topic remains the original."""
    redis: Annotated[str, Given(_redis_url, {"type": "string"})] = "redis://127.0.0.1:6379/0"
    """The URL of the Redis server for `state: redis`. Its password comes from
    INORDER_REDIS_PASSWORD."""
    heartbeat_ns: Annotated[PositiveNs, Unspelled()] = 200_000_000
    """Watermarks are announced at multiples of this time on the arrival clock."""
    watermark: Flag = True
    """Whether `events.ordered` contains watermarks. Switch them off if its readers expect events
    alone."""
    tick_lag_ns: DurationNs = 100_000_000
    """How far the arrival clock stays behind the newest poll while no record arrives. Raise it if
    `inorder_tick_late_records_total` counts."""
    spill_after_ns: PositiveNs = 30_000_000_000
    """An event that is buffered longer is written into the state. Lower it if the input keeps
    records only briefly."""
    correct_for_ns: DurationNs = 600_000_000_000
    """The allowed lateness: how long after the watermark late events change results. Then results
    are final. Raise it if events come later still, lower it if the state is too large."""
    transaction_timeout_ns: PositiveNs = 10_000_000_000
    """After this time a dead worker's open transaction no longer blocks readers. A transaction
    takes a quarter of it at most. Raise it if transactions are aborted because brokers are slow."""

    @property
    def stuck_after_ns(self) -> int:
        """The time without progress after which a worker stops and is restarted, in ns."""
        return max(SHORTEST_STUCK_NS, 4 * self.transaction_timeout_ns)

    @property
    def cut(self) -> Cut:
        """The stages that run, and the reason why these were chosen."""
        written = self.stages_written
        if written is not None and not any(stage.is_default for stage in written):
            return Cut(written, "the topology file names the stages")
        rare = [DETECTOR] if self.has_work(DETECTOR) else []
        whole = {topic for topics in self.topics_read_together for topic in topics}
        apart = [name for name, stream in self.streams.items() if stream.input in whole]
        with_merge = DETECTOR in self.speculative_kinds or bool(self.read_operators)
        return choose_stages(apart, rare, with_merge=with_merge, is_named=written is not None)

    @property
    def topics_read_together(self) -> list[list[str]]:
        """The input topics of each task that reads all partitions of several, or of one."""
        return [*iter_topic_groups(self.streams, self.partition_name_of)]

    @property
    def read_operators(self) -> list[str]:
        """The kinds of queries that detectors read, except detectors, in the order of the chain."""
        detectors = self.queries_of(DetectorQuery).values()
        read = {name for query in detectors for name in query.reads or ()}
        kinds = {query.kind for name, query in self.queries.items() if name in read}
        return sorted(kinds - {DETECTOR}, key=list_operators().index)

    @property
    def stages(self) -> tuple[StageConfig, ...]:
        return self.cut.stages

    def headers_of(self, topic: str) -> HeaderConfig:
        """Return the header contract of an input topic, which all its streams share.

        StopIteration is raised if no stream reads the topic.
        """
        return next(s.headers for s in self.streams.values() if s.input == topic)

    def arrival_of(self, topic: str) -> tuple[Arrival | None, int]:
        """Return a topic's arrival setting, and how many ns ahead a timestamp may be.

        Return None and 0 if no stream reads the topic.
        """
        streams = [stream for stream in self.streams.values() if stream.input == topic]
        if not streams:
            return None, 0
        return streams[0].arrival, max(stream.clock.max_ahead_ns for stream in streams)

    @property
    def unnamed_stream(self) -> str:
        """The stream of an event that names none: the only stream, or `default` among several."""
        return next(iter(self.streams)) if len(self.streams) == 1 else "default"

    def reading(self, topic: str = "") -> Reading:
        """Return the rules for reading records of an input topic, or lines of all streams."""
        streams = {name: s for name, s in self.streams.items() if topic in {"", s.input}}
        units_ns = {name: UNIT_NS[s.headers.ts_unit] for name, s in streams.items()}
        return Reading(
            frozenset(name for name, stream in streams.items() if not stream.reorder.numbered),
            {name: unit_ns for name, unit_ns in units_ns.items() if unit_ns != 1},
            next(iter(streams)) if len(streams) == 1 else self.unnamed_stream,
            frozenset(name for name, stream in streams.items() if stream.reorder.is_mixed),
            max(stream.clock.max_ahead_ns for stream in streams.values()),
            frozenset(name for name, stream in streams.items() if stream.has_ids),
        )

    def streams_of(self, query: AnswerSettings) -> list[str]:
        """Return the stream that the query reads, or the stream of each side of a join, in order.

        A query or a side without a `stream` reads the only stream.
        """
        return [stream or next(iter(self.streams)) for stream in query.streams]

    def queries_of(self, kind: type[Q]) -> dict[str, Q]:
        """Return the queries of a kind, by name."""
        return {name: query for name, query in self.queries.items() if isinstance(query, kind)}

    def read_by(self, query: AnswerSettings) -> set[str]:
        """Return the set of streams that the query reads."""
        return {*self.streams_of(query)}

    def new_source_allowance_ns(self, stream: str) -> int:
        """Return how far before the watermark a new source's first event may be, in ns."""
        own_ns = self.streams[stream].merge.new_source_allowance_ns
        return self.correct_for_ns if own_ns is None else own_ns

    def is_speculative(self, query: AnswerSettings) -> bool:
        """Return whether the query reads accepted events instead of those that the merge emits."""
        if isinstance(query, DetectorQuery):
            return self.has_speculative_detectors
        return query.answer == SPECULATE

    @property
    def speculative_kinds(self) -> list[str]:
        """The operators with queries that read accepted events, in the order of the chain.

        They must run in the merge's stage.
        """
        kinds = {query.kind for query in self.queries.values() if self.is_speculative(query)}
        return sorted(kinds, key=list_operators().index)

    @property
    def has_speculative_detectors(self) -> bool:
        """Whether the detectors read accepted events; if one of them does, all do."""
        detectors = self.queries_of(DetectorQuery).values()
        return any(query.answer == SPECULATE for query in detectors)

    def has_work(self, operator: str) -> bool:
        """Return whether the operator has work.

        Windows, patterns, joins and detectors have work only if there is a query of their kind.
        Other operators have work if every topology needs them, or a stage names them.
        """
        link = link_of(operator)
        if link.evaluates_queries:
            return any(query.kind == operator for query in self.queries.values())
        return link.is_needed or any(operator in stage.operators for stage in self.stages)

    @property
    def operators(self) -> list[str]:
        """The operators that have work, in the order of the chain."""
        return [name for name in list_operators() if self.has_work(name)]

    def reads_of(self, operator: str) -> str:
        """Return the topics that a stage reads if this is its first operator.

        The answer is `raw`, `sequenced` or `ordered`.
        """
        return {REORDER: "raw", MERGE: "sequenced"}.get(operator, "ordered")

    @property
    def result_topics(self) -> dict[str, str]:
        """The topic of the results of each operator that has work and writes results."""
        keys = {name: link_of(name).topic for name in self.operators}
        return {name: getattr(self.topics, key) for name, key in keys.items() if key}

    @property
    def result_tables(self) -> dict[str, str]:
        """The topic of each query that has its own (`upsert`), by the query's name.

        An overflow is not a result, so it goes to the operator's topic in `result_topics`.
        """
        return {name: f"results.{name}" for name, query in self.queries.items() if query.upsert}

    @property
    def all_result_topics(self) -> list[str]:
        """All topics of results, each once, because patterns and detectors share one."""
        return [*dict.fromkeys(self.result_topics.values()), *self.result_tables.values()]

    @property
    def joined_streams(self) -> list[set[str]]:
        """The streams of each join."""
        return [self.read_by(query) for query in self.queries_of(JoinQuery).values()]

    def partition_name_of(self, stream: str) -> str:
        """Return the name that determines the stream's partition.

        Streams that are connected by joins share a partition, under the name of the alphabetically
        first of them. Every other stream has its own name.
        """
        met = {stream}
        while True:
            wider = met.union(*(streams for streams in self.joined_streams if streams & met))
            if wider == met:
                return min(met)
            met = wider

    @property
    def fused(self) -> bool:
        """Whether reorder and merge share a stage, without a topic between them."""
        return self.cut.has_shared_stage

    @property
    def user_functions(self) -> UserFunctions:
        """The user's own functions, aggregates and detectors."""
        return self._user_functions
