"""The quality targets of those queries of an operator that wait, as a state has them.

A target (`topology.answer.quality_target`) says until which instant its query may emit what is
decided; the engine is given it after every instant, and it never falls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from topology.answer.quality_target import QualityTarget
from topology.model.kept import ValueKind, Written
from topology.model.operator import Plain


class SavedTargets(ValueKind):
    """The kind of quality targets by the names of their queries. What is there of a query that does
    not wait is left."""

    def dump(self, value: Mapping[str, QualityTarget]) -> Plain:
        return {name: target.dump() for name, target in value.items()}

    def read_into(self, one: Any, name: str, plain: Plain, written: Written | None) -> None:
        targets: Mapping[str, QualityTarget] = getattr(one, name)
        if not isinstance(plain, dict):
            raise self.refusal(plain)
        for query in plain.keys() & targets.keys():
            targets[query].load(plain[query])


SAVED_TARGETS: Final = SavedTargets("targets", is_plain=False)
