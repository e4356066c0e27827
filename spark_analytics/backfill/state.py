"""The state of a group after its last line, as bytes, for the run that goes on from there.

The state holds the value of `Replay.saved`, the lines of the last instant, and the next position of
each stream and table. The next run takes the lines of the last instant, because more lines may
arrive in it. The first line names the writer (`spark_analytics.backfill.marked`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from spark_analytics.backfill.marked import Form
from spark_analytics.backfill.parcels import Packed, content_as_read, packed_as_read
from spark_analytics.backfill.part import Positions
from topology.flow.replay import SavedReplay
from topology.model.event import Event
from topology.wire.line_reader import Content

FORM: Final = Form(
    "inorder state",
    1,
    anew="run the backfill anew",
    mended="give back the file as it was written, or run the backfill anew into a new folder",
)


class GroupState(NamedTuple):
    """`saved` is None if no line was read yet; `waiting`: lines of the last instant."""

    saved: SavedReplay | None
    waiting: Sequence[Content]
    positions: Positions


def packed(state: GroupState) -> bytes:
    saved = state.saved
    replay_state = None
    if saved is not None:
        held = [packed_held(event) for event in saved.held]
        words = [packed_as_read(word) for word in saved.words]
        replay_state = (saved.now_ns, saved.state, held, words)
    waiting = [packed_as_read(content) for content in state.waiting]
    positions = [(stream, table, at) for (stream, table), at in state.positions.items()]
    return FORM.packed((replay_state, waiting, positions))


def unpacked(content: bytes) -> GroupState:
    """The state. StateUnreadable if it is not a state, or damaged, or of another version."""
    return FORM.read(content, _unpacked)


def _unpacked(rest: Any) -> GroupState:
    replay_state, waiting, positions = rest
    saved = None
    if replay_state is not None:
        now_ns, state, held, words = replay_state
        words_received: list[Any] = [content_as_read(word) for word in words]
        saved = SavedReplay(now_ns, state, [held_event(each) for each in held], words_received)
    places = {(stream, table): at for stream, table, at in positions}
    return GroupState(saved, [content_as_read(each) for each in waiting], places)


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
