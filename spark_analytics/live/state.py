"""Where a group of streams stands between two batches, as bytes.

It is what `Replay.saved` gives, the partitions (`Lanes.saved`), the lines that wait, and the next
position of each stream and table. Most of it is what it was a batch ago, so a batch adds an *entry*
with what has changed: keys of the operators' state, events that are held now or no longer, new
words about clocks, and the small rest as a whole. `folded` puts a snapshot and its entries
together.

A snapshot takes their place when there are `MOST_ENTRIES` of them, or when they are larger than the
snapshot and than `SMALL_BYTES`: so what is read after a start is at most twice the state, and what
is written for each batch goes with what it changed.

A first line of each says what wrote it (`spark_analytics.backfill.marked`). Those of format 1 have
no such line, those of format 2 no late event that waits in MERGE, and those of format 3 neither
what budgets of queries have spent nor batches of marks alone (`Lane.hidden`); they are read all the
same, also with entries of today behind them.

Proved by: tests/spark_analytics/live/test_live_law.py,
tests/spark_analytics/live/test_live_state.py
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from spark_analytics.backfill.marked import Form
from spark_analytics.backfill.parcels import Packed, content_as_read, packed_as_read
from spark_analytics.backfill.part import Positions
from spark_analytics.backfill.state import held_event, packed_held
from spark_analytics.live.lanes import LaneName, Lanes, Waiting, restored
from topology.clock.sample import Declared, Sample
from topology.flow.replay import Replay, Saved
from topology.model.operator import Changes, State

FORM: Final = Form(
    "inorder live state",
    4,
    anew="remove checkpoint and tables to begin anew",
    mended="give back the checkpoint as it was written, or remove it and the tables to begin anew",
    before=(2, 3),
)
UNMARKED: Final = 1
"""The format of states without a first line."""

MOST_ENTRIES: Final = 64
SMALL_BYTES: Final = 65_536

HeldId = tuple[int, int]
"""The line of an event, and the operator that holds it."""

Held = dict[HeldId, Packed]


@dataclass
class Common:
    """What every entry has as a whole."""

    lanes: Lanes
    waiting: list[Waiting] = field(default_factory=list)
    positions: Positions = field(default_factory=dict)

    def plain(self) -> tuple[Any, ...]:
        waiting = [(line.arrival_ns, *line.name, line.place, line.packed) for line in self.waiting]
        positions = [(stream, table, at) for (stream, table), at in self.positions.items()]
        return self.lanes.saved(), waiting, positions


@dataclass
class Stood:
    """Where a group stood. `now_ns` is None where nothing had been told to it."""

    now_ns: int | None
    state: State
    held: Held
    words: list[Packed]
    common: Common

    def saved(self) -> Saved | None:
        """For `Replay.restore`."""
        if self.now_ns is None:
            return None
        events = [held_event(each) for _, each in sorted(self.held.items(), key=_line)]
        heard: list[Any] = [content_as_read(word) for word in self.words]
        return Saved(self.now_ns, self.state, events, heard)


def snapshot(replay: Replay, common: Common) -> tuple[bytes, Held]:
    """All of it, and what is held. What has changed up to now is changed no longer."""
    saved = replay.saved()
    if saved is None:
        return FORM.packed((None, {}, [], [], common.plain())), {}
    held = held_by_id(replay)
    words = [packed_as_read(word) for word in saved.words]
    replay.changes()
    told = (saved.now_ns, saved.state, list(held.items()), words, common.plain())
    return FORM.packed(told), held


def entry(
    replay: Replay, before: Held, heard: Iterable[Sample | Declared], common: Common
) -> tuple[bytes, Held]:
    """What is other than it was, when `before` was held, and what is held now."""
    held = held_by_id(replay)
    come = [(each, packed) for each, packed in held.items() if before.get(each) != packed]
    gone = [each for each in before if each not in held]
    words = [packed_as_read(word) for word in heard]
    changes: Changes = {} if replay.now_ns is None else replay.changes()
    return FORM.packed((replay.now_ns, changes, come, gone, words, common.plain())), held


def held_by_id(replay: Replay) -> Held:
    return {(event.offset, event.held_by): packed_held(event) for event in replay.held_apart()}


def folded(first: bytes, entries: Sequence[bytes]) -> Stood:
    """A snapshot and what came after it. StateUnreadable if they are none, or damaged, or those of
    another version."""
    return FORM.read(first, lambda told, number: _folded(_values(told, number), entries))


def _folded(first: Any, entries: Sequence[bytes]) -> Stood:
    now_ns, state, pairs, words, common = first
    held: Held = dict(pairs)
    for each in entries:
        now_ns, changes, come, gone, heard, common = FORM.read(each, _values)
        for key, value in changes.items():
            if value is None:
                state.pop(key, None)
            else:
                state[key] = value
        for name in gone:
            del held[name]
        held.update(come)
        words += heard
    return Stood(now_ns, state, held, words, _common(common))


def _values(told: Any, number: int | None) -> Any:
    if number is not None:
        return told
    form, *rest = told
    if form != UNMARKED:
        raise FORM.other(form)
    return rest


def _common(plain: tuple[Any, ...]) -> Common:
    lanes, waiting, positions = plain
    lines = [
        Waiting(arrival_ns, LaneName(rank, topic, partition), place, packed)
        for arrival_ns, rank, topic, partition, place, packed in waiting
    ]
    return Common(restored(lanes), lines, {(stream, table): at for stream, table, at in positions})


def is_due(entries: int, entries_bytes: int, snapshot_bytes: int) -> bool:
    """Whether a snapshot is to take the place of the entries."""
    return entries >= MOST_ENTRIES or entries_bytes > max(snapshot_bytes, SMALL_BYTES)


def _line(held: tuple[HeldId, Packed]) -> int:
    return held[0][0]
