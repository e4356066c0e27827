"""The whole topology: streams, stages, topics, and how the stages run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, model_validator

from topology.description.problem import Fault, meant, refused, refused_at, shown
from topology.description.query import QueryConfig
from topology.description.spelling import (
    Count,
    DurationNs,
    Flag,
    PositiveNs,
    SizeBytes,
    TopicName,
    given,
    one_of,
    section,
    text,
    whole,
)
from topology.description.stages import (
    DEFAULT_STAGES,
    MERGE,
    PATTERN,
    REORDER,
    WINDOW,
    Stage,
    read_stages,
)
from topology.description.stream import Section, StreamConfig

Delivery = Literal["exactly_once", "at_least_once"]
StateStore = Literal["rocksdb", "redis", "memory"]
PatternsRead = Literal["ordered", "sequenced", "raw"]
WindowsRead = Literal["ordered", "sequenced"]

MAX_STREAMS: Final = 10_000
SHORTEST_STUCK_NS: Final = 10_000_000_000
MAX_NAME: Final = 249
MAX_PARTITIONS: Final = 10_000


class TopicsConfig(Section):
    """The topics besides the streams' own, and how topics are made."""

    partitions: Annotated[int, whole(1, MAX_PARTITIONS)] = 8
    replication: Annotated[int, whole(1, 32_767)] = 3
    sequenced: TopicName = "events.sequenced"
    gaps: TopicName = "events.gaps"
    late: TopicName = "events.late"
    dead: TopicName = "events.dead"
    clock: TopicName = "clock.offsets"
    windows: TopicName = "results.windows"
    matches: TopicName = "results.matches"
    queries: TopicName = "queries"
    max_record_bytes: SizeBytes = Field(default=16 * 2**20, validation_alias="max_record")

    def named(self) -> Iterator[tuple[str, str]]:
        """(key, topic) of each."""
        for key in ("sequenced", "gaps", "late", "dead", "clock", "windows", "matches", "queries"):
            yield key, getattr(self, key)


def _name(value: Any, _: ValidationInfo) -> str:
    if not isinstance(value, str):
        raise refused(f"the name {shown(value)} is not text", "write it in quotes")
    if not 1 <= len(value) <= MAX_NAME:
        remedy = f"use 1 to {MAX_NAME} characters"
        raise refused(f"a name of {len(value)} characters", remedy)
    if not (value.isascii() and value.isprintable()):
        remedy = "use printable ASCII: A-Z a-z 0-9 . _ - and the like"
        raise refused(f"the name {shown(value)} is not printable ASCII", remedy)
    return value


Name = Annotated[str, given(_name)]


def _sections(value: Any) -> Any:
    """Names with sections; nothing behind a name means defaults."""
    if not isinstance(value, Mapping):
        raise refused(
            f"{shown(value)} is not a mapping", "write names with sections: {default: {}}"
        )
    return {name: section(each) for name, each in value.items()}


def _streams(value: Any) -> Any:
    if value is None or value == {}:
        raise refused("is empty", "name at least one stream: streams: {default: {}}")
    sections = _sections(value)
    if len(sections) > MAX_STREAMS:
        raise refused(f"{len(sections)} streams are too many", f"name at most {MAX_STREAMS}")
    return sections


def _queries(value: Any) -> Any:
    return {} if value is None else _sections(value)


def _redis_url(value: Any, _: ValidationInfo) -> str:
    # The value is not repeated: it may hold a password.
    known = ("redis://", "rediss://", "unix://")
    if not isinstance(value, str) or not value.startswith(known) or value in known:
        raise refused("is not the URL of a Redis", "write it like redis://127.0.0.1:6379/0")
    return value


class Topology(Section):
    """What runs, as one frozen value."""

    streams: Annotated[Mapping[Name, StreamConfig], BeforeValidator(_streams)]
    stages: Annotated[tuple[Stage, ...], given(read_stages)] = DEFAULT_STAGES
    queries: Annotated[Mapping[Name, QueryConfig], BeforeValidator(_queries)] = Field(
        default_factory=dict
    )
    delivery: Annotated[Delivery, one_of(Delivery)] = "exactly_once"
    checkpoint_ns: PositiveNs = Field(default=100_000_000, validation_alias="checkpoint")
    application: Annotated[
        str,
        text(
            r"[A-Za-z0-9._-]{1,150}",
            "a name Kafka takes within group and topic names",
            "use 1 to 150 of the characters A-Z a-z 0-9 . _ -",
        ),
    ] = "inorder"
    topics: Annotated[TopicsConfig, BeforeValidator(section)] = TopicsConfig()
    state: Annotated[StateStore, one_of(StateStore)] = "rocksdb"
    redis: Annotated[str, given(_redis_url)] = "redis://127.0.0.1:6379/0"
    heartbeat_ns: PositiveNs = Field(default=200_000_000, validation_alias="heartbeat")
    watermark: Flag = True
    live_queries: Flag = False
    patterns_read: Annotated[PatternsRead, one_of(PatternsRead)] = "ordered"
    windows_read: Annotated[WindowsRead, one_of(WindowsRead)] = "ordered"
    tick_lag_ns: DurationNs = Field(default=100_000_000, validation_alias="tick_lag")
    spill_after_ns: PositiveNs = Field(default=30_000_000_000, validation_alias="spill_after")
    correct_for_ns: DurationNs = Field(default=600_000_000_000, validation_alias="correct_for")
    max_batch: Count = 20_000
    transaction_timeout_ns: PositiveNs = Field(
        default=10_000_000_000, validation_alias="transaction_timeout"
    )
    stuck_after_ns: PositiveNs = Field(default=60_000_000_000, validation_alias="stuck_after")

    def stream(self, name: str) -> StreamConfig:
        """KeyError for a stream the file does not name."""
        return self.streams[name]

    def queries_of(
        self, stream: str, queries: Mapping[str, QueryConfig] | None = None
    ) -> dict[str, QueryConfig]:
        """Those (of the file, or of `queries`) that read this stream, by name; one that names
        none reads the only one."""
        return {
            name: query
            for name, query in (self.queries if queries is None else queries).items()
            if query.stream == stream or (query.stream is None and len(self.streams) == 1)
        }

    def has_work(self, operator: str) -> bool:
        """Windows and patterns have none without a query of theirs."""
        if operator == WINDOW:
            return any(query.window is not None for query in self.queries.values())
        if operator == PATTERN:
            return self.live_queries or any(
                query.pattern is not None for query in self.queries.values()
            )
        return True

    @property
    def fused(self) -> bool:
        """Reorder and merge share a stage: no topic between, raw keyed by stream."""
        return any({REORDER, MERGE} <= set(stage.operators) for stage in self.stages)

    @model_validator(mode="after")
    def _parts_agree(self) -> Topology:
        faults = [
            *_header_faults(self),
            *_topic_faults(self),
            *_timing_faults(self),
            *query_faults(self.queries, tuple(self.streams)),
            *_pattern_faults(self),
            *_patience_faults(self),
            *_window_faults(self),
        ]
        if faults:
            raise refused_at(*faults)
        return self


def _header_faults(topology: Topology) -> Iterator[Fault]:
    """Which stream a record belongs to is known only from its headers, so streams
    that share a topic, raw or sequenced, must agree on what these mean."""
    first_of: dict[str, str] = {}
    for name, stream in topology.streams.items():
        shared = stream.input if topology.fused else topology.topics.sequenced
        first = first_of.setdefault(shared, name)
        other = topology.streams[first]
        if stream.headers.contract() != other.headers.contract():
            message = f"other headers than stream `{first}`, though both travel by `{shared}`"
            remedy = f"write the same headers as for `{first}`"
            apart = not topology.fused and stream.input != other.input
            fuse = ", or fuse reorder+merge" if apart else ""
            yield Fault(("streams", name, "headers"), message, remedy + fuse)


def _topic_faults(topology: Topology) -> Iterator[Fault]:
    inputs = {stream.input: name for name, stream in topology.streams.items()}
    written: dict[str, str] = {}
    for key, topic in topology.topics.named():
        if topic in inputs:
            message = f"`{topic}` is the input of stream `{inputs[topic]}`"
            yield Fault(("topics", key), message, "give it a name of its own")
        if topic in written:
            message = f"`{topic}` is `topics.{written[topic]}` already"
            yield Fault(("topics", key), message, "give it a name of its own")
        written.setdefault(topic, key)
    for name, stream in topology.streams.items():
        if stream.output in inputs:
            message = f"`{stream.output}` is the input of stream `{inputs[stream.output]}`"
            yield Fault(("streams", name, "output"), message, "write to another topic")
        if stream.output in written:
            message = f"`{stream.output}` is `topics.{written[stream.output]}` already"
            yield Fault(("streams", name, "output"), message, "write to another topic")


def _timing_faults(topology: Topology) -> Iterator[Fault]:
    if topology.checkpoint_ns >= topology.transaction_timeout_ns:
        message = "is not below transaction_timeout: each transaction would be aborted"
        yield Fault(("checkpoint",), message, "lower it, or raise transaction_timeout")
    if topology.stuck_after_ns < SHORTEST_STUCK_NS:
        message = "is below 10s: a rebalance alone takes that long"
        yield Fault(("stuck_after",), message, "raise it")
    elif topology.stuck_after_ns <= topology.transaction_timeout_ns:
        message = "is not above transaction_timeout: a slow commit would count as stuck"
        yield Fault(("stuck_after",), message, "raise it, or lower transaction_timeout")


def _patience_faults(topology: Topology) -> Iterator[Fault]:
    """Patterns of a stream share one store, so they take late events alike."""
    for stream in topology.streams:
        patterns = {
            name: query.pattern.amend_ns
            for name, query in topology.queries_of(stream).items()
            if query.pattern is not None
        }
        if len(set(patterns.values())) > 1:
            name = next(reversed(patterns))
            message = "has another LATE AMEND than the other patterns of its stream"
            yield Fault(("queries", name, "pattern"), message, "write the same for all of them")


def _pattern_faults(topology: Topology) -> Iterator[Fault]:
    """Patterns that do not wait for the merge need a stage that reads another topic."""
    if topology.patterns_read == "ordered":
        return
    for stage in topology.stages:
        if PATTERN in stage.operators and len(stage.operators) > 1:
            message = f"reads {topology.patterns_read} events, and `{stage.name}` does not"
            yield Fault(("patterns_read",), message, "cut `pattern` off as a stage of its own")
    if topology.patterns_read == "sequenced" and topology.fused:
        message = "reorder+merge writes no sequenced topic"
        yield Fault(("patterns_read",), message, "write raw or ordered, or cut them apart")


def _window_faults(topology: Topology) -> Iterator[Fault]:
    """Windows that do not wait for the merge wait by their quality, and need events that are not
    merged yet."""
    if topology.windows_read == "ordered":
        return
    for name, query in topology.queries.items():
        if query.window is not None and query.quality is None:
            message = "does not say how long a window may wait, and no merge says it"
            remedy = "write quality: {accuracy: 99%, max_wait: 2s}, or windows_read: ordered"
            yield Fault(("queries", name), message, remedy)
    for stage in topology.stages:
        operators = stage.operators
        if WINDOW in operators and PATTERN in operators and MERGE not in operators:
            message = f"reads sequenced events, and `{stage.name}` looks for patterns in them"
            yield Fault(("windows_read",), message, "cut `window` off as a stage of its own")
        if WINDOW in operators and MERGE not in operators and topology.fused:
            message = "reorder+merge writes no sequenced topic"
            remedy = "write ordered, or join them: reorder+merge+window"
            yield Fault(("windows_read",), message, remedy)


def query_faults(queries: Mapping[str, QueryConfig], streams: tuple[str, ...]) -> Iterator[Fault]:
    for name, query in queries.items():
        if query.stream is None and len(streams) > 1:
            message = "does not say which stream it reads"
            yield Fault(("queries", name), message, f"write stream: {streams[0]}")
        elif query.stream is not None and query.stream not in streams:
            message = f"there is no stream `{query.stream}`"
            yield Fault(("queries", name, "stream"), message, meant(query.stream, streams))
