"""Build topologies whose text contains fields that only code can set."""

from __future__ import annotations

import yaml

from benchmarks.published import methods
from topology.config import Topology


def in_code(text: str) -> Topology:
    """Return the text's topology, which can have fields that a file cannot set.

    It can also name published methods (`benchmarks.published.methods`).
    """
    return methods.parse(text, lambda plain: Topology.model_validate(yaml.safe_load(plain)))
