"""Examples: MERGE emits late events in order when their instant is over. Times are in ms."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from agents.state.changelog import encode
from tests.kit.events import copies
from tests.laws.streams import numbered
from tests.seeds import seeds_of_today
from tests.topology.order.merge.against_oracle import MS
from tests.topology.order.merge.test_operator import event, operator, play, rendered
from topology.base.event import Event
from topology.base.late import GAP
from topology.order.reorder.settings import LatePolicy

LATE_AT_71 = [
    ("c7", GAP),
    ("c8", GAP),
    ("b0", "merge_new"),
    ("d0", "merge_new"),
    ("b1", "merge_behind"),
]


@pytest.mark.parametrize("policy", ["pass", "side"])
@pytest.mark.parametrize("turn", range(3))
def test_late_events_are_emitted_in_order(policy: LatePolicy, turn: int) -> None:
    """Late events are sorted by time, source and number, even after a restart in the instant."""
    coming = [
        event(71, "c", 8, 3, late=GAP),
        event(71, "d", 0, 5),
        event(71, "b", 0, 5),
        event(71, "b", 1, 6),
        event(71, "a", 2, 71),
        event(71, "c", 7, 3, late=GAP),
    ]
    coming = coming[turn:] + coming[:turn]  # The order of b0 and b1 stays.
    merge, again = operator(late=policy), operator(late=policy)
    play(merge, [(10, "a", 0, 9, []), (70, "a", 1, 69, ["a0 at 10"])])
    assert rendered(merge.on_batch(coming[:3], 71 * MS)) == ["a1 at 70"]
    assert rendered(merge.on_batch(coming[3:], 71 * MS)) == []
    again.restore(merge.snapshot(), copies(merge.iter_held()))
    for one in (merge, again):
        left = rendered(one.on_time(71 * MS))
        if policy == "pass":
            late = [f"{name} at 71 (late {cause})" for name, cause in LATE_AT_71]
            assert left == [*late, "a2 at 71"]
        else:
            assert left == ["a2 at 71", *(f"late {name}" for name, _ in LATE_AT_71)]
        assert one.figures()["queued"] == 0


def test_full_queue_emits_late_events_early() -> None:
    merge = operator(max_queued=2)
    play(merge, [(10, "a", 0, 9, []), (70, "a", 1, 69, ["a0 at 10"])])
    late = [event(71, "b", seq, 5 - seq) for seq in range(4)]
    assert len(rendered(merge.on_batch(late, 71 * MS))) == 4  # Three late events and a1.
    assert [each.seq for each in merge.iter_held()] == [3]
    assert merge.figures()["overflows"] == 0
    assert len(rendered(merge.on_time(71 * MS))) == 1


def with_copies(rng: Random) -> list[Event]:
    """Return events of three sources; some arrive after REORDER has declared their numbers missing.

    Some of these late events come several times, as after a crash of the stage that wrote them.
    """
    made: list[Event] = []
    at = 0
    seqs = dict.fromkeys("abc", 0)
    missing: dict[str, list[tuple[int, int]]] = {source: [] for source in seqs}
    for _ in range(60):
        at += rng.choice((0, 0, 1, 3, 20))
        source = rng.choice("abc")
        if missing[source] and rng.random() < 0.5:
            seq, ref = rng.choice(missing[source])
            if rng.random() < 0.5:
                missing[source].remove((seq, ref))
            made.append(event(at, source, seq, ref, late=GAP))
        else:
            if rng.random() < 0.25:
                missing[source].append((seqs[source], at))
                seqs[source] += 1
            made.append(event(at, source, seqs[source], at))
            seqs[source] += 1
    return numbered(made)


def emitted_and_received(
    events: list[Event], *, restarts: bool
) -> tuple[list[str], list[tuple[int, ...]]]:
    """Return the emitted lines, and the received count of each source after each event."""
    merge = operator()
    left: list[str] = []
    received: list[tuple[int, ...]] = []
    for each in copies(events):
        left += rendered(merge.on_batch([each], each.at_ns))
        if restarts:
            again = operator()
            again.restore(merge.snapshot(), copies(merge.iter_held()))
            merge = again
        received.append(tuple(merge.counts_of(source).get("received", 0) for source in "abc"))
    return left + rendered(merge.on_end(100_000 * MS)), received


@pytest.mark.parametrize("seed", seeds_of_today(30))
def test_restart_keeps_duplicates_apart(seed: int) -> None:
    """Law: a restart anywhere changes nothing, even if two buffered events share a number."""
    events = with_copies(Random(seed))
    assert emitted_and_received(events, restarts=True) == emitted_and_received(
        events, restarts=False
    )


def test_instant_state_stays_small() -> None:
    """Each buffered event notes whether it is late, so the state does not grow with late events."""
    sizes = []
    for count in (100, 10_000):
        merge = operator()
        play(merge, [(10, "a", 0, 9, []), (70, "a", 1, 69, ["a0 at 10"])])
        merge.on_batch([event(71, "b", seq, 5) for seq in range(count)], 71 * MS)
        assert merge.figures()["queued"] == count
        sizes.append(len(encode(merge.changes()["stream"])))
    assert sizes[1] < sizes[0] + 16


def test_late_event_keeps_its_source() -> None:
    merge = operator(max_sources=2)
    play(merge, [(10, "a", 0, 9, []), (70, "a", 1, 69, ["a0 at 10"])])
    merge.on_batch([event(71, "b", 0, 5), event(71, "c", 0, 70), event(71, "d", 0, 71)], 71 * MS)
    where: Any = merge.locate("b", 0, 0)
    assert where["where"] == "held"
    again = operator(max_sources=2)
    again.restore(merge.snapshot(), copies(merge.iter_held()))
    for one in (merge, again):
        one.on_batch([event(71, "e", 0, 72)], 71 * MS)
        assert one.locate("b", 0, 0) == where
        one.on_time(72 * MS)
        one.on_batch([event(73, "f", 0, 73)], 73 * MS)
        assert one.locate("b", 0, 0) is None  # The next new source takes its place.
