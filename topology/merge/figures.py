"""What the figures of MERGE mean, in the order in which metrics have them.

Proved by: tests/laws/test_figures.py, tests/agents/watch/test_operator_metrics.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from topology.model.operator import Figure

FIGURES: Final[Mapping[str, Figure]] = {
    "sources": Figure("Sources known"),
    "idle": Figure("Sources that are silent or said bye: not waited for"),
    "catching_up": Figure("Sources whose last event was late: not waited for"),
    "awaited": Figure("Sources waited for since a pause of the whole log took them away"),
    "blocked": Figure("Sources whose events wait in reorder behind a hole"),
    "queued": Figure("Events that wait for other sources"),
    "queued_bytes": Figure("Payload of the events that wait"),
    "overflows": Figure("Events let go early, the bound being reached", is_total=True),
    "forgotten": Figure("Sources forgotten at a bound, or after forget_after", is_total=True),
    "promised_ppm": Figure("Share of events not to come later than their source is waited for"),
    "watermark_ns": Figure("W: only late events have a smaller reference time from now on"),
    "watermark_lag_ns": Figure("How far W is behind the arrival clock"),
    "complete_ns": Figure("C: every source has been heard up to here, without a hole"),
}
