"""Examples: `inorder replay` and `inorder produce` with lines that have no sequence number."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agents.exits import Exit
from tests.cli.invoking import Answer, inorder, json_lines, replay_of, text_file
from tests.inorder.records import Topic, headers_of

MS = 1_000_000

RECORDED: list[Any] = [
    {"source": "b", "ts": 90, "arrival": 1000, "seq": 7},
    {"source": "a", "ts": 100, "arrival": 1000, "payload": {"x": 1}},
    {"source": "a", "ts": 120, "arrival": 1001},
    {"source": "a", "ts": 110, "arrival": 1003},
    {"source": "b", "ts": 130, "arrival": 1006},
    {"source": "a", "ts": 140, "arrival": 1010, "epoch": -1},
    {"source": "a", "ts": 140, "arrival": 1010},
    {"source": "a", "ts": 105, "arrival": 1011},
    {"source": "a", "ts": 140, "arrival": 1012},
]
"""Recorded lines, times in ms. Line 8 is late, line 6 has a bad epoch, and line 9 may or may
not be a duplicate of line 7."""


def topology(late: str = "pass", raw: str = "raw") -> str:
    reorder = f"{{rule: time, max_wait: 5ms, late: {late}}}"
    more = "clock: {unsynced: trust}, merge: {max_wait: 0ms}"
    return f"streams: {{default: {{input: {raw}, reorder: {reorder}, {more}}}}}\n"


def in_ns(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**line, "ts": line["ts"] * MS, "arrival": line["arrival"] * MS} for line in lines]


def replayed(folder: Path, late: str = "pass", more: str = "") -> Answer:
    return replay_of(folder, topology(late) + more, in_ns(RECORDED)).well()


def events(answer: Answer) -> list[tuple[Any, ...]]:
    return [
        (line["ts"] // MS, line["source"], line["epoch"], line["seq"], line["late"])
        for line in answer.of("event")
    ]


IN_ORDER = [
    (90, "b", 0, 1, False),
    (100, "a", 0, 2, False),
    (110, "a", 0, 3, False),
    (120, "a", 0, 4, False),
    (130, "b", 0, 2, False),
]
"""Events in order: a source's numbers begin with the number of the line on which it first
appears."""


def test_events_are_numbered_by_time(tmp_path: Path) -> None:
    answer = replayed(tmp_path)
    late = (105, "a", 0, 5, True)
    said = events(answer)
    assert [one for one in said if not one[4]] == [
        *IN_ORDER,
        (140, "a", 0, 6, False),
        (140, "a", 0, 7, False),
    ]
    assert [one for one in said if one[4]] == [late]
    others = [(line["kind"], line["line"]) for line in answer.lines if line["kind"] != "event"]
    assert others == [("dead", 6)]
    counts = ("in", "event", "late", "duplicate", "dead", "held", "gaps")
    assert [answer.summary[name] for name in counts] == [9, 7, 1, 0, 1, 0, 0]


def test_late_record_names_its_line(tmp_path: Path) -> None:
    answer = replayed(tmp_path, late="side")
    (late,) = answer.of("late")
    assert (late["seq"], late["line"], late["reason"]) == (8, 8, "overtaken")
    assert [one[3] for one in events(answer) if one[1] == "a"] == [2, 3, 4, 5, 6]


WINDOW = """\
queries: {n: {window: tumbling 20ms, aggregate: {n: count()}}}
correct_for: 1h
"""


def test_windows_are_uncertain(tmp_path: Path) -> None:
    windows = replayed(tmp_path, more=WINDOW).of("window")
    counts = {line["start"] // MS: line["values"]["n"] for line in windows}
    assert counts == {80: 1, 100: 3, 120: 2, 140: 2}
    emitted = [line for line in windows if line["start"] < 140 * MS and line["op"] == "emit"]
    assert emitted
    assert {line["confidence"] for line in emitted} == {"uncertain"}
    assert not any(line["final"] for line in emitted)


def test_csv_needs_no_seq_column(tmp_path: Path) -> None:
    path = text_file(tmp_path / "recorded.csv", "source,ts,payload.x\na,100,1\na,90,2\n")
    by_time = text_file(tmp_path / "t.yaml", topology())
    answer = inorder("replay", "--topology", by_time, path).well()
    assert [(line["ts"], line["seq"]) for line in answer.lines] == [(90, 2), (100, 3)]
    numbered = text_file(tmp_path / "numbered.yaml", "streams: {default: {}}\n")
    inorder("replay", "--topology", numbered, path).refused("there is no column `seq`", code=3)


def test_produce_needs_seq_unless_by_time(raw: Topic, tmp_path: Path) -> None:
    """A topology that orders the stream by time makes the sequence number optional."""
    file = text_file(tmp_path / "t.yaml", topology(raw=raw.name))
    path = json_lines(tmp_path / "events.jsonl", in_ns(RECORDED[:3]))
    command = ("produce", *raw.words)
    answer = inorder(*command, path)
    assert answer.code == Exit.UNREADABLE
    assert "published 1 records" in answer.err
    assert (
        "row 2: seq: there is no seq; rows of stream 'default' need a sequence number" in answer.err
    )
    inorder(*command, "--topology", file, path).well("published 3 records")
    numbers = [dict(headers_of(message)).get("seqNum") for message in raw.messages(4)]
    assert sorted(numbers, key=str) == [None, None, b"7", b"7"]
