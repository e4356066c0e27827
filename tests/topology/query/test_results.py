"""Example: what an emitter counts, and what a step takes from it."""

from __future__ import annotations

from topology.model.outcome import Step
from topology.model.result import EMIT, RETRACT, UPDATE, Finding, Result
from topology.query.results import ResultEmitter


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
