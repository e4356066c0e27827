"""Answer q5, q7 and q8 with Bytewax: `bytewax_windows.py WAIT_MS RECORDS QUERY`.

Bytewax must be installed in the environment. All records have one key, because a window of a key
closes with the next record of that key. The query q11 is left out: sessions by bidder close by
timers of the machine's clock, which does not exist in a recording. Duplicates are dropped before
the windows. The present time is the arrival clock, by `now_getter`.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any, Final

import bytewax.operators as op  # type: ignore[import-not-found, unused-ignore]
from bytewax.dataflow import Dataflow  # type: ignore[import-not-found, unused-ignore]
from bytewax.operators import windowing  # type: ignore[import-not-found, unused-ignore]
from bytewax.testing import (  # type: ignore[import-not-found, unused-ignore]
    TestingSink,
    TestingSource,
    run_main,
)

Row = list[str]
ARRIVAL, SOURCE, SEQ, TIME, TYPE, KEY, BY, PRICE = range(8)
"""The position of each column."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
WINDOWS_MS: Final = {"q5": (2_000, 500), "q7": (1_000, 1_000), "q8": (2_000, 2_000)}


def to_datetime(us: str | int) -> datetime:
    return EPOCH + timedelta(microseconds=int(us))


class Arrivals:
    """The present time: the arrival of the newest record that the windows have read."""

    def __init__(self) -> None:
        self.at_us = 0

    def time_of(self, row: Row) -> datetime:
        self.at_us = max(self.at_us, int(row[ARRIVAL]))
        return to_datetime(row[TIME])

    def now(self) -> datetime:
        return to_datetime(self.at_us)


def drop_duplicates(rows: Iterator[Row]) -> Iterator[Row]:
    seen: set[tuple[str, str]] = set()
    for row in rows:
        number = (row[SOURCE], row[SEQ])
        if number not in seen:
            seen.add(number)
            yield row


def fold(state: Counter[Any], row: Row) -> Counter[Any]:
    if row[TYPE] == "bid":
        state["bid", row[KEY]] += 1
        state["price"] = max(state["price"], int(row[PRICE]))
    else:
        state[row[TYPE], row[KEY] if row[TYPE] == "person" else row[BY]] += 1
    return state


def answers_of(query: str, state: Counter[Any]) -> dict[str, str]:
    if query == "q7":
        return {"": str(state["price"])} if state["price"] else {}
    if query == "q8":
        sold = {key[1]: n for key, n in state.items() if key[0] == "auction"}
        return {person: str(n) for person, n in sold.items() if ("person", person) in state}
    bids = {key[1]: n for key, n in state.items() if key[0] == "bid"}
    hot = min(bids, key=lambda auction: (-bids[auction], int(auction)), default=None)
    return {} if hot is None else {"": f"{hot}:{bids[hot]}"}


def main() -> None:
    wait_ms, path, query = sys.argv[1:4]
    length_ms, step_ms = WINDOWS_MS[query]
    arrivals = Arrivals()

    def answer(result: tuple[str, tuple[int, Counter[Any]]]) -> list[str]:
        _, (window, state) = result
        start_us = window * step_ms * 1_000
        found = answers_of(query, state).items()
        return [f"{arrivals.at_us},{start_us},{key},{value}" for key, value in found]

    with Path(path).open(newline="") as file:
        cells = csv.reader(file)
        next(cells)
        rows = drop_duplicates(cells)
        first = next(rows)
        arrivals.time_of(first)  # Start the clock at the first record, not in 1970.
        flow = Dataflow("disorder")
        records = op.key_on(
            "all", op.input("in", flow, TestingSource(chain([first], rows))), lambda _: ""
        )
        clock = windowing.EventClock(
            arrivals.time_of,
            timedelta(milliseconds=int(wait_ms)),
            now_getter=arrivals.now,
            to_system_utc=lambda _: None,
        )
        windower = windowing.SlidingWindower(
            timedelta(milliseconds=length_ms), timedelta(milliseconds=step_ms), EPOCH
        )
        windows = windowing.fold_window(
            "windows", records, clock, windower, Counter, fold, Counter.__add__, ordered=False
        )
        lines: list[str] = []
        op.output("out", op.flat_map("rows", windows.down, answer), TestingSink(lines))
        run_main(flow)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
