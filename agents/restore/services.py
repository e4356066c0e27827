"""Bundles the services that a process gives its partitions: readers, metrics and factories."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from aiokafka.structs import TopicPartition

from agents.kafka.broker_times import BrokerTimes
from agents.kafka.log_reader import LogReader
from agents.registry.feed import SchemaFeed
from agents.restore.history import Histories
from agents.stage.checkpoint_size import CheckpointSize
from agents.stage.clock_feed import ClockFeed
from agents.stage.delivery import Delivery
from agents.stage.playback import Playback
from agents.state.copy_writer import CopyWriter
from agents.watch.metrics.worker import Metrics
from topology.config.change import Contract


@dataclass(frozen=True)
class Services:
    """The services that all partitions of a process share.

    Attributes:
        new_copy: Function that opens the local copy of a topic for a partition.
        histories: The first states of partitions without a state; if None, these begin empty.
        broker_times: The brokers' clocks, if the stage takes time from them.
        seen: The contracts of the states that existed when the process started.
        midstream: The inputs whose streams came from another input before.
        playback: When time may advance without records; None if the broker sets arrival times.
        cut_sizes: The limits on checkpoints, for each partition that was open in this process.
    """

    logs: LogReader
    metrics: Metrics
    new_delivery: Callable[[TopicPartition], Delivery]
    new_copy: Callable[[TopicPartition, str], CopyWriter]
    clock_feed: ClockFeed | None = None
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    histories: Histories | None = None
    seen: Mapping[TopicPartition, Contract] | None = None
    midstream: Collection[str] = ()
    cut_sizes: dict[TopicPartition, CheckpointSize] = field(default_factory=dict)
    schemas: SchemaFeed = field(default_factory=SchemaFeed)
    broker_times: BrokerTimes | None = None
    playback: Playback | None = None
