"""Traces of a stage and of each of its partitions: what a checkpoint makes true is exported."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from sinks.otlp.budget import Budget, Steps
from sinks.otlp.export import Exporter
from sinks.otlp.sampling import Sampling
from topology.config import Topology
from topology.model.result import Finding
from topology.window.config import SLIDING, TUMBLING


class PartitionTraces:
    """`committed` gets the steps that a checkpoint made true, and how many were left out."""

    def __init__(self, budget: Budget, committed: Callable[[Steps, int], None]) -> None:
        self.probe = budget
        self._committed = committed
        self._on_its_way = Steps()
        self._left_out = 0

    def found(self, findings: Sequence[Finding]) -> None:
        if findings:
            self.probe.found(findings)

    def cut(self) -> None:
        """A checkpoint begins; the one before has come through, or the partition is given up."""
        self._on_its_way = self.probe.take()

    def committed(self) -> None:
        left_out, self._left_out = self.probe.left_out - self._left_out, self.probe.left_out
        if self._on_its_way or left_out:
            self._committed(self._on_its_way, left_out)
        self._on_its_way = Steps()


class Tracing:
    """The traces of one process. `url`: the collector's, as `export.endpoint` gives it; one event
    in `one_in` is traced. `close` before the loop ends."""

    def __init__(
        self,
        url: str,
        one_in: int,
        topology: Topology,
        operators: Sequence[str],
        resource: Mapping[str, str],
        counted: Callable[[str, int], None],
    ) -> None:
        self._sampling = Sampling(one_in)
        self._operators = operators
        self._keyed = keyed(topology)
        self._exporter = Exporter(url, topology.application, resource, counted)

    def of_partition(self) -> PartitionTraces:
        budget = Budget(self._sampling, self._operators, self._keyed)
        return PartitionTraces(budget, self._exporter.committed)

    async def close(self) -> None:
        await self._exporter.stop()


def keyed(topology: Topology) -> Collection[str]:
    """The queries whose windows of one time are not emitted at once for all keys."""
    return {
        name
        for name, query in topology.queries.items()
        if query.window is not None and query.window.kind not in (TUMBLING, SLIDING)
    }
