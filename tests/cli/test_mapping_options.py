"""Any file through `replay`: examples of the options, and of what is refused with the remedy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.files import match
from cli.files.replay import command

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


def replay(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(command, [*options, str(folder / "t.csv")])


def events_of(result: Result) -> list[tuple[str, int, int]]:
    assert result.exit_code == 0, result.stderr
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    return [(line["stream"], line["seq"], line["ts"]) for line in lines if line["kind"] == "event"]


MS = 1_000_000
IN_ORDER = [(seq, 1_700_000_000_000 * MS + ms * MS) for seq, ms in enumerate((0, 150, 200))]


def test_a_table_is_put_in_order_without_a_topology(folder: Path) -> None:
    result = replay(folder, *OPTIONS, "--type", "kind")
    assert events_of(result) == [("default", *each) for each in IN_ORDER]
    first = json.loads(result.stdout.splitlines()[0])
    assert first["type"] == "stroke"
    assert first["payload"]["force"] == 12.5


def test_without_numbers_the_time_is_the_order(folder: Path) -> None:
    result = replay(folder, "--source", "device", "--ts", "time", "--ts-unit", "ms")
    assert [ts for _, _, ts in events_of(result)] == [ts for _, ts in IN_ORDER]


def test_values_are_read_by_the_fields_of_the_topology(folder: Path) -> None:
    result = replay(folder, "--values", "--topology", str(folder / "t.yaml"))
    assert events_of(result) == [("presses", *each) for each in IN_ORDER]


def test_patterns_are_found_in_a_table(folder: Path) -> None:
    query = "PATTERN SEQ(stroke a, stroke b) WITHIN 1s RETURN b.force AS force"
    words = ["--correct", "--final-only", "--query", query, *OPTIONS, "--type", "kind"]
    result = CliRunner().invoke(match.command, [*words, str(folder / "t.csv")])
    assert result.exit_code == 0, result.stderr
    found = [json.loads(line)["values"]["force"] for line in result.stdout.splitlines()]
    assert sorted(found) == [12.9, 13]


def test_a_unit_that_cannot_be_right_is_said_with_the_option(folder: Path) -> None:
    result = replay(folder, *OPTIONS[:6])
    assert "write --ts-unit ms" in result.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "--source NAME --seq NAME --ts NAME"),
        (["--ts", "time"], "--ts without --source"),
        (["--ts-unit", "ms"], "--ts-unit without --source"),
        (["--values"], "give --topology, or --source"),
        (["--values", "--topology", "plain.yaml"], "no stream has `fields`"),
        (["--source", "device", "--topology", "plain.yaml"], "--seq is missing"),
        (["--source", "=x"], 'write ="text"'),
        ([*OPTIONS, "--ts-zone", "Berlin"], "write Europe/Berlin or UTC"),
    ],
)
def test_what_does_not_fit_is_refused(folder: Path, options: list[str], said: str) -> None:
    given = [str(folder / each) if each.endswith(".yaml") else each for each in options]
    result = replay(folder, *given)
    assert result.exit_code == 2
    assert said in result.stderr
