"""Examples: hostile files in the commands that read files.

A table gives the exit code and the words for each fault. No stack trace appears, and the counts
balance.
"""

from __future__ import annotations

import gzip
import os
import threading
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from recordings import rows
from tests.cli.invoking import inorder, text_file

BEGIN_MS = 1_700_000_000_000
HEAD = "device,n,time,v\n"
ROWS = "".join(f"m{i % 3},{i // 3},{BEGIN_MS + i * 100},{i / 2}\n" for i in range(60))
GOOD = HEAD + ROWS
WHERE = ["--source", "device", "--seq", "n", "--ts", "time", "--ts-unit", "ms"]
NESTED = '{"device":"a","n":1,"time":1,"x":' + "[" * 9_000 + "]" * 9_000 + "}\n"
WITHOUT_ZONE = HEAD + "".join(f"m,{i},2023-11-14 22:{i:02d}:20,1\n" for i in range(60))


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
        ("cut.json", b'[{"device":"a","n":1,"time":1}, {"device":"a","n":2', 1, 1),
        ("nan.json", b'[{"device":"a","n":1,"time":1}, {"device":"a","n":NaN}]', 1, 1),
        ("none.jsonl", b"", 0, 0),
        ("header.csv", HEAD.encode(), 0, 0),
    ],
)
def test_bad_rows_keep_counts_balanced(
    tmp_path: Path, name: str, content: bytes, events: int, dead: int
) -> None:
    (tmp_path / name).write_bytes(content)
    totals = inorder("replay", "--json", *WHERE, tmp_path / name).well().summary
    assert (totals["event"], totals["dead"]) == (events, dead)
    assert totals["in"] == sum(totals[k] for k in ("event", "late", "duplicate", "dead", "held"))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty.csv", b"", "CSV without a line of column names"),
        ("blank.csv", b"\n\n", "has no rows|there is no column"),
        ("empty.jsonl", b"", "no line is an event|has no rows"),
        ("chance.csv", bytes(range(128, 256)) * 9, "the column names are not UTF-8"),
        ("chance.parquet", bytes(range(256)) * 9, "cannot be read as Parquet"),
        ("chance.jsonl", bytes(range(128, 256)) * 9, "no line is an event|has fields"),
        ("array.json", b"[1, 2]", "no line is an event|has fields"),
        ("cut.csv.gz", gzip.compress(GOOD.encode())[:-20], "damaged gzip"),
        ("plain.csv.gz", GOOD.encode(), "is not gzip; rename it or compress it"),
        ("twice.csv", GOOD.replace("v", "time").encode(), "two columns are called `time`"),
    ],
)
def test_unreadable_file_is_refused(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    for command in ("init", "audit"):
        result = inorder(command, str(path))
        assert result.code in (2, 3), result.err
        assert any(word in result.err for word in words.split("|")), result.err


def test_overlong_line_is_one_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MAX_LINE_BYTES", 1_000)
    path = tmp_path / "t.csv"
    for long in ("m1," + "x" * 5_000, 'm1,"' + "x\n" * 5 + "x" * 5_000 + '"', "," * 3_000):
        path.write_text(f"{GOOD}{long}\n{ROWS}u\n")
        result = inorder("replay", "--json", "--show", "dead", *WHERE, str(path))
        line, ragged = result.lines
        assert "longer than 1000 characters" in line["detail"]
        assert ragged["line"] == 123 + long.count("\n")


def test_missing_file_is_refused(tmp_path: Path) -> None:
    query = "PATTERN SEQ(A a) WITHIN 1 s"
    for command in (["init"], ["audit"], ["replay"], ["match", "--query", query]):
        for path, word in ((tmp_path, "is a directory"), (tmp_path / "no.csv", "no such file")):
            inorder(*command, *WHERE, path).refused(word, code=3)


def test_zoneless_times_are_refused(tmp_path: Path) -> None:
    path = text_file(tmp_path / "t.csv", WITHOUT_ZONE)
    inorder("audit", path).refused("has no time zone", "--ts-zone", code=4)
    inorder("audit", "--ts-zone", "UTC", path).well()


def test_every_parquet_type_is_read(tmp_path: Path) -> None:
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
    result = inorder("replay", "--json", *WHERE, str(tmp_path / "t.parquet"))
    assert result.summary["event"] == count, result.err
    parquet.write_table(table.slice(0, 0), tmp_path / "none.parquet")
    result = inorder("replay", "--json", *WHERE, str(tmp_path / "none.parquet"))
    assert result.summary["in"] == 0, result.err
    assert "has no rows" in inorder("audit", str(tmp_path / "none.parquet")).err


def test_init_reads_a_pipe(tmp_path: Path) -> None:
    """A refusal of standard input names no temporary file."""
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    writing = threading.Thread(target=pipe.write_text, args=(GOOD,), daemon=True)
    writing.start()
    by_pipe = inorder("init", str(pipe))
    writing.join()
    by_stdin = inorder("init", "-", stdin=GOOD.replace("device,n,time", "device;n;time").encode())
    assert "seq: payload.n" in by_pipe.out, by_pipe.err
    assert by_stdin.code == 3
    assert "/tmp" not in by_stdin.err
