"""Write a backlog to a real broker: records of the header contract, appended as they arrive.

The workload's time is mapped to the wall clock and runs `SPEED` times as fast. Arrival times, which
are the operators' clock, therefore keep the proportions of the workload's delays. Values are 200
incompressible bytes.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from confluent_kafka import Producer

from agents.kafka.declared import declared
from agents.kafka.topics import create
from benchmarks.workloads.rows import Row
from inorder.contract import DEFAULT_STREAM
from inorder.header_writer import HeaderWriter
from topology.config import HeaderConfig, Topology, parse

SPEED: Final = 5
VALUE_BYTES: Final = 200
VALUES: Final = 997
FLUSH_TIMEOUT_S: Final = 60.0
PAUSE_S: Final = 0.001

TEMPLATE: Final = """\
streams:
  default: {{input: {raw}, output: ordered-{name}{stream}}}
stages: [{stages}]
application: {name}
delivery: {delivery}
state: {state}
topics:
  partitions: 1
  replication: 1
  sequenced: sequenced-{name}
  gaps: gaps-{name}
  late: late-{name}
  dead: dead-{name}
  clock: clock-{name}
"""


@dataclass(frozen=True, slots=True)
class Setting:
    """An application: its topology file, and the topology read from it."""

    path: Path
    topology: Topology

    @property
    def output(self) -> str:
        return next(iter(self.topology.streams.values())).output


def settle(
    folder: Path,
    bootstrap: str,
    raw: str,
    *,
    stages: str = "reorder+merge",
    delivery: str = "exactly_once",
    state: str = "rocksdb",
    stream: str = "",
) -> Setting:
    """Write the topology file and create the topics; each call makes a new application.

    `stream` contains further settings of the stream, as text.
    """
    name = f"bench-{uuid.uuid4().hex[:8]}"
    text = TEMPLATE.format(
        name=name, raw=raw, stages=stages, delivery=delivery, state=state, stream=stream
    )
    path = folder / f"{name}.yaml"
    path.write_text(text)
    topology = parse(text)
    create(declared(topology), bootstrap, 1)
    return Setting(path, topology)


def produce(bootstrap: str, raw: str, rows: Sequence[Row], speed: float = SPEED) -> None:
    """Produce each row at its time; raise RuntimeError if the rows cannot be sent."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    headers = HeaderWriter(HeaderConfig())
    rng = Random(1)
    values = [rng.randbytes(VALUE_BYTES) for _ in range(VALUES)]
    began_ns = time.time_ns()
    first_ns = rows[0].arrival_ns
    for at, row in enumerate(rows):
        due_ns = began_ns + int((row.arrival_ns - first_ns) / speed)
        while time.time_ns() < due_ns:
            producer.poll(0)
            time.sleep(PAUSE_S)
        ts_ns = began_ns + int((row.ts_ns - first_ns) / speed)
        contract = headers.write(row.source, row.seq, ts_ns=ts_ns, epoch=0, stream=DEFAULT_STREAM)
        value = values[at % VALUES]
        producer.produce(raw, value, DEFAULT_STREAM.encode(), partition=0, headers=contract)
        if at == 0:  # The connection is established once the first record is confirmed.
            producer.flush(FLUSH_TIMEOUT_S)
            began_ns = time.time_ns()
    if producer.flush(FLUSH_TIMEOUT_S):
        raise RuntimeError(f"the broker at {bootstrap} did not accept the backlog in time")
