"""Seeded runs of a unit, with late events, duplicates, frontiers, corrections and restarts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.topology.queries.detector.oracle import ENDED, Emitted, truth
from topology.answer.query.numbers import text_of
from topology.base.result import EMIT, RETRACT, UPDATE, ResultIds, frame
from topology.queries.detector.detector import behaviour_of
from topology.queries.detector.item import LAST, Key, LogEntry, Seen, behind, key_before_all_at
from topology.queries.detector.key_log import STORED
from topology.queries.detector.unit import EXPIRED, Record, Unit

BEGUN = frame(b"law")
REMOVE = "remove"
PUT = "put"


@dataclass
class Call:
    """A call at one instant: its edits, how far to read (after the clock), and what is final."""

    edits: list[tuple[str, str, Seen]]
    clock_ns: int
    final_ns: int


@dataclass
class World:
    seed: int
    calls: list[Call]
    end_ns: int


def world(seed: int, *, corrects: bool = True) -> World:
    dice = Random(seed)
    keys = ["a", "b"][: dice.choice((1, 2, 2))]
    size = dice.randrange(3, 28)
    events = []
    for number in range(size):
        time_ns = dice.randrange(0, 40)
        late_ns = dice.choice((0, 0, 0, dice.randrange(0, 12), dice.randrange(0, 30)))
        source = dice.choice("st")
        seen = Seen(dice.choice("ABC"), time_ns, dice.randrange(0, 6), source, 0, number)
        events.append((time_ns + late_ns, dice.choice(keys), seen))
    events.sort(key=lambda each: (each[0], each[2].seq))
    calls: list[Call] = []
    clock_ns = -1
    at = 0
    while at < len(events):
        step = dice.choice((1, 1, 2, 5))
        batch = events[at : at + step]
        at += step
        clock_ns = max(clock_ns, *(seen.time_ns for _, _, seen in batch))
        ahead = [seen.time_ns for _, _, seen in events[at:]]
        final_ns = min([*ahead, clock_ns + 1])
        if dice.random() < 0.1:
            final_ns = clock_ns - dice.randrange(0, 6)  # too early, so some events are late
        edits = [(PUT, key, seen) for _, key, seen in batch]
        for _, key, seen in batch:
            if dice.random() < 0.1:
                edits.append((PUT, key, seen))
        for _, key, seen in events[: at if corrects else 0]:
            if dice.random() < 0.05:
                edits.append((REMOVE, key, seen))
            elif dice.random() < 0.05:
                changed = Seen(
                    dice.choice("ABC"), seen.time_ns, dice.randrange(0, 6), seen.source, 0, seen.seq
                )
                edits.append((PUT, key, changed))
        calls.append(Call(edits, clock_ns, final_ns))
    return World(seed, calls, clock_ns)


@dataclass
class Run:
    """All output of a run, and its current results."""

    records: list[list[Record]] = field(default_factory=list)
    visible: dict[str, tuple[Emitted, int, bool]] = field(default_factory=dict)
    accepted: dict[str, dict[Key, Seen]] = field(default_factory=dict)
    late: list[Key] = field(default_factory=list)
    counts: Any = None

    @property
    def standing(self) -> Emitted:
        told: Emitted = {}
        for each, _, live in self.visible.values():
            if live:
                told |= each
        return told

    @property
    def emitted(self) -> list[list[tuple[Any, ...]]]:
        """Return all output as values."""
        return [
            [
                (each.op, each.revision, each.final, each.key, each.output.cause, as_told(each))
                for each in records
            ]
            for records in self.records
        ]

    @property
    def finals(self) -> Emitted:
        told: Emitted = {}
        for records in self.records:
            for record in records:
                if record.final:
                    told |= as_told(record)
        return told


def as_told(record: Record) -> Emitted:
    output = record.output
    cause = output.cause
    if output.is_own:
        time_ns = ENDED if cause == LAST else cause[0]
        known: tuple[Any, ...] = (record.key, time_ns, cause[1], cause[2], cause[4], output.number)
    else:
        known = (record.key, output.id)
    return {known: output.values}


Goal = Callable[[Random, int, int], int]
"""A function that chooses how far to read, between the frontier and the clock."""


def some(dice: Random, final_ns: int, clock_ns: int) -> int:
    return dice.randint(final_ns - 1, max(clock_ns, final_ns - 1))


def nothing_early(dice: Random, final_ns: int, clock_ns: int) -> int:
    return final_ns - 1


def everything(dice: Random, final_ns: int, clock_ns: int) -> int:
    return max(clock_ns, final_ns - 1)


def run(
    detector: Any,
    of: World,
    goal: Goal = some,
    *,
    restarts: float = 0.0,
    keys: str = "ab",
    **settings: Any,
) -> Run:
    """Run a unit through the calls of a world, and check the laws of each call."""
    dice = Random(f"{of.seed}/{goal.__name__}")
    fate = Random(of.seed)
    unit = Unit(behaviour_of(detector), BEGUN, **settings)
    ids = _ids_of(unit)
    found = Run()
    for call in of.calls:
        confirmed = unit.confirmed
        for what, key, seen in call.edits:
            if key in keys:
                _edit(unit, found, what, key, seen)
        until_ns = goal(dice, call.final_ns, call.clock_ns)
        final = key_before_all_at(call.final_ns)
        records = unit.advance(final if until_ns < call.final_ns else behind(until_ns), final)
        reached = unit.reached
        was = found.standing
        _apply(found, records)
        assert all(each.output.cause >= confirmed for each in records if each.output.is_own)
        _check_truth(found, of.seed, _truth(detector, found, reached), ids)
        _check_diff(records, was, found.standing)
        if fate.random() < restarts:
            unit = _restarted(unit, detector, settings)
    records = unit.end(of.end_ns)
    _apply(found, records)
    seen_by = {key: list(events.values()) for key, events in found.accepted.items()}
    reached_ns = max(of.end_ns, 0, *(call.final_ns for call in of.calls))
    _check_truth(found, of.seed, truth(detector, seen_by, reached_ns, ended=True), ids)
    assert not unit.held
    found.counts = unit.counts
    return found


def _edit(unit: Unit, found: Run, what: str, key: str, seen: Seen) -> None:
    if what == REMOVE:
        if unit.remove(key, seen.key):
            del found.accepted[key][seen.key]
        return
    word = unit.put(key, LogEntry(seen), replaces=True)
    if word == EXPIRED:
        found.late.append(seen.key)
    elif word == STORED:
        found.accepted.setdefault(key, {})[seen.key] = seen


def _apply(found: Run, records: list[Record]) -> None:
    found.records.append(records)
    assert len({(record.key, record.output.id) for record in records}) == len(records)
    retracts = [record.op == RETRACT for record in records]
    assert retracts == sorted(retracts, reverse=True)
    for record in records:
        id_ = record.output.id
        _, revision, is_live = found.visible.get(id_, ({}, -1, False))
        assert record.revision == revision + 1
        assert is_live == (record.op in (UPDATE, RETRACT))
        found.visible[id_] = (as_told(record), record.revision, record.op != RETRACT)


def _check_diff(records: list[Record], was: Emitted, now: Emitted) -> None:
    changed = {known for known in was.keys() | now.keys() if was.get(known) != now.get(known)}
    told = {known for record in records for known in as_told(record)}
    assert changed <= told
    for record in records:
        if record.op == EMIT:
            assert not as_told(record).keys() & was.keys()


def _truth(detector: Any, found: Run, reached: Key) -> Emitted:
    """Return the oracle's results for what was read.

    `behind(t)` has events up to t and timers before t; `before(t)` has only those before t.
    """
    time_ns, kind = reached[0], reached[1]
    seen_by = {
        key: [each for each in events.values() if each.time_ns <= time_ns - (kind == 0)]
        for key, events in found.accepted.items()
    }
    return truth(detector, seen_by, time_ns)


def _check_truth(found: Run, seed: int, told: Emitted, ids: Callable[..., str]) -> None:
    expected = {
        known if len(known) > 2 else (known[0], ids(*known)): values
        for known, values in told.items()
    }
    assert found.standing == expected, (seed, found.standing, expected)


def _ids_of(unit: Unit) -> Callable[..., str]:
    return lambda key, id_: ResultIds(unit._begun + frame(key.encode())).of(
        frame(text_of(id_).encode())
    )


def _restarted(unit: Unit, detector: Any, settings: dict[str, Any]) -> Unit:
    other = Unit(behaviour_of(detector), BEGUN, **settings)
    other.reached, other.confirmed = unit.reached, unit.confirmed
    assert not any(other.table.read(unit.table.snapshot()))
    for key, log in unit.logs.items():
        for entry in log.entries:
            other.put(key, LogEntry(entry.seen))
    other.resume()
    return other
