"""A stage of a topology, arranged on topics that nobody has to make."""

from __future__ import annotations

from collections.abc import Mapping

from agents.stage.arrangement import Arrangement, arrange, topics_of
from topology.config import Topology, parse


def arranged(
    topology: Topology | str,
    stage: str | int = 0,
    partitions: int = 1,
    others: Mapping[str, int] | None = None,
    masters: tuple[bytes, ...] = (),
) -> Arrangement:
    """Arrange the stage of this name, or at this place of the chain. Each topic has so many
    partitions, and `others` have their own."""
    known = parse(topology) if isinstance(topology, str) else topology
    by_name = {each.name: each for each in known.stages}
    chosen = by_name[stage] if isinstance(stage, str) else known.stages[stage]
    counts = dict.fromkeys(topics_of(known, chosen), partitions) | dict(others or {})
    return arrange(known, chosen, counts, masters)
