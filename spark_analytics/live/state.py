"""Save the state of a group of streams between two batches, as bytes.

The state contains the value of `Replay.save`, the partitions (`Partitions.save`), the waiting
lines, and the next position of each stream and table. A batch changes little of it, so each batch
adds an *entry* with the changes. These are keys of the operators' state, events that are newly or
no longer buffered, new clock samples and declared offsets. An entry contains the small parts of the
state completely. `fold` applies entries to a snapshot.

A new snapshot replaces the entries when there are `MOST_ENTRIES` of them, or when they are larger
than both the snapshot and `SMALL_BYTES`. A restored group therefore reads at most about twice the
state, and a batch writes in proportion to its changes.

The first line of a snapshot or an entry names its format and the Python version
(`topology.records.marked`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from spark_analytics.backfill.kinds import Positions
from spark_analytics.live.partitions import PartitionName, Partitions, Waiting, restore
from topology.base.operator import Changes, State
from topology.base.sample import Declared, Sample
from topology.records.marked import Form
from topology.records.packed import Packed, pack_as_read, unpack_as_read
from topology.stage.replay import Replay, SavedReplay
from topology.stage.replay_state import REPLAY_NUMBER, pack_held, unpack_held

FORM: Final = Form(
    "inorder live state",
    REPLAY_NUMBER,
    anew="remove the checkpoint and the tables to start again",
    mended="restore the checkpoint as it was written, or remove it and the tables to start again",
)

MOST_ENTRIES: Final = 64
SMALL_BYTES: Final = 65_536

HeldId = tuple[int, int]
"""The key of a buffered event: its line number, and the operators that buffer it."""

Held = dict[HeldId, Packed]


@dataclass
class Common:
    """The part of the state that every entry contains as a whole."""

    partitions: Partitions
    waiting: list[Waiting] = field(default_factory=list)
    positions: Positions = field(default_factory=dict)

    def plain(self) -> tuple[Any, ...]:
        waiting = [(line.arrival_ns, *line.name, line.place, line.packed) for line in self.waiting]
        positions = [(stream, table, at) for (stream, table), at in self.positions.items()]
        return self.partitions.save(), waiting, positions


@dataclass
class SavedGroup:
    """The saved state of a group; `now_ns` is None if the group had received nothing."""

    now_ns: int | None
    state: State
    held: Held
    words: list[Packed]
    common: Common

    def save(self) -> SavedReplay | None:
        """Return the value for `Replay.restore`."""
        if self.now_ns is None:
            return None
        events = dict(unpack_held(each) for _, each in sorted(self.held.items(), key=_line))
        received: list[Any] = [unpack_as_read(word) for word in self.words]
        return SavedReplay(self.now_ns, self.state, events, received)


def snapshot(replay: Replay, common: Common) -> tuple[bytes, Held]:
    """Return the whole state, and the buffered events; the next `entry` has the later changes."""
    saved = replay.save()
    if saved is None:
        return FORM.pack((None, {}, [], [], common.plain())), {}
    held = buffered_by_id(replay)
    words = [pack_as_read(word) for word in saved.words]
    replay.changes()
    values = (saved.now_ns, saved.state, list(held.items()), words, common.plain())
    return FORM.pack(values), held


def changes_of(
    replay: Replay, before: Held, received: Iterable[Sample | Declared], common: Common
) -> tuple[bytes, Held]:
    """Return the changes since the last save, and the events buffered now (`before`: then)."""
    held = buffered_by_id(replay)
    changed = [(each, packed) for each, packed in held.items() if before.get(each) != packed]
    released = [each for each in before if each not in held]
    words = [pack_as_read(word) for word in received]
    changes: Changes = {} if replay.now_ns is None else replay.changes()
    return FORM.pack((replay.now_ns, changes, changed, released, words, common.plain())), held


def buffered_by_id(replay: Replay) -> Held:
    copies = replay.copy_held().items()
    return {(event.offset, places): pack_held(event, places) for event, places in copies}


def fold(first: bytes, entries: Sequence[bytes]) -> SavedGroup:
    """Return the state from a snapshot and the entries after it.

    Raises:
        StateUnreadable: The bytes are not a state, are damaged, or are of another version.
    """
    return FORM.read(first, lambda values: _fold(values, entries))


def _fold(first: Any, entries: Sequence[bytes]) -> SavedGroup:
    now_ns, state, pairs, words, common = first
    held: Held = dict(pairs)
    for each in entries:
        now_ns, changes, changed, released, received, common = FORM.read(each, tuple)
        for key, value in changes.items():
            if value is None:
                state.pop(key, None)
            else:
                state[key] = value
        for name in released:
            del held[name]
        held.update(changed)
        words += received
    return SavedGroup(now_ns, state, held, words, _common(common))


def _common(plain: tuple[Any, ...]) -> Common:
    partitions, waiting, positions = plain
    lines = [
        Waiting(arrival_ns, PartitionName(rank, topic, partition), place, packed)
        for arrival_ns, rank, topic, partition, place, packed in waiting
    ]
    return Common(
        restore(partitions), lines, {(stream, table): at for stream, table, at in positions}
    )


def is_due(entries: int, entries_bytes: int, snapshot_bytes: int) -> bool:
    """Return whether a snapshot should replace the entries."""
    return entries >= MOST_ENTRIES or entries_bytes > max(snapshot_bytes, SMALL_BYTES)


def _line(held: tuple[HeldId, Packed]) -> int:
    return held[0][0]
