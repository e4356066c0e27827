"""End to end: streams with their own inputs on a real Kafka, with equal and different partition
counts.

Each is delivered in order, and two are joined, before and after a restart.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from tests.end_to_end.changing import App, of_stream, plain
from tests.end_to_end.records import Headers
from tests.services import SharedKafka
from tests.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SIDES = {
    "x": {"stream": "default", "key": "payload.i"},
    "y": {"stream": "orders", "key": "payload.i"},
}
SOURCES = ("a", "b", "c", "d")
EACH = 3


def without_time(source: str, seq: int, ts_ns: int) -> tuple[bytes, Headers]:
    value, headers = plain(source, seq, ts_ns)
    return value, headers[:-1]


def numbers_of(app: App) -> dict[tuple[str, str], list[int]]:
    """Return the numbers of each stream's sources in topic order."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for event in app.events():
        place = event.header("streamId") or "default", event.header("sourceId") or ""
        found[place].append(event.number("seqNum"))
    return found


@pytest.mark.in_turns(2)
@pytest.mark.parametrize(
    "widths",
    [
        {"default": 4, "orders": 4},
        {"default": 1, "orders": 4, "alarms": 2},
    ],
    ids=["two alike", "three that differ"],
)
def test_streams_are_joined(kafka: SharedKafka, tmp_path: Path, widths: dict[str, int]) -> None:
    """Each event is emitted once and in order, and each pair of events with the same number has a
    row.
    """
    queries = {"both": {"join": "interval 1h", "sides": SIDES}}
    app = App(kafka.bootstrap, tmp_path, partitions=4, state="memory", queries=queries)
    app.file["streams"] = {name: app.stream(name, reorder={}, merge={}) for name in widths}
    for name, width in widths.items():
        arrival = {"message.timestamp.type": "LogAppendTime"}
        kafka.create_topic(f"{name}-{app.name}", width, arrival)
    app.create()
    with app:
        for first in (0, EACH):
            app.start()
            end = first + EACH
            the_wrong_way_round = [*range(first, end - 2), end - 1, end - 2]
            for name in widths:
                form = of_stream(name, without_time)
                app.send(the_wrong_way_round, form=form, sources=SOURCES, word=name)
            wanted = {(name, source): [*range(end)] for name in widths for source in SOURCES}
            rows = end * len(SOURCES) ** 2
            wait_until(
                lambda wanted=wanted: numbers_of(app) == wanted,  # type: ignore[misc]
                f"{end} of each source",
            )
            wait_until(lambda rows=rows: len(app.read("joins")) >= rows, f"{rows} rows")  # type: ignore[misc]
            app.stop()
    joined = app.read("joins")
    assert len({each.key for each in joined}) == len(joined) == rows
