"""Queries with `answer: final`: of what they find, only what can no longer change leaves.

The operator finds as ever, corrects, and tells once more what is final. Each id that stands at
last has so one telling that is final, and it alone leaves: as an `emit` of revision 0. What
was taken back meanwhile nobody hears of. Nothing is kept for it.

Detectors see to that themselves (topology.speculate.operator): they do not read so far.

Proved by: tests/topology/flow/test_finals.py
"""

from __future__ import annotations

from collections.abc import Iterable

from topology.model.result import EMIT, RETRACT, Finding, Overflow


def only_final(results: Iterable[Finding], asked: frozenset[str]) -> list[Finding]:
    left: list[Finding] = []
    for result in results:
        if result.query in asked and not isinstance(result, Overflow):
            if not result.final or result.op == RETRACT:
                continue
            result.op, result.revision = EMIT, 0
        left.append(result)
    return left
