"""What a worker spends on a stream that flows at a steady rate, and while nothing flows.

A backlog shows what a record costs where there are many at a time. A stream that flows all day is
another matter: polls, ticks, commits, and what the processes ask each other, come by the clock and
not by the record. Here the worker runs, then events come at each of `--rates` a second, and once
that has gone on for `SETTLE_S` the CPU of all its processes is held against the wall clock. At the
rate 0 a second of events has come `QUIET_S` before, so sources are known, and nothing since. Beside
it stands the bare loop of confluent-kafka.

`delay` is from the sending of an event to the reading of it in the output, committed: what a
worker that polls less often would pay with. Events that were delayed on purpose, or waited for
those, are in it as well, so the median says most.
"""

from __future__ import annotations

import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import click
from confluent_kafka import Consumer, Producer

from benchmarks.backlog import VALUE_BYTES, settle
from benchmarks.kafka import APPEND_TIME, BARE, bare_loop
from benchmarks.race import ROOT, Program, cpu_seconds, kept_in
from benchmarks.tables import Page, Table, ms, thousands
from benchmarks.workloads import crowd
from benchmarks.workloads.crowd import RATE_HZ
from benchmarks.workloads.rows import Row, in_arrival_order
from cli.local.kafka import create_topic
from cli.local.process import NotReady, Process
from infra.kafka import missing, new_broker
from inorder.header_writer import HeaderWriter
from topology.config import HeaderConfig

RATES: Final = (0, 1_000, 10_000, 40_000)
QUICK_S: Final = 6.0
FULL_S: Final = 20.0
SETTLE_S: Final = 3.0
START_TIMEOUT_S: Final = 120.0
"""For the first event to come out."""

GREETING_S: Final = 0.2
"""Between two events of a source of its own, which come until one is read out."""

QUIET_S: Final = 15.0
BEFORE_HZ: Final = 1_000
PAUSE_S: Final = 0.001
STAMP_BYTES: Final = 8
QUERIES: Final = """\
queries:
  counts: {window: tumbling 10s, aggregate: {n: count()}}
  pairs: {pattern: "PATTERN SEQ(A a, B b) WITHIN 1 s"}
"""

COLUMNS: Final = (
    "program",
    "events/s sent",
    "events/s read out",
    "% of a core",
    "events per CPU second",
    "of the bare loop",
    "delay p50 ms",
    "delay p99 ms",
)

Making = Callable[[Path, str, str], Program]


def worker(stages: str, more: str = "", partitions: int = 1) -> Making:
    def program(folder: Path, bootstrap: str, raw: str) -> Program:
        setting = settle(folder, bootstrap, raw, stages=stages, more=more, partitions=partitions)
        command = [
            *(sys.executable, "-m", "inorder_engine", "worker"),
            *("--topology", str(setting.path), "--brokers", bootstrap),
            *("--state-dir", str(folder / f"state-{uuid.uuid4().hex[:8]}")),
        ]
        return Program(f"worker-{uuid.uuid4().hex[:8]}", command, setting.output)

    return program


@dataclass(frozen=True, slots=True)
class Subject:
    """`program` makes it for an input topic of so many partitions."""

    name: str
    program: Making
    partitions: int = 1


FOUR: Final = "reorder, merge, window, pattern"
SUBJECTS: Final = {
    "bare": Subject(BARE, bare_loop().program),
    "fused": Subject("reorder+merge", worker("reorder+merge")),
    "split": Subject("reorder | merge", worker("reorder, merge")),
    "four": Subject("four stages", worker(FOUR, QUERIES)),
    "eight": Subject("four stages, 8 partitions", worker(FOUR, QUERIES, 8), 8),
}
QUICK_SUBJECTS: Final = ("bare", "fused", "four")


class Feed(threading.Thread):
    """Sends `rows`, each when its time has come, under the wall clock."""

    def __init__(self, bootstrap: str, raw: str, rows: Sequence[Row]) -> None:
        super().__init__(daemon=True)
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5}
        )
        self._raw = raw
        self._rows = rows

    def run(self) -> None:
        headers = HeaderWriter(HeaderConfig())
        filling = Random(1).randbytes(VALUE_BYTES - STAMP_BYTES)
        first_ns, began_ns = self._rows[0].arrival_ns, time.time_ns()
        for row in self._rows:
            due_ns = began_ns + row.arrival_ns - first_ns
            while (now_ns := time.time_ns()) < due_ns:
                self._producer.poll(0)
                time.sleep(PAUSE_S)
            ts_ns = began_ns + row.ts_ns - first_ns
            contract = headers.write(row.source, row.seq, ts_ns=ts_ns, epoch=0)
            value = now_ns.to_bytes(STAMP_BYTES) + filling
            self._producer.produce(self._raw, value, b"default", headers=contract)
        self._producer.flush(30)


@dataclass(slots=True)
class Delays:
    """Reads the output as it is committed, in a thread, until `close`."""

    bootstrap: str
    topic: str
    ns: list[int] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        assert self._thread is not None
        self._thread.join()

    def _read(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": f"watching-{uuid.uuid4().hex[:8]}",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 10,
            }
        )
        consumer.subscribe([self.topic])
        while not self._over.is_set():
            messages = consumer.consume(500, 0.1)
            now_ns = time.time_ns()
            for message in messages:
                value = message.value()
                if message.error() is None and value is not None:
                    self.ns.append(now_ns - int.from_bytes(value[:STAMP_BYTES]))
        consumer.close()


@dataclass(frozen=True, slots=True)
class Cost:
    """In a stretch of `wall_s`: CPU of all processes, and the delays of the events read out."""

    cpu_s: float
    wall_s: float
    delays_ns: Sequence[int]

    @property
    def per_cpu_second(self) -> float:
        return len(self.delays_ns) / max(self.cpu_s, 1e-9)


def at_rate(rate: int, seconds: float) -> list[Row]:
    """The crowd, its delays as they are, its events as far apart as the rate wants them."""
    rows = crowd(max(2, int(rate * seconds))).rows
    first_ns = rows[0].ts_ns
    spread = [
        row._replace(
            ts_ns=first_ns + (row.ts_ns - first_ns) * RATE_HZ // rate,
            arrival_ns=first_ns
            + (row.ts_ns - first_ns) * RATE_HZ // rate
            + row.arrival_ns
            - row.ts_ns,
        )
        for row in rows
    ]
    return in_arrival_order(spread)


def greet(bootstrap: str, raw: str, delays: Delays) -> None:
    """Return when the processes are at work."""
    deadline_s = time.monotonic() + START_TIMEOUT_S
    greetings = 0
    while not delays.ns:
        if time.monotonic() > deadline_s:
            raise NotReady(f"nothing came out of {raw} within {START_TIMEOUT_S:.0f} s")
        now_ns = time.time_ns()
        Feed(bootstrap, raw, [Row(now_ns, "greeting", greetings, now_ns)]).run()
        greetings += 1
        time.sleep(GREETING_S)


def measured(subject: Subject, folder: Path, bootstrap: str, rate: int, seconds: float) -> Cost:
    raw = f"raw-{uuid.uuid4().hex[:8]}"
    create_topic(bootstrap, raw, subject.partitions, config=APPEND_TIME)
    program = subject.program(folder, bootstrap, raw)
    process = Process(program.name, program.command, folder, {"PYTHONPATH": str(ROOT)})
    delays = Delays(bootstrap, program.output)
    process.start()
    delays.start()
    try:
        greet(bootstrap, raw, delays)
        rows = at_rate(rate, SETTLE_S + seconds + 1) if rate else at_rate(BEFORE_HZ, 1)
        feed = Feed(bootstrap, raw, rows)
        feed.start()
        time.sleep(SETTLE_S if rate else QUIET_S)
        began_s, cpu_s, heard = time.monotonic(), cpu_seconds(process.pid), len(delays.ns)
        time.sleep(seconds)
        spent_s, wall_s = cpu_seconds(process.pid) - cpu_s, time.monotonic() - began_s
        found = Cost(spent_s, wall_s, delays.ns[heard:])
        feed.join()
        return found
    finally:
        delays.close()
        process.stop()


def table_of(found: dict[tuple[str, int], Cost]) -> Table:
    table = Table("a stream at a steady rate", COLUMNS)
    for (name, rate), cost in found.items():
        bare = found.get((BARE, rate))
        delays = sorted(cost.delays_ns)
        table.add(
            name,
            str(rate),
            thousands(len(delays) / cost.wall_s),
            f"{100 * cost.cpu_s / cost.wall_s:.1f}",
            thousands(cost.per_cpu_second) if rate else "-",
            f"{cost.per_cpu_second / bare.per_cpu_second:.2f}" if rate and bare else "-",
            *(ms(delays[len(delays) * part // 100]) if delays else "-" for part in (50, 99)),
        )
    return table


@click.command("streaming")
@click.option("--full", is_flag=True, help=f"{FULL_S:.0f} s of each instead of {QUICK_S:.0f}.")
@click.option("--rate", "rates", multiple=True, type=click.IntRange(0), help="Events a second.")
@click.option("--only", multiple=True, type=click.Choice(list(SUBJECTS)))
@click.option("--markdown", type=click.Path(path_type=Path), help="Append the table here.")
@click.option("--folder", type=click.Path(path_type=Path), help="Keep logs and data here.")
def command(
    full: bool,
    rates: tuple[int, ...],
    only: tuple[str, ...],
    markdown: Path | None,
    folder: Path | None,
) -> None:
    """CPU of a worker's processes while events flow, and while none do."""
    page = Page(markdown)
    absent = missing()
    if absent:
        page.say(f"left out: {absent}")
        return
    with kept_in(folder) as place:
        found = {}
        with new_broker(place / "kafka") as broker:
            for rate in rates or RATES:
                for key in only or QUICK_SUBJECTS:
                    subject = SUBJECTS[key]
                    seconds = FULL_S if full else QUICK_S
                    cost = measured(subject, place, broker.bootstrap, rate, seconds)
                    found[subject.name, rate] = cost
                    spent = f"{cost.cpu_s:.2f} s of CPU in {cost.wall_s:.1f} s"
                    page.say(f"{subject.name} at {rate}/s: {spent}")
        page.table(table_of(found))
