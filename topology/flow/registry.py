"""The operators that a stage can have, and what the figures of each mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from topology.clock.figures import FIGURES as CLOCK
from topology.join.figures import FIGURES as JOIN
from topology.merge.figures import FIGURES as MERGE
from topology.model.operator import Figure
from topology.pattern.figures import FIGURES as PATTERN
from topology.reorder.figures import FIGURES as REORDER
from topology.window.figures import FIGURES as WINDOW

FIGURES: Final[Mapping[str, Figure]] = {
    f"{operator}_{name}": figure
    for operator, figures in (
        ("reorder", REORDER),
        ("clock", CLOCK),
        ("merge", MERGE),
        ("window", WINDOW),
        ("pattern", PATTERN),
        ("join", JOIN),
    )
    for name, figure in figures.items()
}
"""By `<operator>_<figure>`, as a stage tells them."""
