"""Law: whatever a replay has saved belongs to one operator of one stage, and in REORDER and CLOCK
to the one partition that the source lies in; what is known of all sources, to each. Example: marks
of joins follow the events that were given other offsets."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.laws.many_streams import contents_of, topology_of
from topology.flow.replay import Replay, SavedReplay
from topology.flow.share import renumbered, share_of


def saved_of(seed: int) -> SavedReplay:
    replay = Replay(topology_of(seed))
    replay.on_inputs(contents_of(topology_of(seed), seed))
    saved = replay.saved()
    assert saved is not None
    return saved


def half(source: str) -> int:
    return sum(source.encode()) % 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_all_of_it_is_dealt_once(seed: int) -> None:
    topology, saved = topology_of(seed), saved_of(seed)
    shares = [
        share_of(saved, topology, ["reorder"], topology.streams, lies)
        for lies in (lambda _, source: half(source) == 0, lambda _, source: half(source) == 1)
    ]
    shares += [
        share_of(saved, topology, stage.operators, topology.streams, lambda *_: True)
        for stage in topology.stages[1:]
    ]
    dealt = Counter(key for share in shares for key in share.state)
    assert dealt.keys() == saved.state.keys()
    twice = {key.partition("\n")[2] for key, times in dealt.items() if times > 1}
    own = {"reorder/#shape", "reorder/stream", "reorder/pool/", "clock/#shape", "clock/clock"}
    assert twice <= own | {"passed/#shape", "passed/passed"}
    held, holders = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
    for event in [each for share in shares for each in share.held]:
        held[event.stream, event.offset] += event.held_by.bit_count()
    for event in saved.held:
        holders[event.stream, event.offset] += event.held_by.bit_count()
    assert held == holders


def test_a_stream_that_lies_elsewhere_is_left_out() -> None:
    topology, saved = topology_of(3), saved_of(3)
    first, *others = topology.streams
    assert others
    share = share_of(saved, topology, ["reorder", "merge"], [first], lambda *_: True)
    assert {key.partition("\n")[0] for key in share.state} == {first}
    assert {event.stream for event in share.held} <= {first}


def test_marks_of_joins_follow_their_events() -> None:
    state = {
        "\na\nj\nabsent/7/0": 1,
        "\na\nj\nwide/9/": 5,
        "\na\nj\nwide/8/": 5,
        "\na\nj\nowner/7/x": 2,
        "a\nwindow/absent/7/0": 3,
    }
    assert renumbered(state, {7: -2, 9: -1}) == {
        "\na\nj\nabsent/-2/0": 1,
        "\na\nj\nwide/-1/": 5,
        "\na\nj\nowner/7/x": 2,
        "a\nwindow/absent/7/0": 3,
    }
