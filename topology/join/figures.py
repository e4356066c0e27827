"""What the figures of JOIN mean, in the order in which metrics have them.

Proved by: tests/topology/join/test_laws.py, tests/agents/watch/test_operator_metrics.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from topology.model.operator import Figure

FIGURES: Final[Mapping[str, Figure]] = {
    "retained": Figure("Events that may still get a partner"),
    "emitted": Figure("Rows told for the first time, or again after a retract", is_total=True),
    "updated": Figure("Rows told again", is_total=True),
    "retracted": Figure("Rows taken back, a partner having come", is_total=True),
    "expired": Figure("Events that came when their time was final", is_total=True),
    "given_up": Figure(
        "Events forgotten before their time, max_events being reached", is_total=True
    ),
    "overflows": Figure("Events with more rows than max_rows", is_total=True),
    "promised_ppm": Figure(
        "Share of times that are to be complete when first told; of the strictest"
    ),
    "achieved_ppm": Figure("Share of times that were complete when first told; of the worst query"),
    "wait_mean_ns": Figure("From its end until it was told, mean; of the slowest query"),
    "wait_max_ns": Figure("The longest of these"),
    "late_ppm": Figure("Share of events that came after their time was told"),
    "missed": Figure("Times told under a promise of quality that missed an event", is_total=True),
    "missed_apart": Figure(
        "Times that missed an event, no promise speaking of them", is_total=True
    ),
    "copies": Figure("Events seen before", is_total=True),
    "unkeyed": Figure("Events without a value for the key of a query", is_total=True),
    "unreadable": Figure("Payloads that are no JSON", is_total=True),
}
