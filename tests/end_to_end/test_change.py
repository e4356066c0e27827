"""End to end: the topology file of an application changes, or the application itself does.

As docs/operate/change.md states, a change takes effect from now on, or is refused with a remedy
that works. No event is lost or emitted twice. test_changed_queries.py and test_changed_streams.py
cover queries and streams that come and go.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from agents.state.changelog import PROGRESS, encode
from tests.end_to_end.changing import (
    EVERY_NS,
    MAPPED,
    NESTED,
    RENAMED,
    App,
    Form,
    S,
    assert_each_once,
    assert_ids_once,
    mapped,
    name_of,
    nested,
    plain,
    renamed,
    with_kind,
)
from tests.end_to_end.records import deliver
from tests.end_to_end.topics import changelogs, delete_topics, forget_groups, grow
from tests.end_to_end.worker import REFUSED
from tests.services import SharedKafka
from tests.waiting import wait_until
from topology.config.stages import ALL

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SOURCE = ("s0",)
COUNTED = {"w": {"window": "tumbling 10s", "aggregate": {"n": "count()"}}}
HOLE = 30
STAGES = {"stages": ["reorder", "merge", "window"]}
MappedBy = tuple[dict[str, Any], Form]


@pytest.fixture
def app(kafka: SharedKafka, tmp_path: Path) -> Iterator[App]:
    with App(kafka.bootstrap, tmp_path, queries=COUNTED) as made:
        yield made


def begin(app: App, count: int = 250) -> None:
    """Run the application until `count` events and all windows before them are emitted, and then
    stop.
    """
    app.create()
    app.start()
    app.send(range(count))
    app.await_lines("windows", lambda lines: len(lines) >= count // 100)
    app.finish(count)


def await_watermark(app: App, end: int) -> None:
    """Send the remaining numbers below `end`, and wait for the watermark after them."""
    app.send(range(len(app.events()), end))
    newest_ns = app.base_ns + (end - 1) * EVERY_NS
    wait_until(
        lambda: any(r.is_control and r.number("refTs") == newest_ns for r in app.read("ordered")),
        f"a watermark at number {end - 1}",
    )


# -- another application, or lost state ------------------------------------------------------------


def test_new_app_needs_new_outputs(
    app: App,
) -> None:
    begin(app)
    before = app.read("ordered"), app.read("windows")
    app.file["application"] += "-2"
    app.create()
    topics = app.file["topics"]
    named = f"streams.default.output: {app.default['output']}-2", f"windows: {topics['windows']}-2"
    app.refuses("holds records", *named)
    assert (app.read("ordered"), app.read("windows")) == before
    app.rename_outputs()
    app.create()
    app.changes_nothing()
    app.start()
    app.await_events(250)
    app.stop()
    assert_each_once(app.events(), SOURCE, range(250))


def test_take_over_starts_from_now(app: App) -> None:
    """No event is emitted twice. The window that was open is not emitted, and no earlier number
    counts as missing.
    """
    app.default["reorder"] = {"start": "zero"}
    begin(app)
    app.file["application"] += "-2"
    app.create()
    app.start("--take-over", "now")
    for first in (250, 500):
        await_watermark(app, first + 20)
        app.send(range(first + 20, first + 250))
        app.await_events(first + 250)
        ended = app.base_ns + (first + 249) // 100 * 10 * S
        app.await_lines("windows", lambda lines, end=ended: lines[-1]["end"] == end)  # type: ignore[misc]
        app.stop()
        if first == 250:
            app.changes_nothing()
            app.start()
    assert_each_once(app.events(), SOURCE, range(750))
    assert_ids_once(app.lines("windows"))
    assert app.counts() == dict.fromkeys((0, 10, 30, 40, 50, 60), 100)
    assert not app.read("gaps")


def test_deleted_state_is_refused(app: App) -> None:
    """No local copy is left either, and recreating the state's topics does not help."""
    app.file["state"] = "memory"
    begin(app)
    before = app.read("ordered"), app.read("windows")
    delete_topics(app.bootstrap, *changelogs(app.setting))
    forget_groups(app.setting)
    says = f"streams.default.output: {app.default['output']}-2"
    done = app.check()
    assert (done.code, says in done.out) == (REFUSED, True), done
    app.ends_refused()
    app.create()
    app.refuses("holds records", says)
    assert (app.read("ordered"), app.read("windows")) == before


# -- mapping of records ----------------------------------------------------------------------------


@pytest.mark.in_turns(2)
@pytest.mark.parametrize(
    ("ways", "spill_after"),
    [
        ([({}, plain), (MAPPED, mapped), (NESTED, nested)], "10min"),
        ([(NESTED, nested), ({}, plain), (MAPPED, mapped)], "10ms"),
    ],
    ids=["headers, ms, s, in the input", "s, headers, ms, whole"],
)
def test_buffered_events_keep_mapping(app: App, ways: list[MappedBy], spill_after: str) -> None:
    """One number is missing throughout, so later events stay buffered through two changes."""
    app.file["spill_after"] = spill_after
    app.create()
    own = dict(app.default)
    count, sent = 40, range(0)
    for place, (keys, form) in enumerate(ways):
        app.file["streams"]["default"] = own | keys
        if place:
            app.begins(*{f"streams.default.{key}" for key in changed(ways[place - 1][0], keys)})
        app.start()
        sent = range(place * count, (place + 1) * count)
        app.send((seq for seq in sent if seq != HOLE), form=form)
        if place == len(ways) - 1:
            app.send([HOLE], form=form)
            app.await_events(len(ways) * count)
        else:
            held = (place + 1) * count - HOLE - 1
            app.await_waiting(held)
        app.stop()
    assert_each_once(app.events(), SOURCE, range(len(ways) * count))
    assert not app.read("gaps")
    assert not app.read("dead")
    app.changes_nothing()


def changed(was: dict[str, Any], now: dict[str, Any]) -> set[str]:
    return {key for key in was.keys() | now.keys() if was.get(key) != now.get(key)}


def test_pattern_survives_new_mapping(kafka: SharedKafka, tmp_path: Path) -> None:
    """Each event from before matches the first event after the change."""
    pattern = {"p": {"pattern": "PATTERN SEQ(A a, B b) WITHIN 60 s RETURN a.i AS i"}}
    app = App(kafka.bootstrap, tmp_path, queries=pattern)
    kind = {"type": "payload.kind"}
    app.default.update(MAPPED | {"fields": MAPPED["fields"] | kind})
    app.create()
    app.run(range(20), 20, form=with_kind(mapped, "A"))
    app.default.update(NESTED | {"fields": NESTED["fields"] | kind})
    app.begins("streams.default.fields", "streams.default.ts_unit")
    app.start()
    app.send(range(20, 40), form=with_kind(nested, "B"))
    app.await_lines("matches", lambda lines: len(lines) >= 20)
    app.finish(40)
    lines = app.lines("matches")
    assert_ids_once(lines)
    found = [[(e["alias"], e["source"], e["seq"]) for e in each["events"]] for each in lines]
    assert sorted(found) == [[("a", "s0", seq), ("b", "s0", 20)] for seq in range(20)]


def ends_with_two_windows(app: App) -> None:
    """Wait for 250 events and two windows, stop, and assert that each event was emitted once and no
    change is pending.
    """
    app.await_events(250)
    app.await_lines("windows", lambda lines: len(lines) >= 2)
    app.stop()
    assert_each_once(app.events(), SOURCE, range(250))
    assert app.counts() == {0: 100, 10: 100}
    app.changes_nothing()


def test_headers_change_only_when_drained(app: App) -> None:
    app.file.update(STAGES)
    app.create()
    app.start("--stage", "reorder")
    app.send(range(150))
    wait_until(lambda: len(app.read("sequenced")) >= 150, "150 in sequenced")
    app.stop()
    # A worker that stops leaves a stage's last watermarks for the next stage to read.
    for stages, count in ((("reorder", "merge"), 150), (("merge",), 0), (("window",), 0)):
        app.default["headers"] = RENAMED
        app.refuses("streams.default.headers", "shows no lag")
        del app.default["headers"]
        app.start(*(word for stage in stages for word in ("--stage", stage)))
        app.await_events(count)
        app.await_drained()
        app.stop()
    app.default["headers"] = RENAMED
    app.begins("streams.default.headers")
    app.start()
    app.send(range(150, 250), form=renamed)
    ends_with_two_windows(app)


# -- inputs ----------------------------------------------------------------------------------------


def test_input_must_be_drained(app: App) -> None:
    """Unread records in the old input would be lost, and buffered events would never be emitted."""
    app.file.update(STAGES)
    app.create()
    app.start()
    app.send(seq for seq in range(40) if seq != HOLE)
    app.await_events(HOLE)
    app.await_waiting(9)
    app.stop()
    old, new = app.default["input"], f"rawx-{app.name}"
    waits = app.default["reorder"]
    app.default["input"] = new
    app.create()
    app.refuses(f"input {old}", "buffered events", "put it back")
    app.default["input"] = old
    app.run([HOLE], 40)
    app.send(range(40, 50))
    app.default["input"] = new
    app.refuses(f"input {old}", "unread records", "put it back")
    app.default["input"] = old
    app.run([], 50)
    app.default.update(input=new, reorder={"start": "zero"})
    app.begins(ends=[f"input {old}"])
    app.start()
    app.send(range(50, 250), word="rawx")
    ends_with_two_windows(app)
    app.default["reorder"] = waits
    app.start()
    app.send((seq for seq in range(250, 290) if seq != 280), word="rawx")
    app.await_events(280)
    app.await_waiting(9)
    app.stop()
    assert "ends " not in app.worker.log
    assert "begins  " not in app.worker.log
    app.default["input"] = old
    app.refuses(f"input {new}", "buffered events", f"put {new} back")
    app.default["input"] = new
    app.run([280], 290, word="rawx")
    app.default["input"] = old
    app.refuses(f"input {old}: {new} -> {old}", f"put {new} back")
    app.default.update(input=f"rawy-{app.name}", reorder={"start": "zero"})
    app.create()
    app.run(range(290, 340), 340, word="rawy")
    assert_each_once(app.events(), SOURCE, range(340))
    assert not app.read("gaps")
    app.changes_nothing()


# -- other stages ----------------------------------------------------------------------------------


def test_refusal_names_the_stages(app: App) -> None:
    """Without `stages` the application would start anew, and so would a single stage if it were
    split.
    """
    partitions = {"partitions": 2}
    app.file["topics"].update(partitions)
    app.file["stages"] = ["reorder", "merge", "window"]
    app.create()
    app.run(range(250), 250)
    del app.file["stages"]
    app.create()
    app.refuses("write the stages as they were, like `stages: [")
    line = re.search("`stages: (.*?)`", app.check().out)
    assert line is not None
    app.file["stages"] = yaml.safe_load(line[1])
    assert app.file["stages"] == ["reorder", "merge", "window", "pattern", "join"]
    app.changes_nothing()
    app.run(range(250, 300), 300)

    app.rename_outputs()
    del app.file["stages"]
    app.default["input"] = f"rawx-{app.name}"
    app.create()
    app.run(range(50), 50, word="rawx")
    app.file["stages"] = ["reorder", "merge", "window"]
    app.create()
    app.refuses("remove `stages` from the file")
    del app.file["stages"]
    app.changes_nothing()


# -- one task over several partitions -------------------------------------------------------------


def test_task_follows_a_growing_input(app: App) -> None:
    """A worker that runs while the input grows keeps to one partition, and the next worker reads
    all.

    A file can also be checked before its topics exist and before its first run.
    """
    app.changes_nothing()
    app.create()
    app.changes_nothing()
    app.start()
    app.send(range(250))
    app.await_events(250)
    grow(app.bootstrap, app.default["input"], 3)
    app.send(range(250, 300), partition_of=lambda _: 0)
    app.finish(300)
    app.changes_nothing()
    app.start()
    places = {"s0": 0, "s1": 1, "s2": 2}
    # Events are late if the first source is read before the others are known. Their changes are
    # emitted once time passes, with the last number.
    app.send(range(300), sources=["s1", "s2"], partition_of=lambda name: places[name])
    app.await_events(900)
    app.send([300], sources=[*places], partition_of=lambda name: places[name])
    app.await_events(903)
    whole = {0: 300, 10: 300}
    app.await_lines("windows", lambda lines: whole.items() <= app.counts(lines).items())
    app.stop()
    events = app.events()
    assert Counter(map(name_of, events)) == Counter((s, seq) for seq in range(301) for s in places)
    times = [record.number("refTs") for record in events if record.header("late") is None]
    assert times == sorted(times)


# -- other versions --------------------------------------------------------------------------------


def test_other_state_format_is_refused(app: App) -> None:
    begin(app)
    changelog = f"{app.file['application']}.{ALL}.{app.default['input']}.changelog"
    progress = {"next_offset": 250, "arrival": [0], "format": 1, "entries": 1, "digest": 0}
    deliver(app.bootstrap, changelog, [(PROGRESS, encode(progress), [], 0)])
    app.refuses("another format", "go on with the version that wrote it")
