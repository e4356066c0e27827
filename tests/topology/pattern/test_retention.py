"""Example: a pattern behind the merge lets go of what is past correcting, whoever is silent."""

from __future__ import annotations

from topology.config import parse
from topology.flow.replay import Replay
from topology.model.event import Event

S = 10**9
MINUTE = 60 * S
TOPOLOGY = """
streams: {default: {clock: {unsynced: trust}}}
stages: [reorder+merge]
correct_for: 2min
queries: {pairs: {pattern: "PATTERN SEQ(A a, B b) WITHIN 1 s"}}
"""


def test_what_is_kept_does_not_grow_while_a_source_that_went_away_holds_c() -> None:
    replay = Replay(parse(TOPOLOGY))
    replay.on_inputs([Event("default", "gone", 0, 0, 0, 0, type="A")], 0)
    retained = []
    for seq in range(1, 600):
        at_ns = seq * S
        replay.on_inputs([Event("default", "b", 0, seq, at_ns, at_ns, type="A")], at_ns)
        retained.append(int(replay.figures()[0]["pattern_retained"]))
    # Two minutes of events, and what is let go of together.
    assert 115 < retained[130] < 135
    assert max(retained) < 200
