"""The services that a process gives its partitions: the reader of logs, metrics, and the makers of
their parts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from aiokafka.structs import TopicPartition

from agents.kafka.log_reader import LogReader
from agents.registry.feed import SchemaFeed
from agents.stage.clock_feed import ClockFeed
from agents.stage.cutting import CutSize
from agents.stage.delivery import Delivery
from agents.stage.history import Histories
from agents.state.stores.store import StateStore
from agents.watch.metrics.worker import Metrics
from topology.config.change import Contract
from topology.flow.probe import Probe
from topology.model.result import Finding

if TYPE_CHECKING:
    from agents.stage.query_feed import QueryFeed


class PartitionTraces(Protocol):
    """The traces of one partition: `probe` sees its events, and a checkpoint makes them true."""

    @property
    def probe(self) -> Probe: ...

    def found(self, findings: Sequence[Finding]) -> None: ...

    def cut(self) -> None: ...

    def committed(self) -> None: ...


class Traces(Protocol):
    """The traces of one process; `sinks.otlp` has those that a collector gets."""

    def of_partition(self) -> PartitionTraces: ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class Services:
    """Partitions without a state begin with their part of `histories`, or empty where that is None.
    `seen`: the contracts of the states that were there when the process started. `amid`: inputs
    whose streams came by another one before. `cut_sizes` has an
    entry for each partition that was open here."""

    logs: LogReader
    metrics: Metrics
    new_delivery: Callable[[TopicPartition], Delivery]
    new_store: Callable[[TopicPartition], StateStore | None]
    clock_feed: ClockFeed | None = None
    query_feed: QueryFeed | None = None
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    traces: Traces | None = None
    histories: Histories | None = None
    seen: Mapping[TopicPartition, Contract] | None = None
    amid: Collection[str] = ()
    cut_sizes: dict[TopicPartition, CutSize] = field(default_factory=dict)
    schemas: SchemaFeed = field(default_factory=SchemaFeed)

    @property
    def queries_set_aside(self) -> Mapping[str, str]:
        """The queries of the topic `queries` that do not run as written there, each with the
        reason."""
        return {} if self.query_feed is None else self.query_feed.set_aside
