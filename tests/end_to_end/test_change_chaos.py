"""End to end, marked `chaos`: the topology file changes under load, while events are buffered.

A sender keeps sending while the worker is stopped, by SIGKILL or SIGTERM at a random moment, and
started with the new file. Each source lacks a number throughout, so that later events stay buffered
through the change. An independent reader checks that each event comes once and in order. By id, the
current windows, matches and joins are those of a replay of all events under the last file. A query
that began later counts from its beginning.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.cli.invoking import inorder
from tests.end_to_end.changing import MAPPED, App, Line, assert_each_once, assert_ids_once, standing
from tests.end_to_end.records import FLUSH_TIMEOUT_S, Headers, new_producer
from tests.end_to_end.standing import TOPICS
from tests.services import SharedKafka
from tests.waiting import Patience, wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.kafka]

SOURCES: Final = ("s0", "s1", "s2", "s3")
TICK_S: Final = 0.02
MS: Final = 10**6
MARGIN_NS: Final = 10**9
"""A time longer than any query reaches back."""

CLOSING_NS: Final = 5 * 10**9
"""Distance of each source's last event, so that all others are passed."""

READS = {"stream": "default"}
WINDOW = READS | {"window": "tumbling 500ms", "aggregate": {"n": "count()"}}
PATTERN = READS | {
    "pattern": "PATTERN SEQ(A a, B b) WHERE a.k = b.k WITHIN 1 s RETURN a.i AS i, b.i AS j"
}
JOIN = {
    "join": "interval 200ms",
    "sides": {"x": READS | {"type": "A"}, "y": READS | {"type": "B"}},
    "key": "payload.k",
    "outer": "left",
    "values": {"x": "x.payload.i", "y": "y.payload.i"},
}
STAY = {"w": WINDOW, "p": PATTERN, "j": JOIN}
MORE = {"w2": WINDOW | {"window": "tumbling 300ms"}, "p2": PATTERN, "j2": JOIN | {"outer": "full"}}
OTHERWISE = {
    "w2": WINDOW | {"window": "tumbling 400ms"},
    "p2": READS | {"pattern": PATTERN["pattern"].replace("1 s", "2 s")},
    "j2": JOIN | {"join": "interval 300ms"},
}

KINDS: dict[str, list[dict[str, Any]]] = {
    "query added": [STAY, STAY | MORE],
    "query changed": [STAY | MORE, STAY | OTHERWISE],
    "query removed and put back": [STAY | MORE, STAY, STAY | MORE],
    "stream added": [STAY, STAY],
    "mapping changed": [STAY, STAY],
    "input changed": [STAY, STAY],
}
"""Queries of one file after the other."""

KIND = {"type": "payload.kind"}


def payload(source: str, seq: int) -> dict[str, Any]:
    """Return a payload; two adjacent events belong together, except in one pair of five."""
    alone = seq % 10 == 1
    return {"i": seq, "k": f"{source}/{'alone' if alone else seq // 2}", "kind": "AB"[seq % 2]}


class Flow(threading.Thread):
    """A sender of one number of each source every `TICK_S`.

    `sent` has the time of each event by stream, source and number; `lacking` has those that are
    held back for now.
    """

    def __init__(self, app: App) -> None:
        super().__init__(daemon=True)
        self._app = app
        self._producer = new_producer(
            app.bootstrap, **{"enable.idempotence": False, "max.in.flight": 1, "linger.ms": 0}
        )
        self._lock = threading.Lock()
        self._ends = False
        self._failure: BaseException | None = None
        self.words = {"default": "raw"}
        self.is_mapped = False
        self.sent: dict[tuple[str, str, int], int] = {}
        self.lacking: dict[tuple[str, str, int], int] = {}
        self._next = {"default": 0}
        self._lacks = False

    def run(self) -> None:
        try:
            while not self._ends:
                with self._lock:
                    self._tick()
                time.sleep(TICK_S)
        except BaseException as failure:  # noqa: BLE001 - raised by `finish`
            self._failure = failure

    def _tick(self) -> None:
        for stream in self.words:
            seq = self._next[stream]
            self._next[stream] += 1
            for source in SOURCES:
                ts_ns = time.time_ns() // MS * MS
                if self._lacks:
                    self.lacking[stream, source, seq] = ts_ns
                else:
                    self._send(stream, source, seq, ts_ns)
        self._lacks = False

    def _send(self, stream: str, source: str, seq: int, ts_ns: int) -> None:
        content = payload(source, seq)
        headers: Headers = [("streamId", stream.encode())]
        if self.is_mapped:
            content |= {"who": source, "n": seq, "at": ts_ns // MS}
        else:
            headers += [("sourceId", source.encode()), ("seqNum", b"%d" % seq)]
            headers += [("ts", b"%d" % ts_ns), ("type", content["kind"].encode())]
        topic = f"{self.words[stream]}-{self._app.name}"
        value = json.dumps(content).encode()
        self._producer.produce(topic, value, source.encode(), headers=[*headers])
        self._producer.poll(0)
        self.sent[stream, source, seq] = ts_ns

    def lack(self) -> None:
        """Hold back the next number of each source."""
        self._lacks = True
        wait_until(lambda: not self._lacks, "numbers that are kept back")

    def fill(self) -> None:
        """Send the numbers that were held back."""
        with self._lock:
            for (stream, source, seq), ts_ns in self.lacking.items():
                self._send(stream, source, seq, ts_ns)
            self.lacking.clear()

    def pause(self) -> None:
        self._lock.acquire()
        assert self._producer.flush(FLUSH_TIMEOUT_S) == 0

    def resume(self) -> None:
        self._lock.release()

    def add(self, stream: str, word: str) -> None:
        """Add a stream, and send the first number of each of its sources before all others."""
        with self._lock:
            self.words[stream] = word
            self._next[stream] = 1
            for source in SOURCES:
                self._send(stream, source, 0, time.time_ns() // MS * MS)
                assert self._producer.flush(FLUSH_TIMEOUT_S) == 0

    def finish(self) -> None:
        """End the thread, and send the closing events."""
        self._ends = True
        self.join(FLUSH_TIMEOUT_S)
        if self._failure is not None:
            raise self._failure
        for stream in self.words:
            for source in SOURCES:
                ts_ns = time.time_ns() // MS * MS + CLOSING_NS
                self._send(stream, source, self._next[stream], ts_ns)
        assert self._producer.flush(FLUSH_TIMEOUT_S) == 0

    def numbers(self, stream: str) -> range:
        """Return all numbers that were sent, except the closing ones."""
        return range(self._next[stream])


def await_committed(app: App) -> None:
    """Wait until the first stage has committed that it has read all of its input."""
    source = TopicPartition(app.default["input"], 0)
    group = f"{app.file['application']}.reorder+merge"
    consumer = Consumer({"bootstrap.servers": app.bootstrap, "group.id": group, "log_level": 0})
    try:
        _, end = consumer.get_watermark_offsets(source, timeout=30)
        wait_until(
            lambda: consumer.committed([source], timeout=30)[0].offset == end, f"a commit of {end}"
        )
    finally:
        consumer.close()


def stop(app: App, dice: Random) -> str:
    if dice.random() < 0.5:
        app.worker.kill_all()
        return "SIGKILL"
    app.stop()
    return "SIGTERM"


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_file_change_under_load_is_exact(
    kafka: SharedKafka, tmp_path: Path, kind: str, seed: int
) -> None:
    dice = Random(f"{kind} {seed}")
    with App(kafka.bootstrap, tmp_path) as app:
        play(app, kind, dice)


def play(app: App, kind: str, dice: Random) -> None:
    files = KINDS[kind]
    app.file["queries"] = dict(files[0])
    app.create()
    app.start()
    flow = Flow(app)
    flow.add("default", "raw")
    flow.start()
    app.await_events(100)
    before: dict[str, int] = {}
    for queries in files[1:]:
        flow.lack()
        wanted = dice.randrange(20, 300)
        wait_until(lambda wanted=wanted: app.waiting >= wanted, "events that wait")  # type: ignore[misc]
        how = change(app, flow, kind, dict(queries), dice)
        print(f"{how} with {wanted} events that wait at least")
        before = {topic: len(app.lines(topic)) for topic in TOPICS.values()}
        app.start()
        if kind == "stream added":
            flow.add("new", "rawn")
        out = len(app.events())
        seen = app.waiting
        wait_until(
            lambda seen=seen: kind == "input changed" or app.waiting > seen,  # type: ignore[misc]
            "more that waits",
        )
        flow.fill()
        app.await_events(out + 300)
        app.await_events(len(app.events()) + 400)
    flow.finish()
    count = sum(len(flow.numbers(stream)) * len(SOURCES) for stream in flow.words)
    app.await_events(count)
    truth = replayed(app, flow)
    await_truth(app, truth, before)
    app.stop()
    for stream in flow.words:
        numbers = flow.numbers(stream)
        events = [event for event in app.events(stream) if event.number("seqNum") in numbers]
        assert_each_once(events, SOURCES, numbers)
    assert not app.read("gaps")
    assert not app.read("dead")


def change(app: App, flow: Flow, kind: str, queries: dict[str, Any], dice: Random) -> str:
    """Stop the worker and write the new file."""
    if kind == "input changed":
        flow.pause()
        flow.resume()
        flow.fill()
        flow.pause()
        app.await_drained()
        await_committed(app)
    elif kind == "mapping changed":
        flow.pause()
        await_committed(app)
    how = stop(app, dice)
    app.file["queries"] = queries
    if kind == "stream added":
        app.file["streams"]["new"] = app.stream("rawn")
        app.create()
    elif kind == "mapping changed":
        app.default.update(MAPPED | {"fields": MAPPED["fields"] | KIND})
        flow.is_mapped = True
        flow.resume()
    elif kind == "input changed":
        app.default.update(input=f"rawx-{app.name}", reorder={"start": "zero"})
        app.create()
        flow.words["default"] = "rawx"
        flow.resume()
    done = app.check().well()
    assert "changes nothing" not in done.out
    return how


# -- expected results ------------------------------------------------------------------------------


def replayed(app: App, flow: Flow) -> dict[str, Line]:
    """Replay all events sent to the queries' stream, in order, and return the results by id."""
    lines = [
        {
            "source": source, "seq": seq, "ts": ts_ns, "arrival": ts_ns,
            "type": payload(source, seq)["kind"], "payload": payload(source, seq),
        }
        for (stream, source, seq), ts_ns in flow.sent.items()
        if stream == "default"
    ]  # fmt: skip
    lines.sort(key=lambda line: (line["ts"], line["source"], line["seq"]))
    events = app.folder / "events.jsonl"
    events.write_text("".join(json.dumps(line) + "\n" for line in lines))
    plain = app.folder / "replay.yaml"
    stream = {"clock": {"unsynced": "trust"}, "merge": app.default["merge"]}
    plain.write_text(
        json.dumps({"streams": {"default": stream}, "queries": app.file["queries"]}) + "\n"
    )
    done = inorder("replay", "--topology", plain, "--show", "window,match,join", "--json", events)
    done.well()
    truth = {line["id"]: line for line in standing(done.lines)}
    assert {line["query"] for line in truth.values()} == app.file["queries"].keys()
    return truth


def await_truth(app: App, truth: Mapping[str, Line], before: Mapping[str, int]) -> None:
    """Wait until the current results are those of the replay.

    `before` has the number of lines when the last worker began; for newer queries only later lines
    count.
    """
    newest_ns = max(line["end"] for line in truth.values()) - CLOSING_NS - MARGIN_NS
    patience = Patience(quiet_s=15.0)
    while True:
        lines = {topic: app.lines(topic) for topic in TOPICS.values()}
        faults: list[str] = []
        for kind, topic in TOPICS.items():
            assert_ids_once(lines[topic])
            of_kind = {key: line for key, line in truth.items() if line["kind"] == kind}
            faults += found_wrong(lines[topic], before[topic], of_kind, newest_ns)
        if not faults:
            return
        patience.look([*map(len, lines.values())], lambda faults=faults: f"{faults[:3]}")  # type: ignore[misc]


def found_wrong(
    lines: list[Line], before: int, truth: Mapping[str, Line], newest_ns: int
) -> list[str]:
    """Return how the lines of one topic differ from `truth`.

    A new query must have each result that begins well after its first one. For rows without a
    partner, the first such row counts instead.
    """
    faults: list[str] = []
    for query in sorted({line["query"] for line in truth.values()}):
        counted = lines if query in STAY else lines[before:]
        stand = {each["id"]: each for each in standing(counted) if each["query"] == query}
        wanted = {key: each for key, each in truth.items() if each["query"] == query}
        for is_half in (False, True):
            starts = [each["start"] for each in stand.values() if half(each) == is_half]
            if not starts and any(half(each) == is_half for each in wanted.values()):
                faults.append(f"{query} says nothing")
                continue
            begin_ns = 0 if query in STAY or not starts else min(starts) + MARGIN_NS
            faults += [
                f"{query} lacks {each}"
                for key, each in wanted.items()
                if key not in stand
                and half(each) == is_half
                and begin_ns <= each["start"]
                and each["end"] <= newest_ns
            ]
        faults += [
            f"{query} says {each}, true {wanted.get(key)}"
            for key, each in stand.items()
            if key not in wanted or each["values"] != wanted[key]["values"]
        ]
    return faults


def half(line: Line) -> bool:
    """Return whether the line is a row without a partner."""
    return line["kind"] == "join" and None in line["values"].values()
