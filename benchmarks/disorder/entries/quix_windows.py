"""Answer q5, q7, q8 and q11 with Quix Streams: `quix_windows.py GRACE_MS RECORDS QUERY`.

quixstreams must be installed in the environment. Its dataframe and its state in RocksDB are used
without a broker. Records are passed to the composed dataframe, as by the poll loop of an
application. The state is flushed each second of the arrival clock. Windows close by the time of the
whole partition, and there is one partition. Duplicates are dropped before the windows. A session
starts at the time of its first bid, because windows have only milliseconds.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from quixstreams import Application  # type: ignore[import-not-found, unused-ignore]
from quixstreams.context import (  # type: ignore[import-not-found, unused-ignore]
    set_message_context,
)
from quixstreams.dataframe.windows import (  # type: ignore[import-not-found, unused-ignore]
    Count,
    Max,
    Min,
)
from quixstreams.models import (  # type: ignore[import-not-found, unused-ignore]
    MessageContext,
    Topic,
    TopicConfig,
)

Row = dict[str, Any]
ARRIVAL, SOURCE, SEQ, TIME, TYPE, KEY, BY, PRICE = range(8)
"""The position of each column."""

FLUSH_US: Final = 1_000_000
BEHIND_MS: Final = 60_000
"""The time from the end of the records to one more record, which closes the open windows."""


def begin(row: Row) -> Row:
    return count({}, row)


def count(counts: Row, row: Row) -> Row:
    """Count a row under its key, or record that the person has registered."""
    counts[row["key"]] = counts.get(row["key"], 0) + (row["type"] != "person")
    if row["type"] == "person":
        counts[f"new {row['key']}"] = 1
    return counts


def is_wanted(query: str, row: list[str]) -> bool:
    return (row[TYPE] == "bid") == (query != "q8")


def windows(rows: Any, query: str, grace_ms: int) -> Any:
    if query == "q5":
        asked = rows.hopping_window(2_000, 500, grace_ms).reduce(count, begin)
    elif query == "q7":
        asked = rows.tumbling_window(1_000, grace_ms).agg(price=Max("price"))
    elif query == "q8":
        asked = rows.tumbling_window(2_000, grace_ms).reduce(count, begin)
    else:
        asked = rows.session_window(500, grace_ms).agg(bids=Count(), first_us=Min("time_us"))
    return asked.final(closing_strategy="partition")


def answers_of(query: str, window: Row, key: str) -> Iterator[tuple[int, str, str]]:
    start_us = window["start"] * 1_000
    if query == "q7":
        yield start_us, "", str(window["price"])
    elif query == "q11":
        yield window["first_us"], key, str(window["bids"])
    elif query == "q8":
        counts = window["value"]
        for person, count in counts.items():
            if count and f"new {person}" in counts:
                yield start_us, person, str(count)
    else:
        counts = window["value"]
        auction = min(counts, key=lambda each: (-counts[each], int(each)))
        yield start_us, "", f"{auction}:{counts[auction]}"


def record_of(row: list[str], query: str) -> Row:
    """Return the record for the dataframe; its `key` is the field that the query counts by."""
    by_person = query == "q8" and row[TYPE] == "auction"
    key = row[BY] if by_person or query == "q11" else row[KEY]
    return {
        "type": row[TYPE],
        "key": key,
        "price": int(row[PRICE]),
        "time_us": int(row[TIME]),
    }


class Running:
    """The work of an application's poll loop besides calling the dataframe."""

    def __init__(self, app: Application, stream: str) -> None:
        self._state, self._context = app._state_manager, app._processing_context
        self._state.on_partition_assign(stream, 0, {})
        self._context.init_checkpoint()

    def flush(self) -> None:
        for transaction in self._context.checkpoint._store_transactions.values():
            transaction.prepare(processed_offsets={})
            transaction.flush()
        self._context.init_checkpoint()


def main() -> None:
    grace_ms, path, query = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    at_us = 0

    def answer(window: Row, key: str, *_: object) -> None:
        for change in answers_of(query, window, key):
            print(at_us, *change, sep=",")

    with tempfile.TemporaryDirectory() as folder, Path(path).open(newline="") as file:
        app = Application(
            broker_address="127.0.0.1:1",
            state_dir=folder,
            use_changelog_topics=False,
            auto_create_topics=False,
            loglevel="ERROR",
        )
        topic = Topic("records")
        topic.broker_config = TopicConfig(1, 1, {"retention.ms": "-1", "cleanup.policy": "delete"})
        rows = windows(app.dataframe(topic), query, grace_ms)
        take = rows.compose(sink=answer)[topic.name]
        running = Running(app, rows.stream_id)
        set_message_context(MessageContext(topic.name, 0, 0, 0))
        seen: set[tuple[str, str]] = set()
        flushed_us = 0
        lines = csv.reader(file)
        next(lines)
        for row in lines:
            at_us, number = int(row[ARRIVAL]), (row[SOURCE], row[SEQ])
            if number in seen or not is_wanted(query, row):
                continue
            seen.add(number)
            record = record_of(row, query)
            key = record["key"] if query == "q11" else "all"
            take(record, key, record["time_us"] // 1_000, [])
            if at_us - flushed_us >= FLUSH_US:
                flushed_us = at_us
                running.flush()
        take(record, "end", at_us // 1_000 + BEHIND_MS, [])


if __name__ == "__main__":
    main()
