"""Law: lines that are cut into stretches, read separately and joined give the same result as lines
read in one go.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from spark_analytics.backfill.stretches import Beginning, StretchReader, find_beginnings
from tests.seeds import seeds_of_today
from topology.base.event import Event
from topology.base.outcome import Malformed
from topology.records.checker import Reading
from topology.records.line_reader import Content, LineReader, Row, peek_arrivals
from topology.records.reasons import WireFault

SEEDS = seeds_of_today(100)
SAID = Reading(by_time=frozenset({"t"}), units_ns={"m": 1_000}, max_ahead_ns=300)


def line(rng: Random, arrives: float) -> dict[str, Any] | None:
    """Return a random line: an event, a bad one or a clock report, with or without times. None is a
    line that is not JSON.
    """
    around = rng.choice((-1_000, 0, 1_000))
    kind = rng.random()
    values: dict[str, Any] = {
        "source": rng.choice("sss#"), "seq": rng.randrange(9), "stream": rng.choice("ddttm"),
    }  # fmt: skip
    if kind < 0.1:
        return None
    if kind < 0.3:
        values = {"clock": "s", "t1": 1, "t2": 2, "t3": 3, "t4": 4}
    elif kind < 0.4:
        values = {"clock": "s", "at": 1, "offset": 5, "error": rng.choice((1, -1))}
    elif kind < 0.55:
        values["seq"] = -1
    if "clock" not in values and rng.random() < 0.8:
        values["ts"] = around + rng.randrange(0, 1_000, 50)
    if rng.random() < arrives:
        values["arrival"] = around + rng.randrange(100)
    return values


def told(content: Content, number: int, at_ns: int, ts_ns: int | None) -> tuple[Any, ...]:
    if isinstance(content, Event):
        return "event", number, at_ns, at_ns if ts_ns is None else ts_ns
    if isinstance(content, Malformed):
        return "dead", number, at_ns, content.reason
    return type(content).__name__, number, at_ns


def at_of(content: Content) -> int:
    return content.at_ns if isinstance(content, Malformed) else content.arrival_ns


def read_through(lines: Sequence[dict[str, Any] | None]) -> list[tuple[Any, ...]]:
    reader = LineReader(SAID)
    found = []
    for row in reader.begin(row_of(number, each) for number, each in enumerate(lines, start=1)):
        number, content = row.number, reader.read(row)
        ts_ns = content.ts_ns if isinstance(content, Event) else None
        found.append(told(content, number, at_of(content), ts_ns))
    return found


def read_apart(
    lines: Sequence[dict[str, Any] | None], cuts: Sequence[int]
) -> list[tuple[Any, ...]]:
    parts = [lines[i:j] for i, j in zip([0, *cuts], [*cuts, len(lines)], strict=True)]
    read, stretches = [], []
    for part in parts:
        reader = StretchReader(SAID)
        read.append([reader.read(row_of(n, values)) for n, values in enumerate(part, start=1)])
        stretches.append(reader.end(len(part)))
    starts = find_beginnings(stretches, Beginning())
    whole = (LineReader(SAID).read(row_of(n, values)) for n, values in enumerate(lines, start=1))
    assert (starts[-1].bears_arrivals is not False) == peek_arrivals(whole)[0]
    found = []
    for part, contents, stretch, start in zip(parts, read, stretches, starts, strict=False):
        for number, (values, content) in enumerate(zip(part, contents, strict=True), start=1):
            at_ns = start.arrival_of(stretch, start.floors(stretch), at_of(content), number)
            said = isinstance(content, Event) and values is not None and "ts" in values
            ts_ns = content.ts_ns if said and isinstance(content, Event) else None
            found.append(told(content, start.lines + number, at_ns, ts_ns))
    return found


def row_of(number: int, values: dict[str, Any] | None) -> Row:
    if values is None:
        return Row(number, {}, WireFault("line_not_json", "not JSON"))
    return Row(number, values)


@pytest.mark.parametrize("pieces", [1, 2, 5, 30])
def test_cuts_change_nothing(pieces: int) -> None:
    kinds = set()
    for seed in SEEDS:
        rng = Random(seed)
        arrives = rng.choice((0, 0, 0.4))
        lines = [line(rng, arrives) for _ in range(rng.randrange(1, 30))]
        cuts = sorted(rng.randrange(len(lines) + 1) for _ in range(pieces - 1))
        through = read_through(lines)
        assert read_apart(lines, cuts) == through, (seed, cuts)
        kinds |= {each[0] for each in through}
    assert kinds == {"event", "dead", "Sample", "Declared"}
