"""Law: replaying a dump of several partitions gives the output of a worker's task.

The worlds are those of `make answers`. The task reads each partition at a different pace, in
batches of any size, through the alignment. The replay reads the dump from one file, with partitions
interleaved as a consumer fetches them, or from one file for each partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final
from zlib import crc32

import pytest

from recordings.laned import recording_of
from recordings.replayed import replay_lines
from recordings.summary import Summary
from tests.answers.cases import PATTERNS, QUERIES, STREAMS, WORLDS
from tests.answers.worlds import Line, World
from tests.cli.invoking import json_lines
from tests.seeds import seeds_of_today
from topology.base.event import PROGRESS, Event
from topology.base.outcome import Malformed, Step
from topology.config import Topology, parse
from topology.order.clock.drift_table import DriftTable
from topology.records.json_lines import JsonObject, make_step_lines
from topology.records.line_reader import LineReader, Row
from topology.stage.lanes import Lanes, number_of, offset_in_lane
from topology.stage.stage import Stage, make_placeholder

SEED: Final = seeds_of_today(1)[0]
SIZES: Final = (1, 7, 50, 200)
PARTS: Final = 4
QUEUE: Final = ", merge: {max_queued: 20}"
"""Removed, because with a full queue the task waives slow partitions and the pace matters."""


def cases() -> dict[str, tuple[str, World]]:
    """Return the topologies of `make answers` whose worlds have arrivals, by name."""
    found: dict[str, tuple[str, World]] = {}
    for name, (settings, world) in STREAMS.items():
        query = "{window: tumbling 1s, key: payload.k, aggregate: {n: count()}}"
        settings = settings.replace(QUEUE, "")
        found[name] = f"streams: {{default: {settings}}}\nqueries: {{asked: {query}}}", world
    for name, (query, world) in QUERIES.items():
        streams = ", ".join(f"{each}: {{input: raw.{each}}}" for each in world.streams)
        found[name] = f"streams: {{{streams}}}\nqueries: {{asked: {query}}}", world
    for name, text in PATTERNS.items():
        pattern = text.partition(";")[0]
        streams = "streams: {default: {}}"
        found[name] = (
            f"{streams}\nqueries: {{asked: {{pattern: 'PATTERN {pattern}'}}}}",
            WORLDS["plain"],
        )
    return {name: case for name, case in found.items() if case[1].has_arrivals}


def dump_lines(world: World, rng: Random, partitions: int) -> list[Line]:
    """Return a world's lines as in a dump; each source is in one partition."""
    lines: list[Line] = []
    arrival_ns = 0
    for offset, line in enumerate(world.lines(rng)):
        if "clock" in line:
            lines.append({**line, "arrival": arrival_ns})
            continue
        if line["stream"] not in world.streams:
            continue  # A line with an unknown stream is in no partition.
        partition = crc32(str(line.get("source")).encode()) % partitions
        lines.append({**line, "partition": partition, "offset": offset})
        arrival_ns = line["arrival"]
    return lines


class Task:
    """A task of a worker that reads all partitions of all input topics."""

    def __init__(self, topology: Topology, lines: Sequence[Line], partitions: int) -> None:
        topics = sorted({stream.input for stream in topology.streams.values()})
        places = [(topic, number) for topic in topics for number in range(partitions)]
        self.steps: list[Step] = []
        self._dead: list[Malformed] = []
        self._table = DriftTable()
        self._lanes: list[list[Event]] = [[] for _ in places]
        readers = [LineReader(topology.reading(), judges=True) for _ in places]
        for number, line in enumerate(lines, 1):
            if "clock" in line:
                word: Any = LineReader().read(Row(number, line))
                self._table.add(word)
                continue
            topic = topology.streams[line["stream"]].input
            lane = places.index((topic, line["partition"]))
            self._read(readers[lane].read(Row(number, line)), lane)
        everything = Lanes(tuple(places), frozenset(range(len(places))))
        self.stage = Stage(topology, topology.operators, everything, table=self._table)
        self.end_ns = max(reader.arrival_ns or 0 for reader in readers)

    def _read(self, content: Any, lane: int) -> None:
        content.offset = number_of(lane, content.offset)
        if isinstance(content, Malformed):
            self._dead.append(content)
            content = make_placeholder(content)
        if content is not None:
            content.lane = lane
            self._lanes[lane].append(content)

    def run(self, rng: Random) -> list[Step]:
        if len(self._lanes) == 1:
            for batch in cut(self._lanes[0], rng):
                self.steps.append(self.stage.on_batch(batch, batch[-1].at_ns))
        else:
            for batch in self._polls(rng):
                self.steps.append(self.stage.on_batch(batch, 0))
        self.steps.append(self.stage.on_end(self.end_ns))
        for dead in self._dead:
            self.steps.append(Step(dead.at_ns, reports=[dead]))
        return self.steps

    def _polls(self, rng: Random) -> Iterator[list[Event]]:
        left = [[*lane] for lane in self._lanes]
        while any(left):
            lane = rng.choice([number for number, events in enumerate(left) if events])
            size = rng.choice(SIZES)
            batch, left[lane] = left[lane][:size], left[lane][size:]
            at_ns = left[lane][0].at_ns if left[lane] and rng.random() < 0.5 else batch[-1].at_ns
            yield [*batch, progress(lane, at_ns if left[lane] else self.end_ns)]
        yield [progress(lane, self.end_ns) for lane in range(len(left))]


def cut(events: Sequence[Event], rng: Random) -> Iterator[list[Event]]:
    begin = 0
    while begin < len(events):
        end = begin + rng.choice(SIZES)
        yield [*events[begin:end]]
        begin = end


def progress(lane: int, at_ns: int) -> Event:
    event = Event("", "", 0, 0, 0, at_ns, kind=PROGRESS)
    event.lane = lane
    return event


def compared_output(steps: Sequence[Step], form: str) -> tuple[list[JsonObject], list[str]]:
    """Return the events before the end, in order, and all output, sorted."""
    end_ns = max(step.now_ns for step in steps)
    lines = [line for step in steps for line in make_step_lines(step)]
    for line in lines:
        if line.get("line") is not None:
            # Line numbers differ between one file and several.
            line["line"] = offset_in_lane(line["line"]) if form == "a dump" else None
    events = [each for each in lines if each["kind"] == "event" and each["at"] < end_ns]
    return events, sorted(map(str, lines))


def replay_of(topology: Topology, paths: Sequence[Path]) -> list[Step]:
    by_lane, contents = recording_of([str(path) for path in paths], topology)
    assert by_lane
    return [*replay_lines(topology, contents, Summary(), by_lane=by_lane)]


def fetched(lines: Sequence[Line], rng: Random) -> list[Line]:
    """Return the lines as a consumer fetches them: first the clock lines, then runs of one
    partition each.
    """
    left: dict[Any, list[Line]] = {}
    for line in lines:
        left.setdefault((line.get("stream"), line.get("partition")), []).append(line)
    found = left.pop((None, None), [])
    while left:
        place = rng.choice([*left])
        size = rng.choice(SIZES)
        found += left[place][:size]
        left[place] = left[place][size:]
        if not left[place]:
            del left[place]
    return found


def written(folder: Path, lines: Sequence[Line], form: str, rng: Random) -> list[Path]:
    if form == "a dump":
        return [json_lines(folder / "dump.jsonl", lines)]
    if form == "as fetched":
        return [json_lines(folder / "fetched.jsonl", fetched(lines, rng))]
    files: dict[Any, list[Line]] = {}
    for line in lines:
        files.setdefault(line.get("partition"), []).append(line)
    return [json_lines(folder / f"{name}.jsonl", each) for name, each in files.items()]


@pytest.mark.in_turns(4)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(
    ("partitions", "form"),
    [(1, "a dump"), (3, "as fetched"), (8, "a dump"), (8, "a file for each partition")],
)
def test_replay_matches_task(partitions: int, form: str, part: int, tmp_path: Path) -> None:
    for name, (text, world) in [*cases().items()][part::PARTS]:
        rng = Random(f"{SEED} {name}")
        topology = parse(text)
        lines = dump_lines(world, rng, partitions)
        paths = written(tmp_path, lines, form, rng)
        task_events, task_lines = compared_output(Task(topology, lines, partitions).run(rng), form)
        events, all_lines = compared_output(replay_of(topology, paths), form)
        assert events == task_events, f"{name}, seed {SEED}"
        assert all_lines == task_lines, f"{name}, seed {SEED}"
