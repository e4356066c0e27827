"""Laws: hostile input from one source affects that source alone.

The whole topology runs in the process, with five honest sources beside a hostile one (SECURITY.md).
The others are exactly as they would be without it: the same events, order and corrected timestamps,
none of them late. Their wait is within the topology's limits. A pattern runs too, and does not
become more expensive (`tests/topology/queries/pattern/run/test_reach.py` counts that).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from inorder.engine import parse, replay
from inorder.records import DeadRecord, DuplicateRecord, LateRecord, OrderedEvent, RawEvent
from topology.base.payload import UNREADABLE, read_payload

MS = 1_000_000
S = 1_000 * MS
BEGIN_NS = 1_700_000_000 * S
ROUNDS = 80
HONEST = [f"honest-{n}" for n in range(5)]
MAX_SOURCES = 50
LONGEST_WAIT_NS = 800 * MS
"""`max_wait` of the merge, after `idle_after` of a new source."""


FILE = f"""
streams:
  default:
    reorder: {{rule: fixed, max_wait: 200ms, start: zero, max_sources: {MAX_SOURCES}}}
    clock: {{unsynced: %s}}
    merge: {{max_wait: 300ms, idle_after: 500ms}}
queries:
  mean: {{window: tumbling 1s, key: payload.k, aggregate: {{m: avg(payload.v), n: count()}}}}
  pair: {{pattern: "PATTERN SEQ(A a, B b) WHERE a.v < b.v WITHIN 100 ms"}}
"""

EDGES = [0, 1, 2**31, 2**53, 2**62, 2**63 - 1, -1, -(2**63), BEGIN_NS, -BEGIN_NS]
Attack = Callable[[random.Random, int, int], Iterator[RawEvent]]


def sent(
    source: str,
    seq: int,
    ts_ns: int,
    now_ns: int,
    type_: str = "",
    payload: Any = None,
    *,
    epoch: int = 0,
    kind: str = "",
) -> RawEvent:
    return RawEvent(
        source=source,
        seq=seq,
        ts_ns=ts_ns,
        arrival_ns=now_ns,
        type=type_,
        payload=payload,
        epoch=epoch,
        kind=kind,
    )


def numbers(dice: random.Random, turn: int, now_ns: int) -> Iterator[RawEvent]:
    """Yield jumps to any number, forwards and backwards, and duplicates."""
    seq = dice.choice((turn, turn, dice.randrange(2**63), 2**63 - 1, dice.randrange(turn + 1)))
    yield sent("bad", seq, now_ns, now_ns, "A")


def epochs(dice: random.Random, turn: int, now_ns: int) -> Iterator[RawEvent]:
    """Yield a new epoch with each event, and epochs that ended long ago."""
    epoch = dice.choice((turn, dice.randrange(2**63), 2**63 - 1, 0))
    yield sent("bad", dice.randrange(3), now_ns, now_ns, "A", epoch=epoch)


def stamps(dice: random.Random, turn: int, now_ns: int) -> Iterator[RawEvent]:
    """Yield events with arbitrary timestamps."""
    ts_ns = dice.choice((dice.choice(EDGES), now_ns + dice.randrange(-400 * S, 400 * S)))
    yield sent("bad", turn, ts_ns, now_ns, "A")


def words(dice: random.Random, turn: int, now_ns: int) -> Iterator[RawEvent]:
    """Yield heartbeats and end-of-stream markers at odd times."""
    kind = dice.choice(("heartbeat", "bye", ""))
    yield sent("bad", turn, dice.choice((now_ns, now_ns + 300 * S)), now_ns, kind=kind)


def names(dice: random.Random, turn: int, now_ns: int) -> Iterator[RawEvent]:
    """Yield more sources than the stage keeps, each with one or two events."""
    for number in range(10):
        yield sent(f"bad-{turn}-{number}", dice.randrange(2), now_ns, now_ns, "A")


def holes(dice: random.Random, turn: int, now_ns: int) -> Iterator[RawEvent]:
    """Yield every other number, so that there is always a gap."""
    for step in range(5):
        yield sent("bad", 10 * turn + 2 * step, now_ns, now_ns, "B", {"v": 1, "k": "bad"})


def payloads(dice: random.Random, turn: int, now_ns: int) -> Iterator[RawEvent]:
    """Yield unexpected payloads: deep, huge, or of other types, each with its own key."""
    deep: object = turn
    for _ in range(dice.choice((1, 400))):
        deep = [deep]
    values: tuple[Any, ...] = (
        deep,
        10**400,
        -(2**63),
        "x" * 10_000,
        {},
        [],
        True,
        None,
        turn,
        1e308,
    )
    payload = dice.choice((values[turn % 10], {"v": dice.choice(values), "k": f"bad-{turn}"}))
    yield sent("bad", turn, now_ns, now_ns, dice.choice("AB"), payload)


ATTACKS: list[Attack] = [numbers, epochs, stamps, words, names, holes, payloads]


def stream(attack: Attack | None) -> Iterator[RawEvent]:
    dice = random.Random(7)
    harm = random.Random(11)
    for turn in range(ROUNDS):
        for place, source in enumerate(HONEST):
            now_ns = BEGIN_NS + turn * 10 * MS + place * MS
            payload = {"v": dice.randrange(100), "k": "good"}
            yield sent(source, turn, now_ns, now_ns, dice.choice("AB"), payload)
        if attack is not None:
            yield from attack(harm, turn, BEGIN_NS + turn * 10 * MS + 8 * MS)


ENDS = (OrderedEvent, LateRecord, DuplicateRecord, DeadRecord)


@cache
def ordered(attack: Attack | None, unsynced: str) -> list[OrderedEvent]:
    """Return the ordered events of the honest sources.

    Each input has exactly one outcome.
    """
    inputs = list(stream(attack))
    records = list(replay(parse(FILE % unsynced), inputs))
    if attack is not words:  # Heartbeats are no events, and are counted separately.
        assert sum(isinstance(record, ENDS) for record in records) == len(inputs)
    return [r for r in records if isinstance(r, OrderedEvent) and r.source in HONEST]


def rendered(events: list[OrderedEvent]) -> list[tuple[str, int, int, str]]:
    return [(e.source, e.seq, e.ref_time_ns, e.type) for e in events]


@pytest.mark.parametrize("unsynced", ["trust", "estimate"])
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_law_attack_hurts_one_source(attack: Attack, unsynced: str) -> None:
    expected, found = ordered(None, unsynced), ordered(attack, unsynced)
    assert len(expected) == ROUNDS * len(HONEST)
    assert not any(event.late for event in found)
    differ = [
        pair for pair in zip(rendered(found), rendered(expected), strict=False) if len({*pair}) > 1
    ]
    assert (len(found), differ[:3]) == (len(expected), [])
    assert max(e.at_ns - e.ts_ns for e in found) <= LONGEST_WAIT_NS


@pytest.mark.parametrize("value", [b"[" * 100_000, b'{"a":' * 100_000, b"[" * 3_000 + b"]" * 3_000])
def test_deep_payload_is_unreadable(value: bytes) -> None:
    assert read_payload(value) is UNREADABLE
