"""Answer windows by a watermark, as most engines do: `watermarked.py RULE RECORDS QUERY`.

A window is answered when the watermark passes its end; later records are dropped. RULE determines
the watermark:

* `none`: the largest time so far. Duplicates count, as with a plain agent.
* `bounded:MS`: the largest time so far less a bound that the user knows (Flink's bounded
  out-of-orderness, fixed K-slack).
* `histogram`: the smallest value over all sources (Confluent's default). The value of a source is
  its largest time less a delay, from the 250th record on. The delay is the lateness that 95 % of
  its last 5 000 records did not exceed, and at least 50 ms.

With the suffix `+late`, windows are kept for 10 s more, and answered again when a late record
changes them. Duplicates are dropped by source and number, except under `none`.
"""

from __future__ import annotations

import csv
import sys
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, Final, Protocol

Row = list[str]
ARRIVAL, SOURCE, SEQ, TIME, TYPE, KEY, BY, PRICE = range(8)
"""The position of each column."""

Change = tuple[int, str, str]
"""The start of a window in us, the key, and the value, which is empty if the answer is retracted.
"""
Rule = Callable[[str, int], int]
"""A function from the source and time of a record to the time up to which all is assumed complete.
"""

LATE_US: Final = 10_000_000
GAP_US: Final = 500_000
LEAP_US: Final = 100_000


def make_bounded_rule(bound_us: int) -> Rule:
    newest_us = 0

    def watermark_us(_: str, time_us: int) -> int:
        nonlocal newest_us
        newest_us = max(newest_us, time_us)
        return newest_us - bound_us

    return watermark_us


def make_histogram_rule() -> Rule:
    newest_us: dict[str, int] = defaultdict(int)
    lates_us: dict[str, deque[int]] = defaultdict(lambda: deque(maxlen=5_000))
    seen: Counter[str] = Counter()
    delays_us: dict[str, int] = {}

    def watermark_us(source: str, time_us: int) -> int:
        newest_us[source] = max(newest_us[source], time_us)
        lates_us[source].append(newest_us[source] - time_us)
        seen[source] += 1
        if seen[source] % 250 == 0:
            ordered = sorted(lates_us[source])
            delays_us[source] = max(50_000, ordered[int(0.95 * len(ordered))])
        if len(delays_us) < len(newest_us):
            return 0
        return min(newest_us[each] - delay_us for each, delay_us in delays_us.items())

    return watermark_us


class Windowing(Protocol):
    def add(self, row: Row, time_us: int, watermark_us: int) -> Iterator[Change]:
        """Yield the changes that the record causes at once."""

    def pass_watermark(self, watermark_us: int) -> Iterator[Change]:
        """Yield the answers that are due when the watermark has reached `watermark_us`."""


class Windows:
    """Windows of a fixed length; `fold` adds a record to the state of a window."""

    def __init__(
        self,
        length_us: int,
        step_us: int,
        late_us: int,
        fold: Callable[[Any, Row], None],
        rows: Callable[[Any], dict[str, str]],
    ) -> None:
        self._length_us, self._step_us, self._late_us = length_us, step_us, late_us
        self._fold, self._rows = fold, rows
        self._states: dict[int, Any] = {}
        self._ends: list[int] = []
        self._kept: list[int] = []

    def add(self, row: Row, time_us: int, watermark_us: int) -> Iterator[Change]:
        last_us = time_us // self._step_us * self._step_us
        for start_us in range(last_us, time_us - self._length_us, -self._step_us):
            end_us = start_us + self._length_us
            if end_us + self._late_us <= watermark_us:
                continue
            if start_us not in self._states:
                self._states[start_us] = defaultdict(int)
                heappush(self._ends, end_us)
                heappush(self._kept, end_us + self._late_us)
            self._fold(self._states[start_us], row)
            if end_us <= watermark_us:
                yield from self._answers(start_us)

    def pass_watermark(self, watermark_us: int) -> Iterator[Change]:
        while self._ends and self._ends[0] <= watermark_us:
            yield from self._answers(heappop(self._ends) - self._length_us)
        while self._kept and self._kept[0] <= watermark_us:
            del self._states[heappop(self._kept) - self._late_us - self._length_us]

    def _answers(self, start_us: int) -> Iterator[Change]:
        for key, value in self._rows(self._states[start_us]).items():
            yield start_us, key, value


class Session:
    """A session: the bids of one bidder without a pause between them."""

    __slots__ = ("count", "is_answered", "last_us", "start_us")

    def __init__(self, time_us: int) -> None:
        self.start_us = self.last_us = time_us
        self.count = 1
        self.is_answered = False


class Sessions:
    """The sessions of each bidder, whose bids are split at pauses."""

    def __init__(self, late_us: int) -> None:
        self._late_us = late_us
        self._open: dict[str, list[Session]] = defaultdict(list)
        self._ends: list[tuple[int, str]] = []

    def add(self, row: Row, time_us: int, watermark_us: int) -> Iterator[Change]:
        if row[TYPE] != "bid" or time_us + GAP_US + self._late_us <= watermark_us:
            return
        one, apart, joined = Session(time_us), [], []
        for other in self._open[row[BY]]:
            if other.last_us + GAP_US < time_us or other.start_us - GAP_US > time_us:
                if other.last_us + GAP_US + self._late_us > watermark_us:
                    apart.append(other)
                continue
            joined.append(other)
        one.start_us = min(one.start_us, *(other.start_us for other in joined), time_us)
        one.last_us = max(one.last_us, *(other.last_us for other in joined), time_us)
        one.count += sum(other.count for other in joined)
        for other in joined:
            if other.is_answered and other.start_us != one.start_us:
                yield other.start_us, row[BY], ""
        self._open[row[BY]] = [*apart, one]
        heappush(self._ends, (one.last_us + GAP_US, row[BY]))

    def pass_watermark(self, watermark_us: int) -> Iterator[Change]:
        while self._ends and self._ends[0][0] <= watermark_us:
            _, bidder = heappop(self._ends)
            for one in self._open[bidder]:
                if not one.is_answered and one.last_us + GAP_US <= watermark_us:
                    one.is_answered = True
                    yield one.start_us, bidder, str(one.count)


class Leaps:
    """The bids of each auction in order, each compared with the bid before it."""

    def __init__(self, late_us: int) -> None:
        self._late_us = late_us
        self._bids: dict[str, list[tuple[int, str, int]]] = defaultdict(list)
        self._due: list[tuple[int, str]] = []

    def add(self, row: Row, time_us: int, watermark_us: int) -> Iterator[Change]:
        if row[TYPE] != "bid" or time_us + self._late_us <= watermark_us:
            return
        bids, key = self._bids[row[KEY]], row[KEY]
        at = bisect_left(bids, (time_us, row[BY], 0))
        bids.insert(at, (time_us, row[BY], int(row[PRICE])))
        if time_us > watermark_us:
            heappush(self._due, (time_us, key))
            return
        yield from self._answers(key, at - 1)
        yield from self._answers(key, at)

    def pass_watermark(self, watermark_us: int) -> Iterator[Change]:
        while self._due and self._due[0][0] <= watermark_us:
            time_us, key = heappop(self._due)
            bids = self._bids[key]
            old = bisect_left(bids, (time_us - self._late_us - LEAP_US, "", 0))
            del bids[: max(0, old - 1)]
            yield from self._answers(key, bisect_left(bids, (time_us, "", 0)) - 1)

    def _answers(self, key: str, at: int) -> Iterator[Change]:
        """Yield the answer for the bid at index `at` and the bid after it."""
        bids = self._bids[key]
        if 0 <= at < len(bids):
            low_us, before, low = bids[at]
            high_us, by, high = bids[at + 1] if at + 1 < len(bids) else (0, before, 0)
            leaps = high >= 10 * low and by != before and high_us - low_us <= LEAP_US
            yield low_us, key, f"{low}:{high}" if leaps else ""


def count_bid(state: Counter[str], row: Row) -> None:
    if row[TYPE] == "bid":
        state[row[KEY]] += 1


def answer_hottest(state: Counter[str]) -> dict[str, str]:
    if not state:
        return {}
    auction = min(state, key=lambda key: (-state[key], int(key)))
    return {"": f"{auction}:{state[auction]}"}


def raise_price(state: Counter[str], row: Row) -> None:
    if row[TYPE] == "bid":
        state[""] = max(state[""], int(row[PRICE]))


def answer_prices(state: Counter[str]) -> dict[str, str]:
    return {"": str(state[""])} if state else {}


def count_seller(state: Counter[tuple[str, str]], row: Row) -> None:
    if row[TYPE] != "bid":
        state[row[TYPE], row[KEY] if row[TYPE] == "person" else row[BY]] += 1


def answer_new_sellers(state: Counter[tuple[str, str]]) -> dict[str, str]:
    opened = {person: count for (kind, person), count in state.items() if kind == "auction"}
    return {key: str(count) for key, count in opened.items() if ("person", key) in state}


def windowing_of(query: str, late_us: int) -> Windowing:
    if query == "q5":
        return Windows(2_000_000, 500_000, late_us, count_bid, answer_hottest)
    if query == "q7":
        return Windows(1_000_000, 1_000_000, late_us, raise_price, answer_prices)
    if query == "q8":
        return Windows(2_000_000, 2_000_000, late_us, count_seller, answer_new_sellers)
    return Sessions(late_us) if query == "q11" else Leaps(late_us)


def rule_of(name: str) -> Rule:
    if name == "histogram":
        return make_histogram_rule()
    return make_bounded_rule(int(name.removeprefix("bounded:")) * 1_000 if name != "none" else 0)


def main() -> None:
    asked, path, query = sys.argv[1:4]
    name, late = asked.removesuffix("+late"), asked.endswith("+late")
    windowing, rule = windowing_of(query, LATE_US if late else 0), rule_of(name)
    given: dict[tuple[int, str], str] = {}
    seen: set[tuple[str, str]] = set()
    watermark_us = at_us = 0

    def answer(changes: Iterator[Change]) -> None:
        for start_us, key, value in changes:
            if given.get((start_us, key), "") != value:
                given[start_us, key] = value
                print(at_us, start_us, key, value, sep=",")

    with Path(path).open(newline="") as file:
        rows = csv.reader(file)
        next(rows)
        for row in rows:
            at_us, time_us = int(row[ARRIVAL]), int(row[TIME])
            number = (row[SOURCE], row[SEQ])
            if name != "none" and number in seen:
                continue
            seen.add(number)
            answer(windowing.add(row, time_us, watermark_us))
            watermark_us = max(watermark_us, rule(row[SOURCE], time_us))
            answer(windowing.pass_watermark(watermark_us))
    answer(windowing.pass_watermark(1 << 62))


if __name__ == "__main__":
    main()
