"""What a replay says, cut between two instants, and at one instant in an order of its own.

Streams are apart in a stage, and some of what happens at an instant is decided when it is over: so
which of it is said first depends on how the input was cut. Here it is put together again: at one
instant by stream, in the order of the topology file, results by query; of one stream, and of one
query, in the order in which it was said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from topology.config import Topology
from topology.model.event import Event
from topology.model.outcome import Duplicate, Late, Report, Step
from topology.model.result import Finding

Outcome = TypeVar("Outcome", Event, Report, Finding)


def whole_instants(steps: Iterable[Step], topology: Topology) -> Iterator[Step]:
    """The same, but for what is said of the last instant of each: it comes with the next."""
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
        now_ns = step.now_ns
        released = sorted([*kept.released, *step.released], key=of_event)
        reports = sorted([*kept.reports, *step.reports], key=of_report)
        results = sorted([*kept.results, *step.results], key=of_finding)
        parts = _cut(released, now_ns), _cut(reports, now_ns), _cut(results, now_ns)
        yield Step(now_ns, parts[0][0], parts[1][0], parts[2][0])
        kept = Step(now_ns, parts[0][1], parts[1][1], parts[2][1])
    yield kept


def _cut(outcomes: Sequence[Outcome], now_ns: int) -> tuple[list[Outcome], list[Outcome]]:
    """The outcomes of the instants before, and those of this one."""
    at = next((at for at, each in enumerate(outcomes) if each.at_ns >= now_ns), len(outcomes))
    return list(outcomes[:at]), list(outcomes[at:])
