"""Change the topology file of an application: write, check and run it, send events and read
results.
"""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.cli.invoking import Answer, inorder
from tests.end_to_end.records import ANY_PARTITION, Headers, Read, Reader, deliver, read_all
from tests.end_to_end.setting import Setting
from tests.end_to_end.topics import offsets_of_all
from tests.end_to_end.worker import REFUSED, Worker
from tests.waiting import wait_until
from topology.config import parse
from topology.config.stages import REORDER, operators_named

S: Final = 10**9
EVERY_NS: Final = S // 10
"""Distance of events, longer than a `heartbeat`, which brings a watermark."""

QUIET_S: Final = 20.0
"""Time without progress after which a test gives up."""

SIDES: Final = ("sequenced", "gaps", "late", "dead", "clock", "windows", "matches", "joins")

Line = dict[str, Any]
Form = Callable[[str, int, int], tuple[bytes, Headers]]
"""A function from source, number and time in ns to the value and the headers of a record."""


def plain(source: str, seq: int, ts_ns: int) -> tuple[bytes, Headers]:
    """Return a record that follows the header contract."""
    return b'{"i": %d}' % seq, _headers(("sourceId", "seqNum", "ts"), source, seq, ts_ns)


def renamed(source: str, seq: int, ts_ns: int) -> tuple[bytes, Headers]:
    """Return a record with the header names of `RENAMED`."""
    return b'{"i": %d}' % seq, _headers(("ce_source", "ce_sequence", "ce_time"), source, seq, ts_ns)


RENAMED: Final = {"preset": "cloudevents"}


def mapped(source: str, seq: int, ts_ns: int) -> tuple[bytes, Headers]:
    """Return a record with its fields in the value, at the paths in `MAPPED`, and its ms."""
    return json.dumps({"who": source, "n": seq, "at": ts_ns // 10**6, "i": seq}).encode(), []


MAPPED: Final[dict[str, Any]] = {
    "fields": {"source": "payload.who", "seq": "payload.n", "ts": "payload.at"},
    "ts_unit": "ms",
}


def nested(source: str, seq: int, ts_ns: int) -> tuple[bytes, Headers]:
    """Return a record with its fields deeper in the value, at the paths of `NESTED`.

    Its time is in s.
    """
    return json.dumps({"of": {"who": source, "n": seq, "at": ts_ns / S}, "i": seq}).encode(), []


NESTED: Final[dict[str, Any]] = {
    "fields": {"source": "payload.of.who", "seq": "payload.of.n", "ts": "payload.of.at"},
    "ts_unit": "s",
}


def headed(name: str, content: str, form: Form = plain) -> Form:
    """Return the form with one more header."""

    def write(source: str, seq: int, ts_ns: int) -> tuple[bytes, Headers]:
        value, headers = form(source, seq, ts_ns)
        return value, [*headers, (name, content.encode())]

    return write


def with_kind(form: Form, kind: str) -> Form:
    """Return the form with a type in the value."""

    def write(source: str, seq: int, ts_ns: int) -> tuple[bytes, Headers]:
        value, headers = form(source, seq, ts_ns)
        return value[:-1] + b', "kind": "%s"}' % kind.encode(), headers

    return write


typed: Final = partial(headed, "type")
of_stream: Final = partial(headed, "streamId")


def _headers(names: Sequence[str], source: str, seq: int, ts_ns: int) -> Headers:
    values = source.encode(), b"%d" % seq, b"%d" % ts_ns
    return list(zip(names, values, strict=True))


class App:
    """An application whose file can be changed.

    `write` writes `file`, with `more` as further keys. `base_ns` is the time of number 0: a whole
    100 s, some minutes ago. Further events follow `EVERY_NS` apart.
    """

    def __init__(
        self, bootstrap: str, folder: Path, *, partitions: int = 1, base_ns: int = 0, **more: Any
    ) -> None:
        self.bootstrap = bootstrap
        self.name = uuid.uuid4().hex[:8]
        self.folder = folder / self.name
        self.folder.mkdir(parents=True)
        self.path = self.folder / "topology.yaml"
        self.base_ns = base_ns or time.time_ns() // (100 * S) * 100 * S - 600 * S
        topics = {"partitions": partitions, "replication": 1}
        self.file: dict[str, Any] = {
            "application": f"app-{self.name}",
            "streams": {"default": self.stream()},
            "topics": topics | {side: f"{side}-{self.name}" for side in SIDES},
            **more,
        }
        self.worker = self.another_worker("a")

    def stream(self, word: str = "raw", output: str = "ordered", **more: Any) -> Line:
        """Return a stream with its own input."""
        return {
            "input": f"{word}-{self.name}",
            "output": f"{output}-{self.name}",
            "clock": {"unsynced": "trust"},
            "reorder": {"start": "zero", "rule": "fixed", "max_wait": "60s"},
            "merge": {"max_wait": "60s", "idle_after": "10min", "quiet_after": "20min"},
            **more,
        }

    @property
    def default(self) -> Line:
        """Return the stream `default` of the file, to be changed in place."""
        found: Line = self.file["streams"]["default"]
        return found

    def rename_outputs(self) -> None:
        """Give all outputs new names, and the application too."""
        suffix = "-2"
        self.file["application"] += suffix
        for stream in self.file["streams"].values():
            stream["output"] += suffix
        topics = self.file["topics"]
        topics.update({side: topics[side] + suffix for side in SIDES if side != "clock"})

    # -- the file ----------------------------------------------------------------------------------

    @property
    def setting(self) -> Setting:
        """Return the setting that other helpers take."""
        return Setting(self.bootstrap, self.path, parse(self.path.read_text()))

    def write(self) -> None:
        self.path.write_text(json.dumps(self.file, indent=1) + "\n")

    def create(self, *options: str) -> None:
        """Write the file and create its topics."""
        self.write()
        inorder("topics", "create", *self.where, *options).well()

    @property
    def where(self) -> tuple[str, ...]:
        return ("--topology", str(self.path), "--brokers", self.bootstrap)

    def check(self) -> Answer:
        """Return the answer of `inorder check` for the file."""
        self.write()
        return inorder("check", self.path, "--brokers", self.bootstrap)

    def begins(self, *paths: str, ends: Iterable[str] = ()) -> None:
        """Assert that the check reports exactly these paths as beginning and ending."""
        done = self.check().well()
        said = [line.split(": ")[0].split(maxsplit=1) for line in done.out.splitlines()]
        wanted = [["begins", path] for path in paths] + [["ends", path] for path in ends]
        assert sorted(said) == sorted(wanted), done.out

    def refuses(self, *says: str) -> None:
        """Assert that both the check and the worker refuse the file with these words."""
        done = self.check()
        assert done.code == REFUSED, done.out + done.err
        refused = [line for line in done.out.splitlines() if line.startswith("refused ")]
        assert refused, done.out
        for words in says:
            assert words in done.out, done.out
        self.ends_refused(*says)

    def changes_nothing(self) -> None:
        """Assert that the check finds no change to the running application."""
        self.check().well("changes nothing on which the application's state")

    # -- the worker --------------------------------------------------------------------------------

    def another_worker(self, name: str, *options: str) -> Worker:
        return Worker(name, self.path, self.bootstrap, self.folder, *options)

    def start(self, *options: str) -> None:
        """Write the file, and start a worker with these options."""
        self.write()
        self.worker = self.another_worker("a", *options)
        self.worker.start()
        self.worker.wait_ready()

    def stop(self) -> None:
        assert self.worker.stop() == 0, self.worker.log[-3000:]
        assert "Traceback" not in self.worker.log, self.worker.log[-3000:]

    def ends_refused(self, *says: str) -> None:
        """Assert that a worker exits with 2 and these words, and without a traceback."""
        self.write()
        self.worker = self.another_worker("a")
        self.worker.start()
        self.worker.ends_refused(*says)

    def __enter__(self) -> App:
        return self

    def __exit__(self, *_: object) -> None:
        self.worker.close()

    # -- sending -----------------------------------------------------------------------------------

    def send(
        self,
        numbers: Iterable[int],
        *,
        form: Form = plain,
        sources: Sequence[str] = ("s0",),
        word: str = "raw",
        partition_of: Callable[[str], int] | None = None,
        key: bytes | None = None,
    ) -> None:
        """Send these numbers of each source, and wait until all are confirmed."""
        deliver(
            self.bootstrap,
            f"{word}-{self.name}",
            (
                (
                    key or source.encode(),
                    *form(source, seq, self.base_ns + seq * EVERY_NS + place * 10**6),
                    ANY_PARTITION if partition_of is None else partition_of(source),
                )
                for seq in numbers
                for place, source in enumerate(sources)
            ),
        )

    def run(self, numbers: Iterable[int], count: int, **how: Any) -> None:
        """Start the worker, send these numbers, and stop once `count` events are emitted and none
        is buffered.
        """
        self.start()
        self.send(numbers, **how)
        self.finish(count)

    def finish(self, count: int) -> None:
        """Stop once `count` events are emitted and none is buffered."""
        self.await_events(count)
        self.await_drained()
        self.stop()

    # -- outputs -----------------------------------------------------------------------------------

    def read(self, topic: str) -> list[Read]:
        """Return all records of one of the application's topics; `ordered` is the output of the
        stream `default`.
        """
        return read_all(self.bootstrap, self._name_of(topic))

    def _name_of(self, topic: str) -> str:
        name: str = self.default["output"] if topic == "ordered" else self.file["topics"][topic]
        return name

    def events(self, stream: str = "") -> list[Read]:
        """Return all emitted events in the order of the topic, or those of one stream."""
        found = [record for record in self.read("ordered") if not record.is_control]
        return [e for e in found if stream in ("", e.header("streamId") or "default")]

    def lines(self, topic: str) -> list[Line]:
        """Return all records of a topic of results."""
        return [json.loads(record.value or b"") for record in self.read(topic)]

    def counts(self, lines: Iterable[Line] | None = None) -> dict[int, int]:
        """Return the current counts of windows by their start in seconds."""
        stand = standing(self.lines("windows") if lines is None else lines)
        return {(line["start"] - self.base_ns) // S: line["values"]["n"] for line in stand}

    @property
    def watermarks(self) -> int:
        return sum(record.is_control for record in self.read("ordered"))

    @property
    def waiting(self) -> int:
        """Return the number of events buffered in the first stage."""
        partitions = self.worker.partitions()
        return sum(part["held"] for part in partitions if REORDER in operators_named(part["stage"]))

    def await_waiting(self, count: int) -> None:
        wait_until(lambda: self.waiting == count, f"{count} that wait")

    def await_events(self, count: int) -> None:
        """Wait until `count` events are emitted."""

        def there(found: list[Read]) -> bool:
            assert self.worker.alive, self.worker.log[-3000:]
            return sum(not record.is_control for record in found) >= count

        self._await("ordered", there, f"{count} events")

    def await_lines(self, topic: str, are_there: Callable[[list[Line]], bool]) -> list[Line]:
        """Wait until the condition holds for the results, and return them."""
        lines: list[Line] = []

        def there(found: list[Read]) -> bool:
            lines.extend(json.loads(record.value or b"") for record in found[len(lines) :])
            return are_there(lines)

        self._await(topic, there, f"results in {topic}")
        return lines

    def _await(self, topic: str, are_there: Callable[[list[Read]], bool], what: str) -> None:
        reader = Reader(self.bootstrap, self._name_of(topic))
        found = reader.records

        def there() -> bool:
            reader.poll()
            return are_there(found)

        try:
            wait_until(there, what, lambda: len(found), quiet_s=QUIET_S)
        except AssertionError as vain:
            told = self.worker.partitions()
            vain.add_note(f"{found[-5:]}\n{told}\n{self.worker.log[-2000:]}")
            raise
        finally:
            reader.close()

    def await_read(self) -> None:
        """Wait until each stage has read its whole input."""
        wait_until(lambda: self._all_is_read(self.worker.partitions()), "no lag", quiet_s=QUIET_S)

    def await_drained(self) -> None:
        """Wait until each stage has read its input and buffers nothing."""

        def rests() -> bool:
            partitions = self.worker.partitions()
            return self._all_is_read(partitions) and not any(part["held"] for part in partitions)

        wait_until(rests, "no lag, and nothing that waits", quiet_s=QUIET_S)

    def _all_is_read(self, partitions: Sequence[Line]) -> bool:
        """Return whether all is read, up to the ends that the brokers report.

        A worker knows an end only as of its last fetch.
        """
        lanes = [lane for partition in partitions for lane in partition["lanes"]]
        ends = {lane["topic"]: offsets_of_all(self.bootstrap, lane["topic"]) for lane in lanes}
        return bool(lanes) and all(
            (lane["next_offset"] or 0) >= ends[lane["topic"]][lane["partition"]][1]
            for lane in lanes
        )


def name_of(event: Read) -> tuple[str, int]:
    """Return source and number from either set of header names."""
    source, seq = event.header("sourceId"), event.header("seqNum")
    if source is None or seq is None:
        source, seq = event.header("ce_source"), event.header("ce_sequence")
    assert source is not None, event
    assert seq is not None, event
    return source, int(seq)


def assert_each_once(
    events: Sequence[Read],
    sources: Sequence[str],
    numbers: Iterable[int],
    *,
    may_be_late: bool = False,
) -> None:
    """Assert that each number of each source was emitted once, in order, and without a late mark.

    Sources in several partitions race each other, so `may_be_late` allows marks.
    """
    wanted = Counter((source, seq) for seq in numbers for source in sources)
    found = Counter(map(name_of, events))
    assert found == wanted, (wanted - found, found - wanted)
    marked = [name_of(event) for event in events if event.header("late") is not None]
    assert may_be_late or not marked, marked
    by_source: dict[str, list[int]] = defaultdict(list)
    for source, seq in map(name_of, events):
        by_source[source].append(seq)
    assert all(seqs == sorted(seqs) for seqs in by_source.values())


def assert_ids_once(lines: Iterable[Line]) -> None:
    """Assert that no id appears twice with one revision."""
    counts = Counter((line["id"], line["revision"]) for line in lines)
    assert not [pair for pair, count in counts.items() if count > 1]


def standing(lines: Iterable[Line]) -> Iterator[Line]:
    """Yield the newest line of each id, retracted ones left out."""
    newest: dict[str, Line] = {}
    for line in lines:
        newest[line["id"]] = line
    yield from (line for line in newest.values() if line["op"] != "retract")
