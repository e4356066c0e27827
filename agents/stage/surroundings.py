"""What a partition needs of its process: who reads logs for it, where figures go, what its parts
are made by.

Proved by: tests/agents/stage/test_partition.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from aiokafka.structs import TopicPartition

from agents.kafka.log_reader import LogReader
from agents.stage.clock_feed import ClockFeed
from agents.stage.delivery import Delivery
from agents.stage.history import Histories
from agents.stage.query_feed import QueryFeed
from agents.state.stores.store import Store
from agents.watch.metrics import Metrics
from agents.watch.traces.tracing import Tracing


@dataclass(frozen=True)
class Surroundings:
    """`histories`: what partitions begin with that have no state; None: with nothing."""

    logs: LogReader
    metrics: Metrics
    new_delivery: Callable[[TopicPartition], Delivery]
    new_store: Callable[[TopicPartition], Store | None]
    clock_feed: ClockFeed | None = None
    query_feed: QueryFeed | None = None
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    tracing: Tracing | None = None
    histories: Histories | None = None

    def set_aside(self, kept: Mapping[str, str]) -> dict[str, str]:
        """What of the topic `queries` does not run as it stands there, by name, with the reason;
        `kept`: what a partition found so when it opened."""
        return {**kept, **({} if self.query_feed is None else self.query_feed.set_aside)}
