"""Examples: a recording with several partitions, its order, its bounds and its refusals.

A law shows that its replay matches a worker's task (tests/recordings/test_replay_of_partitions.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka.structs import TopicPartition

from agents.stage.arrival import ArrivalClock
from recordings import laned, topic_dump
from recordings.file import InputError
from recordings.laned import recording_of
from recordings.topic_lines import TopicLines
from tests.agents.records import FakeRecord
from tests.cli.invoking import inorder, json_lines, text_file
from topology.base.sample import Sample
from topology.config import parse
from topology.records.line_reader import Row

TEXT = "streams: {default: {input: raw, reorder: {start: zero}, clock: {unsynced: trust}}}\n"
TOPOLOGY = parse(TEXT)
ROUND = {"clock": "a", "t1": 1, "t2": 2, "t3": 3, "t4": 4}


class Polled(FakeRecord):
    topic, partition = "raw", 3


def line(partition: Any, arrival_ns: int, seq: int = 0, **more: Any) -> dict[str, Any]:
    source = f"s{partition}"
    return {"source": source, "seq": seq, "arrival": arrival_ns, "partition": partition, **more}


def order_of(*paths: Path) -> list[tuple[int, int]]:
    """Return the partition and instant of each event, in reading order."""
    by_lane, contents = recording_of([str(path) for path in paths], TOPOLOGY)
    assert by_lane
    found: list[Any] = [*contents]
    return [(each.lane, each.at_ns) for each in found]


def test_each_partition_has_its_own_clock(tmp_path: Path) -> None:
    lines = [line(1, 50), line(1, 40, 1), line(0, 45), line(0, 50, 1)]
    assert order_of(json_lines(tmp_path / "r", lines)) == [(0, 45), (0, 50), (1, 50), (1, 50)]


def test_topics_have_separate_partitions(tmp_path: Path) -> None:
    topology = parse("streams: {a: {input: y}, b: {input: x}}")
    lines = [line(0, 5, stream="a"), line(0, 5, stream="b")]
    by_lane, contents = recording_of([str(json_lines(tmp_path / "r", lines))], topology)
    assert by_lane
    found: list[Any] = [*contents]
    assert [event.stream for event in found] == ["b", "a"]
    assert len({event.lane for event in found}) == 2


def test_files_are_merged(tmp_path: Path) -> None:
    one = json_lines(tmp_path / "0", [line(0, 1), line(0, 4, 1)])
    two = json_lines(tmp_path / "1", [line(1, 2), line(1, 3, 1)])
    assert order_of(two, json_lines(tmp_path / "2", []), one) == [(0, 1), (1, 2), (1, 3), (0, 4)]


def test_clock_line_comes_first(tmp_path: Path) -> None:
    lines = [line(0, 5), line(1, 9), {**ROUND, "arrival": 7}, line(0, 7, 1), ROUND]
    _, contents = recording_of([str(json_lines(tmp_path / "r", lines))], TOPOLOGY)
    found: list[Any] = [*contents]
    kinds = [each.arrival_ns if isinstance(each, Sample) else -each.at_ns for each in found]
    assert kinds == [-5, 7, -7, 9, -9]


def test_late_line_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laned, "MOST_AHEAD", 2)
    ahead = [line(0, arrival_ns, arrival_ns) for arrival_ns in (10, 20, 30)]
    path = json_lines(tmp_path / "r", [*ahead[:2], line(1, 5), ahead[2]])
    assert order_of(path) == [(1, 5), (0, 10), (0, 20), (0, 30)]
    path = json_lines(tmp_path / "r", [*ahead, line(1, 2_000_005), line(1, 2_000_006, 1)])
    assert len(order_of(path)) == 5
    path = json_lines(tmp_path / "r", [*ahead, line(1, 5)])
    with pytest.raises(InputError, match=r"r: line 4 of partition 1 arrived 0\.000 ms before"):
        order_of(path)


def test_late_clock_line_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laned, "MOST_AHEAD", 2)
    ahead = [line(0, arrival_ns, arrival_ns) for arrival_ns in (10, 20, 2_000_000, 2_000_010)]
    late = {**ROUND, "arrival": 5}
    dead = {"source": "s0"}
    for fits in ([*ahead[:2], late, *ahead[2:]], [*ahead, ROUND], [*ahead, dead, ROUND]):
        _, contents = recording_of([str(json_lines(tmp_path / "r", fits))], TOPOLOGY)
        assert len([*contents]) == len(fits)
    path = json_lines(tmp_path / "r", [*ahead, late])
    said = r"r: the clock line 5 arrived 0\.000 ms before a line that is more than 2 lines ahead"
    with pytest.raises(InputError, match=said):
        [*recording_of([str(path)], TOPOLOGY).contents]
    own = json_lines(tmp_path / "own", [late])
    _, contents = recording_of([str(json_lines(tmp_path / "r", ahead)), str(own)], TOPOLOGY)
    assert isinstance(next(contents), Sample)


def test_buffered_lines_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def rows(*_: Any) -> Iterator[Row]:
        for number in range(100):
            read.append(number)
            yield Row(number, line(0, number, number))

    monkeypatch.setattr(laned, "MOST_AHEAD", 10)
    monkeypatch.setattr(laned, "read_rows", rows)
    _, contents = recording_of(["r"], TOPOLOGY)
    for number, _ in enumerate(contents):
        assert len(read) <= number + 1 + 10
    assert number == 99


def test_partition_in_two_files_is_refused(tmp_path: Path) -> None:
    files = [json_lines(tmp_path / name, [line(3, 1)]) for name in "ab"]
    with pytest.raises(InputError, match="line 1 is of partition 3, of which another file has"):
        order_of(*files)


def test_files_need_partitions(tmp_path: Path) -> None:
    topology = text_file(tmp_path / "t.yaml", TEXT)
    plain = json_lines(tmp_path / "plain", [{"source": "a", "seq": 0, "arrival": 1}])
    laned_too = json_lines(tmp_path / "laned", [line(0, 1)])
    refused = inorder("replay", "--topology", topology, laned_too, plain)
    refused.refused("plain: the first event has no `partition`", code=3)
    mapped = inorder("replay", "--source", "source", "--ts", "arrival", plain, laned_too)
    mapped.refused("laned: a mapping reads one file")


@pytest.mark.parametrize("partition", [None, -1, "0", 1.0, 1 << 14])
def test_line_needs_a_partition(partition: Any, tmp_path: Path) -> None:
    topology = text_file(tmp_path / "t.yaml", TEXT)
    lines = [line(0, 5), {**line(0, 6, 1), "partition": partition}, line(0, 7, 2)]
    done = inorder("replay", "--topology", topology, json_lines(tmp_path / "r", lines)).well()
    assert [(each["line"], each["reason"]) for each in done.of("dead")] == [
        (2, "partition_unreadable")
    ]
    assert [each["seq"] for each in done.of("event")] == [0, 2]


def test_report_gives_the_line_number(tmp_path: Path) -> None:
    topology = text_file(tmp_path / "t.yaml", TEXT.replace("start: zero", "late: drop"))
    lines = [line(7, 5, 4), line(7, 6, 5), line(7, 7, 5)]
    done = inorder("replay", "--topology", topology, json_lines(tmp_path / "r", lines)).well()
    assert [each["line"] for each in done.of("duplicate")] == [3]


def test_one_partition_reads_like_none(tmp_path: Path) -> None:
    topology = text_file(tmp_path / "t.yaml", TEXT)
    lines = [line(0, at, seq, offset=at) for at, seq in [(5, 0), (9, 2), (8, 3), (3_000, 1)]]
    rows = [lines, [{**each, "partition": None} for each in lines]]
    one, none = (
        inorder("replay", "--topology", topology, json_lines(tmp_path / f"{number}", each)).well()
        for number, each in enumerate(rows)
    )
    assert one.out == none.out
    assert one.of("event")


def test_dumped_line_names_its_offset() -> None:
    source = TopicPartition("raw", 3)
    lines = TopicLines(TOPOLOGY, ["raw"], ())
    part = topic_dump._Part(source, 1, False, lines, ArrivalClock(0))  # noqa: FBT003
    asyncio.run(part.take([Polled(headers=(("sourceId", b"a"), ("seqNum", b"0")))]))
    (found,) = part.lines
    assert (found["topic"], found["partition"], found["offset"]) == ("raw", 3, 0)
