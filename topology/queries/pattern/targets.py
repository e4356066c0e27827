"""Saves and restores the quality targets of the queries that have one.

A quality target (`topology.answer.quality_target`) gives the instant up to which its query may emit
decided matches. The operator passes that instant to the engine. It never decreases.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from topology.answer.quality_target import QualityTarget
from topology.base.operator import Plain
from topology.state.saved import ValueKind


class SavedTargets(ValueKind):
    """A value kind for a mapping from query names to the queries' quality targets.

    On reading, saved targets of queries that no longer have one are ignored.
    """

    def dump(self, value: Mapping[str, QualityTarget]) -> Plain:
        return {name: target.dump() for name, target in value.items()}

    def read_into(self, one: Any, name: str, plain: Plain) -> None:
        targets: Mapping[str, QualityTarget] = getattr(one, name)
        if not isinstance(plain, dict):
            raise self.refusal(plain)
        for query in plain.keys() & targets.keys():
            targets[query].load(plain[query])


SAVED_TARGETS: Final = SavedTargets("targets", is_plain=False)
