"""Examples: `inorder produce` with the embedded broker counts and reports the rows it skips."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agents.exits import Exit
from cli.kafka.produce import MAX_REPORTED
from tests.cli.invoking import inorder, text_file
from tests.inorder.records import Topic, headers_of

SOUND = '{"source": "a", "seq": %d, "ts": 5}'


@pytest.mark.parametrize("bad", [0, MAX_REPORTED, MAX_REPORTED + 1])
def test_bad_rows_are_reported(raw: Topic, tmp_path: Path, bad: int) -> None:
    """Half of the bad rows cannot be parsed, and no record can be made from the others."""
    faulty = ["nonsense", '{"source": "a", "seq": -1}']
    lines = [SOUND % 0, "", *(faulty[n % 2] for n in range(bad)), SOUND % 1]
    path = text_file(tmp_path / "rows.jsonl", "\n".join(lines) + "\n")
    answer = inorder("produce", *raw.words, path)
    assert answer.code == (Exit.UNREADABLE if bad else Exit.DONE)
    *lines_before, last = answer.err.splitlines()
    assert last.startswith("published 2 records")
    assert f"({bad} malformed rows and 0 clock rows left out)" in last
    rows = [line for line in lines_before if line.startswith("row ")]
    assert [int(line.split()[1].rstrip(":")) for line in rows] == [
        3 + n for n in range(min(bad, MAX_REPORTED))
    ]
    more = [f"and {bad - MAX_REPORTED} more"] if bad > MAX_REPORTED else []
    assert lines_before == [*rows, *more]
    assert [event.seq for event in raw.events(2)] == [0, 1]


@pytest.mark.parametrize(
    ("name", "text", "values"),
    [
        ("a.jsonl", '{"m": {"id": "a"},  "n": 1}\n{"n": 2}\n', [b'{"m": {"id": "a"},  "n": 1}']),
        ("a.csv", "id,n,x\na,1,1.5\nb,x,\n", [b'{"id":"a","n":1,"x":1.5}']),
    ],
)
def test_foreign_rows_get_no_headers(
    raw: Topic, tmp_path: Path, name: str, text: str, values: list[bytes]
) -> None:
    """JSON rows are sent byte for byte, and CSV rows as JSON."""
    path = text_file(tmp_path / name, text)
    source = "payload.m.id" if name == "a.jsonl" else "id"
    words = ("--source", source, "--seq", "n", "--skip-bad")
    inorder("produce", *raw.words, *words, path).well("(1 malformed rows")
    sent = raw.messages(len(values))
    assert [(each.key(), each.value(), headers_of(each)) for each in sent] == [
        (b"a", value, []) for value in values
    ]


def test_header_option_names_columns(raw: Topic, tmp_path: Path) -> None:
    path = text_file(tmp_path / "rows.csv", "Export of 2026\n\nd1,0\n")
    words = ["--skip-lines", "2", "--header", "id,n", "--source", "id", "--seq", "n"]
    inorder("produce", *raw.words, *words, path).well("published 1 records")
    (sent,) = raw.messages(1)
    assert sent.value() == b'{"id":"d1","n":0}'


def test_missing_input_exits_with_3(raw: Topic, tmp_path: Path) -> None:
    absent = tmp_path / "absent.jsonl"
    inorder("produce", *raw.words, absent).refused("no such file", code=3)


def test_json_summary_is_the_last_line(raw: Topic, tmp_path: Path) -> None:
    path = text_file(tmp_path / "rows.jsonl", "\n".join([SOUND % 0, "nonsense", SOUND % 1]) + "\n")
    summary = inorder("produce", *raw.words, "--json", "--skip-bad", path).well().summary
    assert summary.pop("seconds") >= 0
    assert summary == {"published": 2, "malformed": 1, "clock": 0}


FLEET = """\
streams:
  default:
    input: {raw}
    fields: {{source: payload.truck, seq: payload.n, ts: payload.time}}
    reorder: {{without_seq: by_time}}
"""


def test_topology_fields_apply(raw: Topic, tmp_path: Path) -> None:
    """A row can lack its sequence number if the stream allows it, and fields need no options."""
    rows = text_file(tmp_path / "t.csv", "truck,n,time\nt1,0,100\nt9,,110\nt9,,120\nt1,1,130\n")
    topology = text_file(tmp_path / "t.yaml", FLEET.format(raw=raw.name))
    replay = inorder("replay", "--topology", topology, "--json", rows).well()
    assert replay.summary["in"] == 4
    inorder("produce", *raw.words, "--topology", topology, rows).well("published 4 records")
    sent = [(json.loads(each.value() or b"")["truck"], each.headers()) for each in raw.messages(4)]
    assert sorted(sent) == [("t1", None), ("t1", None), ("t9", None), ("t9", None)]
