"""The quality targets of those queries of an operator that wait (`topology.answer.quality_target`).

A target says until which instant its query may emit what is decided; the engine is given it after
every instant, and it never falls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topology.answer.quality_target import QualityTarget
from topology.answer.settings import QualityConfig
from topology.model.event import Event
from topology.model.operator import NEVER, Figures
from topology.pattern.run.engine import Engine
from topology.query.queries import worst


class QualityTargets:
    """By the names of their queries."""

    def __init__(self, qualities: Mapping[str, QualityConfig], engine: Engine) -> None:
        self._targets = {
            name: QualityTarget(quality, reach_ns=engine.compiled[name].reach_ns)
            for name, quality in qualities.items()
        }

    def __len__(self) -> int:
        return len(self._targets)

    def hear(self, event: Event, *, speaks: bool, margin_ns: int) -> None:
        """An event that matters; `speaks`: it says how far its source is."""
        for target in self._targets.values():
            target.hear(event, speaks=speaks, margin_ns=margin_ns)

    def hear_of(self, event: Event) -> None:
        """No query looks at it, but it says how far its source is."""
        for target in self._targets.values():
            target.hear_of(event)

    def settle(self, engine: Engine, now_ns: int, passed_ns: int) -> None:
        """The instant is over."""
        for name, target in self._targets.items():
            target.settle(now_ns, passed_ns)
            engine.raise_target(name, target.closed_ns, now_ns)

    def end(self, now_ns: int) -> None:
        for target in self._targets.values():
            target.end(now_ns)

    @property
    def is_waiting(self) -> bool:
        return any(target.is_waiting for target in self._targets.values())

    def next_due_ns(self) -> int:
        """NEVER if nobody waits."""
        return min([target.due_ns() for target in self._targets.values()], default=NEVER)

    def snapshot(self) -> dict[str, Any]:
        return {name: target.snapshot() for name, target in self._targets.items()}

    def restore(self, kept: Mapping[str, Any]) -> None:
        for name in kept.keys() & self._targets.keys():
            self._targets[name].restore(kept[name])

    def explain(self) -> dict[str, Any]:
        return {name: target.explain() for name, target in self._targets.items()}

    def figures(self) -> Figures:
        """Those of the worst."""
        return worst(target.figures() for target in self._targets.values())
