"""`inorder dump` and `inorder replay`, and their answers as values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.cli.invoking import inorder
from tests.end_to_end.records import Read, read_all
from tests.end_to_end.setting import Setting


class Said(NamedTuple):
    """What is told of an emitted event, by the topic as by the replay."""

    source: str
    epoch: int
    seq: int
    ref_ns: int
    error_ns: int
    is_late: bool


def dump(setting: Setting, path: Path) -> int:
    """The raw topic as replay lines in `path`; how many."""
    where = ("--topology", setting.path, "--brokers", setting.bootstrap)
    done = inorder("dump", *where, "--json").well()
    path.write_text(done.out)
    count = done.out.count("\n")
    assert done.summary == {"topic": setting.raw, "records": count}
    return count


class Replayed(NamedTuple):
    """Events in the order they leave, with the instant of each; the summary; the last
    arrival, at which the replay flushes what a worker lets go later."""

    events: list[tuple[Said, int]]
    summary: dict[str, Any]
    end_ns: int


def said_by(line: dict[str, Any]) -> tuple[Said, int]:
    """What the line of an event says, and when."""
    names = ("source", "epoch", "seq", "ref_time", "error", "late")
    return Said(*(line[name] for name in names)), line["at"]


def replay(setting: Setting, path: Path) -> Replayed:
    done = inorder("replay", "--topology", setting.path, "--json", path).well()
    events = [said_by(line) for line in done.lines if line["kind"] == "event"]
    end_ns = json.loads(path.read_bytes().splitlines()[-1])["arrival"]
    return Replayed(events, done.summary, end_ns)


def said(records: Sequence[Read]) -> list[tuple[Said, int]]:
    """What an ordered topic of one stream says, control records apart."""
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
    """(place, in the topic, in the replay), the first few. Instants count up to the end
    of the input: there a replay flushes, and a worker waits on."""
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
    """Assert that what is dumped of the raw topic, replayed, gives the ordered topic."""
    lines = setting.folder / "raw.jsonl"
    dump(setting, lines)
    replayed = replay(setting, lines)
    assert differences(said(read_all(setting.bootstrap, setting.ordered)), replayed) == []
    return replayed
