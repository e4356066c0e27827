"""Law: the notes in the pages match the events that the operators buffer, after every step.

A stage runs over seeded worlds with every kind of fault, including dead letters and corrupt
numbers. Changes to its pages are applied to a dict, as to a changelog. After each step the notes in
the dict must match the operators' own buffers.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec.structs import astuple

from agents.state.changelog import encode
from agents.state.held import HeldPages
from agents.state.notes import Note, Spilled
from tests.kit.places import places_of
from tests.kit.runs import cut
from tests.simulation.world import World
from topology.base.event import DATA, DEAD, Event
from topology.config import Topology, parse
from topology.stage.lanes import lanes_of, number_of
from topology.stage.ledger import Ledger
from topology.stage.stage import Stage

TOPOLOGY = parse("streams: {default: {reorder: {max_jump: 1000}}}")
SECOND_NS = 1_000_000_000
FOREVER_NS = 1 << 62


def troubled(seed: int) -> list[Event]:
    """Return a world's events over many pages, with corrupt numbers and dead letters."""
    rng = Random(seed)
    events = list(World(seed).events())
    for number, event in enumerate(events):
        event.offset = number * 37
        event.stream = "default"
        event.record = SimpleNamespace(
            offset=event.offset,
            timestamp=event.arrival_ns // 1_000_000,
            timestamp_type=1,
            key=b"",
            value=b"",
            headers=[("h", None)],
        )
        dice = rng.random()
        if dice < 0.01:
            event.seq += 10_000_000
        elif dice < 0.03:
            event.kind = DEAD
    return events


def batches(events: list[Event], rng: Random) -> Iterator[list[Event]]:
    return cut(events, rng, (1, 3, 40))


class Book:
    """A stage with its pages (agents.restore.partition_state), and their changelog."""

    def __init__(
        self,
        operators: tuple[str, ...],
        spill_after_ns: int,
        topology: Topology = TOPOLOGY,
        lanes: int = 0,
    ) -> None:
        self.stage = Stage(topology, operators, lanes_of("raw", lanes))
        self.pages = HeldPages(spill_after_ns, self.stage.ledger, self.stage.waiting_places)
        self.log: dict[str, Any] = {}

    def take(self, batch: list[Event]) -> None:
        now_ns = batch[-1].at_ns
        self.stage.on_batch(batch, now_ns)
        self.pages.update(batch)
        for key, value in self.pages.changes(now_ns):
            if value is None:
                del self.log[key]
            else:
                self.log[key] = value

    def assert_noted(self) -> int:
        """Assert that the pages note what the operators buffer; return the number of events."""
        held = {event.offset: at for event, at in places_of(self.stage).items()}
        assert {offset: note.places for offset, note in self.noted().items()} == held
        assert len(self.pages) == sum(bool(at & self.stage.waiting_places) for at in held.values())
        return len(held)

    def noted(self) -> dict[int, Note]:
        """Return the notes as a restore reads them, through the codec."""
        pages = [
            msgspec.msgpack.decode(encode(page), type=list[Note])
            for key, page in self.log.items()
            if key.startswith("page/")
        ]
        return {note.offset: note for page in pages for note in page}


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("operators", [("reorder", "merge"), ("reorder",)])
@pytest.mark.parametrize("seed", range(12))
def test_law_pages_note_all_events(operators: tuple[str, ...], seed: int) -> None:
    book = Book(operators, FOREVER_NS)
    for batch in batches(troubled(seed), Random(seed)):
        book.take(batch)
        book.assert_noted()


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("answer", ["early", "speculate"])
@pytest.mark.parametrize("seed", range(2))
def test_law_pages_note_joined_events(answer: str, lanes: int, seed: int) -> None:
    """Speculative joins, which read several partitions before MERGE, are included."""
    topology = parse(
        "streams: {a: {}, b: {}}\nqueries:\n  q: {join: interval 40ms, sides: {x: {stream: a},"
        f" y: {{stream: b}}}}, answer: {answer}}}\n"
    )
    operators = ("join",) if answer == "early" else ("merge", "join")
    book = Book(operators, FOREVER_NS, topology, lanes)
    most = 0
    for number, batch in enumerate(batches(troubled(seed), Random(seed))):
        for event in batch:
            event.stream, event.kind, event.lane = "ab"[number % 2], DATA, event.offset % lanes
        book.take(batch)
        most = max(most, book.assert_noted())
    assert most > 5


@pytest.mark.parametrize("seed", range(4))
def test_old_event_is_written_once(seed: int) -> None:
    book = Book(("reorder", "merge"), spill_after_ns=SECOND_NS // 20)
    written: set[str] = set()
    for batch in batches(troubled(seed), Random(seed)):
        before = set(book.log)
        book.take(batch)
        new = {key for key in set(book.log) - before if key.startswith("record/")}
        assert not new & written
        written |= new
        held = {event.offset for event in book.stage.iter_held()}
        for key, value in book.log.items():
            if key.startswith("record/"):
                whole = msgspec.msgpack.decode(encode(value), type=Spilled)
                assert whole.offset in held
                assert astuple(whole) == value
    assert written


def test_note_of_unreadable_event_is_dropped() -> None:
    book = Book(("reorder", "merge"), FOREVER_NS)
    for batch in batches(troubled(5), Random(5)):
        book.take(batch)
    notes, held = book.noted(), sorted(book.stage.iter_held(), key=lambda event: event.offset)
    lost = held.pop(0)
    ledger = Ledger()
    ledger.add({event: notes[event.offset].places for event in held})
    again = HeldPages(FOREVER_NS, ledger, book.stage.waiting_places)
    again.restore(held, notes, [lost.offset])
    changes = dict(again.changes(0))
    assert changes.pop(f"record/{lost.offset}") is None
    (page,) = changes
    assert page in book.log
    assert lost.offset not in [note[0] for note in changes[page] or ()]
    assert len(again) == len(notes) - 1
    assert dict(again.changes(0)) == {}


def test_history_counts_for_its_lane() -> None:
    """Records of a history keep their settings as long as one of them is buffered."""
    ledger = Ledger()
    pages = HeldPages(FOREVER_NS, ledger, 1)
    event = Event("a", "s", 0, 1, 5, 6, number_of(1, -3))
    ledger.add({event: 1})
    pages.update([event])
    below = [(lane, number_of(lane, 7)) for lane in (0, 1, 2)]
    assert [pages.has_any(*each) for each in below] == [False, True, False]
    ledger.kept_at(1).clear()
    assert not pages.has_any(1, number_of(1, 7))


def test_waits_count_by_stream() -> None:
    first, second, other = (Event("a", "s", 0, seq, 0, 3 + seq, seq) for seq in range(3))
    dead = Event("a", "s", 0, 3, 0, 1, 3, kind=DEAD)
    ledger = Ledger()
    pages = HeldPages(FOREVER_NS, ledger, 1)
    ledger.add({first: 1, second: 1, other: 2, dead: 1})
    pages.update([first, second, other, dead])
    assert pages.count_by_stream(["a", "b"], 10) == {"a": (2, 7), "b": (0, 0)}
    assert pages.count_by_stream(["a"], 2) == {"a": (2, 0)}


def test_young_page_delays_no_lane() -> None:
    """Pages of several lanes are not ordered by arrival."""
    ledger = Ledger()
    pages = HeldPages(30 * SECOND_NS, ledger, 1)
    record = SimpleNamespace(
        timestamp=1, timestamp_type=1, key=b"", value=b"", headers=[], offset=7
    )
    for lane, at_s in ((0, 100), (1, 1)):
        event = Event("default", "s", 0, 1, 0, at_s * SECOND_NS, number_of(lane, 7), record)
        event.lane = lane
        ledger.add({event: 1})
        pages.update([event])
    changed = dict(pages.changes(110 * SECOND_NS))
    assert [key for key in changed if key.startswith("record/")] == [f"record/{number_of(1, 7)}"]
