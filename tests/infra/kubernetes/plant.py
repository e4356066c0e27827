"""A plant on a cluster: Kafka in a pod, the chart, a client, and a judgement of the output."""

from __future__ import annotations

import json
import random
import subprocess
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol

from infra.helm import CHART, find_program
from tests.waiting import wait_until

MANIFESTS: Final = Path(__file__).parent / "manifests.yaml"
VALUES: Final = Path(__file__).parent / "values.yaml"
BROKERS: Final = "kafka-bootstrap.kafka:9092"
SPACE: Final = "plant"
SPACES: Final = ("kafka", SPACE)
"""The namespaces that the tests create."""
SOURCES: Final = 20
WORKERS: Final = ("plant-all-0", "plant-all-1")
SENT_PER_S: Final = 300
FLOOD_FILE: Final = "/tmp/flood.jsonl"
PIECE: Final = 1_500
"""The events that one client publishes while a disturbance lasts; the next one follows."""
MOST_PIECES: Final = 90
"""Ten minutes of events, longer than any disturbance."""
HELM_S: Final = "300s"
READ_EVERY_S: Final = 2
"""The pause between readings of the whole topic, which take a core."""


class Cluster(Protocol):
    """The calls that a cluster accepts; a failed call raises subprocess.CalledProcessError with the
    reason.
    """

    def kubectl(self, *words: str, given: str | None = None) -> str: ...
    def helm(self, program: str, *words: str) -> str: ...
    def popen(self, *words: str) -> subprocess.Popen[str]: ...


@dataclass(frozen=True)
class Judged:
    """A judgement of the emitted events.

    Attributes:
        sent: The number of events.
        missing: The number of events that were not emitted.
        repeated: The number of events that were emitted more than once.
        foreign: The number of emitted events that were not sent.
        disordered: The number that came after a later one of their source, not marked as late.
        late: The number of events that are marked as late.
    """

    sent: int
    missing: int
    repeated: int
    foreign: int
    disordered: int
    late: int

    @property
    def is_exact(self) -> bool:
        return not (self.missing or self.repeated or self.foreign or self.disordered)

    @property
    def late_share(self) -> float:
        return self.late / self.sent

    def since(self, before: Judged) -> Judged:
        """Return this judgement with only the events, and late events, since the previous one."""
        return replace(self, sent=self.sent - before.sent, late=self.late - before.late)


@dataclass
class Plant:
    """A namespace with the release.

    `sent` counts its events, and `judged` is the last judgement. Its topics' names start with
    `topics`.
    """

    cluster: Cluster
    topics: str = "events"
    sent: int = 0
    judged: Judged = Judged(0, 0, 0, 0, 0, 0)
    rng: random.Random = field(default_factory=lambda: random.Random(7))

    # -- Life --------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Create the namespaces, Kafka and the client."""
        self.cluster.kubectl("apply", "-f", str(MANIFESTS))
        self.wait_for("kafka", "pod/kafka")
        self.wait_for(SPACE, "pod/client")

    def helm(self, *words: str) -> str:
        return self.cluster.helm(find_program(), "--namespace", SPACE, *words)

    def install(self, name: str = "plant", *options: str, values: Path = VALUES) -> str:
        words = (name, str(CHART), "--values", str(values), "--wait", "--timeout", HELM_S)
        return self.helm("upgrade", "--install", *words, *options)

    def kubectl(self, *words: str, given: str | None = None) -> str:
        return self.cluster.kubectl("--namespace", SPACE, *words, given=given)

    def popen(self, *words: str) -> subprocess.Popen[str]:
        return self.cluster.popen("--namespace", SPACE, *words)

    def wait_for(self, space: str, what: str, condition: str = "Ready") -> None:
        words = ("wait", what, f"--for=condition={condition}", "--timeout=300s")
        self.cluster.kubectl("--namespace", space, *words)

    def pod(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.kubectl("get", "pod", name, "-o", "json"))
        return found

    def await_workers(self) -> None:
        """Wait until all workers run and are ready."""

        def are_ready() -> bool:
            try:
                return all(is_ready(self.pod(name)) for name in WORKERS)
            except subprocess.CalledProcessError:
                return False

        wait_until(are_ready, "two workers that are ready")

    def working(self) -> str:
        """Return the worker that has the task; the other one is its standby."""
        for name in WORKERS:
            if self._explain(name):
                return name
        raise AssertionError("no worker has the task")

    def is_working(self, name: str) -> bool:
        """Return whether a worker has the task; one that does not answer has none."""
        try:
            return bool(self._explain(name))
        except subprocess.CalledProcessError:
            return False

    def _explain(self, name: str) -> list[Any]:
        words = ("exec", name, "--", "inorder", "explain", "127.0.0.1:8080", "--json")
        found: list[Any] = json.loads(self.kubectl(*words))
        return found

    # -- Events ------------------------------------------------------------------------------------

    def client(self, *words: str, given: str | None = None) -> str:
        return self.kubectl("exec", "-i", "client", "--", "inorder", *words, given=given)

    def send(self, count: int, rate: float | None = SENT_PER_S) -> None:
        """Publish events from all sources, each out of order by up to ten places."""
        self._produce("-", rate, given=self._write_events(count, rate))
        self.sent += count

    def _write_events(self, count: int, rate: float | None) -> str:
        base_ns = time.time_ns()
        step_ns = 5_000_000 if rate is None else round(1e9 / rate)
        numbers = range(self.sent, self.sent + count)
        order = sorted(numbers, key=lambda n: n + self.rng.uniform(0, 10 * SOURCES))
        lines = [
            json.dumps(
                {
                    "source": f"m{n % SOURCES}",
                    "seq": n // SOURCES,
                    "ts": base_ns + (n - self.sent) * step_ns,
                }
            )
            for n in order
        ]
        return "\n".join(lines) + "\n"

    def _produce(self, events: str, rate: float | None, given: str | None = None) -> None:
        paced = () if rate is None else ("--rate", str(rate))
        where = ("--brokers", BROKERS, "--topic", f"{self.topics}.raw")
        self.client("produce", *where, *paced, events, given=given)

    def send_during(self, disturb: Callable[[], object]) -> None:
        """Publish events until the disturbance has returned, and then one more piece.

        Raise AssertionError if `MOST_PIECES` were published before it returned.
        """
        before = len(self.read_ordered())
        is_over = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(self._send_until, is_over)
            try:
                wait_until(lambda: len(self.read_ordered()) > before, "events that flow")
                disturb()
            finally:
                is_over.set()
            assert sending.result(), "the last event was sent before the disturbance ended"

    def _send_until(self, is_over: threading.Event) -> bool:
        """Publish pieces, the last one after `is_over`; return whether it was set in time."""
        for _ in range(MOST_PIECES):
            is_last = is_over.is_set()
            self.send(PIECE)
            if is_last:
                return True
        return False

    def flood(self, count: int, rate: float) -> float:
        """Publish events from a file in the client's pod, and return the seconds that this took.

        The seconds include the client's start.
        """
        take = f"import shutil, sys; shutil.copyfileobj(sys.stdin, open('{FLOOD_FILE}', 'w'))"
        lines = self._write_events(count, rate)
        self.kubectl("exec", "-i", "client", "--", "python", "-c", take, given=lines)
        began_s = time.monotonic()
        self._produce(FLOOD_FILE, rate)
        self.sent += count
        return time.monotonic() - began_s

    def read_ordered(self) -> list[dict[str, Any]]:
        words = ("read", "--brokers", BROKERS, "--topic", f"{self.topics}.ordered")
        lines = map(json.loads, self.client(*words).splitlines())
        return [line for line in lines if line.get("kind", "event") == "event"]

    def judge(self) -> Judged:
        """Judge the output once it is complete and has not changed between two readings.

        `sent` and `late` count since the last judgement. Raise AssertionError if events never
        arrive.
        """
        found: list[dict[str, Any]] = []

        def is_settled() -> bool:
            before = found.copy()
            time.sleep(READ_EVERY_S)
            found[:] = self.read_ordered()
            return found == before and not judge_events(found, self.sent).missing

        wait_until(is_settled, f"{self.sent} events", lambda: f"{len(found)} events")
        before, self.judged = self.judged, judge_events(found, self.sent)
        return self.judged.since(before)


def judge_events(found: list[dict[str, Any]], sent: int) -> Judged:
    times = Counter((line["source"], line["seq"]) for line in found)
    wanted = {(f"m{n % SOURCES}", n // SOURCES) for n in range(sent)}
    last: dict[str, int] = defaultdict(lambda: -1)
    disordered = late = 0
    for line in found:
        if line.get("late"):
            late += 1
            continue
        disordered += line["seq"] <= last[line["source"]]
        last[line["source"]] = line["seq"]
    repeated = sum(count > 1 for count in times.values())
    missing, foreign = len(wanted - times.keys()), len(times.keys() - wanted)
    return Judged(sent, missing, repeated, foreign, disordered, late)


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", [])
    return ("Ready", "True") in [(one["type"], one["status"]) for one in conditions]
