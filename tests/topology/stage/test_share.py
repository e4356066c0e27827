"""Law: each part of a replay's saved state goes to one operator of one stage. In REORDER and CLOCK
that part goes to the partition of its source, which is a task or an upstream partition. State of
all sources goes to each. Example: marks of joins follow events that get other offsets.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

import pytest

from tests.kit.topologies import in_code
from tests.laws.many_streams import contents_of, text_of, topology_of
from topology.base.event import Event
from topology.config import Topology
from topology.queries.join.marks import Marks
from topology.stage.replay import Replay, SavedReplay
from topology.stage.share import share_of

OF_LANE = re.compile(r"(\n(?:reorder|clock)/)(\d+)/")
OF_ALL = {"reorder/#shape", "reorder/stream", "reorder/pool/", "clock/#shape", "clock/clock"}
"""Keys of the state that belongs to all sources of a stream."""


def saved_of(topology: Topology, seed: int) -> SavedReplay:
    replay = Replay(topology)
    replay.on_inputs(contents_of(topology, seed))
    saved = replay.save()
    assert saved is not None
    return saved


def holders(held: Iterable[tuple[Event, int]]) -> Counter[tuple[str, int]]:
    """Return how many operators hold each event."""
    found = Counter[tuple[str, int]]()
    for event, places in held:
        found[event.stream, event.offset] += places.bit_count()
    return found


def half(source: str) -> int:
    return sum(source.encode()) % 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_state_is_shared_once(seed: int) -> None:
    topology = in_code(text_of(seed) + "stages: [reorder, merge+window+pattern+join]\n")
    saved, whole = saved_of(topology, seed), dict.fromkeys(topology.streams, (0,))
    shares = [
        share_of(saved, topology, ["reorder"], whole, lies)
        for lies in (
            lambda _, source: None if half(source) else 0,
            lambda _, source: 0 if half(source) else None,
        )
    ]
    shares += [
        share_of(saved, topology, stage.operators, whole, lambda *_: 0)
        for stage in topology.stages[1:]
    ]
    dealt = Counter(key for share in shares for key in share.state)
    assert dealt.keys() == saved.state.keys()
    twice = {key.partition("\n")[2] for key, times in dealt.items() if times > 1}
    assert twice <= OF_ALL | {"passed/#shape", "passed/passed"}
    assert holders(each for share in shares for each in share.held.items()) == holders(
        saved.held.items()
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_partitions_share_state_by_source(seed: int) -> None:
    topology = topology_of(seed)
    saved, lanes = saved_of(topology, seed), dict.fromkeys(topology.streams, (1, 3))
    share = share_of(
        saved, topology, topology.operators, lanes, lambda _, source: 3 if half(source) else 1
    )
    dealt: dict[str, set[str]] = {}
    for key, value in share.state.items():
        found = OF_LANE.search(key)
        whole = OF_LANE.sub(r"\1", key, count=1)
        assert saved.state[whole] == value
        dealt.setdefault(whole, set()).add(found[2] if found else "")
    assert dealt.keys() == saved.state.keys()
    of_all = {key for key, lanes in dealt.items() if lanes == {"1", "3"}}
    assert {key.partition("\n")[2] for key in of_all} <= OF_ALL
    of_sources = {key: lane for key, lane in dealt.items() if lane in ({"1"}, {"3"})}
    assert of_sources
    for key, lane in of_sources.items():
        assert lane == ({"3"} if half(key.rpartition("/")[2]) else {"1"}), key
    assert holders(share.held.items()) == holders(saved.held.items())
    assert all(event.lane == (3 if half(event.source) else 1) for event in share.held)


def test_folded_reports_are_left_out() -> None:
    """Another stream's source has no known partition, and workers read the reports themselves."""
    topology = topology_of(3)
    (first, *_) = topology.streams
    saved = SavedReplay(7, {f"{first}\nclock/folded/elsewhere": 1}, {}, [])

    def nowhere(stream: str, source: str) -> int:
        raise AssertionError((stream, source))

    assert not share_of(saved, topology, topology.operators, {first: [0, 1]}, nowhere).state


def test_stream_of_other_tasks_is_left_out() -> None:
    topology = topology_of(3)
    saved = saved_of(topology, 3)
    first, *others = topology.streams
    assert others
    share = share_of(saved, topology, ["reorder", "merge"], {first: [0]}, lambda *_: 0)
    assert {key.partition("\n")[0] for key in share.state} == {first}
    assert {event.stream for event in share.held} <= {first}


def test_ids_go_to_all_lanes() -> None:
    """Pages of ids have no source, although each has a number in its place."""
    topology = in_code("streams: {a: {reorder: {rule: time}}}")
    saved = SavedReplay(7, {"a\nreorder/ids/5": [1, 2], "a\nreorder/buffer/5": 3}, {}, [])
    share = share_of(saved, topology, ["reorder"], {"a": [0, 1]}, lambda *_: 1)
    assert share.state == {
        "a\nreorder/0/ids/5": [1, 2],
        "a\nreorder/1/ids/5": [1, 2],
        "a\nreorder/1/buffer/5": 3,
    }


def test_marks_of_joins_follow_their_events() -> None:
    marks = Marks(2)
    marks.leave_out(Event("a", "s", 0, 0, 0, 0, 7), [0])
    marks.record_arrival(Event("b", "s", 0, 1, 0, 0, 9), 5)
    marks.renumber({7: -2, 9: -1})
    assert [table.snapshot() for table in marks.tables] == [{"absent/-2/0": 1}, {"wide/-1/": 5}]
    assert marks.remaining_sides(Event("a", "s", 0, 0, 0, 0, -2), [0, 1]) == [1]
