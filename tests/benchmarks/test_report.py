"""Examples: the report is complete, README.md shows its table, and better entries are named.

If our own answer is wrong, the run fails.
"""

from __future__ import annotations

import csv
import sys
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest

from benchmarks import engines, report
from benchmarks.disorder import run as disorder
from benchmarks.disorder.run import OURS, Entry, EntryFailed, Measured
from benchmarks.disorder.score import Score
from benchmarks.disorder.worlds import (
    RECORDED,
    WORLDS,
    Arrival,
    overlay_recording,
    queries_of,
    write_world,
)


def _measured(entry: str, wrong_end: int = 0, wait_ms: float = 10.0) -> Measured:
    score = Score(100, 3, wrong_end, 0, 0, wait_ms, wait_ms, wait_ms, wait_ms)
    return Measured(entry, "calm", "q7", score, 20_000.0, 50.0, 80)


def _found(
    entry: Entry, folder: Path, world: str, query: str, _: object, wrong_end: int = 0
) -> Measured:
    return _measured(entry.name, wrong_end)._replace(world=world, query=query)


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    found = tmp_path / "report.csv"
    monkeypatch.setattr(report, "CSV", found)
    monkeypatch.setattr(report, "programs", lambda: ({"python": sys.executable}, ["peers: none"]))
    monkeypatch.setattr(report, "record", _recording)
    return found


def _recording(folder: Path, seed: int) -> str:
    arrivals = [Arrival(at + 30, f"phone {at % 3}", at // 3, at) for at in range(0, 3_000, 7)]
    write_world(folder, RECORDED, overlay_recording(arrivals, seed))
    return ""


def _read(path: Path) -> list[report.Part]:
    with path.open(newline="") as file:
        assert file.readline().split(",") == [*report.FIELDS[:-1], f"{report.FIELDS[-1]}\n"]
        lines = [*csv.reader(file)]
    found: dict[tuple[str, str, str], list[Measured]] = {}
    for name, world, query, entry, *figures in lines:
        expected, first, end, *waits, mib, code, speed = (float(one or 0) for one in figures)
        mean_ms, first_ms, settled_ms = waits
        score = Score(int(expected), int(first), int(end), 0, 0, mean_ms, first_ms, 0, settled_ms)
        one = Measured(entry, world, query, score, speed or None, mib, int(code))
        found.setdefault((world, query, name), []).append(one)
    return [report.Part(*place[:2], group, place[2]) for place, group in found.items()]


def test_report_is_complete(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(disorder, "measure", _found)
    assert report.run(["--seconds", "1", "--cpu-records", "1000"]) == 0
    parts = _read(files)
    asked = [(world, query) for world in (*WORLDS, RECORDED) for query in queries_of(world)]
    assert [part[:2] for part in parts if part.name == "answers"] == asked
    costs = [part for part in parts if part.name != "answers"]
    assert [part.name for part in costs] == ["10,000 records/s", "500 records/s"]
    assert {part[:2] for part in costs} == {report.CPU_OF}
    said = capsys.readouterr()
    assert "All together" in said.out
    assert "peers: none" in said.err


def test_readme_shows_the_report() -> None:
    parts = _read(report.CSV)
    answers = [part for part in parts if part.name == "answers"]
    table = report.overview(answers, [part for part in parts if part.name != "answers"])
    _, _, *lines = table.markdown().splitlines()
    assert "\n".join(lines) in report.CSV.with_name("README.md").read_text()


def test_overview_ranks_right_entries_first() -> None:
    parts = [
        report.Part("calm", "q7", [_measured("slow", wait_ms=90.0), _measured(OURS)]),
        report.Part("calm", "q8", [_measured("slow", wait_ms=70.0), _measured(OURS)]),
        report.Part("calm", "q7", [_measured("wrong", wrong_end=2, wait_ms=1.0)]),
        report.Part("calm", "q8", [_measured("wrong", wait_ms=3.0)]),
    ]
    rows = report.overview(parts).rows
    assert [row[0] for row in rows] == [OURS, "slow", "wrong"]
    assert rows[1][1:] == ("2/2", "0", "3.00", "80")
    assert rows[2][1:] == ("1/2", "1.00", "3.00", "3"), "the wait where it is right"


def test_better_entries_are_named() -> None:
    others = [
        _measured("sooner", wait_ms=5.0),
        _measured("wrong", wrong_end=1, wait_ms=5.0),
        _measured("later", wait_ms=20.0),
    ]
    text = report.judge(report.Part("calm", "q7", [_measured(OURS), *others]))
    assert "Bad: sooner and right in the end: sooner." in text
    assert "Wrong in the end: wrong." in text
    assert "later than ours: later." in text


@pytest.mark.usefixtures("files")
def test_wrong_answer_fails_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--world", "calm", "--query", "q7", "--seconds", "1"]
    monkeypatch.setattr(disorder, "measure", partial(_found, wrong_end=1))
    assert report.run([*options, "--entry", OURS]) == 1
    monkeypatch.setattr(disorder, "measure", Mock(side_effect=EntryFailed("broken: exit code 3")))
    assert report.run(options) == 1
    assert "broken: exit code 3" in capsys.readouterr().err


def test_engines_have_a_reference() -> None:
    slow, fast, none = (
        _measured("slow")._replace(events_per_cpu_s=speed) for speed in (20e3, 60e3, None)
    )
    found = {OURS: [slow, fast], engines.TRIVIAL: [fast], "short": [none]}
    rows = engines.table_of("q7", found).rows
    assert rows[0] == (OURS, "40", "20", "60", "0.67", "0")
    assert rows[2][1:5] == ("-", "-", "-", "-")
