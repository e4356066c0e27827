"""End to end: queries come, go and change in a running application, while others stay.

Unchanged queries give the same results as without the change, with the same ids and revisions. Each
result of a new query is right, and no id appears twice with one revision.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.changing import (
    EVERY_NS,
    App,
    Form,
    Line,
    S,
    assert_each_once,
    assert_ids_once,
    of_stream,
    plain,
    standing,
    typed,
)
from tests.end_to_end.worker import Worker, running
from tests.services import SharedKafka
from tests.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

STAYS = {"window": "tumbling 10s", "aggregate": {"n": "count()"}}
OTHER = {"window": "tumbling 20s", "aggregate": {"n": "count()"}}
CHANGED = OTHER | {"aggregate": {"n": "count()", "most": "max(payload.i)"}}
SLIDING = {"window": "sliding 20s every 10s", "aggregate": {"n": "count()"}}
ENDS = (300, 500, 1100)
"""Numbers up to which events are sent before each change, 10 of them a second."""

WHOLE = 200
"""Count of every window of 20 s."""

BASE_NS = time.time_ns() // (100 * S) * 100 * S - 600 * S
"""One base time for all applications, since ids depend on it."""

Queries = dict[str, Any]
Facts = dict[tuple[str, int], Any]

FILES: tuple[Queries, ...] = (
    {"changed": OTHER, "removed": OTHER, "renamed": OTHER},
    {"changed": CHANGED, "added": OTHER, "sliding": SLIDING, "renamed2": OTHER},
    {"changed": CHANGED, "added": OTHER, "sliding": SLIDING, "renamed2": OTHER, "removed": OTHER},
)
"""Queries of one file after the other, beside the one that stays."""


def passed(query: str, app: App, end: int) -> Callable[[list[Line]], bool]:
    """Return a check for the last 10 s window that ends before number `end`."""
    newest = app.base_ns + (end - 1) // 100 * 10 * S

    def are_there(lines: list[Line]) -> bool:
        return any(line["query"] == query and line["end"] == newest for line in lines)

    return are_there


def facts_of(lines: list[Line], query: str) -> Facts:
    return {
        (line["id"], line["revision"]): (line["op"], line["start"], line["values"])
        for line in lines
        if line["query"] == query
    }


@pytest.fixture
def app(kafka: SharedKafka, tmp_path: Path) -> Iterator[App]:
    with App(kafka.bootstrap, tmp_path, base_ns=BASE_NS) as made:
        yield made


def test_unchanged_query_is_stable(app: App, kafka: SharedKafka, tmp_path: Path) -> None:
    """Results match those without any other query, and each new query counts its whole first
    window.
    """
    with App(kafka.bootstrap, tmp_path, base_ns=BASE_NS) as unbroken:
        unbroken.file["queries"] = {"a": STAYS}
        unbroken.create()
        unbroken.start()
        unbroken.send(range(ENDS[-1]))
        unbroken.await_lines("windows", passed("a", unbroken, ENDS[-1]))
        unbroken.finish(ENDS[-1])
        wanted = facts_of(unbroken.lines("windows"), "a")
    assert len(wanted) == 10
    sent = 0
    for others, end in zip(FILES, ENDS, strict=True):
        before = app.file.get("queries", {})
        app.file["queries"] = {"a": STAYS, **others}
        if not sent:
            app.create()
        else:
            begins = [name for name, query in others.items() if before.get(name) != query]
            ends = [f"queries.{name}" for name in before.keys() - app.file["queries"].keys()]
            app.begins(*(f"queries.{name}" for name in begins), ends=ends)
        # Events sent while the stages are down count, although no watermark has begun the query.
        app.send(range(sent, end))
        app.start()
        app.await_lines("windows", passed("a", app, end))
        app.finish(end)
        sent = end
    app.changes_nothing()
    lines = app.lines("windows")
    assert facts_of(lines, "a") == wanted
    assert_ids_once(lines)
    for line in standing(lines):
        if line["query"] != "a":
            assert line["values"]["n"] == WHOLE, line
    for query in FILES[-1]:
        starts = {(line["start"] - BASE_NS) // S for line in lines if line["query"] == query}
        there_from = 60 if query == "removed" else 40
        assert {*range(there_from, 100, 20)} <= starts, (query, starts)


def test_old_results_stay_uncorrected(app: App) -> None:
    """A late event corrects no window from before the query was added again."""
    s0, s1, s2 = ("s0",), ("s1",), ("s2",)
    app.file["queries"] = {"a": STAYS, "b": OTHER}
    app.create()
    app.start()
    app.send([0], sources=s1)
    app.send(range(290))
    app.send([1], sources=s1, form=at(app, 290))
    app.send(range(290, 300))
    app.await_lines("windows", lambda lines: {"a", "b"} <= {line["query"] for line in lines})
    app.finish(302)
    before = facts_of(app.lines("windows"), "b")
    app.file["queries"] = {"a": STAYS}
    app.start()
    app.send(range(300, 500))
    app.send([2], sources=s1, form=at(app, 500))
    app.finish(503)
    app.file["queries"] = {"a": STAYS, "b": OTHER}
    app.start()
    app.send(range(500, 700))
    app.send([3], sources=s1, form=at(app, 600))
    app.await_events(604)
    app.send([0], sources=s2, form=at(app, 155))
    app.send([1], sources=s2, form=at(app, 1000))
    app.send(range(700, 1000), sources=s0)
    app.send([4], sources=s1, form=at(app, 1000))
    app.await_lines("windows", lambda lines: any(line["op"] == "update" for line in lines))
    app.await_lines(
        "windows", lambda lines: any(line["start"] == BASE_NS + 60 * S for line in lines)
    )
    app.await_drained()
    app.stop()
    lines = app.lines("windows")
    assert_ids_once(lines)
    after = facts_of(lines, "b")
    assert before.items() <= after.items()
    new = [start for key, (_, start, _) in after.items() if key not in before]
    assert min(new) >= BASE_NS + 60 * S, new
    corrected = [line for line in lines if line["op"] == "update"]
    early = [line for line in corrected if line["start"] < BASE_NS + 60 * S]
    assert {line["query"] for line in early} == {"a"}
    assert [line["values"]["n"] for line in corrected if line["start"] == BASE_NS + 10 * S] == [101]


def at(app: App, number: int) -> Form:
    """Return the plain form with the time of another number."""
    return lambda source, seq, _: plain(source, seq, app.base_ns + number * EVERY_NS + 1)


def test_new_full_join_has_no_false_row(app: App) -> None:
    """Shots and frames alternate, each with a partner, and some partners came before the query."""
    join = {
        "join": "interval 5s",
        "sides": {"shot": {"type": "Shot"}, "frame": {"type": "Frame"}},
        "key": "payload.b",
        "outer": "left",
        "values": {"s": "shot.payload.i", "f": "frame.payload.i"},
    }

    def form(source: str, seq: int, ts_ns: int) -> Any:
        _, headers = typed("Frame" if seq % 2 else "Shot")(source, seq, ts_ns)
        return b'{"i": %d, "b": %d}' % (seq, seq // 2), headers

    app.file["correct_for"] = "30s"
    app.file["queries"] = {"k": join}
    app.create()
    app.run(range(111), 111, form=form)
    app.file["queries"] = {"k": join, "j": join | {"outer": "full"}}
    app.begins("queries.j")
    app.start()
    app.send(range(111, 900), form=form)
    app.await_events(900)
    rows = app.await_lines("joins", lambda lines: pairs(lines, "j", "k") >= {(896, 897)})
    app.stop()
    assert_ids_once(rows)
    halves = [line for line in rows if None in line["values"].values()]
    assert not halves, halves[:3]
    # The last instant is over when a later record comes, so its pair can be missing.
    assert pairs(rows, "k") - {(898, 899)} == {(first, first + 1) for first in range(0, 898, 2)}
    assert pairs(rows, "j") >= {(first, first + 1) for first in range(112, 898, 2)}
    assert pairs(rows, "j") - {(898, 899)} <= pairs(rows, "k")


def pairs(lines: list[Line], *queries: str) -> set[tuple[int, int]]:
    """Return the rows that all of these queries have."""
    found = [
        {(line["values"]["s"], line["values"]["f"]) for line in lines if line["query"] == query}
        for query in queries
    ]
    return set.intersection(*found)


# -- one worker after the other --------------------------------------------------------------------


def test_old_worker_refuses_new_state(kafka: SharedKafka, tmp_path: Path) -> None:
    """Each of the four partitions has a stream, so any that move have state."""
    names = ["default", "b", "c", "d", "e", "f", "g", "h"]
    app = App(kafka.bootstrap, tmp_path, partitions=4)
    app.file["streams"] = {name: app.stream(keyed_by="stream") for name in names}
    app.file["queries"] = {"a": STAYS | {"stream": "default"}}
    app.create()
    new = app.path.with_name("new.yaml")
    stays = app.another_worker("old")
    goes = app.another_worker("goes")
    comes = Worker("comes", new, app.bootstrap, app.folder)
    with running(stays, goes, may_start=[comes]):
        stays.wait_ready()
        goes.wait_ready()
        app.worker = stays
        send_streams(app, names, range(300))
        app.await_events(300 * len(names))
        app.await_lines("windows", lambda lines: len(lines) >= 2)
        assert goes.stop() == 0, goes.log
        stays.wait_ready()
        app.file["queries"]["b"] = OTHER | {"stream": "default"}
        old, app.path = app.path, new
        app.begins("queries.b")
        app.path = old
        comes.begin()
        wait_until(lambda: owned(comes) > 0, "partitions that move")
        send_streams(app, names, range(300, 500))
        app.await_events(500 * len(names))
        assert comes.stop() == 0, comes.log  # The old worker gets its partitions.
        stays.ends_refused("another topology file")
        app.path, app.worker = new, comes
        comes.begin()
        wanted = app.watermarks + len(names)
        send_streams(app, names, range(500, 520))
        wait_until(lambda: app.watermarks >= wanted, f"{wanted} watermarks")
        send_streams(app, names, range(520, 1100))
        app.await_events(1100 * len(names))
        app.await_lines(
            "windows",
            lambda lines: sum(line["start"] == app.base_ns + 80 * S for line in lines) == 2,
        )
        assert comes.stop() == 0, comes.log
    for name in names:
        assert_each_once(app.events(name), ("s0",), range(1100))
    lines = app.lines("windows")
    assert_ids_once(lines)
    for line in standing(lines):
        assert line["values"]["n"] == {"a": 100, "b": 200}[line["query"]], line


def owned(worker: Worker) -> int:
    return len(worker.partitions())


def send_streams(app: App, names: list[str], numbers: range) -> None:
    for name in names:
        app.send(numbers, form=of_stream(name), key=name.encode())
