"""Laws: reading in bulk gives the same contents and state as reading one by one.

There are odd lines among good ones: missing fields, fields of another kind, numbers and times at
their bounds. Others have texts that are too long, subclasses, control lines, or clock readings.
`LineReader.read` is the definition.
"""

from __future__ import annotations

import dataclasses
import marshal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import partial
from itertools import pairwise
from random import Random
from types import MappingProxyType
from typing import Any, Final

import pytest

from inorder.contract import MAX_EPOCH, MAX_INT64
from inorder.engine import Ordering, parse
from tests.kit.events import fields
from tests.seeds import seeds_of_today
from topology.base.event import DATA, Event
from topology.base.outcome import Malformed
from topology.records.checker import AS_WRITTEN, SHORT, Reading
from topology.records.line_reader import (
    MAX_ARRIVAL_NS,
    Content,
    LineContents,
    LineReader,
    Row,
    split_rows,
)
from topology.records.reasons import fault_of

MS: Final = 1_000_000
HOUR_NS: Final = 3_600_000_000_000
BEGIN_NS: Final = 1_700_000_000_000 * MS
LINES: Final = 250
SEEDS: Final = seeds_of_today(6)
NAMES: Final = (
    "source", "seq", "ts", "arrival", "type", "payload", "stream", "epoch", "kind", "clock",
    "offset", "note",
)  # fmt: skip


class Number(IntEnum):
    ONE = 1


class Text(str):
    __slots__ = ()


class Line(dict[str, Any]):
    pass


ODD: Final[tuple[Any, ...]] = (
    None, "", "a", "17", "é" * SHORT, "x" * (4 * SHORT + 1), "\udc80", Text("a"), b"a", b"\xff",
    True, False, 1.0, 1.5, float("nan"), float("inf"), -1, 0, 1, Number.ONE, MAX_EPOCH,
    MAX_EPOCH + 1, MAX_INT64, MAX_INT64 + 1, -MAX_INT64, -MAX_INT64 - 1, 1 << 70,
    MAX_ARRIVAL_NS - 1, MAX_ARRIVAL_NS, MAX_ARRIVAL_NS + 1, BEGIN_NS, BEGIN_NS + 2 * HOUR_NS,
    BEGIN_NS - 2 * HOUR_NS, [], [1], {}, {"a": {"b": [None]}}, object, "default", "timed", "mixed",
    "in_us", "heartbeat", "bye", "dead", "2023-11-14T22:13:20Z",
)  # fmt: skip

READINGS: Final = {
    "plain": AS_WRITTEN,
    "by time": Reading(by_time=frozenset({"timed"})),
    "unnamed by time": Reading(by_time=frozenset({"timed"}), unnamed="timed"),
    "mixed": Reading(by_time=frozenset({"timed"}), mixed=frozenset({"mixed", "default"})),
    "units": Reading(units_ns={"in_us": 1_000, "default": MS}, max_ahead_ns=MS),
}


def lines(seed: int | str, reading: Reading = AS_WRITTEN) -> Iterator[dict[str, Any]]:
    """Yield lines in order of arrival, some of which are odd."""
    rng = Random(seed)
    oddness = rng.choice((0.0, 0.1, 0.5))
    has_arrivals, has_times = rng.random() < 0.6, rng.random() < 0.8
    now_ns = BEGIN_NS
    for number in range(LINES):
        now_ns += rng.choice((0, 1, MS, 50 * MS))
        line: dict[str, Any] = {"source": rng.choice("abc"), "seq": number}
        if has_times:
            unit_ns = reading.units_ns.get("default", 1)
            line["ts"] = (now_ns - rng.choice((0, MS, 300 * MS))) // unit_ns
        if has_arrivals:
            line["arrival"] = now_ns - rng.choice((0, 0, 0, MS))
        if rng.random() < 0.7:
            line |= {"type": rng.choice("AB"), "payload": {"n": number}}
        if rng.random() < 0.2:
            line["stream"] = rng.choice(("default", "timed", "mixed", "in_us"))
        if rng.random() < 0.05:
            line["kind"] = rng.choice(("heartbeat", "bye"))
        if rng.random() < 0.05:
            line = {"clock": "a", "t1": now_ns, "t2": now_ns, "t3": now_ns, "t4": now_ns + 2}
        if rng.random() < 0.02:
            line = {"clock": "a", "at": now_ns, "offset": 5, "error": 1}
        if rng.random() < oddness:
            for _ in range(rng.choice((1, 1, 2, 5))):
                line[rng.choice(NAMES)] = rng.choice(ODD)
        if rng.random() < oddness / 3 and line:
            del line[rng.choice([*line])]
        yield line


def shape(content: Content) -> tuple[str, ...]:
    """Return all of a content except its record."""
    if isinstance(content, Event):
        return "Event", *map(repr, fields(content, "record").values())
    names = [each.name for each in dataclasses.fields(content) if each.name != "record"]
    return type(content).__name__, *(repr(getattr(content, name)) for name in names)


def state(reader: LineReader) -> tuple[object, ...]:
    log = reader._log
    stamps = reader.stamps.now_ns, reader.stamps.doubted
    return reader.arrival_ns, *stamps, None if log is None else log.snapshot()


def cut(rng: Random, whole: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Cut the whole into pieces, some of one item."""
    edges = sorted({0, len(whole), *(rng.randrange(len(whole)) for _ in range(9)), 1, 2})
    return (whole[begin:end] for begin, end in pairwise(edges))


def test_lines_have_each_fault() -> None:
    """Without such lines the laws would show little."""
    kinds: Counter[str] = Counter()
    reasons: set[str] = set()
    for seed in range(20):
        reader = LineReader()
        for number, line in enumerate(lines(seed), 1):
            content = reader.read(Row(number, line))
            kinds[type(content).__name__] += 1
            if isinstance(content, Malformed):
                reasons.add(content.reason)
    assert kinds["Event"] > 2 * kinds["Malformed"] > 0
    assert kinds["Sample"]
    assert kinds["Declared"]
    named = {"source", "seq", "ts", "arrival", "type", "stream", "epoch", "kind"}
    assert {reason.partition("_")[0] for reason in reasons} >= named


@pytest.mark.parametrize("judges", [False, True])
@pytest.mark.parametrize("name", READINGS)
def test_read_many_matches_read(name: str, judges: bool) -> None:
    for seed in SEEDS:
        rng, reading = Random(seed), READINGS[name]
        rows = []
        for at, line in enumerate(lines(seed, reading)):
            fault = fault_of("row", "ragged", "the row") if rng.random() < 0.02 else None
            values: Mapping[str, Any] = rng.choice((dict, dict, Line, MappingProxyType))(line)
            is_instant = rng.random() < (0.05 if seed % 2 else 0.95)
            rows.append(Row(3 * at + 1, values, fault, is_instant))
        one, many = (LineReader(reading, judges=judges) for _ in range(2))
        for piece in cut(rng, rows):
            wanted, found = [one.read(row) for row in piece], many.read_many(piece)
            assert list(map(shape, found)) == list(map(shape, wanted)), seed
            assert [each.record for each in found if isinstance(each, Event)] == [
                each.record for each in wanted if isinstance(each, Event)
            ]
            assert state(many) == state(one), seed


@pytest.mark.parametrize("is_ticked", [False, True])
@pytest.mark.parametrize("name", READINGS)
def test_lines_and_columns_match_rows(name: str, is_ticked: bool) -> None:
    for seed in SEEDS:
        rng, reading = Random(seed), READINGS[name]
        names = rng.sample(NAMES, rng.choice((len(NAMES), 6, 3)))
        one, in_lines, by_line, in_columns = (LineReader(reading) for _ in range(4))
        first, now_ns = 1, BEGIN_NS
        for piece in cut(rng, list(lines(seed, reading))):
            now_ns += rng.choice((0, MS, 500 * MS))
            at_ns = now_ns if is_ticked else None

            def read(reader: LineReader, number: int, line: dict[str, Any]) -> Content:
                row = Row(number, line)
                return reader.read(row) if at_ns is None else reader.read_at(row, at_ns)  # noqa: B023

            _compare(one, in_lines, read, first, piece, in_lines.read_lines(first, piece, at_ns))
            rows: list[Any] = [
                rng.choice((tuple, list))(line.get(each) for each in names) for line in piece
            ]
            named = [dict(zip(names, row, strict=True)) for row in rows]
            columns = in_columns.read_columns(first, names, rows, at_ns)
            _compare(by_line, in_columns, read, first, named, columns)
            first += len(piece)


def _compare(
    one: LineReader,
    many: LineReader,
    read: Callable[[LineReader, int, dict[str, Any]], Content],
    first: int,
    lines: Sequence[dict[str, Any]],
    found: LineContents,
) -> None:
    """Compare the contents read in bulk with those read one by one, and both states."""
    wanted = [read(one, number, line) for number, line in enumerate(lines, first)]
    assert list(map(shape, found.contents)) == list(map(shape, wanted))
    assert state(many) == state(one)
    others = {id(each) for each in found.others}
    assert others <= {id(each) for each in found.contents}
    for content in found.contents:
        assert id(content) in others or (isinstance(content, Event) and content.kind == DATA)


def test_rows_before_error_are_read() -> None:
    def rows() -> Iterator[Row]:
        for number in range(1, 6):
            yield Row(number, {})
        raise KeyError("here")

    found: list[list[int]] = []
    with pytest.raises(KeyError, match="here"):
        found.extend([row.number for row in piece] for piece in split_rows(rows(), 3))
    assert found == [[1, 2, 3], [4, 5]]
    assert [len(piece) for piece in split_rows(iter([Row(1, {})] * 6), 3)] == [3, 3]


# -- Ordering --------------------------------------------------------------------------------------

FILES: Final = {
    "plain": "streams: {default: {clock: {unsynced: trust}}}",
    "estimated": "streams: {default: {clock: {sync: udp}, reorder: {late: side}}}",
    "by time": "streams: {default: {reorder: {rule: time}}, timed: {reorder: {rule: time}}}",
    "several": (
        "streams: {default: {reorder: {without_seq: by_time}}, timed: {reorder: {rule: time}}}"
    ),
    "in ms": "streams: {default: {headers: {ts_unit: ms}}}",
    "by fields": (
        "streams: {timed: {input: other},"
        " default: {fields: {source: payload.source, seq: payload.seq, ts: payload.ts}}}"
    ),
}


def records_or_error(call: Callable[[], list[Any]]) -> list[str]:
    """Return the records of a call, or its exception, which ends the run."""
    try:
        return list(map(repr, call()))
    except (TypeError, UnicodeError) as wrong:
        return [f"raised {wrong!r}"]


def state_of(order: Ordering) -> tuple[object, ...]:
    """Return all that an Ordering's methods report about its state."""
    safe = [order.safe_offset(partition) for partition in range(3)]
    try:
        # marshal counts references, so equal values can be written as different bytes.
        kept = repr(marshal.loads(order.snapshot().partition(b"\n")[2]))
    except ValueError as wrong:
        kept = str(wrong)
    return safe, order.balance(), order.now_ns, repr(order.held()), kept


@pytest.mark.parametrize("name", FILES)
def test_law_dicts_match_mappings(name: str) -> None:
    """Inputs that are no dicts are read one by one, which is the definition."""
    topology = parse(FILES[name])
    for seed in SEEDS:
        rng = Random(f"{seed} {name}")
        names = rng.sample(NAMES, rng.choice((len(NAMES), 7)))
        ticks = rng.random() < 0.5
        alone, dicts, by_name, rows = (Ordering(topology) for _ in range(4))
        now_ns = BEGIN_NS
        for piece in cut(rng, list(lines(f"{seed} {name}"))):
            where: Any = {"partition": rng.randrange(3)}
            if rng.random() < 0.4:
                where["offset"] = rng.randrange(2 * LINES)
            wanted = records_or_error(partial(alone.feed, *map(MappingProxyType, piece), **where))
            found = records_or_error(partial(dicts.feed, *piece, **where))
            assert found == wanted, seed
            given = [[line.get(each) for each in names] for line in piece]
            named = [MappingProxyType(dict(zip(names, row, strict=True))) for row in given]
            found_too = records_or_error(partial(rows.feed_rows, names, given, **where))
            assert found_too == records_or_error(partial(by_name.feed, *named, **where)), seed
            if any(each.startswith("raised") for each in [*found, *found_too]):
                break
            if ticks and rng.random() < 0.5:
                now_ns += rng.choice((MS, 900 * MS))
                for order in (alone, dicts, by_name, rows):
                    order.tick(now_ns)
            assert state_of(dicts) == state_of(alone), seed
            assert state_of(rows) == state_of(by_name), seed
        else:
            for one, other in ((alone, dicts), (by_name, rows)):
                assert list(map(repr, one.close())) == list(map(repr, other.close()))
