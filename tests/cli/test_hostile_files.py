"""Files of strangers through the commands that read files, examples: a table of what is wrong with
each, and the code and the words that it gets. No stack trace is shown, and the balance holds."""

from __future__ import annotations

import gzip
import json
import os
import threading
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from click import Command
from click.testing import CliRunner, Result
from pyarrow import parquet

from cli.audit import command as audit
from cli.files import init, replay
from recordings import rows

BEGIN_MS = 1_700_000_000_000
HEAD = "device,n,time,v\n"
ROWS = "".join(f"m{i % 3},{i // 3},{BEGIN_MS + i * 100},{i / 2}\n" for i in range(60))
GOOD = HEAD + ROWS
WHERE = ["--source", "device", "--seq", "n", "--ts", "time", "--ts-unit", "ms"]
NESTED = '{"device":"a","n":1,"time":1,"x":' + "[" * 9_000 + "]" * 9_000 + "}\n"
WITHOUT_ZONE = HEAD + "".join(f"m,{i},2023-11-14 22:{i:02d}:20,1\n" for i in range(60))


def run(command: Command, *words: str, stdin: bytes | None = None) -> Result:
    result = CliRunner().invoke(command, words, input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.mark.parametrize(
    ("name", "content", "events", "dead"),
    [
        ("bom.csv", ("\ufeff" + GOOD).encode(), 60, 0),
        ("crlf.csv", GOOD.replace("\n", "\r\n").encode(), 60, 0),
        ("semicolons.csv", GOOD.replace(",", ";").encode(), 60, 0),
        ("quotes.csv", (GOOD + 'm1,2"0,1700000009000,3\n').encode(), 60, 1),
        ("open.csv", (GOOD + 'm1,"20,1700000009000,3\n' + ROWS).encode(), 60, 1),
        ("ragged.csv", (GOOD + "a,b\n1,2,3,4,5\n").encode(), 60, 2),
        ("latin.csv", (GOOD + "m\xfc,1,1700000000000,1\n").encode("latin-1"), 60, 1),
        ("nan.csv", (GOOD + "a,1,NaN,1\na,2,inf,1\n").encode(), 60, 2),
        ("nested.jsonl", (NESTED + '{"device":"a","n":1,"time":1}\n').encode(), 1, 1),
        ("bytes.jsonl", b'{"device":"a\0b","n":1,"time":1}\n\xff\xfe\n', 0, 2),
        ("none.jsonl", b"", 0, 0),
        ("header.csv", HEAD.encode(), 0, 0),
    ],
)
def test_a_replay_balances(
    tmp_path: Path, name: str, content: bytes, events: int, dead: int
) -> None:
    (tmp_path / name).write_bytes(content)
    result = run(replay.command, "--json", *WHERE, str(tmp_path / name))
    assert result.exit_code == 0
    totals = json.loads(result.stderr.splitlines()[-1])
    assert (totals["event"], totals["dead"]) == (events, dead)
    assert totals["in"] == sum(totals[k] for k in ("event", "late", "duplicate", "dead", "held"))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty.csv", b"", "CSV without a line of column names"),
        ("empty.jsonl", b"", "no line is an event|has no rows"),
        ("chance.csv", bytes(range(128, 256)) * 9, "there is no column|has no rows"),
        ("chance.parquet", bytes(range(256)) * 9, "cannot be read as Parquet"),
        ("chance.jsonl", bytes(range(128, 256)) * 9, "no line is an event|has fields"),
        ("array.json", b'[{"device": "a", "n": 0, "time": 1}]', "no line is an event|has fields"),
        ("cut.csv.gz", gzip.compress(GOOD.encode())[:-20], "damaged gzip"),
        ("plain.csv.gz", GOOD.encode(), "is not gzip; rename it or compress it"),
        ("twice.csv", GOOD.replace("v", "time").encode(), "two columns are called `time`"),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_sentence(
    tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    for command in (init.command, audit.command):
        result = run(command, str(path))
        assert result.exit_code in (2, 3), result.stderr
        assert any(word in result.stderr for word in words.split("|")), result.stderr


def test_a_line_without_end_is_one_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MAX_LINE_BYTES", 1_000)
    path = tmp_path / "t.csv"
    for long in ("m1," + "x" * 5_000, 'm1,"' + "x\n" * 5 + "x" * 5_000 + '"', "," * 3_000):
        path.write_text(f"{GOOD}{long}\n{ROWS}u\n")
        result = run(replay.command, "--json", "--show", "dead", *WHERE, str(path))
        line, ragged = [json.loads(each) for each in result.stdout.splitlines()]
        assert "longer than 1000 characters" in line["detail"]
        assert ragged["line"] == 123 + long.count("\n")


def test_a_folder_and_a_file_that_is_not_there(tmp_path: Path) -> None:
    for command in (init.command, audit.command, replay.command):
        for path, word in ((tmp_path, "is a directory"), (tmp_path / "no.csv", "no such file")):
            result = run(command, *WHERE, str(path))
            assert (result.exit_code, word in result.stderr) == (3, True), result.stderr


def test_times_without_a_zone_name_the_option(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(WITHOUT_ZONE)
    result = run(audit.command, str(tmp_path / "t.csv"))
    assert result.exit_code == 4
    assert "has no time zone" in result.stderr
    assert "--ts-zone" in result.stderr
    assert run(audit.command, "--ts-zone", "UTC", str(tmp_path / "t.csv")).exit_code == 0


def test_columns_of_every_type_are_read_beside_the_mapping(tmp_path: Path) -> None:
    count = 30
    table = pa.table(
        {
            "device": ["a"] * count,
            "n": list(range(count)),
            "time": pa.array(range(BEGIN_MS, BEGIN_MS + count), pa.timestamp("ms", tz="UTC")),
            "structs": [{"a": 1, "b": [1, None]}] * count,
            "decimals": [Decimal("1.50")] * count,
            "days": pa.array([19_000] * count, pa.date32()),
            "bytes": [b"\xff\0"] * count,
            "maps": pa.array([[("k", 1)]] * count, pa.map_(pa.string(), pa.int32())),
            "nulls": pa.nulls(count),
            "large": pa.array([2**64 - 1] * count, pa.uint64()),
            "words": pa.array(["a"] * count).dictionary_encode(),
        }
    )
    parquet.write_table(table, tmp_path / "t.parquet")
    result = run(replay.command, "--json", *WHERE, str(tmp_path / "t.parquet"))
    assert json.loads(result.stderr.splitlines()[-1])["event"] == count, result.stderr
    parquet.write_table(table.slice(0, 0), tmp_path / "none.parquet")
    result = run(replay.command, "--json", *WHERE, str(tmp_path / "none.parquet"))
    assert json.loads(result.stderr.splitlines()[-1])["in"] == 0, result.stderr
    assert "has no rows" in run(audit.command, str(tmp_path / "none.parquet")).stderr


def test_what_comes_once_is_read_by_init_too(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    writing = threading.Thread(target=pipe.write_text, args=(GOOD,), daemon=True)
    writing.start()
    by_pipe = run(init.command, str(pipe))
    writing.join()
    by_stdin = run(init.command, "-", stdin=GOOD.replace("device,n,time", "device;n;time").encode())
    assert "seq: payload.n" in by_pipe.stdout, by_pipe.stderr
    assert by_stdin.exit_code == 3
    assert "/tmp" not in by_stdin.stderr
