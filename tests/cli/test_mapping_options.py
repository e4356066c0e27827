"""Examples: options with which `inorder replay` reads any file, and refusals with their remedy."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.invoking import Answer, inorder, json_lines, text_file

TABLE = """time,device,n,kind,force
1700000000000,press-7,0,stroke,12.5
1700000000200,press-7,2,stroke,13
1700000000150,press-7,1,stroke,12.9
"""
TOPOLOGY = """
streams:
  presses:
    fields: {source: payload.device, seq: payload.n, ts: payload.time, payload: payload}
    ts_unit: ms
"""
OPTIONS = ["--source", "device", "--seq", "n", "--ts", "time", "--ts-unit", "ms"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text(TABLE)
    (tmp_path / "t.yaml").write_text(TOPOLOGY)
    (tmp_path / "plain.yaml").write_text("streams: {a: }\n")
    return tmp_path


def replay(folder: Path, *options: str) -> Answer:
    return inorder("replay", *options, folder / "t.csv")


def events_of(answer: Answer) -> list[tuple[str, int, int]]:
    lines = [line for line in answer.well().lines if line["kind"] == "event"]
    return [(line["stream"], line["seq"], line["ts"]) for line in lines]


MS = 1_000_000
IN_ORDER = [(seq, 1_700_000_000_000 * MS + ms * MS) for seq, ms in enumerate((0, 150, 200))]


def test_table_needs_no_topology(folder: Path) -> None:
    result = replay(folder, *OPTIONS, "--type", "kind")
    assert events_of(result) == [("default", *each) for each in IN_ORDER]
    first = result.lines[0]
    assert first["type"] == "stroke"
    assert first["payload"]["force"] == 12.5


def test_rows_without_number_sort_by_time(folder: Path) -> None:
    result = replay(folder, "--source", "device", "--ts", "time", "--ts-unit", "ms")
    assert [ts for _, _, ts in events_of(result)] == [ts for _, ts in IN_ORDER]


@pytest.mark.parametrize("options", [["--values"], []])
def test_topology_fields_apply(folder: Path, options: list[str]) -> None:
    result = replay(folder, *options, "--topology", str(folder / "t.yaml"))
    assert events_of(result) == [("presses", *each) for each in IN_ORDER]


ARRIVING = """
streams:
  presses: {fields: {source: payload.device, ts: payload.time, arrival: payload.got}, ts_unit: ms,
            reorder: {rule: time}}
"""


def test_arrival_field_applies(folder: Path) -> None:
    (folder / "t.yaml").write_text(ARRIVING)
    header, *rows = TABLE.splitlines()
    lines = [f"{row},{1_700_000_001_000 + at}" for at, row in enumerate(rows)]
    (folder / "t.csv").write_text("\n".join([f"{header},got", *lines]))
    result = replay(folder, "--topology", str(folder / "t.yaml"))
    assert "no line has an arrival time" not in result.err
    assert min(line["at"] for line in result.lines) >= 1_700_000_001_000 * MS
    (folder / "t.csv").write_text(TABLE)
    lacking = replay(folder, "--topology", str(folder / "t.yaml"))
    assert (lacking.code, "no column `got`" in lacking.err) == (3, True)


@pytest.mark.parametrize(
    ("fields", "payload", "is_value"),
    [
        ("source: payload.device, seq: payload.n, ts: payload.time", {"device": "x"}, False),
        ("source: payload.source, seq: payload.seq", {"source": "x", "seq": 0}, False),
        ("source: payload.source, seq: payload.seq, payload: payload.of", {"v": 1}, False),
        ("source: payload.source, seq: payload.seq", {"v": 1}, True),
        ('source: ="x", seq: payload.seq', {"v": 1}, True),
        ("source: header.id, seq: header.n", {"v": 1}, False),
    ],
)
def test_event_lines_stay_as_they_are(
    folder: Path, fields: str, payload: dict[str, object], is_value: bool
) -> None:
    """`inorder dump` writes such lines even for topics whose records have other fields."""
    (folder / "t.yaml").write_text(f"streams: {{presses: {{fields: {{{fields}}}}}}}")
    line = {"source": "x", "seq": 0, "ts": 5, "arrival": 9, "offset": 0, "payload": payload}
    (folder / "t.csv").unlink()
    path = text_file(folder / "t.jsonl", json.dumps(line) + "\n")
    result = inorder("replay", "--show", "event", "--topology", folder / "t.yaml", path).well()
    assert result.last["payload"] == (line if is_value else payload)


def test_match_reads_a_table(folder: Path) -> None:
    query = "PATTERN SEQ(stroke a, stroke b) WITHIN 1s RETURN b.force AS force"
    words = ["--correct", "--final-only", "--query", query, *OPTIONS, "--type", "kind"]
    result = inorder("match", *words, folder / "t.csv").well()
    found = [line["values"]["force"] for line in result.lines]
    assert sorted(found) == [12.9, 13]


def in_seconds(folder: Path) -> Path:
    rows = "".join(f"press-{n % 4},{n // 4},{1_795_800_000 + n}\n" for n in range(400))
    return text_file(folder / "s.csv", f"device,n,time\n{rows}")


WRONG_UNIT = "looks like seconds and is read as milliseconds: write"
COMMANDS = {
    "replay": [],
    "match": ["--query", "PATTERN SEQ(A a, A b) WITHIN 1s"],
    "audit": ["--json"],
    "init": [],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_wrong_unit_is_reported(folder: Path, command: str) -> None:
    given = [*COMMANDS[command], *OPTIONS[:-1]]
    wrong = inorder(command, *given, "ms", in_seconds(folder)).well()
    assert f"WARNING: `--ts` {WRONG_UNIT} --ts-unit s\n" in wrong.err
    assert "WARNING" not in inorder(command, *given, "s", in_seconds(folder)).well().err


def test_wrong_ts_unit_is_reported(folder: Path) -> None:
    words: list[str | Path] = ["replay", "--topology", folder / "t.yaml", in_seconds(folder)]
    remedy = "streams: {presses: {ts_unit: s}}"
    assert (
        f"WARNING: `ts` of stream `presses` {WRONG_UNIT} {remedy}\n" in inorder(*words).well().err
    )
    inorder(*words, "--ts-unit", "s").refused("or write `ts_unit` in the stream of a topology")
    text_file(folder / "t.yaml", TOPOLOGY.replace("ts_unit: ms", "ts_unit: s"))
    assert "WARNING" not in inorder(*words).well().err


def test_wrong_arrival_unit_is_reported(folder: Path) -> None:
    rows = "".join(f"a,{n},{1_795_800_000_000 + n},{1_795_800_000 + n}\n" for n in range(9))
    path = text_file(folder / "two.csv", f"device,n,time,got\n{rows}")
    result = inorder("replay", *OPTIONS, "--arrival", "got", path)
    assert (
        "`arrival` looks like seconds and is read as milliseconds, the unit of both" in result.err
    )


@pytest.mark.parametrize(
    ("table", "remedy"),
    [
        (TABLE, "--ts time --ts-unit ms"),
        (
            "device,n,made at\na,0,2023-11-14T22:13:20Z\na,1,2023-11-14T22:13:21Z\n",
            "--ts 'made at'",
        ),
        ("device,n,t\na,0,2023-11-14 22:13:20\na,1,2023-11-14 22:13:21\n", "--ts t --ts-zone UTC"),
        ("device,n\na,0\na,1\n", "--ts NAME"),
    ],
)
@pytest.mark.parametrize("command", ["replay", "match"])
def test_missing_time_names_the_option(folder: Path, command: str, table: str, remedy: str) -> None:
    path = text_file(folder / "t.csv", table)
    given = [*COMMANDS[command], "--source", "device", "--seq", "n"]
    said = f"WARNING: no field is named for the time, so every time is 0 (1970): write {remedy}\n"
    assert said in inorder(command, *given, path).well().err
    if "NAME" not in remedy:
        mended = inorder(command, *given, *shlex.split(remedy), path).well()
        assert "WARNING" not in mended.err


def test_missing_ts_field_is_named(folder: Path) -> None:
    text_file(folder / "t.yaml", TOPOLOGY.replace(", ts: payload.time", ""))
    result = replay(folder, "--topology", str(folder / "t.yaml")).well()
    assert (
        "every time is 0 (1970): write ts: payload.time in `fields`, and ts_unit: ms" in result.err
    )


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (
            "payload.devise",
            "there is no column `devise` among time, device, n, kind, force; did you",
        ),
        ("payload.devise", "mean `device`?"),
        ("payload.zzz", "name one of these"),
        ("payload.`device.id`", "for a field in `device` write payload.device.id"),
    ],
)
def test_misspelt_column_is_named(folder: Path, source: str, found: str) -> None:
    text_file(folder / "t.yaml", TOPOLOGY.replace("payload.device", source))
    replay(folder, "--topology", str(folder / "t.yaml")).refused(found, code=3)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ([], "`payload` has no `devise` (did you mean `device`?); write it"),
        (["--source", "devise"], "`payload` has no `devise` (did you mean `device`?); write it"),
        (["--source", "of.id"], "`payload` has no `of.id` (write payload.of.id); write it"),
        (["--source", "zzz"], "`payload` has no `zzz`; write it"),
    ],
)
def test_misspelt_json_field_is_named(folder: Path, options: list[str], found: str) -> None:
    text_file(folder / "t.yaml", TOPOLOGY.replace("payload.device", "payload.devise"))
    rows = [{"device": "a", "n": n, "time": n, "of": {"id": "a"}} for n in range(20)]
    given = options and [*options, *OPTIONS[2:]]
    words = given or ["--topology", str(folder / "t.yaml")]
    result = inorder("replay", *words, json_lines(folder / "rows.jsonl", rows))
    assert result.code == 4
    assert result.err.count(found) == 1
    assert "dead: 20 source_missing; first in line 1: see the warning above" in result.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "--source NAME --seq NAME --ts NAME"),
        (["--ts", "time"], "--ts needs --source"),
        (["--ts-unit", "ms"], "--ts-unit needs --source"),
        (["--values"], "give --topology, or --source"),
        (["--values", "--topology", "plain.yaml"], "no stream has `fields`"),
        (["--source", "device", "--topology", "plain.yaml"], "--seq is missing"),
        (["--source", "=x"], 'write ="text"'),
        ([*OPTIONS, "--ts-zone", "Mars"], "write Europe/Berlin or UTC"),
        ([*OPTIONS, "--ts-zone", "vienna"], "machine; write Europe/Vienna\n"),
    ],
)
def test_bad_options_are_refused(folder: Path, options: list[str], said: str) -> None:
    given = [str(folder / each) if each.endswith(".yaml") else each for each in options]
    replay(folder, *given).refused(said)


@pytest.mark.parametrize("command", COMMANDS)
def test_json_array_reads_as_lines(folder: Path, command: str) -> None:
    rows = [{"device": f"d{n % 2}", "n": n // 2, "time": 1_700_000_000_000 + n} for n in range(20)]
    given = [*COMMANDS[command], *OPTIONS]
    lines = inorder(command, *given, json_lines(folder / "rows.json", rows)).well()
    array = inorder(command, *given, text_file(folder / "rows.json", json.dumps(rows, indent=1)))
    assert array.well().out == lines.out


def test_list_of_events_is_explained(folder: Path) -> None:
    lines = [[{"device": "a", "n": n}, {"device": "a", "n": n + 1}] for n in (0, 2)]
    path = text_file(folder / "lists.jsonl", "".join(f"{json.dumps(each)}\n" for each in lines))
    said = inorder("replay", "--source", "device", "--seq", "n", path).err
    assert "`payload` is a list of 2 values; write each as a record of its own" in said


def test_sole_dead_letter_is_explained_once(folder: Path) -> None:
    good = "".join(f'{{"source": "a", "seq": {n}, "ts": {n}}}\n' for n in range(5))
    nan = '{"source": "a", "seq": 5, "ts": NaN}\n'
    one = text_file(folder / "one.jsonl", good + nan)
    path = text_file(folder / "two.jsonl", good + nan + "{}\n")
    for name, said in ((one, 1), (path, 2)):
        plain = str(folder / "plain.yaml")
        run = [sys.executable, "-m", "inorder", "replay", "--topology", plain, str(name)]
        seen = subprocess.run(run, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        assert seen.stdout.count(b"NaN") == said, seen.stdout


@pytest.mark.parametrize("command", ["audit", "init", "replay", "match", "produce"])
def test_unknown_time_zone_is_refused(folder: Path, command: str) -> None:
    also = {"match": ["--query", "A a"], "produce": ["--brokers", "127.0.0.1:1", "--topic", "t"]}
    given = [*also.get(command, []), "--ts-zone", "Mars/\nX", str(folder / "rows.csv")]
    result = inorder(command, *given)
    result.refused("--ts-zone Mars/\\nX: is not a time zone of this machine; write Europe/Berlin")
    assert result.err.count("\n") == 1
