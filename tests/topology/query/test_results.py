"""Examples: which operation a content is emitted by, and under which revision."""

from __future__ import annotations

import pytest

from topology.model.outcome import Step
from topology.model.result import EMIT, RETRACT, UPDATE, Finding, Result
from topology.query.results import NO_NEWS, CurrentResult, ResultEmitter

Content = tuple[str, bool] | None
"""A content, and whether it is final; None: it is no more."""
GONE: Content = None

CASES: dict[str, tuple[list[Content], list[tuple[str, int]]]] = {
    "new": ([("a", False)], [(EMIT, 0)]),
    "other content": ([("a", False), ("b", False)], [(EMIT, 0), (UPDATE, 1)]),
    "the same says nothing": ([("a", False), ("a", False)], [(EMIT, 0), (NO_NEWS, 0)]),
    "becomes final": ([("a", False), ("a", True)], [(EMIT, 0), (UPDATE, 1)]),
    "is final": ([("a", True), ("a", True)], [(EMIT, 0), (NO_NEWS, 0)]),
    "comes again": (
        [("a", False), GONE, ("a", False), ("a", False)],
        [(EMIT, 0), (RETRACT, 1), (EMIT, 2), (NO_NEWS, 2)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_news(name: str) -> None:
    contents, wanted = CASES[name]
    result = CurrentResult("")
    found = []
    for each in contents:
        if each is None:
            op = result.retract()
        else:
            content, is_final = each
            is_news = content != result.content or (is_final and not result.final)
            op = result.show(content, is_news=is_news, is_final=is_final)
            assert result.content == content
        found.append((op, result.revision))
        assert result.live == (op != RETRACT)
    assert found == wanted


def test_a_restored_result_goes_on_with_its_revision() -> None:
    result = CurrentResult("a", 7, live=True)
    assert result.show("a", is_news=False, is_final=False) == NO_NEWS
    assert result.show("b", is_news=True, is_final=False) == UPDATE
    assert result.revision == 8


def test_an_emitter_counts_by_operation_and_a_step_takes_what_it_gathered() -> None:
    emitter = ResultEmitter("s", "q", is_keyed=False)
    results: list[Finding] = []
    for op in (EMIT, UPDATE, UPDATE, RETRACT):
        result = Result(
            0, "s", "q", "id", op, 0, final=False, confidence="", start_ns=0, end_ns=0, values={}
        )
        results.append(result)
        emitter.add(result)
    assert emitter.figures() == {"emitted": 1, "updated": 2, "retracted": 1}
    step, next_step = Step(5), Step(6)
    emitter.finish(step)
    emitter.finish(next_step)
    assert (step.results, next_step.results) == (results, [])
