"""Examples: the pieces into which time is cut if windows have no ends, and their state."""

from __future__ import annotations

import pytest

from topology.answer.quality_target import QualityTarget, piece_ns
from topology.base.event import Event
from topology.config import QualityConfig
from topology.state.saved import ShapeRefused

MS = 1_000_000
S = 1_000 * MS


def target(max_wait_ns: int = 2 * S) -> QualityTarget:
    quality = QualityConfig(accuracy_ppm=990_000, max_wait_ns=max_wait_ns)
    return QualityTarget(quality, reach_ns=300 * S)


@pytest.mark.parametrize(
    ("max_wait_ns", "reach_ns", "expected_ns"),
    [
        (2 * S, 0, 125 * MS),
        (2 * S, 32 * S, 125 * MS),
        (2 * S, 64 * S, 250 * MS),
        (2 * S, 300 * S, 500 * MS),  # a quarter of max_wait
        (0, 300 * S, 1),
    ],
)
def test_piece_follows_wait_and_reach(max_wait_ns: int, reach_ns: int, expected_ns: int) -> None:
    assert piece_ns(max_wait_ns, reach_ns) == expected_ns


def test_sparse_events_are_settled_seldom() -> None:
    """For an hour an event comes every 90 s, and each can matter for five minutes."""
    seldom, looks = target(), 0
    for number in range(40):
        at_ns = number * 90 * S
        while seldom.due_ns() < at_ns:
            seldom.settle(seldom.due_ns(), 0)
            looks += 1
        seldom.observe(Event("s", f"m{number % 3}", 0, number, at_ns, at_ns))
        seldom.settle(at_ns, 0)
    assert looks <= 1.2 * 40 * 90 * 2, "twice a second"


def test_new_target_has_no_wait() -> None:
    figures = target().figures()
    assert (figures["wait_mean_ns"], figures["wait_max_ns"]) == (0, 0)


def test_state_of_other_pieces_is_dropped() -> None:
    """After a change of `max_wait`, pieces have another length, so the number of a piece means
    another instant. Only `closed_ns` is kept.
    """
    before, after = target(2 * S), target(4 * S)
    before.observe(Event("s", "m", 0, 0, 1_700_000_000 * S, 1_700_000_000 * S))
    before.settle(1_700_000_100 * S, 1_700_000_090 * S)
    after.load(before.dump())
    assert after.closed_ns == before.closed_ns > 0


def test_wrong_state_is_refused() -> None:
    waits, closed_ns, row = target().dump()
    for wrong in (None, [waits], [waits, "x", row], [waits, closed_ns, row[:-1]]):
        with pytest.raises(ShapeRefused):
            target().load(wrong)
