"""Traces of a stage's process, and of each of its partitions: what a checkpoint makes true is told.

Proved by: tests/agents/watch/traces/test_tracing.py
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from agents.watch.traces.budget import Budget, Steps
from agents.watch.traces.export import Exporter
from agents.watch.traces.sampling import USUAL, Sampling
from topology.config import Topology
from topology.model.result import Finding
from topology.window.config import SLIDING, TUMBLING


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """`url`: of the collector, as `export.endpoint` gives it."""

    url: str
    one_in: int = USUAL


class PartitionTraces:
    """`committed` is told the steps that a checkpoint made true, and how many were left out."""

    def __init__(self, budget: Budget, committed: Callable[[Steps, int], None]) -> None:
        self.budget = budget
        self._committed = committed
        self._on_its_way = Steps()
        self._left_out = 0

    def found(self, findings: Sequence[Finding]) -> None:
        if findings:
            self.budget.found(findings)

    def cut(self) -> None:
        """A checkpoint begins; the one before has come through, or the partition is given up."""
        self._on_its_way = self.budget.take()

    def committed(self) -> None:
        left_out, self._left_out = self.budget.left_out - self._left_out, self.budget.left_out
        if self._on_its_way or left_out:
            self._committed(self._on_its_way, left_out)
        self._on_its_way = Steps()


class Tracing:
    """One process's. `close` before the loop ends."""

    def __init__(
        self,
        settings: TraceSettings,
        topology: Topology,
        operators: Sequence[str],
        resource: Mapping[str, str],
        counted: Callable[[str, int], None],
    ) -> None:
        self._sampling = Sampling(settings.one_in)
        self._operators = operators
        self._keyed = keyed(topology)
        self._exporter = Exporter(settings.url, topology.application, resource, counted)

    def of_partition(self) -> PartitionTraces:
        budget = Budget(self._sampling, self._operators, self._keyed)
        return PartitionTraces(budget, self._exporter.committed)

    async def close(self) -> None:
        await self._exporter.stop()


def keyed(topology: Topology) -> Collection[str]:
    """The queries whose windows of one time are not told at once for all keys."""
    return {
        name
        for name, query in topology.queries.items()
        if query.window is not None and query.window.kind not in (TUMBLING, SLIDING)
    }
