"""Examples: which numbers MERGE knows to be missing, and the completeness frontier that follows."""

from __future__ import annotations

from topology.base.event import Event
from topology.order.merge.source import MAX_MISSING, NO_REF, SourceProgress


def progress_of(*seqs: int, epoch: int = 0) -> SourceProgress:
    progress = SourceProgress("s", 1000)
    for seq in seqs:
        observe(progress, seq, epoch)
    return progress


def event(seq: int, epoch: int = 0) -> Event:
    return Event("default", "s", epoch, seq, seq * 10, seq * 10)


def observe(progress: SourceProgress, seq: int, epoch: int = 0) -> None:
    progress.record_number(event(seq, epoch), seq * 10, start=-1, since_ns=0)
    progress.newest_ns = seq * 10


def test_no_gap_leaves_all_complete() -> None:
    assert progress_of().complete_ns == NO_REF
    assert progress_of(0, 1, 2).complete_ns == 20


def test_oldest_gap_holds_frontier() -> None:
    progress = progress_of(0, 1, 4, 6)
    for late, complete_ns in ((3, 10), (5, 10), (2, 60)):
        assert progress.complete_ns == 10
        progress.fill_missing(event(late))
        assert progress.complete_ns == complete_ns


def test_late_event_fills_its_gap() -> None:
    progress = progress_of(0, 2, 4)
    progress.drop_missing_before(before_ns=30)  # Number 1 is past the allowed lateness.
    assert progress.complete_ns == 20
    progress.fill_missing(event(1))
    assert progress.complete_ns == 20
    progress.fill_missing(event(3, epoch=7))
    assert progress.complete_ns == 20
    progress.fill_missing(event(3))
    assert progress.complete_ns == 40


def test_gap_expires_by_next_event_time() -> None:
    progress = progress_of(0, 2)
    assert progress.lost_ns == 20
    progress.drop_missing_before(before_ns=20)
    assert progress.has_missing
    progress.drop_missing_before(before_ns=21)
    assert not progress.has_missing


def test_newest_gaps_are_joined_at_bound() -> None:
    progress = progress_of(*range(0, 2 * (MAX_MISSING + 3), 2))
    for seq in range(1, 2 * MAX_MISSING + 1, 2):
        progress.fill_missing(event(seq))
    whole_ns = (2 * (MAX_MISSING - 1) + 1) * 10
    assert progress.complete_ns == whole_ns  # The joined gap contains numbers that arrived.
    assert not SourceProgress("s", 1000).has_missing


def test_missing_numbers_survive_restore() -> None:
    progress = progress_of(0, 3)
    again = SourceProgress("s", 1000)
    again.load(progress.dump())
    assert again.complete_ns == 0
    again.fill_missing(event(1))
    again.fill_missing(event(2))
    assert again.complete_ns == 30
