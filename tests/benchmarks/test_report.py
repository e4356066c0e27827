"""Examples: the report has a table for each query, its command, and who is ahead; an answer of ours
that is wrong fails the run."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest

from benchmarks import report
from benchmarks.disorder import run as disorder
from benchmarks.disorder.run import OURS, Entry, EntryFailed, Measured
from benchmarks.disorder.score import Score
from benchmarks.disorder.worlds import RECORDED, WORLDS, Arrival, asked_in, laid_over, write_world


def _measured(entry: str, wrong_end: int = 0, wait_ms: float = 10.0) -> Measured:
    score = Score(100, 3, wrong_end, 0, 0, wait_ms, wait_ms, wait_ms, wait_ms)
    return Measured(entry, "calm", "q7", score, 20_000.0, 50.0, 80)


def _found(
    entry: Entry, folder: Path, world: str, query: str, _: object, wrong_end: int = 0
) -> Measured:
    return _measured(entry.name, wrong_end)._replace(world=world, query=query)


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    found = tmp_path / "REPORT.md"
    monkeypatch.setattr(report, "MARKDOWN", found)
    monkeypatch.setattr(report, "programs", lambda: ({"python": sys.executable}, ["peers: none"]))
    monkeypatch.setattr(report, "record", _recording)
    return found


def _recording(folder: Path, seed: int) -> str:
    arrivals = [Arrival(at + 30, f"phone {at % 3}", at // 3, at) for at in range(0, 3_000, 7)]
    write_world(folder, RECORDED, laid_over(arrivals, seed))
    return ""


def test_the_report_has_a_table_for_each_query(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disorder, "measure", _found)
    assert report.run(["--seconds", "1", "--cpu-records", "1000"]) == 0
    text = files.read_text()
    parts = sum(len(asked_in(world)) for world in (*WORLDS, RECORDED))
    assert text.count("### ") == 2 + parts
    assert text.index("### All together") < text.index("### Events per CPU second")
    assert "--world rough --query q11" in text
    assert "Events per CPU second: calm, q7, 1 000 records" in text
    assert "* peers: none" in text
    assert f"**{OURS}**" in text


def test_over_all_those_come_first_that_are_right_most_often_then_soonest() -> None:
    parts = [
        report.Part("calm", "q7", [_measured("slow", wait_ms=90.0), _measured(OURS)]),
        report.Part("calm", "q8", [_measured("slow", wait_ms=70.0), _measured(OURS)]),
        report.Part("calm", "q7", [_measured("wrong", wrong_end=2, wait_ms=1.0)]),
        report.Part("calm", "q8", [_measured("wrong", wait_ms=3.0)]),
    ]
    rows = report.overview(parts).rows
    assert [row[0] for row in rows] == [f"**{OURS}**", "slow", "wrong"]
    assert rows[1][1:] == ("2", "2 of 2", "0 %", "3.00 %", "80")
    assert rows[2][1:] == ("2", "1 of 2", "1.00 %", "3.00 %", "3"), "the wait where it is right"


def test_who_is_ahead_of_ours_is_named() -> None:
    others = [
        _measured("sooner", wait_ms=5.0),
        _measured("wrong", wrong_end=1, wait_ms=5.0),
        _measured("later", wait_ms=20.0),
    ]
    text = report.judged(report.Part("calm", "q7", [_measured(OURS), *others]))
    assert "Bad: sooner and right in the end: sooner." in text
    assert "Wrong in the end: wrong." in text
    assert "later than ours: later." in text


@pytest.mark.usefixtures("files")
def test_a_wrong_answer_of_ours_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    options = ["--world", "calm", "--query", "q7", "--seconds", "1", "--entry", OURS]
    monkeypatch.setattr(disorder, "measure", partial(_found, wrong_end=1))
    assert report.run(options) == 1


@pytest.mark.usefixtures("files")
def test_an_entry_that_fails_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> Measured:
        raise EntryFailed("broken: exit code 3")

    monkeypatch.setattr(disorder, "measure", fails)
    assert report.run(["--world", "calm", "--query", "q7", "--seconds", "1"]) == 1
    assert "broken: exit code 3" in capsys.readouterr().err
