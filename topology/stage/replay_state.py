"""Packs a replay's saved state into plain tuples, which `records.marked` writes as bytes."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final

from topology.base.event import Event
from topology.records.packed import Packed, pack_as_read, unpack_as_read
from topology.stage.registry import STATE_NUMBER
from topology.stage.replay import SavedReplay

REPLAY_NUMBER: Final = STATE_NUMBER + 2
"""The version of a saved replay, with the state of its operators."""

SET_BY_OPERATORS: Final = (
    "at_ns", "ref_time_ns", "error_ns", "segment", "late", "lane", "complete_ns", "error_all_ns",
)  # fmt: skip
_set_by_operators: Final = attrgetter(*SET_BY_OPERATORS)


def pack_replay(saved: SavedReplay) -> Packed:
    held = [pack_held(event, places) for event, places in saved.held.items()]
    words = [pack_as_read(word) for word in saved.words]
    return saved.now_ns, saved.state, held, words


def unpack_replay(packed: Packed) -> SavedReplay:
    """Return the state that `pack_replay` has packed."""
    now_ns, state, held, packed_words = packed
    words: list[Any] = [unpack_as_read(word) for word in packed_words]
    return SavedReplay(now_ns, state, dict(map(unpack_held, held)), words)


def pack_held(event: Event, places: int) -> Packed:
    """Return a held event and its places in packed form, with the fields that operators set."""
    return pack_as_read(event), places, *_set_by_operators(event)


def unpack_held(packed_event: Packed) -> tuple[Event, int]:
    """Return the event that `pack_held` has packed, and its places."""
    as_read, places, *values = packed_event
    event = unpack_as_read(as_read)
    assert isinstance(event, Event)
    for name, value in zip(SET_BY_OPERATORS, values, strict=True):
        setattr(event, name, value)
    return event, places
