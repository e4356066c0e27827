"""Examples and a law: the waiting time of the next record to read.

For any log and any reading pace, the lag is never below the true one. If the broker answers, the
lag exceeds the true one by at most the time between two answers.
"""

from __future__ import annotations

from random import Random

import pytest

from agents.stage.input_lag import MAX_ANSWERS, SILENT_AFTER_NS, InputLag
from tests.seeds import seeds_of_today

S = 1_000_000_000
NOW = 1_000 * S


@pytest.mark.parametrize(
    ("answers", "arrived_ns", "next_offset", "expected"),
    [
        pytest.param([], 0, 0, None, id="nothing is known"),
        pytest.param([(NOW - S, 9)], 0, 0, None, id="a backlog of which nothing was read"),
        pytest.param([(NOW - S, 9)], NOW - 168 * S, 5, 168 * S, id="by the record read last"),
        pytest.param([(NOW - S, 9)], NOW - 168 * S, 9, 0, id="all is read, however old it is"),
        pytest.param(
            [(NOW - SILENT_AFTER_NS, 9)], NOW - 168 * S, 9, SILENT_AFTER_NS, id="a silent broker"
        ),
        pytest.param(
            [(NOW - 20 * S, 5), (NOW - 10 * S, 9)], NOW - 168 * S, 5, 20 * S, id="by an answer"
        ),
        pytest.param(
            [(NOW - 12 * S - 2, 5), (NOW - 12 * S - 1, 9), (NOW - 12 * S, 9)],
            *(NOW - 168 * S, 9, 12 * S),
            id="by the last of answers in a row",
        ),
        pytest.param([(NOW - S, 9)], NOW + S, 5, 0, id="a clock of a broker that is ahead"),
    ],
)
def test_lag_follows_answers(
    answers: list[tuple[int, int]], arrived_ns: int, next_offset: int, expected: int | None
) -> None:
    lag = InputLag()
    for asked_at_ns, end_offset in answers:
        lag.note_answer(asked_at_ns, end_offset)
    lag.arrived_ns = arrived_ns
    assert lag.ns(next_offset, NOW, NOW) == expected


@pytest.mark.parametrize("seed", seeds_of_today(4))
@pytest.mark.parametrize("bears_append_time", [True, False])
def test_law_lag_is_never_too_low(seed: int, bears_append_time: bool) -> None:
    random = Random(seed)
    log: list[int] = []
    lag, now_ns, next_offset, longest_pause_ns = InputLag(), NOW, 0, 0
    asked_ns = NOW
    for _ in range(2_000):
        now_ns += (step_ns := random.randrange(1, 2 * S))
        arrivals = sorted(now_ns - random.randrange(step_ns) for _ in range(random.randrange(4)))
        log += [arrived_ns for arrived_ns in arrivals if not log or arrived_ns >= log[-1]]
        longest_pause_ns = max(longest_pause_ns, now_ns - asked_ns)
        lag.note_answer(now_ns, len(log))
        asked_ns = now_ns
        before = next_offset
        next_offset = min(len(log), next_offset + random.randrange(4))
        if bears_append_time and next_offset > before:
            lag.arrived_ns = log[next_offset - 1]
        truth_ns = now_ns - log[next_offset] if next_offset < len(log) else 0
        found_ns = lag.ns(next_offset, now_ns, now_ns)
        by_answers_alone = next_offset == 0 or not bears_append_time
        assert found_ns is not None or (by_answers_alone and truth_ns)
        if found_ns is not None:
            assert truth_ns <= found_ns <= truth_ns + longest_pause_ns + 2 * lag._apart_ns
        assert len(lag._answers) <= MAX_ANSWERS


def test_few_answers_are_kept() -> None:
    lag = InputLag()
    for second in range(100_000):
        lag.note_answer(NOW + second * S, second)
    assert len(lag._answers) <= MAX_ANSWERS
    found_ns = lag.ns(50_000, NOW + 100_000 * S, NOW + 100_000 * S)
    assert found_ns is not None
    assert 50_000 * S <= found_ns <= 51_000 * S
