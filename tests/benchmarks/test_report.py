"""Examples: the report has a table for each query, its command, and who is ahead; an answer of ours
that is wrong fails the run."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from benchmarks import report
from benchmarks.disorder.run import OURS, EntryFailed, Measured
from benchmarks.disorder.score import Score
from benchmarks.disorder.worlds import RECORDED, WORLDS, Arrival, asked_in, laid_over, write_world


def _measured(entry: str, wrong_end: int = 0, wait_ms: float = 10.0) -> Measured:
    score = Score(100, 3, wrong_end, 0, 0, wait_ms, wait_ms, wait_ms, wait_ms)
    return Measured(entry, "calm", "q7", score, 20_000.0, 50.0, 80)


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Path, Path]:
    found = tmp_path / "REPORT.md", tmp_path / "build" / "report.html"
    monkeypatch.setattr(report, "MARKDOWN", found[0])
    monkeypatch.setattr(report, "HTML", found[1])
    monkeypatch.setattr(report, "programs", lambda: ({"python": sys.executable}, ["peers: none"]))
    monkeypatch.setattr(report, "record", _recording)
    return found


def _recording(folder: Path, seed: int) -> str:
    arrivals = [Arrival(at + 30, f"phone {at % 3}", at // 3, at) for at in range(0, 3_000, 7)]
    write_world(folder, RECORDED, laid_over(arrivals, seed))
    return ""


def test_the_report_has_a_table_for_each_query(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "measure", lambda entry, *_: _measured(entry.name))
    assert report.run(["--seconds", "1", "--cpu-records", "1000"]) == 0
    text, page = (file.read_text() for file in files)
    parts = sum(len(asked_in(world)) for world in (*WORLDS, RECORDED))
    assert (text.count("### "), page.count("<svg")) == (2 + parts, parts)
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


def test_names_in_a_picture_lie_above_one_another() -> None:
    same = [_measured(name) for name in ("one", "two", "three")]
    drawn = report.picture(report.Part("calm", "q7", same))
    heights = [
        float(y) for y in re.findall(r'<text x="[0-9]+" y="(-?[0-9]+)" font-size="10">', drawn)
    ]
    assert len(heights) == len(same)
    assert [heights[0] - y for y in heights] == [0, report.LINE_PX, 2 * report.LINE_PX]


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
    monkeypatch.setattr(report, "measure", lambda entry, *_: _measured(entry.name, wrong_end=1))
    assert report.run(options) == 1


@pytest.mark.usefixtures("files")
def test_an_entry_that_fails_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> Measured:
        raise EntryFailed("broken: exit code 3")

    monkeypatch.setattr(report, "measure", fails)
    assert report.run(["--world", "calm", "--query", "q7", "--seconds", "1"]) == 1
    assert "broken: exit code 3" in capsys.readouterr().err
