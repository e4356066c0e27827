"""Write a backlog to a real broker, appended as the records arrive.

The workload's time is mapped to the wall clock and runs `SPEED` times as fast. Arrival times, which
are the operators' clock, therefore keep the proportions of the workload's delays. A value has 200
bytes. Records of the header contract go to one partition, and their values are incompressible.
Records for the topology of README.md are JSON, and each source has one of `PARTITIONS`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import orjson
import yaml
from confluent_kafka import Producer

from agents.kafka.declared import list_needed_topics
from agents.kafka.topics import ensure_topics
from agents.stage.outlet import partition_of
from benchmarks.harness import ROOT
from benchmarks.workloads.rows import Row
from inorder.contract import DEFAULT_STREAM
from inorder.header_writer import HeaderWriter
from topology.config import HeaderConfig, Topology, parse

TELEMETRY: Final = ROOT / "docs" / "examples" / "telemetry.yaml"
"""The topology file of README.md."""

PARTITIONS: Final = 8
"""The input partitions that `inorder topics create` makes by default."""

NS_PER_MS: Final = 1_000_000
SPEED: Final = 5
VALUE_BYTES: Final = 200
FILLER_DIGITS: Final = 118
"""The hexadecimal digits with which a JSON value has about `VALUE_BYTES`."""

VALUES: Final = 997
FLUSH_TIMEOUT_S: Final = 60.0
PAUSE_S: Final = 0.001

TOOL: Final = (sys.executable, "-m", "inorder")
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
    ensure_topics(list_needed_topics(topology), bootstrap, 1)
    return Setting(path, topology)


def set_up_as_installed(
    folder: Path, bootstrap: str, raw: str, tree: Path, *, has_queries: bool
) -> Setting:
    """Do the same for the topology of README.md, with the defaults of the revision in `tree`.

    Raises CalledProcessError if the topics cannot be created.
    """
    name = f"bench-{uuid.uuid4().hex[:8]}"
    content = yaml.safe_load(TELEMETRY.read_text())
    content["streams"]["default"] |= {"input": raw, "output": f"ordered-{name}"}
    content["application"] = name
    owned = ("sequenced", "gaps", "late", "dead", "clock", "windows")
    content["topics"] = {topic: f"{topic}-{name}" for topic in owned}
    if not has_queries:
        del content["queries"]
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(content))
    create_topics = (*TOOL, "topics", "create", "--topology", str(path), "--brokers", bootstrap)
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    subprocess.run(create_topics, cwd=folder, env=environment, check=True, capture_output=True)
    return Setting(path, parse(path.read_text()))


HEADERS: Final = HeaderWriter(HeaderConfig())


def to_contract_record(row: Row, value: bytes) -> dict[str, Any]:
    """Return the arguments of `Producer.produce` for a record of the header contract."""
    headers = HEADERS.write(row.source, row.seq, ts_ns=row.ts_ns, epoch=0, stream=DEFAULT_STREAM)
    key = DEFAULT_STREAM.encode()
    return {"value": value, "key": key, "partition": 0, "headers": headers}


def to_telemetry_record(row: Row, value: bytes) -> dict[str, Any]:
    """Return those for a record of README.md's topology; digits of `value` fill up the JSON."""
    content = {
        "device": row.source,
        "n": row.seq,
        "time": row.ts_ns // NS_PER_MS,
        "received": row.arrival_ns // NS_PER_MS,
        "filler": value.hex()[:FILLER_DIGITS],
    }
    place = {"key": row.source.encode(), "partition": partition_of(row.source, PARTITIONS)}
    return {"value": orjson.dumps(content), **place}


def produce(
    bootstrap: str,
    raw: str,
    rows: Sequence[Row],
    speed: float = SPEED,
    form: Callable[[Row, bytes], Mapping[str, Any]] = to_contract_record,
) -> None:
    """Produce each row at its time in a form; raise RuntimeError if the rows cannot be sent."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
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
        mapped = row._replace(arrival_ns=due_ns, ts_ns=ts_ns)
        producer.produce(raw, **form(mapped, values[at % VALUES]))
        if at == 0:  # The connection is established once the first record is confirmed.
            producer.flush(FLUSH_TIMEOUT_S)
            began_ns = time.time_ns()
    if producer.flush(FLUSH_TIMEOUT_S):
        raise RuntimeError(f"the broker at {bootstrap} did not accept the backlog in time")
