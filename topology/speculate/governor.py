"""GOVERNOR: what a processor has left, shared by the queries of a stage that read ahead.

Each query is granted a share of a processor, and together they may be granted more than there is.
At the end of a span it is known what the work of each takes anyway, what the processor does
besides, and what each would like: the price of the shortest wait. What is left below `FULL` is
given to those first that ask for least of what they are granted, for there a unit of work wins most
time; the others share the rest as they are granted. So no query waits because another that could
not have its wish anyway asks for more, and all together leave the processor its air.

It is decided from figures that are part of the state, in the instant in which all have weighed;
what the processor does besides is the driver's to say.

Proved by: tests/topology/speculate/test_governor.py
"""

from __future__ import annotations

from collections.abc import Sequence

from topology.speculate.budget import Budget
from topology.speculate.spending import FULL_PPM


def share(budgets: Sequence[Budget], others_ppm: int) -> None:
    """Each is told what it may take in the span that begins."""
    left_ppm = FULL_PPM - others_ppm - sum(each.first_ppm for each in budgets)
    weight = sum(each.granted_ppm for each in budgets)
    for each in sorted(budgets, key=_modesty):
        part_ppm = max(left_ppm, 0) * each.granted_ppm // weight
        each.allow(part_ppm)
        left_ppm -= min(part_ppm, each.wanted_ppm, each.granted_ppm)
        weight -= each.granted_ppm


def _modesty(budget: Budget) -> float:
    return budget.wanted_ppm / budget.granted_ppm
