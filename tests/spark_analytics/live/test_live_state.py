"""Examples: the state of a live job is read back, and refused if it is damaged or of another
version.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable

import pytest

from spark_analytics.live.partitions import Partitions
from spark_analytics.live.state import Common, changes_of, fold, snapshot
from topology.base.event import Event
from topology.base.sample import Declared
from topology.config import parse
from topology.records.marked import StateUnreadable
from topology.stage.replay import Replay


def make_saved_state() -> tuple[bytes, bytes]:
    """Return a snapshot and an entry after it, with a buffered event and a clock report."""
    replay, common = (
        Replay(parse("streams: {default: {reorder: {start: zero}}}")),
        Common(Partitions({})),
    )
    word = Declared("a", 5, 6, 7, 5)
    replay.on_inputs([word, Event("default", "a", 0, 1, 9, 9, 0)])
    first, held = snapshot(replay, common)
    replay.on_inputs([Event("default", "a", 0, 3, 10, 10, 1)])
    behind, _ = changes_of(replay, held, [word], common)
    return first, behind


def test_saved_state_is_read_back() -> None:
    first, behind = make_saved_state()
    whole = fold(first, [behind])
    assert whole.now_ns == 10
    assert (len(whole.held), len(whole.words)) == (2, 2)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (lambda whole: b"", "is damaged .*; restore the checkpoint"),
        (lambda whole: whole[:-3], "is damaged"),
        (lambda whole: whole.partition(b"\n")[0] + b"\n" + marshal.dumps(5), "is damaged"),
        (lambda whole: whole.partition(b"\n")[2], "is damaged"),
        (lambda whole: whole.replace(b"state ", b"state 9", 1), "another version: it begins with"),
        (lambda whole: whole.replace(b"marshal ", b"marshal 9", 1), "another version.*again$"),
    ],
)
@pytest.mark.parametrize("which", [0, 1])
def test_damaged_state_is_refused(changed: Callable[[bytes], bytes], says: str, which: int) -> None:
    contents = list(make_saved_state())
    contents[which] = changed(contents[which])
    with pytest.raises(StateUnreadable, match=rf"the state .*{says}"):
        fold(contents[0], contents[1:])
