"""Build topologies whose text may contain fields that only code sets."""

from __future__ import annotations

import yaml

from topology.config import Topology


def in_code(text: str) -> Topology:
    """Return the topology of the text, which may have fields that a file cannot set."""
    return Topology.model_validate(yaml.safe_load(text))
