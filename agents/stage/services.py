"""The services that a process gives its partitions: the reader of logs, metrics, and the makers of
their parts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from aiokafka.structs import TopicPartition

from agents.kafka.log_reader import LogReader
from agents.registry.feed import SchemaFeed
from agents.stage.clock_feed import ClockFeed
from agents.stage.cutting import CutSize
from agents.stage.delivery import Delivery
from agents.stage.history import Histories
from agents.state.copy_writer import CopyWriter
from agents.watch.metrics.worker import Metrics
from topology.config.change import Contract


@dataclass(frozen=True)
class Services:
    """`new_copy` takes a partition and the topic that its local copy follows. Partitions without a
    state begin with their part of `histories`, or empty where that is None.
    `seen`: the contracts of the states that were there when the process started. `amid`: inputs
    whose streams came by another one before. `cut_sizes` has an
    entry for each partition that was open here."""

    logs: LogReader
    metrics: Metrics
    new_delivery: Callable[[TopicPartition], Delivery]
    new_copy: Callable[[TopicPartition, str], CopyWriter]
    clock_feed: ClockFeed | None = None
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    histories: Histories | None = None
    seen: Mapping[TopicPartition, Contract] | None = None
    amid: Collection[str] = ()
    cut_sizes: dict[TopicPartition, CutSize] = field(default_factory=dict)
    schemas: SchemaFeed = field(default_factory=SchemaFeed)
