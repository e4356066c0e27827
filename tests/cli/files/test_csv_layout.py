"""Examples: CSV without column names, or with lines before them, in the commands that read files.

Each error names the options that make the file readable.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from recordings.csv_layout import AS_USUAL, CsvLayout, remedy_for
from tests.cli.invoking import inorder, text_file

NAMES = "device,n,time\n"
ROWS = "".join(f"d{i % 4},{i // 4},{1_795_800_000 + i}\n" for i in range(400))
BEFORE = 'Export of "fleet 7"\n\nmade;2026\n'
FILES = {
    "no names": (ROWS, "--header device,n,time"),
    "lines before the names": (BEFORE + NAMES + ROWS, "--skip-lines 3"),
    "lines before the rows": (BEFORE + ROWS, "--skip-lines 3 --header device,n,time"),
}
MAPPED = ["--source", "device", "--seq", "n", "--ts", "time", "--ts-unit", "s"]
COMMANDS = {
    "replay": MAPPED,
    "match": ["--query", "PATTERN SEQ(A a, A b) WITHIN 9s", *MAPPED],
    "audit": ["--json"],
    "init": [],
}


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("command", COMMANDS)
def test_suggested_options_fix_the_file(tmp_path: Path, command: str, file: str) -> None:
    content, options = FILES[file]
    words = [command, *COMMANDS[command]]
    usual = inorder(*words, text_file(tmp_path / "rows.csv", NAMES + ROWS)).well()
    path = text_file(tmp_path / "rows.csv", content)
    shown = options.replace("device,n,time", "a,b,c")
    inorder(*words, path).refused(f"add {shown}", code=3)
    assert inorder(*words, *shlex.split(options), path).well().out == usual.out


def test_options_apply_to_event_lines(tmp_path: Path) -> None:
    topology = text_file(tmp_path / "t.yaml", "streams: {default: {}}\n")
    path = text_file(tmp_path / "rows.csv", "a,0,5\na,1,6\n")
    words: list[str | Path] = ["replay", "--topology", topology, path]
    inorder(*words).refused("line 1 has values", "add --header a,b,c", code=3)
    answer = inorder(*words, "--header", "source,seq,ts").well()
    assert [(line["seq"], line["ts"]) for line in answer.of("event")] == [(0, 5), (1, 6)]


def test_bad_row_keeps_its_line_number(tmp_path: Path) -> None:
    path = text_file(tmp_path / "rows.csv", f"{BEFORE}a,0,5\na,1\na,2,7\n")
    answer = inorder("replay", *MAPPED, "--skip-lines", "3", "--header", "device,n,time", path)
    (dead,) = answer.well().of("dead")
    assert (dead["line"], dead["reason"]) == (5, "row_ragged")


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("x.csv", "--header device,,time", "--header device,,time: a name is empty"),
        ("x.csv", "--header device,n", "--header names 2 columns, but line 1 has 3 cells"),
        (
            "x.csv",
            "--header device,device,n",
            "--header device,device,n: two names are equal; rename one",
        ),
        ("x.csv", "--skip-lines 999 --header a,b,c", "there is no column `device`"),
        ("x.csv", "--skip-lines 999", "CSV without a line of column names"),
        ("x.jsonl", "--skip-lines 1", "is JSON lines, and --skip-lines 1 is for CSV"),
    ],
)
def test_bad_options_are_refused(tmp_path: Path, name: str, options: str, said: str) -> None:
    path = text_file(tmp_path / name, ROWS if name.endswith("csv") else "{}\n")
    answer = inorder("replay", *MAPPED, *shlex.split(options), path)
    assert answer.code in (2, 3)
    assert said in answer.refused(code=answer.code).err


@pytest.mark.parametrize("command", ["audit", "init"])
def test_topics_have_no_skip_lines(command: str) -> None:
    words = ["--brokers", "127.0.0.1:1", "--topic", "t", "--skip-lines", "2"]
    inorder(command, *words).refused("--skip-lines 2: is for a file; leave it out")


@pytest.mark.parametrize(
    "usual",
    [
        NAMES + ROWS,
        NAMES,
        "device,n,time\na,1,2,3\na,1\n",
        "a\n1\n2\n",
        "",
        'device;n;time\n"a\nb";1;2\n',
    ],
)
def test_usual_file_needs_no_option(usual: str) -> None:
    assert remedy_for(usual.encode(), is_whole=True) is None


def test_partial_last_line_is_ignored() -> None:
    content = (BEFORE + NAMES + ROWS).encode()
    for size in range(len(BEFORE + NAMES) + 30, len(BEFORE + NAMES) + 60):
        found = remedy_for(content[:size], is_whole=False)
        assert found == "its column names are in line 4: add --skip-lines 3"


def test_many_columns_are_only_counted() -> None:
    row = ",".join(map(str, range(40)))
    found = remedy_for(f"{row}\n{row}\n".encode(), is_whole=True)
    assert found is not None
    assert found.endswith("add --header with a name for each of its 40 columns")


def test_layout_prints_as_its_options() -> None:
    assert AS_USUAL.options() == ""
    assert CsvLayout(2, ("a b", "c")).options() == " --skip-lines 2 --header 'a b,c'"


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
@pytest.mark.parametrize("command", COMMANDS)
def test_column_names_must_be_utf8(tmp_path: Path, command: str, encoding: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(NAMES.replace("\n", ",gerät\n") + ROWS.replace("\n", ",7\n"), encoding=encoding)
    answer = inorder(command, *COMMANDS[command], path)
    assert (answer.code, answer.out) == (3, "")
    assert "the column names are not UTF-8; save the file as UTF-8" in answer.err


def test_payload_names_must_be_utf8(tmp_path: Path) -> None:
    topology = text_file(tmp_path / "t.yaml", "streams: {default: {}}\n")
    path = tmp_path / "rows.csv"
    path.write_bytes("source,seq,payload.°C\nm,1,7\n".encode("latin-1"))
    answer = inorder("replay", "--topology", topology, path)
    assert (answer.code, answer.out) == (3, "")
    assert "the column names are not UTF-8; save the file as UTF-8" in answer.err
