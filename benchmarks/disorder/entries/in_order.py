"""Answer the five queries with inorder's Python API: `in_order.py MAX_WAIT RECORDS QUERY`.

Records are fed in polls of 10 ms of the arrival clock. Answers have the arrival of the last record
of the poll. The user's code is the topology, and the class `Answers`.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final

from inorder import MatchRecord, Record, WindowRecord
from inorder.engine import Ordering

POLL_US: Final = 10_000

TOPOLOGY: Final = """
streams:
  default:
    reorder: {start: zero, max_wait: MAX_WAIT}
    merge: {max_wait: MAX_WAIT, expected_sources: [s0, s1, s2, s3, s4, s5, s6, s7]}
correct_for: 10s
queries:
  answers: {QUERY}
"""
LEAP: Final = (
    "PATTERN SEQ(bid a, bid b) WHERE [auction] AND a.bidder != b.bidder AND b.price >= 10 * a.price"
    " WITHIN 100 ms USING partition RETURN a.price AS low, b.price AS high"
)
QUERIES: Final = {
    "q5": "uncertainty: ignore, window: sliding 2s every 500ms, key: payload.auction,"
    " aggregate: {n: count()}",
    "q7": "uncertainty: ignore, window: tumbling 1s, aggregate: {n: max(payload.price)}",
    "q8": "uncertainty: ignore, window: tumbling 2s, key: payload.person,"
    " aggregate: {n: sum(payload.opened), new: sum(payload.new)}",
    "q11": "uncertainty: ignore, window: session 500ms, key: payload.bidder,"
    " aggregate: {n: count()}",
    "leap": f'pattern: "{LEAP}"',
}


Row = tuple[str, int, int, int, str, dict[str, int]]
NAMES: Final = ("source", "seq", "ts", "arrival", "type", "payload")


def payload_of(query: str, type_: str, key: str, by: str, price: str) -> dict[str, int]:
    """Return the fields that the query reads. They are empty for a record that it does not read."""
    if query == "q8":
        if type_ == "person":
            return {"person": int(key), "new": 1, "opened": 0}
        return {"person": int(by), "new": 0, "opened": 1} if type_ == "auction" else {}
    if type_ != "bid":
        return {}
    if query == "q7":
        return {"price": int(price)}
    if query == "q5":
        return {"auction": int(key)}
    if query == "q11":
        return {"bidder": int(by)}
    return {"auction": int(key), "bidder": int(by), "price": int(price)}


def polls(lines: Iterator[list[str]], query: str) -> Iterator[list[Row]]:
    """Yield the records of each poll, with their values in the order of `NAMES`."""
    poll: list[Row] = []
    end_us = 0
    for arrival_us, source, seq, time_us, type_, key, by, price in lines:
        at_us = int(arrival_us)
        if at_us >= end_us:
            if poll:
                yield poll
            poll, end_us = [], at_us - at_us % POLL_US + POLL_US
        payload = payload_of(query, type_, key, by, price)
        poll.append((source, int(seq), int(time_us) * 1_000, at_us * 1_000, type_, payload))
    yield poll


Change = tuple[int, str, str]
"""The start of a window in us, the key, and the value, which is empty if the answer is retracted.
"""


class Answers:
    """A converter of results to answers.

    Most answers are the results themselves. For q5 an answer is the largest result of a window, and
    for q8 only new sellers count.
    """

    def __init__(self, query: str) -> None:
        self._query = query
        self._given: dict[tuple[int, str], str] = {}
        self._counts: dict[int, dict[int, int]] = {}

    def changes(self, records: list[Record]) -> Iterator[Change]:
        found = [record for record in records if isinstance(record, WindowRecord)]
        rows = (
            self._hottest_changes(found) if self._query == "q5" else map(self._window_change, found)
        )
        matches = [record for record in records if isinstance(record, MatchRecord)]
        for start_us, key, value in chain(rows, map(self._leap_change, matches)):
            if self._given.get((start_us, key), "") != value:
                self._given[start_us, key] = value
                yield start_us, key, value

    def _leap_change(self, result: MatchRecord) -> Change:
        values = result.values
        value = "" if result.op == "retract" else f"{values['low']}:{values['high']}"
        return result.start_ns // 1_000, str(result.key[0]), value

    def _window_change(self, result: WindowRecord) -> Change:
        values = {} if result.op == "retract" else result.values
        value = str(int(values["n"])) if values.get("n") and values.get("new", 1) else ""
        return result.start_ns // 1_000, str(result.key or ""), value

    def _hottest_changes(self, found: list[WindowRecord]) -> Iterator[Change]:
        """Yield one answer for each window of these results, after all of them are counted."""
        for result in found:
            self._counts.setdefault(result.start_ns, {})[result.key] = result.values["n"]
        for start_ns in dict.fromkeys(result.start_ns for result in found):
            counts = self._counts[start_ns]
            auction = min(counts, key=lambda key: (-counts[key], key))
            yield start_ns // 1_000, "", f"{auction}:{counts[auction]}"


def main() -> None:
    max_wait, path, query = sys.argv[1:4]
    text = TOPOLOGY.replace("QUERY", QUERIES[query]).replace("MAX_WAIT", max_wait)
    order = Ordering(text, events=False)
    answers = Answers(query)
    at_us = 0
    with Path(path).open(newline="") as file:
        lines = csv.reader(file)
        next(lines)
        for poll in polls(lines, query):
            at_us = poll[-1][3] // 1_000
            for change in answers.changes(order.feed_rows(NAMES, poll)):
                print(at_us, *change, sep=",")
    for change in answers.changes(order.close()):
        print(at_us, *change, sep=",")


if __name__ == "__main__":
    main()
