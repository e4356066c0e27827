"""Score answers: how many are wrong, and how long they took.

    python score.py TRUTH ANSWERS

TRUTH is a CSV of `start_us,key,value,ready_us`. `ready_us` is the time on the arrival clock when
the window is over and the last record that counts has arrived. An oracle answers then. ANSWERS is a
CSV without a header, of `at_us,start_us,key,value`. At `at_us` on the arrival clock, the program
gave this value for this window and key. A later line for the same window and key corrects it, and
an empty value retracts it. The program prints `Score` as JSON. It needs the standard library only.
"""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

Place = tuple[int, str]
"""The start of a window in us, and its key."""

COLUMNS: Final = 4


class BadAnswers(ValueError):
    """The error for answers that cannot be scored; its text says which line is wrong and why."""


class Right(NamedTuple):
    """The right value of a window and key, and the time when it could be known."""

    value: str
    ready_us: int


class Answer(NamedTuple):
    """A line of the answers; an empty value retracts an earlier answer."""

    at_us: int
    place: Place
    value: str


class Score(NamedTuple):
    """Counts, and waits in ms after the time when the truth could be known.

    A wait is None if nothing was answered. It is negative if an answer came before its last record.
    """

    expected: int
    """The number of right answers that exist."""
    wrong_first: int
    """The number of answers that are missing, are wrong when first given, or should not exist."""
    wrong_end: int
    """The same number after all corrections, plus `repeated`."""
    repeated: int
    """The number of lines that change nothing; a reader that adds answers up counts them twice."""
    corrected: int
    """The number of lines that change or retract an earlier answer."""
    first_mean_ms: float | None
    first_p99_ms: float | None
    settled_mean_ms: float | None
    """The mean wait for the last change of an answer that is right in the end."""
    settled_p99_ms: float | None


def read_truth(path: Path) -> dict[Place, Right]:
    with path.open(newline="") as file:
        rows = csv.DictReader(file)
        return {
            (int(row["start_us"]), row["key"]): Right(row["value"], int(row["ready_us"]))
            for row in rows
        }


def read_answers(path: Path) -> list[Answer]:
    """Read the answers; raise BadAnswers if a line is malformed or its time is below the last."""
    answers: list[Answer] = []
    with path.open(newline="") as file:
        for number, row in enumerate(csv.reader(file), start=1):
            try:
                at_us, start_us, key, value = row
                answer = Answer(int(at_us), (int(start_us), key), value)
            except ValueError as bad:
                wanted = f"write {COLUMNS} columns, at_us,start_us,key,value"
                raise BadAnswers(f"{path.name}, line {number}: {','.join(row)}: {wanted}") from bad
            if answers and answer.at_us < answers[-1].at_us:
                raise BadAnswers(
                    f"{path.name}, line {number}: at_us is smaller than on the line before"
                )
            answers.append(answer)
    return answers


def score_answers(truth: Mapping[Place, Right], answers: Iterable[Answer]) -> Score:
    """Score the answers in one pass, in the order in which they were given."""
    first: dict[Place, Answer] = {}
    current: dict[Place, Answer] = {}
    repeated = corrected = 0
    for answer in answers:
        known = current.get(answer.place)
        if (known.value if known else "") == answer.value:
            repeated += 1
            continue
        corrected += answer.place in first
        first.setdefault(answer.place, answer)
        if answer.value:
            current[answer.place] = answer
        else:
            del current[answer.place]
    kept = {place: current[place] for place in truth if _is_right(truth, current, place)}
    waits_ms = _waits_ms(truth, {place: first[place] for place in truth.keys() & first.keys()})
    settled_ms = _waits_ms(truth, kept)
    return Score(
        expected=len(truth),
        wrong_first=_count_wrong(truth, first),
        wrong_end=_count_wrong(truth, current) + repeated,
        repeated=repeated,
        corrected=corrected,
        first_mean_ms=_mean(waits_ms),
        first_p99_ms=_quantile(waits_ms, 0.99),
        settled_mean_ms=_mean(settled_ms),
        settled_p99_ms=_quantile(settled_ms, 0.99),
    )


def find_differing(whole: Iterable[Answer], part: Iterable[Answer], until_us: int) -> list[Answer]:
    """Return the answers before `until_us` in which two runs differ.

    One run had all records, the other those up to that time. The answers of an honest program do
    not depend on later records, so there are none.
    """
    ours = {answer for answer in whole if answer.at_us < until_us}
    theirs = {answer for answer in part if answer.at_us < until_us}
    return sorted(ours ^ theirs)


def _is_right(truth: Mapping[Place, Right], given: Mapping[Place, Answer], place: Place) -> bool:
    return place in given and given[place].value == truth[place].value


def _count_wrong(truth: Mapping[Place, Right], given: Mapping[Place, Answer]) -> int:
    return sum(not _is_right(truth, given, place) for place in truth) + len(
        given.keys() - truth.keys()
    )


def _waits_ms(truth: Mapping[Place, Right], given: Mapping[Place, Answer]) -> list[float]:
    return sorted((answer.at_us - truth[place].ready_us) / 1_000 for place, answer in given.items())


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    return ordered[math.ceil(share * len(ordered)) - 1] if ordered else None


def main() -> int:
    try:
        score = score_answers(read_truth(Path(sys.argv[1])), read_answers(Path(sys.argv[2])))
    except BadAnswers as bad:
        print(bad, file=sys.stderr)
        return 2
    print(json.dumps(score._asdict()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
