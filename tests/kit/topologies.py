"""Build topologies whose text may contain fields that only code sets."""

from __future__ import annotations

import yaml

from benchmarks.published import methods
from topology.config import Topology


def in_code(text: str) -> Topology:
    """Return the topology of the text, which may have fields that a file cannot set.

    It may also name published methods (`benchmarks.published.methods`).
    """
    return methods.parse(text, lambda plain: Topology.model_validate(yaml.safe_load(plain)))
