"""End to end: `inorder topics recut` moves the state of a drained application to other stages.

The application resumes where it stopped, and each event is emitted once. An open window counts the
events of both layouts, and a pattern matches across them. An application that is not drained, or
not stopped, is refused. A law in tests/agents/restore/test_moved_state.py covers queries of all
kinds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.cli.invoking import Answer, inorder
from tests.end_to_end.changing import (
    MAPPED,
    App,
    assert_each_once,
    assert_ids_once,
    mapped,
    with_kind,
)
from tests.end_to_end.worker import REFUSED
from tests.services import SharedKafka
from tests.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PLACES: Final = {"s0": 0, "s1": 1}
CUT: Final = ["reorder", "merge", "window", "pattern"]
QUERIES: Final = {
    "w": {"window": "tumbling 10s", "aggregate": {"n": "count()"}},
    "across": {"pattern": "PATTERN SEQ(_ a, _ b) WHERE a.i = 249 AND b.i = 251 WITHIN 1 s"},
}


@pytest.fixture
def app(kafka: SharedKafka, tmp_path: Path) -> Iterator[App]:
    with App(kafka.bootstrap, tmp_path, partitions=2, queries=QUERIES) as made:
        yield made


def recut(app: App, *options: str) -> Answer:
    app.write()
    return inorder("topics", "recut", *app.where, *options)


def refused(app: App, says: str) -> None:
    done = recut(app)
    assert (done.code, says in done.err) == (REFUSED, True), done


def send(app: App, numbers: range, word: str = "raw") -> None:
    app.send(numbers, sources=[*PLACES], partition_of=lambda name: PLACES[name], word=word)


def run(app: App, numbers: range, word: str = "raw") -> None:
    """Run the application until these numbers are emitted, all stages have read them, and nothing
    is buffered.
    """
    app.start()
    send(app, numbers, word)
    app.await_events(len(PLACES) * numbers.stop)
    ends = {record.partition: record.offset for record in app.events()}
    outputs = [stream["output"] for stream in app.file["streams"].values()]

    def is_read() -> bool:
        lanes = [lane for part in app.worker.partitions() for lane in part["lanes"]]
        read = [lane for lane in lanes if lane["topic"] in outputs]
        return all((lane["next_offset"] or 0) > ends.get(lane["partition"], -1) for lane in read)

    wait_until(is_read, "the end of the ordered topic")
    app.await_drained()
    app.stop()


def test_drained_stages_split_and_join(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    app.create()
    run(app, range(250))
    app.file["stages"] = CUT
    app.create()
    assert "`inorder topics recut`" in app.check().out
    assert "would move" in recut(app, "--dry-run").well().out
    told = json.loads(recut(app, "--dry-run", "--json").well().out)
    assert (told["moved"], told["was"], told["now"]) == (False, ["all"], CUT)
    assert {each["offset"] for each in told["offsets"] if each["topic"].startswith("raw")} == {250}
    with monkeypatch.context() as patch:
        joins = iter([[], ["a group"]])  # A worker begins while all is written but uncommitted.
        patch.setattr("agents.restore.recut._members", lambda *_: next(joins))
        refused(app, "workers are members of a group")
    assert app.check().code == REFUSED, "nothing was moved yet"
    recut(app).well("moved", "all -> reorder, merge, window, pattern")
    recut(app).well("nothing to move")
    assert json.loads(recut(app, "--json").well().out) is None
    app.changes_nothing()
    run(app, range(250, 450))
    assert {line["query"] for line in app.lines("matches")} == {"across"}

    del app.file["stages"]
    recut(app).well("moved", "reorder, merge, window, pattern -> all")
    app.changes_nothing()
    app.start()
    send(app, range(450, 650))
    whole = dict.fromkeys((0, 10, 20, 30, 40, 50), 200)
    app.await_lines("windows", lambda lines: whole.items() <= app.counts(lines).items())
    app.finish(2 * 650)
    # Bursts of the two sources are out of order, so windows are corrected in both layouts.
    assert_each_once(app.events(), [*PLACES], range(650), may_be_late=True)
    for topic in ("windows", "matches"):
        assert_ids_once(app.lines(topic))
    assert not app.read("gaps")


def test_undrained_state_is_not_moved(app: App) -> None:
    app.default["reorder"] = {"max_wait": "10min"}  # A gap stays open however slow the machine is.
    app.create()
    app.start()
    send(app, range(100))
    app.send([101], sources=["s0"], partition_of=lambda _: 0)
    app.await_events(190)
    app.await_waiting(1)
    app.file["stages"] = CUT
    app.create()
    refused(app, "workers are members of")
    app.stop()
    # The event is in REORDER, or on a slow machine still in the alignment of the two partitions.
    refused(app, "of all has buffered 1 events")
    app.send([100], sources=["s0"], partition_of=lambda _: 0)
    refused(app, "/0 has unread records")
    app.file["queries"] = {"w": QUERIES["w"]}
    app.file["stages"] = CUT[:3]
    app.create()
    refused(app, "differs from the running application in more than its stages")
    app.file["queries"] = QUERIES
    del app.file["stages"]
    app.changes_nothing()
    app.start()
    send(app, range(102, 110))
    app.send([100, 101], sources=["s1"], partition_of=lambda _: 1)
    app.await_events(220)
    assert_each_once(app.events(), [*PLACES], range(110), may_be_late=True)


def test_former_input_moves_too(app: App) -> None:
    """State of the former input that stayed behind would be refused, since its stage no longer
    exists.
    """
    app.default["reorder"] = {"start": "zero"}
    app.create()
    run(app, range(60))
    app.default["input"] = f"rawx-{app.name}"
    app.create()
    run(app, range(60, 120), "rawx")
    app.file["stages"] = CUT
    app.create()
    recut(app).well("moved")
    app.changes_nothing()
    run(app, range(120, 180), "rawx")
    assert_each_once(app.events(), [*PLACES], range(180), may_be_late=True)
    assert not app.read("gaps")


def test_mapped_events_still_match(app: App) -> None:
    """Mapped records are read in the form of each stage's topic, and match after both moves."""
    app.file["queries"] = {"p": {"pattern": "PATTERN SEQ(A a, B b) WITHIN 60 s RETURN a.i AS i"}}
    app.default.update(MAPPED | {"fields": MAPPED["fields"] | {"type": "payload.kind"}})
    app.create()
    app.run(range(20), 20, form=with_kind(mapped, "A"))
    app.file["stages"] = ["reorder", "merge", "pattern"]
    app.create()
    recut(app).well("moved")
    del app.file["stages"]
    recut(app).well("moved")
    app.changes_nothing()
    app.start()
    app.send(range(20, 40), form=with_kind(mapped, "B"))
    lines = app.await_lines("matches", lambda lines: len(lines) >= 20)
    assert_ids_once(lines)
    found = [[(e["alias"], e["source"], e["seq"]) for e in each["events"]] for each in lines]
    assert sorted(found) == [[("a", "s0", seq), ("b", "s0", 20)] for seq in range(20)]
    assert sorted(each["values"]["i"] for each in lines) == [*range(20)]
