"""End to end: streams come and go in a running application.

Nothing of any stream is lost, each is in order, and buffered events of the others are still
emitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.changing import App, assert_each_once, assert_ids_once, of_stream, plain
from tests.end_to_end.records import Headers
from tests.services import SharedKafka

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SOURCES = ("s0", "s1", "s2")
COUNTED = {"w": {"stream": "default", "window": "tumbling 10s", "aggregate": {"n": "count()"}}}
HOLE = 30
UNTIL_HOLE = len(SOURCES) * (HOLE - 1) + 1
"""Events emitted while that number of each source is missing; of the number before only the
first is."""

BEATS = (49, 59, 99, 119, 249)
"""Last numbers of what is sent at once."""
OLD = {"default": "k", "other": "p"}
"""Streams that exist, each with a word in the name of its input."""

JOIN = {
    "join": "interval 1s",
    "sides": {"a": {"stream": "default"}, "b": {"stream": "other"}},
    "values": {"i": "a.payload.i"},
}

TWO_STAGES: dict[str, Any] = {"stages": ["reorder", "merge", "window"]}


def send(app: App, stream: str, word: str, numbers: Iterable[int]) -> None:
    app.send(numbers, form=of_stream(stream, with_beats), sources=SOURCES, word=word)


def begin(app: App, stream: str, word: str) -> None:
    """Send number 0 of each source, so that every source is known before others continue."""
    for source in SOURCES:
        app.send([0], form=of_stream(stream), sources=(source,), word=word)


def with_beats(source: str, seq: int, ts_ns: int) -> tuple[bytes, Headers]:
    """Return a heartbeat in place of some events, so that all before it are emitted."""
    value, headers = plain(source, seq, ts_ns)
    return (b"", [*headers, ("kind", b"heartbeat")]) if seq in BEATS else (value, headers)


def events_of(numbers: Iterable[int]) -> list[int]:
    return [seq for seq in numbers if seq not in BEATS]


@pytest.mark.in_turns(3)
@pytest.mark.parametrize(
    ("partitions", "more", "added"),
    [(1, {}, "m"), (1, TWO_STAGES, "a"), (4, {}, "z")],
    ids=["one partition", "one partition, two stages", "four partitions"],
)
def test_streams_can_come_and_go(
    kafka: SharedKafka, tmp_path: Path, partitions: int, more: dict[str, Any], added: str
) -> None:
    """An added input sorts before the existing ones, between them or after them."""
    with App(kafka.bootstrap, tmp_path, partitions=partitions, queries=COUNTED, **more) as app:
        app.file["streams"] = {name: app.stream(word) for name, word in OLD.items()}
        added_and_removed(app, added)


def added_and_removed(app: App, added: str) -> None:
    races = app.file["topics"]["partitions"] > 1
    app.create()
    app.start()
    for name, word in OLD.items():
        begin(app, name, word)
        send(app, name, word, (seq for seq in range(1, 50) if seq != HOLE))
    app.await_events(len(OLD) * UNTIL_HOLE)
    app.stop()

    app.file["streams"]["new"] = app.stream(added)
    app.create()
    app.begins("streams.new")
    app.start()
    begin(app, "new", added)
    send(app, "new", added, range(1, 50))
    for name, word in OLD.items():
        send(app, name, word, [HOLE, *range(50, 120)])
    send(app, "new", added, range(50, 120))
    app.await_events(3 * len(SOURCES) * 116)
    app.await_lines("windows", bool)
    app.await_drained()
    app.stop()
    for name in (*OLD, "new"):
        assert_each_once(app.events(name), SOURCES, events_of(range(120)), may_be_late=races)
    app.changes_nothing()

    app.file["streams"] = dict(reversed(app.file["streams"].items()))
    app.changes_nothing()

    new = app.file["streams"].pop("new")
    app.file["streams"]["newer"] = new
    app.refuses("streams.new", "a stream that is renamed is another one")
    del app.file["streams"]["newer"]

    app.check().well("ends    ")
    app.start()
    for name, word in OLD.items():
        send(app, name, word, range(120, 250))
    app.await_events(len(SOURCES) * (2 * 245 + 116))
    lines = app.await_lines("windows", lambda lines: app.counts(lines) == {0: 291, 10: 297})
    app.stop()
    for name in OLD:
        assert_each_once(app.events(name), SOURCES, events_of(range(250)), may_be_late=races)
    assert_ids_once(lines)
    assert not app.read("gaps")
    assert not app.read("dead")
    app.changes_nothing()


def test_undrained_stream_must_stay(kafka: SharedKafka, tmp_path: Path) -> None:
    app = App(kafka.bootstrap, tmp_path)
    app.file["streams"] = {name: app.stream(word) for name, word in OLD.items()}
    refused_while_it_waits(app, OLD, "buffered events")
    other = app.file["streams"]["other"]
    send(app, "other", "p", range(50, 60))
    del app.file["streams"]["other"]
    app.refuses("unread records")
    app.file["streams"]["other"] = other
    app.run([], len(SOURCES) * 107)
    assert_each_once(app.events("other"), SOURCES, events_of(range(60)))


@pytest.mark.parametrize("partitions", [1, 3])
def test_shared_input_must_drain(kafka: SharedKafka, tmp_path: Path, partitions: int) -> None:
    app = App(kafka.bootstrap, tmp_path, partitions=partitions)
    app.file["streams"] = {name: app.stream() for name in OLD}
    told = "streams.other", "some of its events are buffered"
    refused_while_it_waits(app, dict.fromkeys(OLD, "raw"), *told)
    del app.file["streams"]["other"]
    app.begins(ends=["streams.other"])
    app.start()
    send(app, "default", "raw", range(50, 100))
    app.await_events(len(SOURCES) * 146)
    app.stop()
    races = partitions > 1
    for name, until in ("other", 50), ("default", 100):
        assert_each_once(app.events(name), SOURCES, events_of(range(until)), may_be_late=races)


def test_task_keeps_its_inputs(kafka: SharedKafka, tmp_path: Path) -> None:
    """A join of two streams lets one task read the inputs of both."""
    for before, after in (({}, {"j": JOIN}), ({"j": JOIN}, {})):
        app = App(kafka.bootstrap, tmp_path, queries=before)
        app.file["streams"] = {name: app.stream(word) for name, word in OLD.items()}
        app.create()
        app.start()
        for name, word in OLD.items():
            send(app, name, word, range(10))
        app.await_events(len(OLD) * len(SOURCES) * 10)
        app.stop()
        app.file["queries"] = after
        app.create()
        app.refuses(f"input p-{app.name}: the task of ", "restore the old value")
        app.file["queries"] = before
        app.changes_nothing()


def test_joined_input_must_drain(kafka: SharedKafka, tmp_path: Path) -> None:
    app = App(kafka.bootstrap, tmp_path, queries={"j": JOIN})
    app.file["streams"] = {name: app.stream(word) for name, word in OLD.items()}
    app.create()
    app.start()
    for name, word in OLD.items():
        send(app, name, word, (seq for seq in range(40) if (name, seq) != ("other", HOLE)))
    app.await_read()
    app.stop()
    app.file["streams"]["other"]["input"] = f"q-{app.name}"
    app.create()
    app.refuses(f"input p-{app.name}", "buffered events")


def refused_while_it_waits(app: App, words: Mapping[str, str], *says: str) -> None:
    """Assert that the stream `other` stays while it lacks a number; then send that number."""
    app.create()
    app.start()
    send(app, "other", words["other"], (seq for seq in range(50) if seq != HOLE))
    send(app, "default", words["default"], range(50))
    app.await_events(UNTIL_HOLE + len(SOURCES) * 49)
    app.await_read()
    app.stop()
    other = app.file["streams"].pop("other")
    app.refuses(*says)
    app.file["streams"]["other"] = other
    app.start()
    send(app, "other", words["other"], [HOLE])
    app.finish(len(SOURCES) * 98)
