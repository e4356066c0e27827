"""Examples: what a live job has kept is read with its first line and without, and refused in a
sentence where it is another version's, or damaged."""

from __future__ import annotations

import marshal
from collections.abc import Callable
from dataclasses import replace

import pytest

from spark_analytics.backfill.marked import StateUnreadable
from spark_analytics.live import state
from spark_analytics.live.lanes import Lanes
from spark_analytics.live.state import Common, entry, folded, snapshot
from topology.clock.sample import Declared
from topology.config import parse
from topology.flow.replay import Replay
from topology.model.event import Event


def kept() -> tuple[bytes, bytes]:
    """A snapshot, and an entry behind it: of an event that is held, and of a word."""
    replay, common = (
        Replay(parse("streams: {default: {reorder: {start: zero}}}")),
        Common(Lanes({})),
    )
    word = Declared("a", 5, 6, 7, 5)
    replay.on_inputs([word, Event("default", "a", 0, 1, 9, 9, 0)])
    first, held = snapshot(replay, common)
    replay.on_inputs([Event("default", "a", 0, 3, 10, 10, 1)])
    behind, _ = entry(replay, held, [word], common)
    return first, behind


def unmarked(content: bytes, number: int = 1) -> bytes:
    """As versions before have written it."""
    return marshal.dumps((number, *marshal.loads(content.partition(b"\n")[2])))


def test_what_bears_no_line_is_read_too() -> None:
    first, behind = kept()
    whole = folded(first, [behind])
    assert whole.now_ns == 10
    assert (len(whole.held), len(whole.words)) == (2, 2)
    for before in ([unmarked(behind)], [behind]):
        found = folded(unmarked(first), before)
        assert replace(found, common=whole.common) == whole
        assert found.common.plain() == whole.common.plain()


@pytest.mark.parametrize("number", [2, 3])
def test_the_formats_before_are_read(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    first, behind = kept()
    with monkeypatch.context() as before:
        before.setattr(state, "FORM", state.FORM._replace(number=number))
        older, older_behind = kept()
    assert older.startswith(b"inorder live state %d " % number)
    whole = folded(first, [behind])
    for entries in ([older_behind], [behind]):
        assert replace(folded(older, entries), common=whole.common) == whole


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (lambda whole: b"", "is damaged .*; give back the checkpoint"),
        (lambda whole: whole[:-3], "is damaged"),
        (lambda whole: whole.partition(b"\n")[0] + b"\n" + marshal.dumps(5), "is damaged"),
        (lambda whole: unmarked(whole, 9), "is of format 9, this version writes 4; remove"),
        (lambda whole: whole.replace(b"state 4", b"state 5", 1), "another version: it begins with"),
        (lambda whole: whole.replace(b"marshal ", b"marshal 9", 1), "another version.*anew$"),
    ],
)
@pytest.mark.parametrize("which", [0, 1])
def test_what_is_none_is_refused(changed: Callable[[bytes], bytes], says: str, which: int) -> None:
    contents = list(kept())
    contents[which] = changed(contents[which])
    with pytest.raises(StateUnreadable, match=rf"the state .*{says}"):
        folded(contents[0], contents[1:])
