"""Examples: what MERGE knows to be missing, and the complete frontier C that follows."""

from __future__ import annotations

from topology.merge.source import MAX_MISSING, NO_REF, SourceProgress
from topology.model.event import Event


def progress_of(*seqs: int, epoch: int = 0) -> SourceProgress:
    progress = SourceProgress("s", 1000)
    for seq in seqs:
        observe(progress, seq, epoch)
    return progress


def event(seq: int, epoch: int = 0) -> Event:
    return Event("default", "s", epoch, seq, seq * 10, seq * 10)


def observe(progress: SourceProgress, seq: int, epoch: int = 0) -> None:
    progress.follow(event(seq, epoch), seq * 10, start=-1, since_ns=0)
    progress.newest_ns = seq * 10


def test_a_source_without_holes_is_complete_up_to_its_newest() -> None:
    assert progress_of().complete_ns == NO_REF
    assert progress_of(0, 1, 2).complete_ns == 20


def test_the_oldest_hole_holds_c_until_all_of_it_has_come() -> None:
    progress = progress_of(0, 1, 4, 6)
    for late, complete_ns in ((3, 10), (5, 10), (2, 60)):
        assert progress.complete_ns == 10
        progress.fill(event(late))
        assert progress.complete_ns == complete_ns


def test_a_late_event_fills_its_own_hole_only() -> None:
    progress = progress_of(0, 2, 4)
    progress.write_off(before_ns=30)  # number 1 is past correcting
    assert progress.complete_ns == 20
    progress.fill(event(1))
    assert progress.complete_ns == 20
    progress.fill(event(3, epoch=7))
    assert progress.complete_ns == 20
    progress.fill(event(3))
    assert progress.complete_ns == 40


def test_a_hole_is_past_correcting_by_the_time_behind_it() -> None:
    progress = progress_of(0, 2)
    assert progress.lost_ns == 20
    progress.write_off(before_ns=20)
    assert progress.lacks_numbers
    progress.write_off(before_ns=21)
    assert not progress.lacks_numbers


def test_at_the_bound_the_newest_holes_are_joined_and_c_says_less() -> None:
    progress = progress_of(*range(0, 2 * (MAX_MISSING + 3), 2))
    for seq in range(1, 2 * MAX_MISSING + 1, 2):
        progress.fill(event(seq))
    whole_ns = (2 * (MAX_MISSING - 1) + 1) * 10
    assert progress.complete_ns == whole_ns  # the joined one holds numbers that did come
    assert not SourceProgress("s", 1000).lacks_numbers


def test_missing_numbers_outlive_a_restore() -> None:
    progress = progress_of(0, 3)
    again = SourceProgress("s", 1000)
    again.load(progress.dump())
    assert again.complete_ns == 0
    again.fill(event(1))
    again.fill(event(2))
    assert again.complete_ns == 30
