"""Example: an emitter counts results, and a step takes those that it gathered."""

from __future__ import annotations

from topology.answer.query.results import ResultEmitter
from topology.base.outcome import Step
from topology.base.result import EMIT, RETRACT, UPDATE, Finding, Result


def test_step_takes_gathered_results() -> None:
    """An emitter also counts results by operation."""
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
    emitter.flush(step)
    emitter.flush(next_step)
    assert (step.results, next_step.results) == (results, [])
