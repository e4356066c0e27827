"""How much a program spends on a backlog: CPU and wall time, start-up taken off.

A program is started on a topic that holds the backlog and watched from outside: the
committed end of its output topic tells how far it is, /proc what it and its children
have spent. The same program on a topic with two records gives its start-up: what it took
until the first came out. All programs are held to the same share of the output, just
below the end, since the very last events rightly wait for time to pass.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from cli.local.process import NotReady, Process, children, stat_fields

SAMPLE_S: Final = 0.05
ASK_TIMEOUT_S: Final = 10.0
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
ROOT: Final = Path(__file__).absolute().parents[1]


@dataclass(frozen=True, slots=True)
class Program:
    """`command` reads a backlog into `output`."""

    name: str
    command: Sequence[str]
    output: str
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Spent:
    """From the start of the process until `records` were in its output."""

    records: int
    cpu_s: float
    wall_s: float

    def less(self, start_up: Spent) -> Spent:
        return Spent(
            self.records - start_up.records,
            max(self.cpu_s - start_up.cpu_s, 1e-9),
            max(self.wall_s - start_up.wall_s, 1e-9),
        )

    @property
    def per_cpu_second(self) -> float:
        return self.records / self.cpu_s

    @property
    def per_second(self) -> float:
        return self.records / self.wall_s

    @property
    def cpu_us(self) -> float:
        return 1e6 / self.per_cpu_second


class Outcome:
    """The committed end of a topic, cheaply asked."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"watching-{topic}",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        found = self._consumer.list_topics(topic, timeout=ASK_TIMEOUT_S).topics[topic]
        self._partitions = [TopicPartition(topic, number) for number in found.partitions]

    def records(self) -> int:
        """0 too while a topic just made has no leader that knows of it."""
        try:
            return self._ends()
        except KafkaException as failed:
            if failed.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
                raise
            return 0

    def _ends(self) -> int:
        ends: list[tuple[int, int] | None] = [
            self._consumer.get_watermark_offsets(partition, timeout=ASK_TIMEOUT_S)
            for partition in self._partitions
        ]
        return sum(end[1] for end in ends if end is not None)

    def close(self) -> None:
        self._consumer.close()


def run(program: Program, bootstrap: str, folder: Path, records: int, timeout_s: float) -> Spent:
    """Start it, watch it reach `records` in its output, end it. NotReady if it does not."""
    outcome = Outcome(bootstrap, program.output)
    environment = {"PYTHONPATH": str(ROOT), **program.environment}
    process = Process(program.name, program.command, folder, environment)
    began_s = time.monotonic()
    process.start()
    try:
        while True:
            time.sleep(SAMPLE_S)
            done = outcome.records()
            wall_s, cpu_s = time.monotonic() - began_s, cpu_seconds(process.pid)
            if done >= records:
                return Spent(done, cpu_s, wall_s)
            if not process.is_alive() or wall_s > timeout_s:
                raise NotReady(
                    f"{program.name}: {done} of {records} records after {wall_s:.0f} s;"
                    f" {process.log} closes with\n{process.tail()}"
                )
    finally:
        process.stop()
        outcome.close()


@contextmanager
def kept_in(folder: Path | None) -> Iterator[Path]:
    """Where logs and data lie: in the folder, which is made, or in one that goes afterwards."""
    with tempfile.TemporaryDirectory() as temporary:
        place = folder or Path(temporary)
        place.mkdir(parents=True, exist_ok=True)
        yield place


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and of its living children."""
    total = 0
    for each in (pid, *children(pid)):
        with suppress(FileNotFoundError, ProcessLookupError):
            fields = stat_fields(Path(f"/proc/{each}/stat"))
            total += int(fields[11]) + int(fields[12])
    return total / TICKS_PER_S
