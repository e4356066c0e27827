"""Adds the counts of one partition of a stage to the worker's metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass
from typing import NamedTuple

from aiokafka.structs import TopicPartition

from agents.watch.deaths import Deaths
from agents.watch.decisions import Decisions
from agents.watch.metrics.wait_counts import count_data
from agents.watch.metrics.worker import TIME, Metrics, PlaceMetrics
from agents.watch.unhealthy import Read, UnhealthySources, count_none
from topology.base.event import Event
from topology.base.field_use import FieldUse
from topology.base.operator import Figures
from topology.base.outcome import Gap, Malformed, Report, Step

NO_STREAM = ""
"""Stream name for dead letters whose stream could not be read."""


class StreamFigures(NamedTuple):
    """The gauges of one stream: buffered events, figures of its operators, and the oldest wait.

    `oldest_ns` is how long the buffered event that is first in the log has waited. `field_uses` are
    the values that its queries left out.
    """

    held: int
    figures: Figures
    oldest_ns: int = 0
    field_uses: Sequence[FieldUse] = ()


class ShellTotals(NamedTuple):
    """Two totals of a partition.

    `overtaken` is the number of records whose arrival time was not after the last tick. `waivers`
    is the number of times that an upstream partition was no longer awaited.
    """

    overtaken: int
    waivers: int


@dataclass(eq=False)
class PartitionMetrics:
    """The metrics of one task.

    `source` is its first partition, with the input topic. `streams` are the streams that can occur
    in its input. `read` returns the number of events read from a source. `lanes` has all partitions
    by the number of their lane, if there are several.
    """

    metrics: Metrics
    source: TopicPartition
    streams: Sequence[str]
    read: InitVar[Read] = count_none
    lanes: InitVar[Iterable[tuple[int, TopicPartition]]] = ()

    def __post_init__(self, read: Read, lanes: Iterable[tuple[int, TopicPartition]]) -> None:
        metrics, source = self.metrics, self.source
        self._labels = (metrics.stage, str(source.partition))
        self._places: dict[str, PlaceMetrics] = {}
        by_number = dict(lanes) or {0: source}
        self._partitions = [*by_number.values()]
        named = {number: f"{topic}/{partition}" for number, (topic, partition) in by_number.items()}
        logs = named if len(named) > 1 else {}
        self.decisions = Decisions(logs=logs)
        place = f"{source.topic}/{source.partition}"
        self.deaths = metrics.deaths[source] = Deaths(place, logs=logs)
        self.unhealthy = UnhealthySources(f"stage {metrics.stage}, {place}", read)
        metrics.unhealthy[source] = self.unhealthy
        self.streams_seen: set[str] = set()  # The streams of which events have been read.
        self.latest: dict[str, float] = {}
        """Latest `checkpoint_bytes` (size of the last checkpoint's state) and `restore_s`."""
        self._shell = ShellTotals(0, 0)
        self._overdue: tuple[str, ...] | None = None  # The labels of the gauge of overdue events.
        self._figures: dict[str, Figures] = {}  # The last figures, by stream.
        self._field_uses: dict[str, Sequence[FieldUse]] = {}  # The last ones, by stream.

    def _place(self, stream: str) -> PlaceMetrics:
        """Return the metrics of a stream; their labels are bound only once."""
        name = self.metrics.streams.of(stream)
        found = self._places.get(name)
        if found is None:
            partition = self.source.partition
            found = self._places[name] = PlaceMetrics(self.metrics, name, partition)
        return found

    def count_received(self, events: Sequence[Event], dead: Sequence[Malformed]) -> None:
        counts = count_data(events)
        self.streams_seen.update(counts)
        for stream, count in counts.items():
            self._place(stream).read(count)
            self.deaths.read += count
        for malformed in dead:
            self._place(malformed.stream or NO_STREAM).read(1)
        if self.metrics.unmet is not None:
            self.metrics.unmet.observe(events)
        self.deaths.read += len(dead)
        self.count_emitted(Step(0, [], list(dead)))

    def count_emitted(self, step: Step) -> None:
        self.metrics.count_findings(step.results)
        if not (step.released or step.reports):
            return
        self.decisions.note_reports(step.reports)
        self.unhealthy.note_reports(step.reports)
        for report in step.reports:
            if type(report) is Malformed:
                self.deaths.add(report)
        if len(self.streams) == 1 and all(stream_of(r) == self.streams[0] for r in step.reports):
            self._note_late(self._place(self.streams[0]).observe(step))
            return
        parts: dict[str, Step] = {}
        for event in step.released:
            parts.setdefault(event.stream, Step(0)).released.append(event)
        for report in step.reports:
            parts.setdefault(stream_of(report), Step(0)).reports.append(report)
        for stream, part in parts.items():
            self._note_late(self._place(stream).observe(part))

    def _note_late(self, events: Sequence[Event]) -> None:
        self.decisions.note_late(events)
        self.unhealthy.note_late((event.stream, event.source) for event in events)

    def set_current(self, streams: Mapping[str, StreamFigures], shell: ShellTotals) -> None:
        """Set the gauges of the partition's streams, and count the growth of its totals."""
        metrics = self.metrics
        places: dict[PlaceMetrics, list[StreamFigures]] = {}
        for stream, current in streams.items():
            place = self._place(stream)
            places.setdefault(place, []).append(current)
            if current.figures != self._figures.get(stream):
                place.count_growth(self._figures.get(stream, {}), current.figures)
                self._figures[stream] = current.figures
            if current.field_uses != self._field_uses.get(stream):
                metrics.left_out(self._field_uses.get(stream, ()), current.field_uses)
                self._field_uses[stream] = current.field_uses
        for place, parts in places.items():
            held = sum(part.held for part in parts)
            oldest_ns = max(part.oldest_ns for part in parts)
            place.set_current(held, sum_figures(part.figures for part in parts), oldest_ns)
        metrics.overtaken.labels(*self._labels).inc(shell.overtaken - self._shell.overtaken)
        metrics.waived_partitions.labels(*self._labels).inc(shell.waivers - self._shell.waivers)
        self._shell = shell

    def overdue(self, seconds: float, waits_for: str) -> None:
        """Set how overdue the oldest event is, in s, and what it waits for; 0 means not overdue."""
        labels = (self.metrics.stage, self.source.topic, str(self.source.partition), waits_for)
        if self._overdue is not None and (not seconds or labels != self._overdue):
            self.metrics.overdue.remove(*self._overdue)
            self._overdue = None
        if seconds:
            self._overdue = labels
            self.metrics.overdue.labels(*labels).set(seconds)

    def cut(self, changes: Mapping[bytes, bytes | None]) -> None:
        size = sum(len(key) + len(value or b"") for key, value in changes.items())
        self.latest["checkpoint_bytes"] = size
        self.metrics.checkpoint_bytes.labels(*self._labels).inc(size)

    def count_commit(self, seconds: float) -> None:
        self.metrics.commits.labels(*self._labels).inc()
        self.metrics.commit_seconds.labels(*self._labels).observe(seconds)

    def count_abort(self) -> None:
        self.metrics.aborts.labels(*self._labels).inc()

    def count_unanswered(self, outcome: str) -> None:
        self.metrics.unanswered.labels(*self._labels, outcome).inc()

    def count_passed_over(self) -> None:
        self.metrics.offsets_passed_over.labels(*self._labels).inc()

    def count_restore(self, seconds: float) -> None:
        self.latest["restore_s"] = seconds
        self.metrics.restore_seconds.labels(self.metrics.stage).observe(seconds)

    def begins(self, streams: Mapping[str, StreamFigures], shell: ShellTotals) -> None:
        """Adopt the totals of the restored state, which an earlier owner has already counted."""
        for stream, current in streams.items():
            self._figures[stream] = current.figures
            self._place(stream).count_growth(current.figures, current.figures)
            self._field_uses[stream] = current.field_uses
            self.metrics.left_out(current.field_uses, current.field_uses)
        self._shell = shell

    def forget(self) -> None:
        self.overdue(0.0, "")
        # Code that still refers to the table would otherwise keep the state that `read` uses in
        # memory.
        self.unhealthy.read = count_none
        for place in self._places.values():
            place.forget()
        self._places.clear()
        for partition in self._partitions:
            self.metrics.forget(partition)


def stream_of(report: Report) -> str:
    if isinstance(report, Gap | Malformed):
        return report.stream or NO_STREAM
    return report.event.stream


def sum_figures(parts: Iterable[Figures]) -> Figures:
    """Return the sums of the figures of several streams, without their times.

    The figures of a single stream are returned unchanged.
    """
    parts = list(parts)
    if len(parts) == 1:
        return parts[0]
    summed: Counter[str] = Counter()
    for part in parts:
        summed.update({name: value for name, value in part.items() if not name.endswith(TIME)})
    return dict(summed)
