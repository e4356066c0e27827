"""Make the workloads: records with their disorder, and the truth of each query.

    python worlds.py FOLDER [--seconds 120] [--seed 1] [--rate 500] [--recorded arrivals.csv]

The records are those of an auction house in the manner of NEXMark, from our own generator. Out of
50 records, one is a person who registers, three are auctions that open, and 46 are bids. Eight
sources send them, each with its own numbers. Worlds differ by how records arrive:

| world   | delays                                                           | besides          |
|---------|------------------------------------------------------------------|------------------|
| `calm`  | 2 ms + exponential of 3 ms; 12 % log-normal, median 40, to 400 ms | nothing          |
| `clock` | as `calm`                                                        | the clock of one |
|         |                                                                  | source is 5 s    |
|         |                                                                  | ahead            |
| `rough` | the same; each 10 s one source sends nothing for 1.5 s, then     | 1 % duplicates,  |
|         | all that it kept                                                 | each 0.3 s later |
|         |                                                                  | on average;      |
|         |                                                                  | 0.1 % are lost   |

A further world, `recorded`, is made from a recording of `arrival_us,source,seq,time_us`, in order
of arrival. It is the auction house as those sources would have sent it, with each record at the
recorded time and with the recorded delay.

For each world, the program writes `<world>/records.csv`, `half.csv` (its first half by arrival) and
`truth-<query>.csv` into FOLDER. The truth counts each record that arrives once, by its own time,
whenever it arrives. With a wrong clock it uses the right time. In that world only the window
queries are asked, as answers of the others contain times of single records. The truth is computed
from the records before their disorder, in a simple and slow way. The program needs the standard
library only, and the same seed gives the same bytes.
"""

from __future__ import annotations

import argparse
import csv
import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Final, NamedTuple

MS: Final = 1_000
S: Final = 1_000_000
START_US: Final = 1_700_000_000 * S
RATE: Final = 500
SOURCES: Final = 8
WORLDS: Final = ("calm", "rough", "clock")
RECORDED: Final = "recorded"

HOP_US: Final = (2 * S, 500 * MS)
TUMBLE_US: Final = 1 * S
JOIN_US: Final = 2 * S
GAP_US: Final = 500 * MS
LEAP: Final = 10
LEAP_US: Final = 100 * MS
MISS: Final = 0.12
COPIES: Final = 0.01
LOST: Final = 0.001
AHEAD: Final = "s3"
AHEAD_US: Final = 5 * S
STALL_EACH_US: Final = 10 * S
STALL_US: Final = 1_500 * MS


class Made(NamedTuple):
    """A record at its source; `key` is the person or the auction, and `by` the seller or bidder."""

    source: str
    seq: int
    time_us: int
    type: str
    key: int
    by: int
    price: int


class Record(NamedTuple):
    """A record with the time of its arrival."""

    arrival_us: int
    made: Made


class Arrival(NamedTuple):
    """One line of a recording."""

    arrival_us: int
    source: str
    seq: int
    time_us: int


class Row(NamedTuple):
    """A right answer, as a line of the TRUTH that `score` reads."""

    start_us: int
    key: str
    value: str
    ready_us: int


def make(seconds: float, seed: int, rate: int = RATE) -> list[Made]:
    """Make records in the order of their times, all of which differ."""
    dice = random.Random(seed * 1_000 + 1)
    numbers: Counter[int] = Counter()
    house = House(dice)
    found = []
    for at in range(int(seconds * rate)):
        time_us = START_US + int((at + dice.random()) * S / rate)
        source = int(dice.random() * SOURCES)
        found.append(Made(f"s{source}", numbers[source], time_us, *house.record(at)))
        numbers[source] += 1
    return found


class House:
    """A generator of the auction house's events, one record after the other."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._persons, self._auctions = [0], [0]

    def record(self, at: int) -> tuple[str, int, int, int]:
        """Return the type, key, by and price of the record with the number `at`."""
        dice, persons, auctions = self._dice, self._persons, self._auctions
        kind = at % 50
        if kind == 0:
            persons.append(len(persons))
            return "person", persons[-1], 0, 0
        if kind <= 3:
            auctions.append(len(auctions))
            return "auction", auctions[-1], _choose(persons[-40:], dice), 0
        hot = auctions[-1] // 10 * 10
        auction = hot if dice.random() < 0.3 else _choose(auctions[-50:], dice)
        bidder = 1_000_000 + int(dice.random() * 150) + at // 5_000 * 50
        return "bid", auction, bidder, 1 + int(dice.random() ** 3 * 1_000_000)


def overlay_recording(arrivals: Iterable[Arrival], seed: int) -> list[Record]:
    """Return the auction house's records with the times and arrivals of a recording.

    A record that arrived twice is a duplicate. Equal times of different sources are separated by
    less than 1 ms.
    """
    arrivals = list(arrivals)
    names = {source: number for number, source in enumerate(sorted({a.source for a in arrivals}))}
    times_us = {(a.source, a.seq): a.time_us + names[a.source] for a in arrivals}
    house = House(random.Random(seed * 1_000 + 1))
    found = {}
    for at, (place, time_us) in enumerate(sorted(times_us.items(), key=lambda one: one[::-1])):
        source, seq = place
        found[place] = Made(f"s{names[source]}", seq, time_us, *house.record(at))
    return [Record(one.arrival_us, found[one.source, one.seq]) for one in arrivals]


def _choose(some: Sequence[int], dice: random.Random) -> int:
    return some[int(dice.random() * len(some))]


def deliver(records: Iterable[Made], world: str, seed: int) -> list[Record]:
    """Return the records as they arrive in this world: late, twice, or never."""
    dice = random.Random(seed * 1_000 + 3)
    found = []
    for record in records:
        lost, copied = dice.random() < LOST, dice.random() < COPIES
        arrival_us = record.time_us + _delay_us(dice)
        if world != "rough":
            found.append(Record(arrival_us, record))
            continue
        arrival_us = _delay_by_stall_us(arrival_us, record)
        again_us = arrival_us + int(-300 * MS * math.log(1 - dice.random()))
        if not lost:
            found.append(Record(arrival_us, record))
            if copied:
                found.append(Record(again_us, record))
    return sorted(found)


def _delay_us(dice: random.Random) -> int:
    delay_us = 2 * MS - 3 * MS * math.log(1 - dice.random())
    share = min(max(dice.random(), 1e-12), 1 - 1e-12)
    if dice.random() < MISS:
        delay_us += min(40 * MS * math.exp(0.8 * NormalDist().inv_cdf(share)), 400 * MS)
    return int(delay_us)


def _delay_by_stall_us(arrival_us: int, record: Made) -> int:
    """Return the arrival, delayed if the record's source is stalled at that time.

    In each ten seconds, from the third second on, another source is stalled.
    """
    turn, within_us = divmod(arrival_us - START_US, STALL_EACH_US)
    over_us = 3 * S + STALL_US
    if record.source == f"s{turn % SOURCES}" and 3 * S <= within_us < over_us:
        return arrival_us - within_us + over_us
    return arrival_us


# -- the truth ---------------------------------------------------------------------------------


def first_arrivals(records: Iterable[Record]) -> list[Record]:
    """Return each record once, with its first arrival, in the order of the records' own times."""
    found: dict[tuple[str, int], Record] = {}
    for record in records:
        found.setdefault((record.made.source, record.made.seq), record)
    return sorted(found.values(), key=lambda record: record.made.time_us)


def hot_items(records: Sequence[Record]) -> Iterator[Row]:
    """Answer q5: the auction with the most bids in each two seconds, every half second.

    The value also contains the number of these bids.
    """
    for start_us, bids in _windows(records, *HOP_US, types=("bid",)):
        counts = Counter(bid.made.key for bid in bids)
        auction = min(counts, key=lambda key: (-counts[key], key))
        ready_us = _ready_us(bids, start_us + HOP_US[0])
        yield Row(start_us, "", f"{auction}:{counts[auction]}", ready_us)


def highest_bid(records: Sequence[Record]) -> Iterator[Row]:
    """Answer q7: the highest price of each second."""
    for start_us, bids in _windows(records, TUMBLE_US, TUMBLE_US, types=("bid",)):
        ready_us = _ready_us(bids, start_us + TUMBLE_US)
        yield Row(start_us, "", str(max(bid.made.price for bid in bids)), ready_us)


def new_sellers(records: Sequence[Record]) -> Iterator[Row]:
    """Answer q8: sellers who registered and opened an auction in the same two seconds.

    The value is the number of their auctions.
    """
    types = ("person", "auction")
    for start_us, both in _windows(records, JOIN_US, JOIN_US, types=types):
        persons = {one.made.key: one for one in both if one.made.type == "person"}
        opened = defaultdict(list)
        for one in both:
            if one.made.type == "auction" and one.made.by in persons:
                opened[one.made.by].append(one)
        for person, auctions in opened.items():
            ready_us = _ready_us([*auctions, persons[person]], start_us + JOIN_US)
            yield Row(start_us, str(person), str(len(auctions)), ready_us)


def bidder_sessions(records: Sequence[Record]) -> Iterator[Row]:
    """Answer q11: the bids of each bidder, split by pauses of half a second."""
    open_bids: dict[int, list[Record]] = {}
    for record in records:
        if record.made.type != "bid":
            continue
        bids = open_bids.setdefault(record.made.by, [])
        if bids and record.made.time_us - bids[-1].made.time_us > GAP_US:
            yield _session(bids)
            bids = open_bids[record.made.by] = []
        bids.append(record)
    yield from map(_session, open_bids.values())


def _session(bids: Sequence[Record]) -> Row:
    first = bids[0].made
    ready_us = _ready_us(bids, bids[-1].made.time_us + GAP_US)
    return Row(first.time_us, str(first.by), str(len(bids)), ready_us)


def leaps(records: Sequence[Record]) -> Iterator[Row]:
    """Answer leap: a bid of at least ten times the auction's bid right before it.

    The higher bid is by another bidder, within 100 ms. The answer begins with the lower bid.
    """
    last: dict[int, Record] = {}
    for record in records:
        bid = record.made
        if bid.type != "bid":
            continue
        before = last.get(bid.key)
        last[bid.key] = record
        if before is None or bid.time_us - before.made.time_us > LEAP_US:
            continue
        low = before.made
        if low.by != bid.by and bid.price >= LEAP * low.price:
            ready_us = max(before.arrival_us, record.arrival_us)
            yield Row(low.time_us, str(bid.key), f"{low.price}:{bid.price}", ready_us)


QUERIES: Final[dict[str, Callable[[Sequence[Record]], Iterator[Row]]]] = {
    "q5": hot_items,
    "q7": highest_bid,
    "q8": new_sellers,
    "q11": bidder_sessions,
    "leap": leaps,
}


def queries_of(world: str) -> tuple[str, ...]:
    """Return the queries that are asked in a world.

    Queries with times of single records are left out if the world's times are wrong or in ms.
    """
    if world == "clock":
        return ("q5", "q7", "q8")
    return tuple(query for query in QUERIES if world != RECORDED or query != "leap")


def _windows(
    records: Iterable[Record], length_us: int, step_us: int, types: Sequence[str]
) -> Iterator[tuple[int, list[Record]]]:
    windows: dict[int, list[Record]] = defaultdict(list)
    for record in records:
        if record.made.type in types:
            last_us = record.made.time_us // step_us * step_us
            for start_us in range(last_us, record.made.time_us - length_us, -step_us):
                windows[start_us].append(record)
    yield from sorted(windows.items())


def _ready_us(records: Iterable[Record], end_us: int) -> int:
    """Return the time when the window is over and all records that count have arrived."""
    return max(end_us, *(record.arrival_us for record in records))


# -- files -------------------------------------------------------------------------------------


def write(folder: Path, seconds: float, seed: int, rate: int = RATE) -> None:
    """Write all worlds into `folder`, which is created if absent."""
    base = make(seconds, seed, rate)
    for world in WORLDS:
        write_world(folder, world, deliver(base, world, seed))


def write_world(folder: Path, world: str, records: Sequence[Record]) -> None:
    """Write the files of a world; `records` must be in order of arrival."""
    place = folder / world
    place.mkdir(parents=True, exist_ok=True)
    for name, some in (("records", records), ("half", records[: len(records) // 2])):
        lines = ((record.arrival_us, *stamp(record.made, world)) for record in some)
        _write_csv(place / f"{name}.csv", ("arrival_us", *Made._fields), lines)
    once = first_arrivals(records)
    for query in queries_of(world):
        _write_csv(place / f"truth-{query}.csv", Row._fields, QUERIES[query](once))


def read_arrivals(path: Path) -> list[Arrival]:
    with path.open(newline="") as file:
        rows = csv.reader(file)
        next(rows)
        return [Arrival(int(at), source, int(seq), int(time)) for at, source, seq, time in rows]


def stamp(record: Made, world: str) -> Made:
    """Return the record with the time that its source's clock shows."""
    is_ahead = world == "clock" and record.source == AHEAD
    return record._replace(time_us=record.time_us + AHEAD_US) if is_ahead else record


def _write_csv(path: Path, header: Sequence[str], lines: Iterable[Sequence[object]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="worlds", description="Records and their truth.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=int, default=RATE, help="records per second")
    parser.add_argument("--recorded", type=Path, help="a recording, to make one more world")
    asked = parser.parse_args()
    write(asked.folder, asked.seconds, asked.seed, asked.rate)
    if asked.recorded:
        write_world(
            asked.folder, RECORDED, overlay_recording(read_arrivals(asked.recorded), asked.seed)
        )


if __name__ == "__main__":
    main()
