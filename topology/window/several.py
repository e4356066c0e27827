"""All window queries of one stream as one operator of the chain.

The state of each is kept under its name and what it computes: one that was changed begins anew,
and what is kept of one that is no more goes with the next changes.

Proved by: tests/topology/window/test_examples.py, tests/laws/test_laws.py
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from topology.model.event import Event
from topology.model.operator import Changes, Figures, Operator, State
from topology.model.outcome import Step
from topology.model.ramp import pieces
from topology.model.result import Finding
from topology.query.quality_target import worst
from topology.window.config import WindowConfig
from topology.window.operator import Windows

KNOWN_BY_BYTES: Final = 8
SEPARATOR: Final = "\n"


class SeveralWindows(Operator):
    """`windows`: operators with what they were made from. Results of one instant stand in the
    order of the queries."""

    def __init__(self, windows: Sequence[tuple[WindowConfig, Windows]]) -> None:
        self._windows: dict[str, Operator] = {
            known_by(config): operator for config, operator in windows
        }
        self._figures = [operator for _, operator in windows]
        self._stale: dict[str, None] = {}

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        found: list[Finding] = []
        for piece, until_ns in pieces(events, now_ns, self.is_due):
            for operator in self._windows.values():
                found += operator.on_batch(piece, until_ns).results
        found.sort(key=_instant)
        return Step(now_ns, list(events), results=found)

    def is_due(self, watermarks: Sequence[Event]) -> bool:
        return any(operator.is_due(watermarks) for operator in self._figures)

    def on_time(self, now_ns: int) -> Step:
        found: list[Finding] = []
        for operator in self._windows.values():
            found += operator.on_time(now_ns).results
        found.sort(key=_instant)
        return Step(now_ns, results=found)

    def on_end(self, now_ns: int) -> Step:
        found = self.on_time(now_ns).results  # of the open instant, each in its turn
        ends: list[Finding] = []
        for operator in self._windows.values():
            ends += operator.on_end(now_ns).results
        ends.sort(key=_instant)
        return Step(now_ns, results=[*found, *ends])

    def next_deadline_ns(self) -> int | None:
        due = [operator.next_deadline_ns() for operator in self._windows.values()]
        return min((ns for ns in due if ns is not None), default=None)

    def figures(self) -> Figures:
        """Those of all queries together, or of the worst (`topology.query.quality_target`)."""
        return worst(operator.figures() for operator in self._figures)

    def explain(self) -> dict[str, Any]:
        """The figures of each query, and what it waits by."""
        names = [key.partition("@")[2] for key in self._windows]
        return {
            name: operator.explain() for name, operator in zip(names, self._figures, strict=True)
        }

    def snapshot(self) -> State:
        return {
            f"{name}{SEPARATOR}{key}": value
            for name, operator in self._windows.items()
            for key, value in operator.snapshot().items()
        }

    def changes(self) -> Changes:
        changes: Changes = dict(self._stale)
        self._stale = {}
        for name, operator in self._windows.items():
            for key, value in operator.changes().items():
                changes[f"{name}{SEPARATOR}{key}"] = value
        return changes

    def held(self) -> Iterable[Event]:
        return ()

    def restore(self, state: Mapping[str, Any], held: Iterable[Event]) -> None:
        events = list(held)
        states: dict[str, dict[str, Any]] = {name: {} for name in self._windows}
        for key, value in state.items():
            name, _, rest = key.partition(SEPARATOR)
            if name in states:
                states[name][rest] = value
            else:
                self._stale[key] = None
        for name, operator in self._windows.items():
            operator.restore(states[name], events)


def known_by(config: WindowConfig) -> str:
    digest = blake2b(config.fingerprint, digest_size=KNOWN_BY_BYTES).hexdigest()
    return f"{digest}@{config.query}"


def _instant(finding: Finding) -> int:
    return finding.at_ns
