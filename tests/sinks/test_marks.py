"""Examples: each store keeps marks with its results, and detects their loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from sinks.sink import BegunAnew, Marks, MarkStep, Progress, Reader, Sink
from tests.sinks.kinds import Place
from tests.sinks.results import result

pytestmark = [pytest.mark.redis, pytest.mark.postgres]

READER = Reader("a/group", "results.windows")


def progress(known: int, next_: int, partition: int = 0, reader: Reader = READER) -> Progress:
    return Progress(reader, {partition: MarkStep(known, next_)})


@pytest.fixture
def place(new_place: Callable[[], Place]) -> Place:
    return new_place()


@pytest.fixture
def sink(place: Place) -> Iterator[Sink]:
    """Yield a sink with a mark of 10 at partition 0, and one result."""
    with closing(place.opened()) as opened:
        opened.marks(READER)
        opened.mark(READER, {0: 0})
        assert not opened.write([result("a", 0)], progress(0, 10))
        yield opened


def marks_at_restart(place: Place) -> Marks:
    with closing(place.opened()) as sink:
        return sink.marks(READER)


def test_new_store_has_no_marks(place: Place) -> None:
    marks = marks_at_restart(place)
    assert (marks.positions, marks.is_older) == ({}, False)


def test_marks_never_go_back(place: Place, sink: Sink) -> None:
    assert sink.marks(READER).positions == {0: 10}
    sink.write([], progress(10, 12))
    sink.write([result("a", 1)], progress(10, 11))
    sink.mark(READER, {0: 5, 3: 70})
    sink.close()
    marks = marks_at_restart(place)
    assert (marks.positions, marks.is_older) == ({0: 12, 3: 70}, False)


def test_each_reader_has_its_own_marks(sink: Sink) -> None:
    for other in (Reader("b", READER.topic), Reader(READER.group, "results.joins")):
        assert sink.marks(other).positions == {}
        sink.mark(other, {0: 3})
        sink.write([], progress(3, 4, reader=other))
        assert sink.marks(other).positions == {0: 4}
    assert sink.marks(READER).positions == {0: 10}


def test_write_detects_emptied_store(place: Place, sink: Sink) -> None:
    place.empty()
    for results in ([], [result("b", 0)]):
        with pytest.raises(BegunAnew, match="absent or behind"):
            sink.write(results, progress(10, 12))
    marks = sink.marks(READER)
    assert (marks.positions.get(0, 0), marks.is_older) == (0, False)
    sink.mark(READER, {0: 0})
    sink.write([result("b", 0)], progress(0, 1))
    sink.close()
    assert [*place.current()] == ["b"]


def test_restart_detects_emptied_store(place: Place, sink: Sink) -> None:
    sink.close()
    place.empty()
    marks = marks_at_restart(place)
    assert (marks.positions.get(0, 0), marks.is_older) == (0, False)


def test_restored_backup_refuses_writes(place: Place, sink: Sink) -> None:
    """A restored backup has its old marks, and a write that continues newer ones is refused."""
    restore = place.copied()
    sink.write([result("b", 0)], progress(10, 20))
    sink.close()
    restore()
    assert marks_at_restart(place).positions == {0: 10}
    with closing(place.opened()) as again:
        again.marks(READER)
        with pytest.raises(BegunAnew, match="absent or behind"):
            again.write([result("c", 0)], progress(20, 30))
    assert "c" not in place.current()


def test_unmarked_results_count_as_older(place: Place, sink: Sink) -> None:
    sink.close()
    place.remove_marks()
    for _ in range(2):
        marks = marks_at_restart(place)
        assert (marks.positions, marks.is_older) == ({}, True)
    place.empty()
    assert not marks_at_restart(place).is_older


def test_marked_results_never_count_as_older(place: Place, sink: Sink) -> None:
    sink.close()
    assert not marks_at_restart(place).is_older
