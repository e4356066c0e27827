"""Packs a replay's saved state into plain tuples, which `topology.wire.marked` writes as bytes."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final

from topology.flow.replay import SavedReplay
from topology.model.event import Event
from topology.wire.packed import Packed, content_as_read, packed_as_read

SET_BY_OPERATORS: Final = (
    "at_ns", "ref_time_ns", "error_ns", "segment", "late", "held_by", "lane", "complete_ns",
    "error_all_ns",
)  # fmt: skip
_set_by_operators: Final = attrgetter(*SET_BY_OPERATORS)


def packed_replay(saved: SavedReplay) -> Packed:
    held = [packed_held(event) for event in saved.held]
    words = [packed_as_read(word) for word in saved.words]
    return saved.now_ns, saved.state, held, words


def unpacked_replay(packed: Packed) -> SavedReplay:
    """Return the state that `packed_replay` has packed."""
    now_ns, state, held, packed_words = packed
    words: list[Any] = [content_as_read(word) for word in packed_words]
    return SavedReplay(now_ns, state, [held_event(each) for each in held], words)


def packed_held(event: Event) -> Packed:
    """Return a held event in packed form, with the fields that operators have set."""
    return packed_as_read(event), *_set_by_operators(event)


def held_event(packed_event: Packed) -> Event:
    """Return the event that `packed_held` has packed."""
    event = content_as_read(packed_event[0])
    assert isinstance(event, Event)
    for name, value in zip(SET_BY_OPERATORS, packed_event[1:], strict=True):
        setattr(event, name, value)
    return event
