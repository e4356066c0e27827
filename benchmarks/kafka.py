"""Measure the whole stage on a real broker, beside a plain Faust agent and a bare loop.

All programs read the same backlog (`benchmarks.backlog`) in turn. Ours runs fused and exactly once,
fused and at least once, and as two stages. The first and the last also run with the codec in
Python. The peers on Kafka Streams and Quix Streams put each source in order and merge none. A
per-event Faust agent has the same operators. The bare loop is consume-and-forward on
confluent-kafka. A peer that is unavailable here (`benchmarks.peers.bring`) is left out, and the
output says so.

A second table is about ours as installed: README.md's topology with the defaults of all settings
and eight input partitions, with its window and without. Beside it are the bare loop, the peers on
Kafka Streams and Quix Streams, and, with `--beside`, the defaults of another revision. Its worktree
needs its own codec, compiled by `python setup.py build_ext --inplace`. The memory is the
proportional set size of all processes at the end.

A program is started on a topic with the backlog and observed from outside. Its progress is the
committed end of its output topic. The resources of the program and its children are read from
/proc. The cost of the same program on a topic with two records is its start-up, which is
subtracted. All programs must reach the same share of the output, just below the end, since the very
last events rightly wait for time to pass. The broker's share of the two cores is not counted,
though it slows the wall clock of all programs. Compilation by a JVM during the run counts.

The goals for ours are at least 10 times plain Faust, and at least half of the bare loop. It should
also reach 100 000 events/s of CPU, with wall time close to CPU time.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from benchmarks import harness
from benchmarks.backlog import (
    PARTITIONS,
    TOOL,
    Setting,
    produce,
    set_up_as_installed,
    settle,
    to_contract_record,
    to_telemetry_record,
)
from benchmarks.harness import ROOT, Asked, Columns, Tables, make_table, run_in_turns
from benchmarks.peers import bring
from benchmarks.tables import Table, count, format_rate
from benchmarks.workloads import crowd
from benchmarks.workloads.rows import Row
from cli.local.kafka import create_topic
from cli.local.process import NotReady, Process, find_descendants, read_stat_fields
from infra.kafka import missing, new_broker

PLAIN_SHARE: Final = 0.15
"""The share of the backlog for plain Faust, which is slow and has a constant cost per event."""

QUIX_SHARE: Final = 0.5
"""The share of the backlog for Quix, which is slow too."""

NEARLY: Final = 0.995
START_UP_STEP_NS: Final = 500_000_000
TIMEOUT_S: Final = 300.0
SAMPLE_S: Final = 0.05
ASK_TIMEOUT_S: Final = 10.0
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
APPEND_TIME: Final = {"message.timestamp.type": "LogAppendTime"}
QUICK: Final = ("bare", "fused", "installed-bare", "installed")


@dataclass(frozen=True, slots=True)
class Program:
    """A program whose `command` reads a backlog and writes to the topic `output`."""

    command: Sequence[str]
    output: str
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Spent:
    """The cost from the start of the process until `records` were in its output.

    `pss_bytes` is the memory of the process and its children at that time.
    """

    records: int
    cpu_s: float
    wall_s: float
    pss_bytes: int = 0

    def subtract(self, start_up: Spent) -> Spent:
        return Spent(
            self.records - start_up.records,
            max(self.cpu_s - start_up.cpu_s, 1e-9),
            max(self.wall_s - start_up.wall_s, 1e-9),
            self.pss_bytes,
        )

    @property
    def per_cpu_second(self) -> float:
        return self.records / self.cpu_s

    @property
    def cpu_us(self) -> float:
        return 1e6 / self.per_cpu_second


class Outcome:
    """A topic whose number of committed records can be queried at low cost."""

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
        """Return the number of records, or 0 while a new topic's leader does not know it yet."""
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
    """Run a program until `records` are in its output; raise NotReady after `timeout_s`."""
    outcome = Outcome(bootstrap, program.output)
    environment = {"PYTHONPATH": str(ROOT), **program.environment}
    process = Process(program.output, program.command, folder, environment)
    began_s = time.monotonic()
    process.start()
    try:
        while True:
            time.sleep(SAMPLE_S)
            done = outcome.records()
            wall_s, cpu_s = time.monotonic() - began_s, cpu_seconds(process.pid)
            if done >= records:
                return Spent(done, cpu_s, wall_s, pss_bytes(process.pid))
            if not process.is_alive() or wall_s > timeout_s:
                raise NotReady(
                    f"{program.output}: {done} of {records} records after {wall_s:.0f} s;"
                    f" {process.log} ends with\n{process.tail()}"
                )
    finally:
        process.stop()
        outcome.close()


def cpu_seconds(pid: int) -> float:
    """Return the user and system time of a process and of its living children."""
    total = 0
    for each in (pid, *find_descendants(pid)):
        with suppress(FileNotFoundError, ProcessLookupError):
            fields = read_stat_fields(Path(f"/proc/{each}/stat"))
            total += int(fields[11]) + int(fields[12])
    return total / TICKS_PER_S


def pss_bytes(pid: int) -> int:
    """Return the proportional set size of a process and of its living children, in bytes."""
    total = 0
    for each in (pid, *find_descendants(pid)):
        with suppress(FileNotFoundError, ProcessLookupError):
            rollup = Path(f"/proc/{each}/smaps_rollup").read_text()
            total += int(rollup.partition("\nPss:")[2].split()[0]) << 10
    return total


Make = Callable[[Path, str, str], Program]


class Contender(NamedTuple):
    """A program to measure.

    `program` makes it for a folder, brokers and an input topic. `share` is the part of the backlog
    that it reads.
    """

    name: str
    program: Make
    share: float = 1.0


def make_own_contender(name: str, codec: str = "", **settings: str) -> Contender:
    def program(folder: Path, bootstrap: str, raw: str) -> Program:
        setting = settle(folder, bootstrap, raw, **settings)
        return worker(setting, folder, bootstrap, {"INORDER_CODEC": codec})

    return Contender(name, program)


def make_installed_contender(
    name: str, tree: Path = ROOT, *, has_queries: bool = True
) -> Contender:
    """Return the contender with README.md's topology and the defaults of the revision in `tree`."""

    def program(folder: Path, bootstrap: str, raw: str) -> Program:
        setting = set_up_as_installed(folder, bootstrap, raw, tree, has_queries=has_queries)
        return worker(setting, folder, bootstrap, {"INORDER_CODEC": "", "PYTHONPATH": str(tree)})

    return Contender(name, program)


def worker(
    setting: Setting, folder: Path, bootstrap: str, environment: Mapping[str, str]
) -> Program:
    command = [
        *(*TOOL, "worker", "--topology", str(setting.path), "--brokers", bootstrap),
        *("--state-dir", str(folder / f"state-{uuid.uuid4().hex[:8]}")),
    ]
    return Program(command, setting.output, environment)


def make_faust_program(folder: Path, bootstrap: str, raw: str) -> Program:
    setting = settle(folder, bootstrap, raw)
    words = (bootstrap, setting.topology.application, str(setting.path))
    return Program([sys.executable, "-m", "benchmarks.peers.plain_faust", *words], setting.output)


def make_peer(program: Callable[[], Sequence[str]], *, is_stateful: bool = True) -> Make:
    """Return a function that makes a peer's program for a folder, brokers and an input topic.

    The program takes brokers, group, input, output and, if `is_stateful`, a folder for its state.
    """

    def make(folder: Path, bootstrap: str, raw: str) -> Program:
        mark = uuid.uuid4().hex[:8]
        output, state = f"peer-output-{mark}", [str(folder / f"state-{mark}")] * is_stateful
        create_topic(bootstrap, output)
        return Program([*program(), bootstrap, f"peer-{mark}", raw, output, *state], output)

    return make


def kafka_streams_command() -> Sequence[str]:
    options = ("-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
    return ("java", *options, "-cp", bring.compile_hold_back(), "HoldBack")


BARE_LOOP: Final = (sys.executable, "-m", "benchmarks.peers.bare_loop")
CONTENDERS: Final = {
    "bare": Contender("bare confluent loop", make_peer(lambda: BARE_LOOP, is_stateful=False)),
    "fused": make_own_contender("fused, exactly once"),
    "at-least-once": make_own_contender("fused, at least once", delivery="at_least_once"),
    "memory": make_own_contender("fused, exactly once, state: memory", state="memory"),
    "split": make_own_contender("reorder | merge, exactly once", stages="reorder, merge"),
    "fused-plain": make_own_contender("fused, exactly once, codec in Python", codec="plain"),
    "split-plain": make_own_contender(
        "reorder | merge, codec in Python", codec="plain", stages="reorder, merge"
    ),
    "kafka-streams": Contender(
        "Kafka Streams, each source in order, exactly once", make_peer(kafka_streams_command)
    ),
    "quix": Contender(
        "Quix Streams, each source in order, exactly once",
        make_peer(lambda: (str(bring.python()), "-m", "benchmarks.peers.quix")),
        QUIX_SHARE,
    ),
    "faust": Contender("plain Faust agent", make_faust_program, PLAIN_SHARE),
}
INSTALLED: Final = {
    "installed-bare": CONTENDERS["bare"],
    "installed": make_installed_contender("as installed, with the window"),
    "installed-no-query": make_installed_contender(
        "as installed, without a query", has_queries=False
    ),
    "installed-kafka-streams": CONTENDERS["kafka-streams"],
    "installed-quix": CONTENDERS["quix"],
}


def contenders_beside(tree: Path | None) -> dict[str, Contender]:
    """Return the contenders of the table about ours as installed, beside those of another tree."""
    if tree is None:
        return INSTALLED
    tree = tree.absolute()
    return INSTALLED | {
        "installed-beside": make_installed_contender(f"{tree.name}, with the window", tree),
        "installed-beside-no-query": make_installed_contender(
            f"{tree.name}, without a query", tree, has_queries=False
        ),
    }


@dataclass(frozen=True, slots=True)
class Course:
    """A broker with the backlog, and with a topic of two records to measure the start-up."""

    folder: Path
    bootstrap: str
    raw: str
    single: str
    records: int

    def measure_spent(self, contender: Contender) -> tuple[Spent, Spent]:
        """Return the cost of the start-up, and that of the backlog without the start-up."""
        first = contender.program(self.folder, self.bootstrap, self.single)
        start_up = run(first, self.bootstrap, self.folder, 1, TIMEOUT_S)
        program = contender.program(self.folder, self.bootstrap, self.raw)
        wanted = int(self.records * NEARLY * contender.share)
        whole = run(program, self.bootstrap, self.folder, wanted, TIMEOUT_S)
        return start_up, whole.subtract(start_up)


def prepare(folder: Path, bootstrap: str, records: int, *, is_telemetry: bool = False) -> Course:
    """Produce the backlog, and the records for the start-up.

    Those of README.md's topology (`is_telemetry`) are in `PARTITIONS`, others in one.
    """
    workload = crowd(records)
    raw = f"raw-{uuid.uuid4().hex[:8]}"
    distinct = len(workload.rows) - len(workload.doubled)
    course = Course(folder, bootstrap, raw, f"{raw}-single", distinct)
    for topic, rows in ((course.raw, workload.rows), (course.single, first_of(workload.rows))):
        create_topic(bootstrap, topic, PARTITIONS if is_telemetry else 1, config=APPEND_TIME)
        produce(
            bootstrap, topic, rows, form=to_telemetry_record if is_telemetry else to_contract_record
        )
    return course


def first_of(rows: Sequence[Row]) -> list[Row]:
    """Return two rows of one source that begin with number 0, so that there is no start hold.

    The second row ends the instant of the first.
    """
    first = next(row for row in rows if row.seq == 0)
    later_ns = [time_ns + START_UP_STEP_NS for time_ns in (first.arrival_ns, first.ts_ns)]
    return [first, Row(later_ns[0], first.source, 1, later_ns[1])]


COLUMNS: Final[Columns] = {
    "records": lambda pair, _: count(pair[1].records),
    "CPU s": lambda pair, _: f"{pair[1].cpu_s:.2f}",
    "wall s": lambda pair, _: f"{pair[1].wall_s:.2f}",
    "CPU us/record": lambda pair, _: f"{pair[1].cpu_us:.2f}",
    "records/CPU s": lambda pair, _: format_rate(pair[1].per_cpu_second),
    "wall/CPU": lambda pair, _: f"{pair[1].wall_s / pair[1].cpu_s:.2f}",
    "start-up CPU s": lambda pair, _: f"{pair[0].cpu_s:.2f}",
    "PSS MB": lambda pair, _: f"{pair[1].pss_bytes / 1e6:.0f}",
    "of the first": lambda pair, first: f"{first[1].cpu_us / pair[1].cpu_us:.2f}",
}


def table_of(
    found: Mapping[str, Sequence[tuple[Spent, Spent]]],
    title: str = "a backlog of 200-byte records on a real broker",
) -> Table:
    """Return a table with the median round, by CPU, of each program."""
    medians = {
        name: sorted(pairs, key=lambda pair: pair[1].cpu_us)[len(pairs) // 2]
        for name, pairs in found.items()
    }
    return make_table(title, medians, COLUMNS)


def tables(asked: Asked) -> Tables:
    """Measure CPU per record of the stage on a real broker, of its peers, and as installed."""
    if absent := missing():
        raise bring.PeerUnavailable(absent)
    installed = contenders_beside(asked.beside)
    keys = asked.only or ({**CONTENDERS, **installed} if asked.full else QUICK)
    rounds = asked.rounds if asked.full else 1
    with tempfile.TemporaryDirectory() as name, new_broker(Path(name) / "kafka") as broker:
        prepared = partial(prepare, Path(name), broker.bootstrap)

        def measure(course: Course, some: Mapping[str, Contender], *title: str) -> Table:
            entries = {each.name: partial(course.measure_spent, each) for each in some.values()}
            return table_of(run_in_turns(entries, rounds, asked.say), *title)

        if some := {key: CONTENDERS[key] for key in CONTENDERS if key in keys}:
            course = prepared(300_000 if asked.full else 30_000)
            yield ", ".join(some), partial(measure, course, some)
        if some := {key: installed[key] for key in installed if key in keys}:
            course = prepared(100_000 if asked.full else 30_000, is_telemetry=True)
            title = f"README.md's topology as installed, over {PARTITIONS} partitions"
            yield ", ".join(some), partial(measure, course, some, title)


command = harness.command(tables)
