"""End to end: a deliberate fault makes its rule fire on the metrics of a real worker.

The shipped rules are used, with each minute shortened to a second, or to a few if the machine is
busy and scrapes are slow. Rules that need hours or a cluster run only in promtool
(`test_monitoring`), and are named here.

When a rule fires, the test also checks its row in docs/operate/alerts.md: the metrics in
Prometheus, and the words in the log. Some rules fire only for a while, so the test asks whether one
has fired since its fault.
"""

from __future__ import annotations

import json
import math
import re
import resource
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from confluent_kafka import OFFSET_END, TopicPartition

from agents.master_keys import MASTERS
from cli.local.poll import share_of_processors
from infra.helm import CHART
from infra.prometheus import Prometheus, missing
from tests.command import Command
from tests.end_to_end.records import contract, new_producer
from tests.end_to_end.setting import Setting, settle
from tests.end_to_end.topics import admin_of, largest, offsets_of
from tests.end_to_end.worker import Worker, running
from tests.infra.test_monitoring import NAME, RULES, SHOWN, table_of_faults
from tests.services import SharedKafka, require
from tests.waiting import wait_until

FUNCTIONS = """\
import time

from inorder.engine import Detector, Function


def slowly(state, value):
    time.sleep(0.002)
    return state + 1


aggregates = {"slow": Function(lambda: 0, slowly, lambda a, b: a + b, lambda state: state)}
detectors = {"counted": Detector(lambda state, event: (state + 1, {"n": state}), 0)}
"""
QUERIES = """\
queries:
  counts: {window: tumbling 1s, aggregate: {n: slow(payload.v)}, stream: crowd}
  pairs: {pattern: "PATTERN SEQ(A a, B b) WITHIN 1 s", stream: crowd}
  early: {detector: counted, answer: speculate, stream: default}
  exact: {window: tumbling 1s, aggregate: {n: count()}, stream: default,
          quality: {accuracy: 99%, max_wait: 1s}}
"""
OTHERS = {
    "crowd": "",
    "signed": "signed: true",
    "full": "reorder: {rule: fixed, max_wait: 60s, start: zero, max_held: 5}",
}
STREAM = "reorder: {rule: fixed, max_wait: 1h, start: zero}, merge: {max_wait: 1h}"
"""Settings with which the gap of `hole` lasts: on a busy machine a rule may be evaluated a
minute later."""
TICK_S = 0.02
GAP_EVERY = 50
CROWD = 20
"""Events of a tick in the stream that is read too slowly."""

ASK_S = 20.0
UNREAD = 500
"""Number of records, more than those in a fetch under way when the stage was stopped."""

SMALL = 150
"""Bytes, fewer than a record of the ordered topic has."""

MASTER_KEYS = "5" * 64
SOUND_MINUTES = 5
UNIT_S = {"s": 1, "m": 1, "h": 60, "d": 1440}

BY_PROMTOOL_ALONE = {
    "InorderOverdue": "takes minutes; tests/end_to_end/test_overdue.py has what `/ready` says",
    "InorderFewerWorkers": "needs a second worker for half of its hour",
    "InorderMemoryScarce": "needs a container with a limit of memory",
    "InorderCheckpointsSlow": "needs brokers that are slow and not away",
    "InorderClockBroken": "needs a sync server and sources whose clocks jump",
    "InorderClocksStale": "needs clocks that age for hours",
    "InorderQualityTargetMissed": "needs delays that change after a promise was measured",
    "InorderGapsDeclaredTooSoon": "needs a learned wait",
    "InorderSinkRefuses": "needs a sink and a store",
    "InorderWallClockOff": "needs a wrong clock; tests/end_to_end/test_wall_clocks.py has one",
    "InorderFrequentRebalances": "needs a dozen workers that come and go",
}

SILENT = {
    *("Checkpoints aborted", "Conflicts", "Dead letters by reason", "Gaps given up"),
    *("Age of gaps given up, 50 % and 99 %", "Sources with the largest share of late events"),
    "Missing numbers that arrived in time",
}
"""Panels for which the worker may have no data when the others have some."""

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def hurried(expression: str, minute_s: int) -> str:
    """Return the expression with each minute shortened to `minute_s` seconds."""
    spans = re.sub(
        r"\b(\d+)([mhd])(?=[\]:]|\s|\))",
        lambda found: f"{int(found[1]) * UNIT_S[found[2]] * minute_s}s",
        expression,
    )
    return spans.replace("> 60\n", f"> {minute_s}\n").replace("> 60 ", f"> {minute_s} ")


def rules(folder: Path, minute_s: int) -> Path:
    document = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())
    for rule in document["groups"][0]["rules"]:
        rule["expr"] = hurried(rule["expr"], minute_s)
        rule["for"] = "1s"
    file = folder / "hurried.yaml"
    file.write_text(json.dumps(document))
    return file


@dataclass
class World:
    """A world to break: a worker with a stage that nobody runs, a Prometheus, and producers.

    Producers send from `start` to `stop`: sound events at first, and every fault once it `breaks`.
    """

    setting: Setting
    worker: Worker
    sync_server: Command
    prometheus: Prometheus
    minute_s: int
    began_s: float = 0.0
    paused: int | None = None
    breaks: threading.Event = field(default_factory=threading.Event)
    is_quiet: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._stopping = threading.Event()
        self._producer = new_producer(self.setting.bootstrap)
        self._numbers: dict[str, int] = {}
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self.began_s = time.monotonic()
        self._thread.start()

    def _run(self) -> None:
        has_faults = False
        while not self._stopping.wait(TICK_S):
            if self.is_quiet.is_set():
                continue
            self._send("steady")
            if not self.breaks.is_set():
                self._send("quiet")
                continue
            if not has_faults:
                has_faults = True
                self._break()
            for _ in range(CROWD):
                self._send("many", stream="crowd")
            self._send("late", epoch=1)
            self._send("again")
            if self._numbers["again"] % GAP_EVERY == 2:
                self._send("again", seq=self._numbers["again"] - 2, value=b"{}")
            self._send("unsigned", stream="signed")
            self._send("full", stream="full")
            if not self._numbers["full"] % GAP_EVERY:
                # Another number is skipped, so the counter grows whenever it is first scraped.
                self._numbers["full"] += 1
            self._put("steady", [("sourceId", b"steady")])

    def _break(self) -> None:
        self._send("late", epoch=2, seq=0)
        self._send("hole", seq=0)
        self._numbers["full"] = 0  # Number 0 never comes.
        ts_ns = time.time_ns()  # A newer time would begin an epoch.
        for value in (b'{"v": 1}', b'{"v": 2}'):
            self._send("hole", seq=2, value=value, ts_ns=ts_ns)

    def _send(
        self,
        source: str,
        *,
        stream: str = "default",
        seq: int | None = None,
        epoch: int | None = None,
        value: bytes = b'{"v": 1}',
        ts_ns: int | None = None,
    ) -> None:
        if seq is None:
            seq = self._numbers[source] = self._numbers.get(source, -1) + 1
        self._put(source, contract(source, seq, ts_ns or time.time_ns(), epoch, stream), value)

    def _put(
        self, source: str, headers: list[tuple[str, bytes | None]], value: bytes = b"{}"
    ) -> None:
        self._producer.produce(
            self.setting.raw, value, self.setting.key(source), headers=list(headers)
        )
        self._producer.poll(0)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def firing(self) -> set[str]:
        found = self.prometheus.ask('ALERTS{alertstate="firing"}')
        return {one["metric"]["alertname"] for one in found}

    def fired(self, since_s: float) -> set[str]:
        """Return the alerts that have fired since `since_s` (monotonic time)."""
        span_s = math.ceil(time.monotonic() - since_s) + 1
        found = self.prometheus.ask(f'max_over_time(ALERTS{{alertstate="firing"}}[{span_s}s])')
        return {one["metric"]["alertname"] for one in found}


@contextmanager
def ending(command: Command) -> Iterator[None]:
    command.start()
    try:
        yield
    finally:
        command.process.kill()


def slowest_answer_s(worker: Worker) -> float:
    """Return the longest of five scrape times, since the load average rises only as a minute
    passes.
    """
    took_s = []
    for _ in range(5):
        began_s = time.monotonic()
        worker.families()
        took_s.append(time.monotonic() - began_s)
    return max(took_s)


@pytest.fixture(scope="module")
def world(kafka: SharedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    require(missing())
    folder = tmp_path_factory.mktemp("alerts")
    setting = settle(
        kafka.bootstrap,
        folder,
        stages="reorder, merge+detector, window, pattern",
        partitions=1,
        stream=STREAM,
        others=OTHERS,
        more=QUERIES,
        functions=FUNCTIONS,
    )
    stages = [
        word for name in ("reorder", "merge+detector", "window") for word in ("--stage", name)
    ]
    worker = Worker(
        "a", setting.path, setting.bootstrap, folder, *stages, env={MASTERS: MASTER_KEYS}
    )
    sync_server = Command(
        *("sync", folder, "sync-server", "--brokers", setting.bootstrap, "--auth", "none"),
        *("--topology", str(setting.path), "--bind", "127.0.0.1:0"),
    )
    with running(worker), ending(sync_server):
        worker.wait_ready()
        minute_s = math.ceil(max(share_of_processors(), 3 * slowest_answer_s(worker)))
        wait_until(lambda: sync_server.http is not None, "the sync server", lambda: sync_server.log)
        targets = [worker.address, str(sync_server.http)]
        alerts = [rules(folder, minute_s)]
        with Prometheus(folder / "prometheus", targets, alerts, every_s=minute_s) as prometheus:
            world = World(setting, worker, sync_server, prometheus, minute_s)
            wait_until(lambda: bool(prometheus.ask("inorder_stage_ready")), "the first scrape")
            wait_until(lambda: "InorderAbsent" not in world.firing(), "what was before it to end")
            world.start()
            try:
                time.sleep(SOUND_MINUTES * minute_s)
                assert world.firing() <= {"InorderPartitionsUnassigned"}
                world.breaks.set()
                yield world
            finally:
                world.stop()


def pause(world: World) -> None:
    world.paused = world.worker.pause_stage(0)


def kill_sync_server(world: World) -> None:
    world.sync_server.process.kill()


def be_silent(world: World) -> None:
    limit_files(world, resource.RLIM_INFINITY)  # The log is a file too.
    world.is_quiet.set()


def refuse_outputs(world: World) -> None:
    if world.paused is not None:
        world.worker.wake(world.paused)
    world.worker.wait_ready()
    largest(world.setting, SMALL)


def limit_files(world: World, size: int = 1) -> None:
    for pid in world.worker.stages():
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def delete_unread(world: World) -> None:
    """Pause the first stage while records arrive and are deleted."""
    world.is_quiet.clear()
    stage = world.worker.pause_stage(0)
    place = TopicPartition(world.setting.raw, 0, OFFSET_END)
    admin = admin_of(world.setting.bootstrap)

    def end() -> int:
        return offsets_of(world.setting.bootstrap, world.setting.raw)[1]

    at_first = end()
    wait_until(lambda: end() > at_first + UNREAD, "records that the stage does not read", end)
    admin.delete_records([place])[place].result(ASK_S)
    world.worker.wake(stage)


def kill(world: World) -> None:
    world.worker.kill_all()


def nothing(_: World) -> None:
    """Do nothing, since the fault is in what is sent, or was there from the start."""


FROM_THE_START = (
    "InorderPartitionsUnassigned",  # a stage that nobody runs
    *("InorderManyDeadLetters", "InorderTwoProducers", "InorderManyLate", "InorderSourceLate"),
    *("InorderBlockedByGap", "InorderWatermarkStalled", "InorderSourceIdle", "InorderFallsBehind"),
    *("InorderUnsigned", "InorderBoundReached", "InorderNumbersReused"),
)
FAULTS: Sequence[tuple[str, Callable[[World], None]]] = [
    *((alert, nothing) for alert in FROM_THE_START),
    ("InorderSyncServerAbsent", kill_sync_server),
    ("InorderNoLocalCopy", limit_files),
    ("InorderInputStopped", be_silent),
    ("InorderInputLost", delete_unread),
    ("InorderNotReady", pause),
    ("InorderCheckpointsFail", refuse_outputs),
    ("InorderAbsent", kill),
]
"""Faults in order: one that ends others comes after them. Refused outputs end stages, and after
some restarts the worker."""


def test_panels_and_rules_evaluate(world: World) -> None:
    asked = [(title, _filled(expression, 4 * world.minute_s)) for title, expression in SHOWN]
    silent = {title for title, _ in asked}

    def all_told() -> bool:
        silent.difference_update(t for t, expression in asked if world.prometheus.ask(expression))
        return silent <= SILENT

    wait_until(all_told, "an answer to each panel", lambda: sorted(silent))
    wait_until(lambda: set(world.prometheus.rules().values()) == {"ok"}, "sound alerts")
    assert set(world.prometheus.rules()) == {rule["alert"] for rule in RULES}


def _filled(expression: str, rate_interval_s: int) -> str:
    """Return the expression as Grafana fills in its variables, with four scrapes for a rate."""
    everything = expression.replace("$stage", ".*").replace("$stream", ".*")
    return everything.replace("$__rate_interval", f"{rate_interval_s}s")


@pytest.mark.parametrize(("alert", "fault"), FAULTS)
def test_rule_fires_on_its_fault(world: World, alert: str, fault: Callable[[World], None]) -> None:
    made_s = world.began_s if fault is nothing else time.monotonic()
    fault(world)
    wait_until(
        lambda: alert in world.fired(made_s),
        f"{alert}; there are {sorted(world.firing())}",
        lambda: world.worker.log,
        quiet_s=30.0 * world.minute_s,
    )
    row = next(row for row in table_of_faults() if row[2] == alert)
    for name in NAME.findall(row[1]):
        metric = f"max_over_time({name}[10m])"
        wait_until(lambda metric=metric: bool(world.prometheus.ask(metric)), name)  # type: ignore[misc]
    for part in parts_of_log(row[5]):
        wait_until(lambda part=part: part in world.worker.log, part)  # type: ignore[misc]


def parts_of_log(cell: str) -> list[str]:
    """Return the words that must be in the worker's log at once."""
    if "of each minute" in cell or "of the others" in cell or "of the server" in cell:
        return []
    words = [part for found in re.findall(r"`([^`]+)`", cell) for part in found.split("…")]
    return [*filter(None, map(str.strip, words))]


def test_every_rule_is_fired_or_listed() -> None:
    fired = [alert for alert, _ in FAULTS]
    assert sorted([*fired, *BY_PROMTOOL_ALONE]) == sorted(rule["alert"] for rule in RULES)
