"""Examples: planted wrong answers score worse, and an unreadable line is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.disorder.score import (
    Answer,
    BadAnswers,
    Right,
    Score,
    find_differing,
    main,
    read_answers,
    read_truth,
    score_answers,
)

TRUTH = {(start, "k"): Right(str(start), 1_000 * start + 500) for start in range(1, 9)}
PERFECT = [Answer(right.ready_us, place, right.value) for place, right in TRUTH.items()]


def test_perfect_answers_score_best() -> None:
    assert score_answers(TRUTH, PERFECT) == Score(8, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize("at", range(8))
def test_planted_errors_score_worse(at: int) -> None:
    dropped = score_answers(TRUTH, PERFECT[:at] + PERFECT[at + 1 :])
    assert (dropped.wrong_first, dropped.wrong_end) == (1, 1)
    doubled = score_answers(TRUTH, [*PERFECT[: at + 1], *PERFECT[at:]])
    assert (doubled.wrong_end, doubled.repeated) == (1, 1)
    late = [*PERFECT[:at], PERFECT[at]._replace(at_us=PERFECT[at].at_us + 800), *PERFECT[at + 1 :]]
    waited = score_answers(TRUTH, late)
    assert (waited.wrong_end, waited.first_mean_ms, waited.first_p99_ms) == (0, 0.1, 0.8)


def test_corrected_answer_ends_right() -> None:
    early = Answer(PERFECT[0].at_us - 400, PERFECT[0].place, "0")
    found = score_answers(TRUTH, [early, *PERFECT])
    assert (found.wrong_first, found.wrong_end, found.corrected) == (1, 0, 1)
    assert (found.first_mean_ms, found.settled_mean_ms) == (-0.05, 0.0)


def test_spurious_answer_is_wrong() -> None:
    spurious = Answer(0, (5, "nobody"), "1")
    assert score_answers(TRUTH, [spurious, *PERFECT]).wrong_end == 1
    withdrawn = score_answers(
        TRUTH, [spurious, *PERFECT, spurious._replace(at_us=10_000, value="")]
    )
    assert (withdrawn.wrong_first, withdrawn.wrong_end) == (1, 0)


def test_missing_answers_are_all_wrong() -> None:
    assert score_answers(TRUTH, []) == Score(8, 8, 8, 0, 0, None, None, None, None)


def test_premature_answer_is_found() -> None:
    assert find_differing(PERFECT, PERFECT[:4], 5_000) == []
    assert find_differing(PERFECT, PERFECT[:3], 5_000) == [PERFECT[3]]


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("1,2,k\n", "line 1: 1,2,k: write 4 columns"),
        ("1,2,k,3\nx,2,k,3\n", "line 2: x,2,k,3: write 4 columns"),
        ("5,2,k,3\n4,2,k,4\n", "line 2: at_us is smaller"),
    ],
)
def test_invalid_line_is_named(lines: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    path.write_text(lines)
    with pytest.raises(BadAnswers, match=why):
        read_answers(path)


def test_score_runs_as_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    truth, answers = tmp_path / "truth.csv", tmp_path / "answers.csv"
    truth.write_text("start_us,key,value,ready_us\n1,k,3,10\n")
    answers.write_text("12,1,k,3\n")
    assert read_truth(truth) == {(1, "k"): Right("3", 10)}
    monkeypatch.setattr("sys.argv", ["score", str(truth), str(answers)])
    assert main() == 0
    assert '"wrong_end": 0' in capsys.readouterr().out
    answers.write_text("?\n")
    assert main() == 2
    assert "line 1" in capsys.readouterr().err
