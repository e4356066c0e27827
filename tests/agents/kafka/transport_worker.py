"""A worker process for test_transport: writes down which partitions it holds.

Each line of the log is the JSON list of partitions from then on. Ends on SIGTERM.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from aiokafka.structs import TopicPartition

from agents.kafka.application import build_app, run
from agents.kafka.brokers import Brokers
from agents.kafka.partition_queue import PolledBatch


class Holder:
    wants_ticks = True
    rests = False

    def __init__(self, log: Path) -> None:
        self.log = log
        self.held: set[int] = set()

    async def on_assigned(
        self, partitions: frozenset[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        self.write(self.held | {p.partition for p in partitions})
        return {}

    def on_reading(self, partitions: frozenset[TopicPartition]) -> None:
        assert {p.partition for p in partitions} <= self.held

    async def on_batch(self, batch: PolledBatch) -> None:
        assert batch.partition.partition in self.held

    async def close(self) -> None:
        return

    async def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        self.write(self.held - {p.partition for p in partitions})

    def write(self, held: set[int]) -> None:
        self.held = held
        with self.log.open("a") as file:
            file.write(json.dumps(sorted(held)) + "\n")


async def main(bootstrap: str, topic: str, log: str) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    app = build_app(topic, Brokers(bootstrap, is_embedded=False), [topic], Holder(Path(log)))
    await run(app, stop)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
