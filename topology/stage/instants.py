"""Regroups the outcomes of a replay by instant, in an order that does not depend on its batches.

Streams are separate in a stage, and some outcomes of an instant are decided when it is over. So
their order depends on how the input was divided into batches. This module puts them into a fixed
order. At one instant, events and reports are in the order of streams in the topology file, and
results in the order of queries. Within a stream or a query, they stay in the order in which they
were emitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from topology.base.event import Event
from topology.base.outcome import Duplicate, Late, Report, Step
from topology.base.result import Finding
from topology.config import Topology

Outcome = TypeVar("Outcome", bound=Event | Report | Finding)


def whole_instants(steps: Iterable[Step], topology: Topology) -> Iterator[Step]:
    """Yield the outcomes of the steps by instant.

    The outcomes of a step's last instant are yielded with the next step.
    """
    streams = {name: rank for rank, name in enumerate(topology.streams)}
    queries = {name: rank for rank, name in enumerate(topology.queries)}

    def of_event(event: Event) -> tuple[int, int]:
        return event.at_ns, streams[event.stream]

    def of_report(report: Report) -> tuple[int, int]:
        stream = report.event.stream if isinstance(report, Late | Duplicate) else report.stream
        return report.at_ns, streams.get(stream or "", len(streams))

    def of_finding(finding: Finding) -> tuple[int, int]:
        return finding.at_ns, queries.get(finding.query, len(queries))

    kept = Step(0)
    for step in steps:
        now_ns = kept.now_ns = step.now_ns
        released = _split_before(kept.released, step.released, of_event, now_ns)
        reports = _split_before(kept.reports, step.reports, of_report, now_ns)
        yield Step(
            now_ns, released, reports, _split_before(kept.results, step.results, of_finding, now_ns)
        )
    yield kept


def _split_before(
    kept: list[Outcome], new: Sequence[Outcome], rank: Callable[[Outcome], Any], now_ns: int
) -> list[Outcome]:
    """Return the outcomes before `now_ns` in order, and leave the others in `kept`."""
    found = sorted([*kept, *new], key=rank)
    at = next((at for at, each in enumerate(found) if each.at_ns >= now_ns), len(found))
    kept[:] = found[at:]
    return found[:at]
