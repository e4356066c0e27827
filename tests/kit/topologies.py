"""Topologies whose text may hold what only code sets."""

from __future__ import annotations

import yaml

from topology.config import Topology


def in_code(text: str) -> Topology:
    """Return the topology of the text, which may name the fields that no file can set."""
    return Topology.model_validate(yaml.safe_load(text))
