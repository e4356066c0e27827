"""What the figures of REORDER mean, in the order in which metrics have them.

Proved by: tests/topology/reorder/test_figures.py, tests/laws/test_figures.py,
tests/agents/watch/test_operator_metrics.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from topology.model.operator import Figure

FIGURES: Final[Mapping[str, Figure]] = {
    "sources": Figure("Sources known"),
    "held": Figure("Events behind a hole or before a start, and dead letters that hold a place"),
    "held_bytes": Figure("Payload of the events held"),
    "overflows": Figure(
        "Times that a bound on held events gave up a hole or a start hold", is_total=True
    ),
    "waited_ns": Figure("How long events that have left were held, added up", is_total=True),
    "filled": Figure("Numbers that were missing and came in time", is_total=True),
    "outlived": Figure("Numbers that came after they had been given up", is_total=True),
    "promised_ppm": Figure("Share of missing numbers, of those that come, to come in time"),
    "forgotten": Figure("Sources forgotten at a bound, or after forget_after", is_total=True),
}
