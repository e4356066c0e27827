"""The quality targets of those queries of an operator that wait (`topology.answer.quality_target`).

A target says until which instant its query may emit what is decided; the engine is given it after
every instant, and it never falls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from topology.answer.quality_target import QualityTarget
from topology.answer.settings import QualityConfig
from topology.model.event import Event
from topology.model.kept import ValueKind, Written
from topology.model.operator import NEVER, Figures, Plain
from topology.pattern.run.engine import Engine
from topology.query.queries import worst


class QualityTargets:
    """By the names of their queries."""

    def __init__(self, qualities: Mapping[str, QualityConfig], engine: Engine) -> None:
        self.by_name = {
            name: QualityTarget(quality, reach_ns=engine.compiled[name].reach_ns)
            for name, quality in qualities.items()
        }

    def __len__(self) -> int:
        return len(self.by_name)

    def hear(self, event: Event, *, speaks: bool, margin_ns: int) -> None:
        """An event that matters; `speaks`: it says how far its source is."""
        for target in self.by_name.values():
            target.hear(event, speaks=speaks, margin_ns=margin_ns)

    def hear_of(self, event: Event) -> None:
        """No query looks at it, but it says how far its source is."""
        for target in self.by_name.values():
            target.hear_of(event)

    def settle(self, engine: Engine, now_ns: int, passed_ns: int) -> None:
        """The instant is over."""
        for name, target in self.by_name.items():
            target.settle(now_ns, passed_ns)
            engine.raise_target(name, target.closed_ns, now_ns)

    def end(self, now_ns: int) -> None:
        for target in self.by_name.values():
            target.end(now_ns)

    @property
    def is_waiting(self) -> bool:
        return any(target.is_waiting for target in self.by_name.values())

    def next_due_ns(self) -> int:
        """NEVER if nobody waits."""
        return min([target.due_ns() for target in self.by_name.values()], default=NEVER)

    def explain(self) -> dict[str, Any]:
        return {name: target.explain() for name, target in self.by_name.items()}

    def figures(self) -> Figures:
        """Those of the worst."""
        return worst(target.figures() for target in self.by_name.values())


class SavedTargets(ValueKind):
    """The kind of quality targets. What is there of a query that does not wait is left."""

    def dump(self, value: QualityTargets) -> Plain:
        return {name: target.dump() for name, target in value.by_name.items()}

    def read_into(self, one: Any, name: str, plain: Plain, written: Written | None) -> None:
        targets: QualityTargets = getattr(one, name)
        if not isinstance(plain, dict):
            raise self.refusal(plain)
        for query in plain.keys() & targets.by_name.keys():
            targets.by_name[query].load(plain[query])


SAVED_TARGETS: Final = SavedTargets("targets", is_plain=False)
