"""A worker for an hour and more: is its memory flat, is the balance exact, does a partition stand?

Four stages with windows and patterns over four partitions, under a steady stream whose sources
come and go (`benchmarks.workloads.churn`). Every `SAMPLE_S` the memory of all its processes (their
share of what they share, Pss) and its metrics become a row of `soak.csv`. Beside it a reader
follows the ordered, late and dead topics and marks each event, so the end says of every event that
was sent whether it came out once.

Half through its warm-up the broker stands still for `STILL_S`: what a worker takes for its first
backlog, and keeps, belongs to the warm-up.

The run is good where every event came out once, the balance of each stage is exact at the end, no
partition of a stage stood for `STANDS_S` while events came, and memory grew by less than `GROWTH`
an hour, `WARM_UP` of the run left out. Run it on a machine that does little else.

With `--kills` something is killed each minute in turn, a stage, the whole worker, the broker, a
sync server, and the run is good where every event came out once and no alert fired but those
expected: other figures are those of processes that live on. The clock of each source is measured.
"""

from __future__ import annotations

import csv
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import linear_regression, mean
from typing import Final, NamedTuple, TextIO

import click
import orjson
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)

from agents.kafka.declared import declared
from benchmarks._soak_kills import Clocks, Kills, SyncServer
from benchmarks.backlog import Setting, settle
from benchmarks.kafka import APPEND_TIME
from benchmarks.plots import Axes, Curve, NoPlots, draw
from benchmarks.race import cpu_seconds, kept_in
from benchmarks.tables import Page, Table, thousands
from benchmarks.worker import Worker
from benchmarks.workloads.churn import churn
from benchmarks.workloads.rows import Row
from cli.local.kafka import create_topic
from cli.local.poll import wait_until
from cli.local.process import NotReady, children
from infra.kafka import missing, new_broker
from inorder.header_writer import HeaderWriter
from topology.config import HeaderConfig

SAMPLE_S: Final = 5.0
STANDS_S: Final = 30.0
GROWTH: Final = 0.05
WARM_UP: Final = 0.25
STILL_S: Final = 8.0
END_TIMEOUT_S: Final = 120.0
PAUSE_S: Final = 0.005
PARTITIONS: Final = 4
STAGES: Final = "reorder, merge, window, pattern"
STREAM: Final = "reorder: {forget_after: 5min}"
QUERIES: Final = """\
queries:
  counts: {window: tumbling 10s, key: payload.machine, aggregate: {n: count(), sum: sum(payload.v)}}
  pairs: {pattern: "PATTERN SEQ(A a, B b) WHERE [machine] WITHIN 1 s"}
"""
OUTCOMES: Final = ("emitted", "late", "duplicate", "dead")
KINDS: Final = "ABCDEFGH"

Name = tuple[str, int]
Place = tuple[str, str]
"""A stage and a partition of its input."""


class Sample(NamedTuple):
    """One row of the table; memory in MiB, of the supervisor and of each stage."""

    at_s: float
    by_process_mib: Mapping[str, float]
    cpu_s: float
    sent: int
    read_out: int
    held: int
    lag: int
    stuck_s: float

    @property
    def memory_mib(self) -> float:
        return sum(self.by_process_mib.values())

    def row(self) -> dict[str, float]:
        whole = {name: value for name, value in self._asdict().items() if name != "by_process_mib"}
        parts = {f"{name}_mib": value for name, value in self.by_process_mib.items()}
        return {name: round(value, 3) for name, value in {**whole, **parts}.items()}


class Feed(threading.Thread):
    """Sends each row when its time has come; `sent` counts how often each event was sent."""

    def __init__(self, bootstrap: str, raw: str, rows: Iterable[Row], clocks: Clocks) -> None:
        super().__init__(daemon=True, name="feed")
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5}
        self._producer = Producer({**settings, "partitioner": "murmur2_random", "log_level": 0})
        self._raw = raw
        self._rows = rows
        self._clocks = clocks
        self.sent: Counter[Name] = Counter()
        self.records = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            self._send()
        except BaseException as failure:  # noqa: BLE001 - told by who waits for this thread
            self.failure = failure
        finally:
            self._clocks.close()

    def _send(self) -> None:
        headers = HeaderWriter(HeaderConfig())
        values = [orjson.dumps({"machine": f"m{at}", "v": at, "is": "x" * 150}) for at in range(16)]
        first_ns = 0
        began_ns = time.time_ns()
        for row in self._rows:
            first_ns = first_ns or row.ts_ns
            while time.time_ns() < began_ns + row.arrival_ns - first_ns:
                self._producer.poll(0)
                time.sleep(PAUSE_S)
            contract = headers.write(
                row.source,
                row.seq,
                ts_ns=began_ns + row.ts_ns - first_ns,
                epoch=0,
                type=KINDS[row.seq % len(KINDS)],
            )
            self._producer.produce(
                self._raw, values[row.seq % 16], row.source.encode(), headers=contract
            )
            self._clocks.note(row.source)
            self.sent[row.source, row.seq] += 1
            self.records += 1
        if self._producer.flush(30):
            raise NotReady("the broker did not take all that was sent")


class Seen(threading.Thread):
    """Marks what comes out, in order, late or dead, as it is committed. It reads in no group: a
    broker that was killed would have it begin anew."""

    def __init__(self, bootstrap: str, setting: Setting) -> None:
        super().__init__(daemon=True, name="seen")
        topics = setting.topology.topics
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"soak-{uuid.uuid4().hex[:8]}",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        names = {setting.output, topics.late, topics.dead}
        self._parts = [
            TopicPartition(spec.name, partition, OFFSET_BEGINNING)
            for spec in declared(setting.topology)
            if spec.name in names
            for partition in range(spec.partitions)
        ]
        self._over = threading.Event()
        self.times: Counter[Name] = Counter()

    def run(self) -> None:
        self._consumer.assign(self._parts)
        while not self._over.is_set():
            for message in self._consumer.consume(1_000, 0.5):
                self._mark(message)
        self._consumer.close()

    def close(self) -> None:
        self._over.set()
        self.join()

    def _mark(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF and not error.retriable():
                raise NotReady(str(error))
            return
        headers = dict(message.headers() or [])
        source, seq = headers.get("sourceId"), headers.get("seqNum")
        if "kind" not in headers and isinstance(source, bytes) and seq is not None:
            self.times[source.decode(), int(seq)] += 1


class Watch:
    """Asks a worker's metrics and its processes' memory."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._moved: dict[Place, tuple[float, float]] = {}

    def sample(self, at_s: float, feed: Feed, seen: Seen) -> Sample:
        figures = self.figures()
        return Sample(
            at_s,
            memory_mib(self._worker.pid),
            cpu_seconds(self._worker.pid),
            feed.records,
            len(seen.times),
            int(sum(figures["held"].values())),
            int(sum(figures["lag"].values())),
            self._stuck_s(at_s, figures["in"]),
        )

    def figures(self) -> Mapping[str, Mapping[Place, float]]:
        """By figure and place: `in`, what became of it, `held` and `lag`."""
        found: dict[str, dict[Place, float]] = defaultdict(lambda: defaultdict(float))
        for sample in self._worker.samples():
            name = sample.name.removeprefix("inorder_").removesuffix("_total")
            name = "lag" if name == "input_lag_records" else name.removeprefix("records_")
            if name in ("in", "held", "lag", *OUTCOMES):
                place = sample.labels["stage"], sample.labels["partition"]
                found[name][place] += sample.value
        return found

    def _stuck_s(self, at_s: float, taken: Mapping[Place, float]) -> float:
        """How long the partition that stands longest has taken nothing; one that never took
        anything has no source."""
        for place, count in taken.items():
            if count and self._moved.get(place, (0.0, -1.0))[1] != count:
                self._moved[place] = at_s, count
        return max((at_s - since_s for since_s, _ in self._moved.values()), default=0.0)


def memory_mib(pid: int) -> dict[str, float]:
    """Memory of a worker's processes by the stage's name, pages they share counted in parts."""
    found: dict[str, float] = {}
    for each in (pid, *children(pid)):
        with suppress(FileNotFoundError, ProcessLookupError):
            called, _, stage = Path(f"/proc/{each}/comm").read_text().strip().partition(" ")
            name = stage if called == "stage" else "supervisor"
            for line in Path(f"/proc/{each}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    found[name] = found.get(name, 0.0) + int(line.split()[1]) / 1024
    return found


def unbalanced(figures: Mapping[str, Mapping[Place, float]]) -> list[str]:
    """The places where what came in is not what became of it."""
    faults = []
    for place, taken in figures["in"].items():
        became = sum(figures[each].get(place, 0.0) for each in (*OUTCOMES, "held"))
        if became != taken:
            faults.append(f"{place}: {taken:.0f} came in, of {became:.0f} it is known what became")
    return faults


def not_once(sent: Counter[Name], seen: Counter[Name]) -> list[str]:
    """Which events did not come out once, in sentences."""
    faults = []
    lost = sent.keys() - seen.keys()
    again = [name for name, times in seen.items() if times > 1]
    strange = seen.keys() - sent.keys()
    for names, what in ((lost, "never came out"), (again, "came out again"), (strange, "was sent")):
        if names:
            faults.append(f"{len(names)} events {what}, as {min(names)}")
    return faults


def faults_of(samples: Sequence[Sample]) -> list[str]:
    """What was not as it should be of the worker, in sentences."""
    faults = []
    longest_s = max(sample.stuck_s for sample in samples)
    if longest_s >= STANDS_S:
        faults.append(f"a partition stood for {longest_s:.0f} s")
    if growth(samples) >= GROWTH:
        faults.append(f"memory grows by {growth(samples):.1%} an hour")
    return faults


def growth(samples: Sequence[Sample]) -> float:
    """By what share of itself memory grows in an hour, by least squares after the warm-up; 0 of a
    run too short to say."""
    later = [each for each in samples if each.at_s >= WARM_UP * samples[-1].at_s]
    if len(later) < 2:
        return 0.0
    memory = [each.memory_mib for each in later]
    line = linear_regression([each.at_s for each in later], memory)
    return line.slope * 3600 / mean(memory)


def write_row(file: TextIO, samples: Sequence[Sample]) -> None:
    """The last of them, below a head if it is the first."""
    row = samples[-1].row()
    table = csv.DictWriter(file, list(row), lineterminator="\n")
    if len(samples) == 1:
        table.writeheader()
    table.writerow(row)
    file.flush()


def run(
    folder: Path, rows: Iterable[Row], seconds: float, page: Page, *, with_kills: bool = False
) -> tuple[list[Sample], list[str]]:
    """Samples as they were, and faults. `seconds`: how long the rows last."""
    samples: list[Sample] = []
    stood_still = False
    with new_broker(folder / "kafka") as broker:
        raw = f"raw-{uuid.uuid4().hex[:8]}"
        create_topic(broker.bootstrap, raw, PARTITIONS, config=APPEND_TIME)
        setting = settle(
            *(folder, broker.bootstrap, raw),
            stages=STAGES,
            partitions=PARTITIONS,
            stream=STREAM,
            more=QUERIES,
        )
        worker = Worker("worker", setting, broker.bootstrap, folder)
        sync_server = SyncServer(setting, broker.bootstrap, folder)
        watch = Watch(worker)
        kills = Kills(worker, broker, sync_server, folder, page) if with_kills else None
        seen = Seen(broker.bootstrap, setting)
        feed = Feed(broker.bootstrap, raw, rows, Clocks(sync_server.address))
        try:
            sync_server.start()
            worker.start()
            began_s = time.monotonic()
            seen.start()
            feed.start()
            with (folder / "soak.csv").open("w", newline="") as file:
                while feed.is_alive():
                    feed.join(SAMPLE_S)
                    at_s = time.monotonic() - began_s
                    if kills is not None:
                        kills.look(at_s)
                    try:
                        samples.append(watch.sample(at_s, feed, seen))
                    except OSError:  # just killed
                        continue
                    write_row(file, samples)
                    if not (stood_still or with_kills) and at_s >= WARM_UP / 2 * seconds:
                        broker.pause()
                        time.sleep(STILL_S)
                        broker.resume()
                        stood_still = True
            if feed.failure is not None:
                raise feed.failure
            with suppress(TimeoutError):  # then `faults_of` names what did not come
                wait_until(lambda: len(seen.times) >= len(feed.sent), END_TIMEOUT_S, "the rest")
            time.sleep(SAMPLE_S)
            faults = not_once(feed.sent, seen.times)
            faults += (
                unbalanced(watch.figures()) + faults_of(samples)
                if kills is None
                else kills.faults()
            )
        finally:
            if seen.is_alive():
                seen.close()
            if kills is not None:
                kills.stop()
            for process in (worker, sync_server):
                process.stop()
    page.say(
        f"sources: {len({source for source, _ in feed.sent})}, copies:"
        f" {feed.records - len(feed.sent)}"
    )
    return samples, faults


def table_of(samples: Sequence[Sample]) -> Table:
    """A tenth of the run in each row."""
    columns = ("minutes", "memory MiB", "% of a core", "events/s", "held", "lag", "stands s")
    table = Table("a worker over time", columns)
    tenth = max(1, len(samples) // 10)
    before = Sample(0.0, {}, samples[0].cpu_s, 0, 0, 0, 0, 0.0)
    for at in range(0, len(samples), tenth):
        part = samples[at : at + tenth]
        last = part[-1]
        wall_s = last.at_s - before.at_s
        table.add(
            f"{last.at_s / 60:.0f}",
            f"{mean(each.memory_mib for each in part):.1f}",
            f"{100 * (last.cpu_s - before.cpu_s) / wall_s:.0f}",
            thousands((last.read_out - before.read_out) / wall_s),
            f"{mean(each.held for each in part):.0f}",
            f"{mean(each.lag for each in part):.0f}",
            f"{max(each.stuck_s for each in part):.0f}",
        )
        before = last
    return table


def pictures(samples: Sequence[Sample], folder: Path) -> None:
    later = [(each.at_s / 60, each) for each in samples]
    curves = [Curve("all processes", [(m, each.memory_mib, "") for m, each in later], "-")]
    for name in samples[-1].by_process_mib:
        points = [(m, each.by_process_mib.get(name, 0.0), "") for m, each in later]
        curves.append(Curve(name, points, "-"))
    axes = Axes("a worker under sources that come and go", "minutes", "MiB", plain=True)
    draw(axes, curves, folder / "soak-memory.png")


@click.command("soak")
@click.option("--minutes", type=float, default=1.0, show_default=True)
@click.option("--rate", type=click.IntRange(1), default=500, show_default=True, help="A second.")
@click.option(
    "--life", type=float, default=60.0, show_default=True, help="Mean life of a source, s."
)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--kills", is_flag=True, help="Kill this and that, and look at alerts.")
@click.option("--folder", type=click.Path(path_type=Path), help="Keep logs and samples here.")
@click.option("--markdown", type=click.Path(path_type=Path), help="Append the table here.")
def command(
    minutes: float,
    rate: int,
    life: float,
    seed: int,
    kills: bool,
    folder: Path | None,
    markdown: Path | None,
) -> None:
    """Memory, balance and progress of a worker over a long time."""
    page = Page(markdown)
    absent = missing()
    if absent:
        page.say(f"left out: {absent}")
        return
    with kept_in(folder) as place:
        rows = churn(rate, 60 * minutes, life_s=life, seed=seed)
        samples, faults = run(place, rows, 60 * minutes, page, with_kills=kills)
        page.table(table_of(samples))
        page.say(f"memory grows by {growth(samples):+.2%} an hour")
        with suppress(NoPlots):
            pictures(samples, place)
    for fault in faults:
        page.say(f"FAULT: {fault}")
    if faults:
        raise click.exceptions.Exit(1)
    page.say("every event came out once" + ("" if kills else "; the balance is exact"))
