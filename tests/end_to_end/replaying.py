"""Run `inorder dump` and `inorder replay`, and return their results as values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.cli.invoking import inorder
from tests.end_to_end.records import Read, read_all
from tests.end_to_end.setting import Setting


class Said(NamedTuple):
    """Facts of an emitted event, from the topic or from a replay."""

    source: str
    epoch: int
    seq: int
    ref_ns: int
    error_ns: int
    is_late: bool


def dump(setting: Setting, path: Path) -> int:
    """Write the raw topic as replay lines to `path`, and return their number."""
    where = ("--topology", setting.path, "--brokers", setting.bootstrap)
    done = inorder("dump", *where, "--json").well()
    path.write_text(done.out)
    count = done.out.count("\n")
    assert done.summary == {"topic": setting.raw, "records": count}
    return count


class Replayed(NamedTuple):
    """Events in order with the instant of each, the summary, and the last arrival.

    At the last arrival a replay flushes events that a worker would emit later.
    """

    events: list[tuple[Said, int]]
    summary: dict[str, Any]
    end_ns: int


def said_by(line: dict[str, Any]) -> tuple[Said, int]:
    """Return the facts in an event's line, and the event's instant."""
    names = ("source", "epoch", "seq", "ref_time", "error", "late")
    return Said(*(line[name] for name in names)), line["at"]


def replay(setting: Setting, path: Path) -> Replayed:
    done = inorder("replay", "--topology", setting.path, "--json", path).well()
    events = [said_by(line) for line in done.lines if line["kind"] == "event"]
    end_ns = json.loads(path.read_bytes().splitlines()[-1])["arrival"]
    return Replayed(events, done.summary, end_ns)


def said(records: Sequence[Read]) -> list[tuple[Said, int]]:
    """Return the facts and instants in one stream's ordered topic, without control records."""
    return [
        (
            Said(
                *record.name,
                record.number("refTs"),
                record.number("err"),
                record.header("late") is not None,
            ),
            record.number("at"),
        )
        for record in records
        if not record.is_control
    ]


def differences(
    ordered: Sequence[tuple[Said, int]], replayed: Replayed
) -> list[tuple[int, object, object]]:
    """Return the first few differences as (place, in the topic, in the replay).

    Instants count only up to the end of the input, where a replay flushes and a worker keeps
    waiting.
    """
    pairs = enumerate(zip(ordered, replayed.events, strict=False))
    found: list[tuple[int, object, object]] = [
        (place, one, other)
        for place, (one, other) in pairs
        if one[0] != other[0] or (other[1] < replayed.end_ns and one[1] != other[1])
    ]
    if len(ordered) != len(replayed.events):
        found.append((-1, len(ordered), len(replayed.events)))
    return found[:5]


def assert_replays(setting: Setting) -> Replayed:
    """Assert that the raw topic, dumped and replayed, gives the ordered topic."""
    lines = setting.folder / "raw.jsonl"
    dump(setting, lines)
    replayed = replay(setting, lines)
    assert differences(said(read_all(setting.bootstrap, setting.ordered)), replayed) == []
    return replayed
