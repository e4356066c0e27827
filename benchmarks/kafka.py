"""The whole stage on a real broker, against a plain Faust agent and a bare loop.

All read the same backlog (`benchmarks.backlog`) in one run, one after the other: ours
fused and exactly once, fused and at least once, cut into two stages, the first and the last with
the codec in Python too; Kafka Streams and Quix Streams, which put each source in order and merge
none; a per-event Faust agent with the same operators; consume-and-forward on confluent-kafka. A
peer that cannot be had here (`benchmarks.peers.bring`) is left out with a line. Figures are CPU
and wall time of the programs alone, start-up taken off (`benchmarks.race`); the broker's share of
the two cores counts for nobody, though it slows the wall clock of all. What a JVM compiles while
it works counts. With `--rounds` all go in turn so often.

The goals: ours at least 10 times plain Faust, at least 100 000 events/s of CPU, at least
half of the bare loop, wall time close to CPU time.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

import click

from benchmarks.backlog import produce, settle
from benchmarks.peers import bring
from benchmarks.race import Program, Spent, kept_in, run
from benchmarks.tables import Page, Table, count, thousands
from benchmarks.workloads import crowd
from benchmarks.workloads.rows import Row
from cli.local.kafka import create_topic
from infra.kafka import missing, new_broker

QUICK_RECORDS: Final = 100_000
FULL_RECORDS: Final = 300_000
PLAIN_SHARE: Final = 0.15
"""A share of the backlog; the cost of a per-event agent is per event, and it takes its time."""

QUIX_SHARE: Final = 0.5
"""As above, where it takes less of it."""

NEARLY: Final = 0.995
START_UP_STEP_NS: Final = 500_000_000
TIMEOUT_S: Final = 300.0
APPEND_TIME: Final = {"message.timestamp.type": "LogAppendTime"}

OURS: Final = "fused, exactly once"
FAUST: Final = "plain Faust agent"
BARE: Final = "bare confluent loop"
KAFKA_STREAMS: Final = "Kafka Streams, each source in order, exactly once"
QUIX: Final = "Quix Streams, each source in order, exactly once"


@dataclass(frozen=True, slots=True)
class Contender:
    """`program` makes it for an input topic; `share` is how much of the backlog it does."""

    name: str
    program: Callable[[Path, str, str], Program]
    share: float = 1.0


def ours(name: str, codec: str = "", **settings: str) -> Contender:
    def program(folder: Path, bootstrap: str, raw: str) -> Program:
        setting = settle(folder, bootstrap, raw, **settings)  # type: ignore[arg-type]
        command = [
            *(sys.executable, "-m", "inorder_engine", "worker"),
            *("--topology", str(setting.path), "--brokers", bootstrap),
            *("--state-dir", str(folder / f"state-{uuid.uuid4().hex[:8]}")),
        ]
        return Program(_file(name), command, setting.output, {"INORDER_CODEC": codec})

    return Contender(name, program)


def plain_faust() -> Contender:
    def program(folder: Path, bootstrap: str, raw: str) -> Program:
        setting = settle(folder, bootstrap, raw)
        group = setting.topology.application
        module = "benchmarks.peers.plain_faust"
        command = [sys.executable, "-m", module, bootstrap, group, str(setting.path)]
        return Program(_file(FAUST), command, setting.output)

    return Contender(FAUST, program, PLAIN_SHARE)


def bare_loop() -> Contender:
    def program(_: Path, bootstrap: str, raw: str) -> Program:
        output = f"forwarded-{uuid.uuid4().hex[:8]}"
        create_topic(bootstrap, output)
        module = "benchmarks.peers.bare_loop"
        return Program(
            _file(BARE), [sys.executable, "-m", module, bootstrap, output, raw, output], output
        )

    return Contender(BARE, program)


def kafka_streams() -> Contender:
    def program(folder: Path, bootstrap: str, raw: str) -> Program:
        command = ["java", "-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        command += ["-cp", bring.hold_back(), "HoldBack"]
        return _holding_back(KAFKA_STREAMS, command, folder, bootstrap, raw)

    return Contender(KAFKA_STREAMS, program)


def quix() -> Contender:
    def program(folder: Path, bootstrap: str, raw: str) -> Program:
        command = [str(bring.python()), "-m", "benchmarks.peers.quix"]
        return _holding_back(QUIX, command, folder, bootstrap, raw)

    return Contender(QUIX, program, QUIX_SHARE)


def _holding_back(
    name: str, command: Sequence[str], folder: Path, bootstrap: str, raw: str
) -> Program:
    """A program that is told brokers, group, input, output and a folder for its state."""
    mark = uuid.uuid4().hex[:8]
    output = f"held-back-{mark}"
    create_topic(bootstrap, output)
    state = str(folder / f"state-{mark}")
    return Program(_file(name), [*command, bootstrap, f"peer-{mark}", raw, output, state], output)


CONTENDERS: Final = {
    "bare": bare_loop(),
    "fused": ours(OURS),
    "at-least-once": ours("fused, at least once", delivery="at_least_once"),
    "memory": ours("fused, exactly once, state: memory", state="memory"),
    "split": ours("reorder | merge, exactly once", stages="reorder, merge"),
    "fused-plain": ours("fused, exactly once, codec in Python", codec="plain"),
    "split-plain": ours("reorder | merge, codec in Python", codec="plain", stages="reorder, merge"),
    "kafka-streams": kafka_streams(),
    "quix": quix(),
    "faust": plain_faust(),
}


def _file(name: str) -> str:
    return "-".join(word.strip(",|:") for word in name.split() if word.strip(",|:"))


@dataclass(frozen=True, slots=True)
class Course:
    """A broker with the backlog, and a topic with two records to measure the start-up."""

    folder: Path
    bootstrap: str
    raw: str
    single: str
    records: int

    def spent(self, contender: Contender) -> tuple[Spent, Spent]:
        """(start-up, the backlog without it)."""
        first = contender.program(self.folder, self.bootstrap, self.single)
        start_up = run(first, self.bootstrap, self.folder, 1, TIMEOUT_S)
        program = contender.program(self.folder, self.bootstrap, self.raw)
        wanted = int(self.records * NEARLY * contender.share)
        whole = run(program, self.bootstrap, self.folder, wanted, TIMEOUT_S)
        return start_up, whole.less(start_up)


def prepare(folder: Path, bootstrap: str, records: int) -> Course:
    workload = crowd(records)
    raw = f"raw-{uuid.uuid4().hex[:8]}"
    distinct = len(workload.rows) - len(workload.doubled)
    course = Course(folder, bootstrap, raw, f"{raw}-single", distinct)
    for topic, rows in ((course.raw, workload.rows), (course.single, first_of(workload.rows))):
        create_topic(bootstrap, topic, config=APPEND_TIME)
        produce(bootstrap, topic, rows)
    return course


def first_of(rows: Sequence[Row]) -> list[Row]:
    """Two rows of one source from number 0 on, which needs no start hold; the second ends
    the instant of the first."""
    first = next(row for row in rows if row.seq == 0)
    later_ns = [time_ns + START_UP_STEP_NS for time_ns in (first.arrival_ns, first.ts_ns)]
    return [first, Row(later_ns[0], first.source, 1, later_ns[1])]


def table_of(rounds: Sequence[dict[str, tuple[Spent, Spent]]]) -> Table:
    """Each program's median round by its CPU; the ratios are medians of those within a round."""
    table = Table(
        "reorder and merge of a backlog, 200-byte records, on a real broker",
        (
            "program",
            "records",
            "CPU s",
            "wall s",
            "CPU us/record",
            "records/CPU s",
            "wall/CPU",
            "start-up CPU s",
            "of the bare loop",
            "times plain Faust",
        ),
    )
    for name in rounds[0]:
        by_cost = sorted((each[name] for each in rounds), key=lambda pair: pair[1].cpu_us)
        start_up, spent = by_cost[len(by_cost) // 2]
        bare, faust = (_ratio(rounds, name, other) for other in (BARE, FAUST))
        table.add(
            name,
            count(spent.records),
            f"{spent.cpu_s:.2f}",
            f"{spent.wall_s:.2f}",
            f"{spent.cpu_us:.2f}",
            thousands(spent.per_cpu_second),
            f"{spent.wall_s / spent.cpu_s:.2f}",
            f"{start_up.cpu_s:.2f}",
            f"{bare:.2f}" if bare else "-",
            f"{faust:.1f}" if faust else "-",
        )
    return table


def _ratio(rounds: Sequence[dict[str, tuple[Spent, Spent]]], name: str, other: str) -> float | None:
    """The one's rate over the other's, within a round."""
    if other not in rounds[0]:
        return None
    return median(each[name][1].per_cpu_second / each[other][1].per_cpu_second for each in rounds)


@click.command("kafka")
@click.option("--full", is_flag=True, help=f"{FULL_RECORDS:,} records instead of fewer.")
@click.option("--records", type=click.IntRange(100), help="Length of the backlog.")
@click.option("--only", multiple=True, type=click.Choice(list(CONTENDERS)))
@click.option("--rounds", type=click.IntRange(1), default=1, help="All programs in turn, so often.")
@click.option("--markdown", type=click.Path(path_type=Path), help="Append the table here.")
@click.option("--folder", type=click.Path(path_type=Path), help="Keep logs and data here.")
def command(
    full: bool,
    records: int | None,
    only: tuple[str, ...],
    rounds: int,
    markdown: Path | None,
    folder: Path | None,
) -> None:
    """CPU per record of the fused stage on a real broker, and of its peers."""
    page = Page(markdown)
    absent = missing()
    if absent:
        page.say(f"left out: {absent}")
        return
    length = records or (FULL_RECORDS if full else QUICK_RECORDS)
    with kept_in(folder) as place, new_broker(place / "kafka") as broker:
        course = prepare(place, broker.bootstrap, length)
        done = []
        for _ in range(rounds):
            found = {}
            for key in only or CONTENDERS:
                contender = CONTENDERS[key]
                try:
                    found[contender.name] = course.spent(contender)
                except bring.PeerUnavailable as absence:
                    page.say(f"{contender.name}: left out: {absence}")
                    continue
                page.say(_row_text(contender.name, found[contender.name][1]))
            done.append(found)
        if done[0]:
            page.table(table_of(done))


def _row_text(name: str, spent: Spent) -> str:
    return f"{name}: {thousands(spent.per_cpu_second)} records per CPU second"
