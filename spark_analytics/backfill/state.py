"""Where a group stood when its lines were over, as bytes: for the run that goes on from there.

It holds what `Replay.saved` gives, the lines of the last instant, which are taken by the next run
(who knows what else arrives in that instant), and the next position of each stream and table.
Packed by `marshal`, which is exact for plain values; a state is read by the Python that wrote it,
and by each whose marshal has the same form. A first line names the format of the state, the form
and that Python, and is looked at before anything else. States of format 2 have no such line; they
are read all the same.

Proved by: tests/spark_analytics/backfill/test_resumed.py
"""

from __future__ import annotations

import marshal
import sys
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from spark_analytics.backfill.parcels import Packed, content_as_read, packed_as_read
from spark_analytics.backfill.part import Positions
from topology.flow.replay import Saved
from topology.model.event import Event
from topology.wire.line_reader import Content

FORMAT: Final = 3
UNMARKED: Final = 2
"""The format of states without a first line."""

MARK: Final = "inorder state"
_FIRST: Final = f"{MARK} {FORMAT} in marshal {marshal.version}"
_WRITER: Final = f" of Python {sys.version_info[0]}.{sys.version_info[1]}"
MOST_TOLD: Final = 80
"""Characters of a first line that is not understood."""


class GroupState(NamedTuple):
    """`saved` is None where nothing had come yet; `waiting`: lines of the last instant."""

    saved: Saved | None
    waiting: Sequence[Content]
    positions: Positions


class StateUnreadable(ValueError):
    """It is damaged, or was written by another version; the message says what to do."""


def packed(state: GroupState) -> bytes:
    saved = state.saved
    told = None
    if saved is not None:
        held = [packed_held(event) for event in saved.held]
        words = [packed_as_read(word) for word in saved.words]
        told = (saved.now_ns, saved.state, held, words)
    waiting = [packed_as_read(content) for content in state.waiting]
    positions = [(stream, table, at) for (stream, table), at in state.positions.items()]
    return f"{_FIRST}{_WRITER}\n".encode() + marshal.dumps((told, waiting, positions))


def unpacked(content: bytes) -> GroupState:
    """StateUnreadable if it is none, or a damaged one, or that of another version."""
    is_marked = content.startswith(MARK.encode())
    if is_marked:
        line, _, content = content.partition(b"\n")
        first = line.decode(errors="replace")
        if first.partition(" of ")[0] != _FIRST:
            raise StateUnreadable(
                f"the state is of another version: it begins with `{first[:MOST_TOLD]}`, and read"
                f" here is `{_FIRST}`; go on with what wrote it, or run the backfill anew"
            )
    try:
        return _unpacked(marshal.loads(content), is_marked=is_marked)
    except StateUnreadable:
        raise
    except (EOFError, LookupError, TypeError, ValueError, AssertionError) as wrong:
        raise StateUnreadable(
            f"the state is damaged ({type(wrong).__name__}: {wrong}); give back the file as it was"
            " written, or run the backfill anew into a new folder"
        ) from None


def _unpacked(rest: Any, *, is_marked: bool) -> GroupState:
    if not is_marked:
        form, *rest = rest
        if form != UNMARKED:
            raise StateUnreadable(
                f"the state is of format {form}, this version writes {FORMAT}; run the backfill"
                " anew"
            )
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
