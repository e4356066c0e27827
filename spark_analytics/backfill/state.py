"""Pack the state of a group after its last line as bytes, for the run that continues from there.

The state has the value of `Replay.save`, the lines with the latest arrival (the last instant), and
the next position of each stream and table. The lines of the last instant are not processed yet,
because the next run may read more lines with the same arrival. The first line of the bytes names
their format and the Python version (`topology.records.marked`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from spark_analytics.backfill.kinds import Positions
from topology.records.line_reader import Content
from topology.records.marked import Form
from topology.records.packed import pack_as_read, unpack_as_read
from topology.stage.replay import SavedReplay
from topology.stage.replay_state import REPLAY_NUMBER, pack_replay, unpack_replay

FORM: Final = Form(
    "inorder state",
    REPLAY_NUMBER,
    anew="run the backfill again",
    mended="restore the file as it was written, or run the backfill again into a new folder",
)


class GroupState(NamedTuple):
    """The state of a group after its last line.

    `saved` is None if no line was read yet. `waiting` has the lines of the last instant.
    """

    saved: SavedReplay | None
    waiting: Sequence[Content]
    positions: Positions


def pack(state: GroupState) -> bytes:
    replay_state = None if state.saved is None else pack_replay(state.saved)
    waiting = [pack_as_read(content) for content in state.waiting]
    positions = [(stream, table, at) for (stream, table), at in state.positions.items()]
    return FORM.pack((replay_state, waiting, positions))


def unpack(content: bytes) -> GroupState:
    """Return the state that `pack` has written.

    Raises:
        StateUnreadable: The bytes are not a state, are damaged, or are of another version.
    """
    return FORM.read(content, _unpack)


def _unpack(rest: Any) -> GroupState:
    replay_state, waiting, positions = rest
    saved = None if replay_state is None else unpack_replay(replay_state)
    places = {(stream, table): at for stream, table, at in positions}
    return GroupState(saved, [unpack_as_read(each) for each in waiting], places)
