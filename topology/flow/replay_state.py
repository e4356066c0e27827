"""The saved state of a replay as plain tuples, which `topology.wire.marked` writes as bytes."""

from __future__ import annotations

from typing import Any

from topology.flow.replay import SavedReplay
from topology.model.event import Event
from topology.wire.packed import Packed, content_as_read, packed_as_read


def packed_replay(saved: SavedReplay) -> Packed:
    held = [packed_held(event) for event in saved.held]
    words = [packed_as_read(word) for word in saved.words]
    return saved.now_ns, saved.state, held, words


def unpacked_replay(packed: Packed) -> SavedReplay:
    """The state that `packed_replay` has packed."""
    now_ns, state, held, packed_words = packed
    words: list[Any] = [content_as_read(word) for word in packed_words]
    return SavedReplay(now_ns, state, [held_event(each) for each in held], words)


def packed_held(event: Event) -> Packed:
    """A held event, packed, with the fields that operators have set."""
    return (
        packed_as_read(event),
        event.at_ns,
        event.ref_time_ns,
        event.error_ns,
        event.segment,
        event.late,
        event.held_by,
        event.lane,
        event.complete_ns,
        event.error_all_ns,
    )


def held_event(packed_event: Packed) -> Event:
    """The event that `packed_held` has packed."""
    event = content_as_read(packed_event[0])
    assert isinstance(event, Event)
    event.at_ns, event.ref_time_ns, event.error_ns, event.segment, event.late = packed_event[1:6]
    event.held_by, event.lane, event.complete_ns, event.error_all_ns = packed_event[6:]
    return event
