"""End to end: a backlog with old timestamps is written fast to an idle worker.

All of it arrives now, however old it is. Results follow the backlog's timestamps. They come by time
alone, since nothing is sent after the backlog.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.changing import EVERY_NS, App, S, plain, typed
from tests.end_to_end.records import Headers
from tests.services import SharedKafka
from tests.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

COUNT = 450
RESTARTS_AT = 200
STAGES: dict[str, Any] = {"stages": ["reorder", "merge", "window"]}


@pytest.fixture(params=[{}, STAGES], ids=["one stage", "three stages"])
def app(request: pytest.FixtureRequest, kafka: SharedKafka, tmp_path: Path) -> Iterator[App]:
    hour_ago_ns = time.time_ns() // (100 * S) * 100 * S - 4_200 * S
    queries = {"w": {"window": "tumbling 10s", "aggregate": {"n": "count()"}}}
    made = App(kafka.bootstrap, tmp_path, base_ns=hour_ago_ns, queries=queries, **request.param)
    made.default["reorder"] = {"max_wait": "3s"}
    with made:
        yield made


def restarting(source: str, seq: int, ts_ns: int) -> tuple[bytes, Headers]:
    """Return the record of a source that counts from 700 on, or begins again at 0."""
    if source == "counts":
        return plain(source, 700 + seq, ts_ns)
    return plain(source, 700 + seq if seq < RESTARTS_AT else seq - RESTARTS_AT, ts_ns)


def at_rest(app: App) -> bool:
    """Return whether a partition's clock advances without records."""
    return any(partition["now"] > 0 for partition in app.worker.partitions())


@pytest.mark.in_turns(2)
def test_backlog_keeps_timestamps(app: App) -> None:
    app.create()
    app.start()
    wait_until(lambda: at_rest(app), "a clock that goes on at rest")
    app.send(range(COUNT), form=restarting, sources=("counts", "begins again"))
    app.await_events(2 * COUNT)
    whole = COUNT * EVERY_NS // (10 * S)
    lines = app.await_lines("windows", lambda lines: len(lines) >= whole)
    assert [(line["start"] - app.base_ns) // S for line in lines] == [0, 10, 20, 30]
    assert [line["values"]["n"] for line in lines] == [200] * whole
    for event in app.events():
        assert event.number("refTs") == event.number("ts"), event
        assert event.header("late") is None, event
    app.stop()
    assert not app.lines("late")


COSTLY = "PATTERN SEQ(A a, A b, A+ c[]) WHERE a.i + b.i > 3 * c.i WITHIN 1 hour"
"""A pattern without matches that looks at all pairs of earlier events for each event."""


def test_costly_query_blocks_no_answer(kafka: SharedKafka, tmp_path: Path) -> None:
    """Processed in one piece, the backlog would keep the stage from answering for many seconds. A
    log line names the costly query.
    """
    queries = {
        "cheap": {"pattern": "PATTERN SEQ(A a, B b) WITHIN 1 s"},
        "costly": {"pattern": COSTLY},
    }
    stages: dict[str, Any] = {"stages": ["reorder", "merge", "pattern"]}
    with App(kafka.bootstrap, tmp_path, queries=queries, **stages) as app:
        app.create()
        app.send(range(280), form=typed("A"))
        app.start()
        seen: list[Any] = []

        def offset() -> int:
            seen.append(app.worker.ask("ready"))
            found = [part for part in app.worker.partitions() if part["stage"] == "pattern"]
            return found[0]["next_offset"] or 0 if found else 0

        wait_until(lambda: offset() >= 280, "the end of the backlog", lambda: len(seen))
        app.stop()
        silent = [each for each in seen if "does not answer" in str(each)]
        assert len(silent) <= len(seen) // 10, silent[-1]  # A busy machine may miss a moment.
        assert re.search(
            r"/0: a record takes \d+ ms, \d+ % of it in the query costly", app.worker.log
        )
        assert "query cheap" not in app.worker.log
