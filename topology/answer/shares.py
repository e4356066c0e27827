"""SHARES: divides what a processor has left among the detectors of a stage that read ahead.

Each query is granted a share of a processor, and together they may be granted more than there is.
At the end of a span three things are known: what the first reading of each query takes, what else
the processor does, and the price of the shortest wait of each. What is left below `FULL_PPM` goes
first to the queries that ask for least of what they are granted, for there a unit of work wins most
time. The others share the rest in proportion to what they are granted. So no query waits because
another asks for more than it can have, and together they leave the processor a reserve.

The division follows from figures that are part of the state, in the instant in which all queries
have weighed their span; the driver reports what else the processor does.
"""

from __future__ import annotations

from collections.abc import Sequence

from topology.answer.budget import Budget
from topology.answer.spending import FULL_PPM


def share(budgets: Sequence[Budget], others_ppm: int) -> None:
    """Each is given what it may take in the span that begins."""
    left_ppm = FULL_PPM - others_ppm - sum(each.first_ppm for each in budgets)
    weight = sum(each.granted_ppm for each in budgets)
    for each in sorted(budgets, key=_modesty):
        part_ppm = max(left_ppm, 0) * each.granted_ppm // weight
        each.allow(part_ppm)
        left_ppm -= min(part_ppm, each.wanted_ppm, each.granted_ppm)
        weight -= each.granted_ppm


def _modesty(budget: Budget) -> float:
    return budget.wanted_ppm / budget.granted_ppm
