"""What the figures of WINDOW mean, in the order in which metrics have them.

Proved by: tests/laws/test_figures.py, tests/agents/watch/test_operator_metrics.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from topology.model.operator import Figure

FIGURES: Final[Mapping[str, Figure]] = {
    "windows": Figure("Windows open, or kept for corrections"),
    "told_not_final": Figure("Windows told that may still change"),
    "keys": Figure("Keys with sessions"),
    "kept": Figure("Events that count windows keep for corrections"),
    "emitted": Figure("Results told for the first time, or again after a retract", is_total=True),
    "updated": Figure("Results told again", is_total=True),
    "retracted": Figure("Results taken back", is_total=True),
    "expired": Figure("Events that came for a window that was final", is_total=True),
    "refused": Figure("Events left out, as max_windows were open", is_total=True),
    "given_up": Figure(
        "Windows made final before their time, max_windows being reached", is_total=True
    ),
    "promised_ppm": Figure("Share of windows to be right when first told; of the strictest query"),
    "achieved_ppm": Figure("Share of windows that were right when first told; of the worst query"),
    "wait_mean_ns": Figure("From a window's end until it was told, mean; of the slowest query"),
    "wait_max_ns": Figure("The longest of these"),
    "late_ppm": Figure("Share of events that came after a window of theirs was told"),
    "missed": Figure("Windows told under a promise of quality that missed an event", is_total=True),
    "missed_apart": Figure(
        "Windows that missed an event, no promise speaking of them", is_total=True
    ),
    "unkeyed": Figure("Events without a value for the key of a query", is_total=True),
    "skipped": Figure("Values that an aggregate cannot use", is_total=True),
    "failed": Figure("Times that an aggregate of the user's own raised", is_total=True),
    "unreadable": Figure("Payloads that are no JSON", is_total=True),
}
