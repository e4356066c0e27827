"""The whole topology: what a file says, where its sections agree.

Proved by: tests/topology/config/test_reading.py, tests/topology/config/test_problem.py
"""

from __future__ import annotations

from pydantic import ValidationInfo, model_validator

from topology.config.agreement import faults
from topology.config.file import TopologyFile
from topology.config.problem import refused_at
from topology.config.spelling import user_functions_of


class Topology(TopologyFile):
    """What runs, as one frozen value."""

    @model_validator(mode="after")
    def _parts_agree(self, info: ValidationInfo) -> Topology:
        self._user_functions = user_functions_of(info)
        if found := list(faults(self)):
            raise refused_at(*found)
        return self
