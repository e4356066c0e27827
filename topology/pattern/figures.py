"""What the figures of PATTERN mean, in the order in which metrics have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from topology.model.operator import Figure

FIGURES: Final[Mapping[str, Figure]] = {
    "retained": Figure("Events kept for what may still come"),
    "irrelevant": Figure("Events that no query asks for", is_total=True),
    "late": Figure("Events behind the frontier", is_total=True),
    "refused": Figure("Events left out at a bound", is_total=True),
    "given_up": Figure(
        "Watermarks at which room for newcomers was given up, for want of place", is_total=True
    ),
    "copies": Figure("Events seen before", is_total=True),
    "conflicts": Figure("Copies that say something else", is_total=True),
    "unsure": Figure("Events left out as the error of their time is beyond an hour", is_total=True),
    "far": Figure("Events left out as no query reckons with times like theirs", is_total=True),
    "unpartitioned": Figure(
        "Events without a value for the partition key of a query", is_total=True
    ),
    "unreadable": Figure("Payloads that are no JSON", is_total=True),
    "promised_ppm": Figure("Share of times to be complete when first emitted; the strictest query"),
    "achieved_ppm": Figure("Share of times complete when first emitted; the worst query"),
    "wait_mean_ns": Figure("Mean time from its end until it was emitted; the slowest query"),
    "wait_max_ns": Figure("The longest of these"),
    "late_ppm": Figure("Share of events that came after their time was emitted"),
    "missed": Figure(
        "Times emitted under a promise of quality that missed an event", is_total=True
    ),
    "missed_apart": Figure(
        "Times that missed an event, no promise speaking of them", is_total=True
    ),
}
