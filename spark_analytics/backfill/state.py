"""Where a group stood when its lines were over, as bytes: for the run that goes on from there.

It holds what `Replay.saved` gives, the lines of the last instant, which are taken by the next run
(who knows what else arrives in that instant), and the next position of each stream and table.
A first line says what wrote it (`spark_analytics.backfill.marked`). Format 5 may hold late
events that wait in MERGE, and what budgets of queries have spent, where 4 holds none; 4 may hold
what was folded of words about clocks, where 3 holds the words. States of format 2 have no such
line; they are read all the same.

Proved by: tests/spark_analytics/backfill/test_resumed.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from spark_analytics.backfill.marked import Form
from spark_analytics.backfill.parcels import Packed, content_as_read, packed_as_read
from spark_analytics.backfill.part import Positions
from topology.flow.replay import Saved
from topology.model.event import Event
from topology.wire.line_reader import Content

FORM: Final = Form(
    "inorder state",
    5,
    anew="run the backfill anew",
    mended="give back the file as it was written, or run the backfill anew into a new folder",
    before=(3, 4),
)
UNMARKED: Final = 2
"""The format of states without a first line."""


class GroupState(NamedTuple):
    """`saved` is None where nothing had come yet; `waiting`: lines of the last instant."""

    saved: Saved | None
    waiting: Sequence[Content]
    positions: Positions


def packed(state: GroupState) -> bytes:
    saved = state.saved
    told = None
    if saved is not None:
        held = [packed_held(event) for event in saved.held]
        words = [packed_as_read(word) for word in saved.words]
        told = (saved.now_ns, saved.state, held, words)
    waiting = [packed_as_read(content) for content in state.waiting]
    positions = [(stream, table, at) for (stream, table), at in state.positions.items()]
    return FORM.packed((told, waiting, positions))


def unpacked(content: bytes) -> GroupState:
    """StateUnreadable if it is none, or a damaged one, or that of another version."""
    return FORM.read(content, _unpacked)


def _unpacked(rest: Any, number: int | None) -> GroupState:
    if number is None:
        form, *rest = rest
        if form != UNMARKED:
            raise FORM.other(form)
    told, waiting, positions = rest
    saved = None
    if told is not None:
        now_ns, state, held, words = told
        heard: list[Any] = [content_as_read(word) for word in words]
        saved = Saved(now_ns, state, [held_event(each) for each in held], heard)
    places = {(stream, table): at for stream, table, at in positions}
    return GroupState(saved, [content_as_read(each) for each in waiting], places)


def packed_held(event: Event) -> Packed:
    """An event that an operator holds, with what operators have written on it."""
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


def held_event(told: Packed) -> Event:
    """What `packed_held` has packed."""
    event = content_as_read(told[0])
    assert isinstance(event, Event)
    event.at_ns, event.ref_time_ns, event.error_ns, event.segment, event.late = told[1:6]
    event.held_by, event.lane, event.complete_ns, event.error_all_ns = told[6:]
    return event
