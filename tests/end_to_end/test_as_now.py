"""End to end: `inorder dev` gives the same results for an old recording as a replay."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT
from tests.cli.invoking import Answer, inorder, text_file
from tests.end_to_end.test_dev import dev
from tests.waiting import wait_until
from topology.config import parse

MINUTE_NS = 60_000_000_000
S_MS = 1_000
BEGIN_MS = 1_700_000_000_000
"""A time in 2023."""

FLEET = """\
streams:
  default:
    fields: {source: payload.truck, seq: payload.n, ts: payload.time, type: payload.event,
             arrival: payload.received}
    ts_unit: ms
    reorder: {without_seq: by_time, max_wait: 20s}
    merge: {max_wait: 20s, idle_after: 1min, new_source_allowance: 2min}
queries:
  readings:
    window: tumbling 1min
    key: payload.truck
    aggregate: {n: count(), mean: avg(payload.temp)}
  door_too_long:
    pattern: >
      PATTERN SEQ(DoorOpen o, !DoorClosed FOR 2 min) WHERE [truck] WITHIN 5 min
      RETURN o.truck AS truck
  after_open:
    join: interval 0s to 30s
    key: payload.truck
    sides: {door: {type: DoorOpen}, next: {type: Reading}}
    values: {truck: door.payload.truck, temp: next.payload.temp}
correct_for: 2min
topics: {partitions: 4}
"""
KINDS = ("window", "match", "join")


def fleet_rows(random_: random.Random) -> Iterator[tuple[int, str]]:
    """Yield arrivals and rows of 20 trucks in 12 minutes.

    Truck 3 restarts its numbers, the clock of truck 4 is 95 s fast, and truck 5 sends two minutes
    in a burst with duplicates. Truck 6 has no numbers, and the doors of trucks 7 and 8 open.
    """
    for truck in range(20):
        begin_ms = BEGIN_MS + random_.randrange(15 * S_MS)
        for at in range(48):
            came_ms = begin_ms + at * 15 * S_MS
            if random_.random() < 0.01:
                continue
            event = {(7, 8): "DoorOpen", (8, 8): "DoorOpen", (8, 10): "DoorClosed"}
            fast_ms = 95 * S_MS if truck == 4 else 0
            arrival_ms = came_ms + random_.randrange(50, 4 * S_MS)
            in_burst = truck == 5 and 16 <= at < 24
            if in_burst:
                arrival_ms = begin_ms + 24 * 15 * S_MS + random_.randrange(2 * S_MS)
            number = "" if truck == 6 else at - 20 if truck == 3 and at >= 20 else at
            row = f"truck-{truck},{number},{event.get((truck, at), 'Reading')}"
            row = f"{row},{came_ms + fast_ms},{random_.randrange(-20, -10)}"
            for copy in range(1 + (in_burst and at % 3 == 0)):
                yield arrival_ms + copy, f"{row},{arrival_ms + copy}"


def fleet(folder: Path) -> tuple[Path, Path]:
    rows = [row for _, row in sorted(fleet_rows(random.Random(5)))]
    head = "truck,n,event,time,temp,received"
    path = text_file(folder / "fleet.csv", "\n".join([head, *rows, ""]))
    return text_file(folder / "fleet.yaml", FLEET), path


def sample(_: Path) -> tuple[Path, Path]:
    examples = ROOT / "docs/examples"
    return examples / "telemetry.yaml", examples / "telemetry.csv"


def standing(lines: list[dict[str, Any]], by_ns: int, until_ns: int) -> list[str]:
    """Return the current results, without windows after `until_ns`, and with times less `by_ns`."""
    last = {line["id"]: line for line in lines if line["kind"] in KINDS}
    found = []
    for line in last.values():
        is_window = line["kind"] == "window"
        if line["op"] == "retract" or (is_window and line["end"] - by_ns > until_ns):
            continue
        place = [line["start"] - by_ns, line["key"]] if is_window else []
        found.append(json.dumps([line["query"], *place, line["values"]]))
    return sorted(found)


def events_of(lines: list[dict[str, Any]]) -> list[Any]:
    return sorted([line["source"], line["ts"], line["late"]] for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recording", "pace"), [(sample, ()), (fleet, ()), (fleet, ("--speed", "60"))]
)
def test_live_results_match_a_replay(tmp_path: Path, recording: Any, pace: tuple[str, ...]) -> None:
    topology, rows = recording(tmp_path)
    replay = inorder("replay", "--topology", topology, rows).well()
    topics = parse(topology.read_text()).result_topics.values()
    with dev(tmp_path, "--topology", str(topology)) as (command, brokers):

        def read(topic: str) -> list[dict[str, Any]]:
            return inorder("read", "--brokers", brokers, "--topic", topic).well().lines

        place = ("--brokers", brokers, "--topic", "events.raw", "--topology", topology)
        done = inorder("produce", *place, "--as-now", *pace, rows).well("all times are shifted by")
        assert "WARNING" not in done.err
        events = replay.of("event")
        wait_until(
            lambda: len(read("events.ordered")) >= len(events),
            "all events",
            lambda: len(read("events.ordered")),
        )
        live = read("events.ordered")
        by_ns = live[0]["ts"] - events[0]["ts"]
        assert by_ns % MINUTE_NS == 0
        assert events_of([{**line, "ts": line["ts"] - by_ns} for line in live]) == events_of(events)
        # The newest windows end only when their time has passed.
        until_ns = events[-1]["ref_time"] - 3 * MINUTE_NS
        wanted = standing(replay.lines, 0, until_ns)

        def said() -> list[str]:
            lines = [line for topic in topics for line in read(topic)]
            return standing(lines, by_ns, until_ns)

        wait_until(lambda: said() == wanted, "the results of the replay", said)
        assert not any("stamps are" in note for note in command.ask("ready")[1].get("notes", ()))


@pytest.mark.slow
def test_old_timestamps_are_reported(tmp_path: Path) -> None:
    topology, rows = sample(tmp_path)
    with dev(tmp_path, "--topology", str(topology)) as (command, brokers):
        place = ("--brokers", brokers, "--topic", "events.raw", "--topology", topology)
        answer: Answer = inorder("produce", *place, rows).well()
        assert "h behind arrivals" in answer.err
        assert "--as-now" in answer.err

        def notes() -> str:
            status, said = command.ask("ready")
            assert status == 200, said
            return str(said.get("notes"))

        wait_until(lambda: "h behind arrivals" in notes(), "the note", notes)
        assert "--as-now" in notes()
