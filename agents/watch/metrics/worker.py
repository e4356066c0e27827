"""Defines the metrics of a worker and their names.

Times are seconds and sizes bytes. Names follow the operators (`inorder_reorder_*`,
`inorder_merge_*`, `inorder_checkpoint_*`). Labels are stage, stream, partition, reason and kind. A
source is a label in two cases only. They are the few that are late most often
(agents.watch.unhealthy), and the cause of an overdue event, one per partition
(agents.watch.overdue). So the number of label sets is bounded by the names in the topology file and
the partitions. Reasons and kinds beyond the first `MAX_REASONS` of a worker are counted as `other`,
and so are streams beyond `MAX_STREAMS`.

The balance of each stage, stream and partition, at any time between two batches:

    records_in = emitted + late + duplicate + dead + held

A figure `<operator>_<name>` of a chain (topology.base.operator, `figures`) is the family
`inorder_<operator>_<name>`: a counter if it only grows, else a gauge. A figure whose name ends in
`_ns` is exposed in seconds, a point in time as seconds since 1970.

Control records are counted separately: heartbeats, end-of-stream markers, and messages between
stages. A late event that is passed on counts as late, not as emitted.

Counters exist as long as the worker. The gauges of a partition are removed with it (`forget`),
because its new owner exposes them from then on.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Final

from aiokafka.structs import TopicPartition
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from agents.watch.deaths import MAX_REASONS, OTHER, Deaths
from agents.watch.metrics.wait_counts import EDGES_MS, WaitCounts, waits_of
from agents.watch.sentences import describe_left_out
from agents.watch.unhealthy import UnhealthySources, late_families
from topology.base.event import DATA, Event
from topology.base.field_use import FieldUse
from topology.base.operator import Figures
from topology.base.outcome import Duplicate, Gap, Late, Malformed, Report, Step
from topology.base.result import Finding, Overflow
from topology.stage.registry import figures as figures_of_all
from topology.stage.unmet import Unmet

log = logging.getLogger(__name__)

NS_PER_S: Final = 1_000_000_000
TIME: Final = "_ns"
"""Suffix of the name of an operator's figure that is a time."""

MAX_STREAMS: Final = 256
MAX_QUERIES: Final = 1_000

COMMIT_BUCKETS_S: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
GAP_BUCKETS_S: Final = (0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 60)
RESTORE_BUCKETS_S: Final = (0.01, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300)

WAIT_BUCKETS_S: Final = (*(str(edge / 1000) for edge in EDGES_MS), "+Inf")

_PLACE: Final = ("stage", "stream", "partition")
_PARTITION: Final = ("stage", "partition")
_STAGE: Final = ("stage",)


class Metrics(Collector):
    """All metric families of a stage's process; make one object per registry.

    Without `operators` it has the figures of all operators.

    Attributes:
        deaths: The dead letters by reason, for each input partition of this worker.
        unhealthy: The sources of those partitions that are late, or lose numbers.
        waits: The times for which events were buffered, by stream.
        unmet: In a stage with queries: the types and fields that queries name but no event has had.
        open_ends: The lines of `agents.watch.sentences.open_ends`; empty once one has been logged.
    """

    def __init__(
        self, registry: CollectorRegistry, stage: str, operators: Sequence[str] | None = None
    ) -> None:
        # Otherwise each counter would have a second series with the time of its creation.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.stage = stage
        # By partition and topic: the number of unread records, and how long the next one has
        # waited.
        self._lags: dict[int, dict[str, tuple[int, int | None]]] = defaultdict(dict)
        self.deaths: dict[TopicPartition, Deaths] = {}
        self.unhealthy: dict[TopicPartition, UnhealthySources] = {}
        self.waits: dict[str, WaitCounts] = defaultdict(WaitCounts)
        self.unmet: Unmet | None = None
        self.open_ends: Mapping[str, str] = {}
        self._answered, self._left_out_logged = set[str](), set[tuple[str, str, str]]()
        self.reasons, self.streams, self._queries = map(
            Bounded, (MAX_REASONS, MAX_STREAMS, MAX_QUERIES)
        )

        counter = partial(Counter, namespace="inorder", registry=registry)
        gauge = partial(Gauge, namespace="inorder", registry=registry)
        histogram = partial(Histogram, namespace="inorder", registry=registry)

        # The balance of events, per stage, stream and partition.
        self.records_in = counter("records_in", "Events received", _PLACE)
        self.emitted = counter("records_emitted", "Events emitted in order", _PLACE)
        self.late = counter("records_late", "Late events, by reason", (*_PLACE, "reason"))
        self.duplicate = counter("records_duplicate", "Events seen before", _PLACE)
        self.conflict = counter(
            "records_conflict", "Duplicates that differ from the first event", _PLACE
        )
        self.dead = counter(
            "records_dead",
            "Dead letters: records that break the record format, by reason",
            (*_PLACE, "reason"),
        )
        self.held = gauge("records_held", "Events buffered", _PLACE)
        self.held_oldest = gauge(
            "records_held_oldest_seconds", "Age of the oldest buffered event, in seconds", _PLACE
        )
        self.control = counter("records_control", "Control records", (*_PLACE, "kind"))

        # Figures of the operators.
        self.gaps = counter("reorder_gaps", "Gaps declared, by reason", (*_PLACE, "reason"))
        self.missing = counter("reorder_missing", "Sequence numbers declared missing", _PLACE)
        self.gap_age = histogram(
            "reorder_gap_age_seconds",
            "Time from the discovery of a gap to its declaration, in seconds",
            _PLACE,
            buckets=GAP_BUCKETS_S,
        )
        self.figures: dict[str, Counter | Gauge] = {
            figure: (counter if is_total else gauge)(figure.replace(TIME, "_seconds"), text, _PLACE)
            for figure, (text, is_total) in figures_of_all(operators).items()
        }

        # Counts of the queries.
        self.results = counter("results", "Results emitted", ("stage", "query", "op", "final"))
        self.query_overflows = counter(
            "query_overflows", "Events with more matches than the limit", ("stage", "query")
        )
        self.unusable, self.absent = (
            counter(name, text, ("stage", "query"))
            for name, text in (
                ("window_unusable", "Values of a kind that an aggregate cannot use, such as text"),
                ("window_absent", "Values for aggregates that were missing or null"),
            )
        )

        # Metrics of a stage's input, checkpoints and assignment; most are per input partition.
        self.overtaken = counter(
            "tick_late_records",
            "Records that arrived before a tick that the stage had already processed",
            _PARTITION,
        )
        self.append_time_off = gauge(
            "append_time_off_seconds",
            "Seconds by which a broker's clock is ahead, or has stepped back",
            _STAGE,
        )
        self.wall_clock_off = gauge(
            "wall_clock_off_seconds",
            "Seconds by which this machine's clock is ahead of the brokers', or behind if negative",
            _STAGE,
        )
        self.overdue = gauge(
            "overdue_seconds",
            "Time by which the oldest buffered event exceeds all waits of the topology file, in"
            " seconds; absent if none does",
            ("stage", "topic", "partition", "waits_for"),
        )
        self.waived_partitions = counter(
            "upstream_partitions_skipped",
            "Times that a stage stopped waiting for an upstream partition at a bound",
            _PARTITION,
        )
        self.input_lag = gauge(
            "input_lag_records", "Input records that are not processed yet", _PARTITION
        )
        self.input_lag_seconds = gauge(
            "input_lag_seconds",
            "Age of the next input record, in seconds; 0 if all records are read",
            _PARTITION,
        )
        self.input_partitions = gauge(
            "input_partitions", "Partitions of the stage's largest input", _STAGE
        )
        self.commits, self.aborts = (
            counter(f"checkpoint_{name}", f"Transactions {outcome}", _PARTITION)
            for name, outcome in (("commits", "committed"), ("aborts", "aborted"))
        )
        self.offsets_passed_over = counter(
            "aborted_offsets",
            "Restores for which the brokers returned the offset of an aborted transaction",
            _PARTITION,
        )
        self.unanswered = counter(
            "checkpoint_unanswered",
            "Transactions whose end the brokers did not confirm, by outcome",
            (*_PARTITION, "outcome"),
        )
        self.checkpoint_bytes = counter(
            "checkpoint_bytes", "Bytes of state written to the changelog", _PARTITION
        )
        self.commit_seconds = histogram(
            "checkpoint_commit_seconds",
            "Duration of a transaction, in seconds",
            _PARTITION,
            buckets=COMMIT_BUCKETS_S,
        )
        self.restore_seconds = histogram(
            "checkpoint_restore_seconds",
            "Duration of the restore of a partition, in seconds",
            _STAGE,
            buckets=RESTORE_BUCKETS_S,
        )
        self.store_errors = counter(
            "state_store_errors",
            "Failures of the local state store, by reason",
            ("stage", "reason"),
        )
        self.standby_lag = gauge(
            "standby_lag_records",
            "Changelog records that this standby has not read yet; absent if it cannot read them",
            _STAGE,
        )
        self.purged = counter(
            "purged_offsets", "Offsets deleted because no stage needs their records", _STAGE
        )
        self.rebalances = counter("rebalances", "Changes of the assignment of partitions", _STAGE)
        self.partitions = gauge("partitions_assigned", "Partitions assigned to this worker", _STAGE)
        self.held_limit = gauge(
            "held_limit_bytes",
            "Payload that the partitions of this worker may buffer, in bytes",
            _STAGE,
        )
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        """Yield the families that are counted in this package and built at each scrape."""
        yield _wait_family(self.stage, self.waits)
        yield from late_families(self.stage, list(self.unhealthy.values()))

    def count_findings(self, findings: Sequence[Finding]) -> None:
        for finding in findings:
            query = self._queries.of(finding.query)
            self._answered.add(query)
            if isinstance(finding, Overflow):
                self.query_overflows.labels(self.stage, query).inc()
            else:
                labels = (self.stage, query, finding.op, str(finding.final).lower())
                self.results.labels(*labels).inc()
                if not finding.final and query in self.open_ends:
                    log.info("%s", self.open_ends[query])
                    self.open_ends = {}

    def left_out(self, before: Sequence[FieldUse], now: Sequence[FieldUse]) -> None:
        """Count the values that queries have left out since `before`.

        Log the first unusable value of each kind of each aggregate's field, and the first long run
        of events without the field. So the number of lines is bounded by the topology file.
        """
        earlier = {(use.query, use.aggregate): use for use in before}
        for use in now:
            was = earlier.get((use.query, use.aggregate), use._replace(absent=0, unusable=()))
            labels = (self.stage, self._queries.of(use.query))
            self.unusable.labels(*labels).inc(max(0, use.unusable_count - was.unusable_count))
            self.absent.labels(*labels).inc(max(0, use.absent - was.absent))
            for kind, sentence in describe_left_out(use).items():
                logged = (use.query, use.aggregate, kind)
                if logged not in self._left_out_logged:
                    self._left_out_logged.add(logged)
                    log.warning("%s (docs/operate/schemas.md)", sentence)

    def find_without_results(self) -> dict[str, list[str]]:
        """Return the queries that have no results yet, with the types and fields that no event had.

        Windows and joins are also listed after their first result, if a field is missing.
        """
        if self.unmet is None:
            return {}
        lacking = ((name, self.unmet.words(name)) for name in self.unmet.queries)
        return {
            name: words
            for name, words in lacking
            if words and (name not in self._answered or self.unmet.is_lasting(name))
        }

    def count_store_error(self, reason: str, count: int = 1) -> None:
        self.store_errors.labels(self.stage, self.reasons.of(reason)).inc(count)

    def note_lag(self, source: TopicPartition, records: int, lag_ns: int | None) -> None:
        """Set the number of unread records, and how long the next has waited (None if unknown).

        If a stage reads several topics, their partitions of the same number count as one. Their
        records are summed, and the longest time counts.
        """
        self._lags[source.partition][source.topic] = records, lag_ns
        self._set_lags(source.partition)

    def _set_lags(self, partition: int) -> None:
        lags, place = self._lags[partition].values(), (self.stage, str(partition))
        known_ns = [ns for _, ns in lags if ns is not None]
        self.input_lag.remove(*place)
        self.input_lag_seconds.remove(*place)
        if lags:
            self.input_lag.labels(*place).set(sum(records for records, _ in lags))
        if known_ns:
            self.input_lag_seconds.labels(*place).set(max(known_ns) / NS_PER_S)

    def set_standby_lag(self, behind: int | None) -> None:
        """Set how many changelog records a standby has not read; None if it is none, or unknown."""
        if behind is None:
            self.standby_lag.remove(self.stage)
        else:
            self.standby_lag.labels(self.stage).set(behind)

    def forget(self, source: TopicPartition) -> None:
        """Drop the data and the gauges of a partition that this worker no longer owns."""
        self.unhealthy.pop(source, None)
        self.deaths.pop(source, None)
        self._lags[source.partition].pop(source.topic, None)
        self._set_lags(source.partition)


class PlaceMetrics:
    """The counts of one stream in one partition."""

    def __init__(self, metrics: Metrics, stream: str, partition: int) -> None:
        self._metrics = metrics
        self._place = (metrics.stage, stream, str(partition))
        self._records_in = metrics.records_in.labels(*self._place)
        self._emitted = metrics.emitted.labels(*self._place)
        self._waits = metrics.waits[stream]

    def read(self, records: int) -> None:
        """Count `records` events as received; control records do not count."""
        self._records_in.inc(records)

    def set_current(self, held: int, figures: Figures, oldest_ns: int) -> None:
        """Set the gauges: buffered events, the operators' figures, and the oldest event's wait."""
        self._metrics.held.labels(*self._place).set(held)
        self._metrics.held_oldest.labels(*self._place).set(oldest_ns / NS_PER_S)
        for figure, gauge in self._metrics.figures.items():
            if isinstance(gauge, Gauge) and figure in figures:
                gauge.labels(*self._place).set(_to_unit(figure, figures[figure]))

    def count_growth(self, before: Figures, now: Figures) -> None:
        """Add the growth of the operators' totals to their counters."""
        for figure, counter in self._metrics.figures.items():
            if isinstance(counter, Counter) and figure in now:
                grown = max(0, now[figure] - before.get(figure, 0))
                counter.labels(*self._place).inc(_to_unit(figure, grown))

    def forget(self) -> None:
        """Remove the gauges of the partition; its counters stay, because they count past work."""
        metrics = self._metrics
        for family in (metrics.held, metrics.held_oldest, *metrics.figures.values()):
            if isinstance(family, Gauge):
                family.remove(*self._place)

    def observe(self, step: Step) -> list[Event]:
        """Count the emitted events and the reports of one step; return the emitted late events.

        Cost: O(emitted events and reports).
        """
        waits_ns, late, control = waits_of(step.released)
        for event in control:
            self._count(self._metrics.control, event.kind)
        for event in late:
            self._count(self._metrics.late, event.late)
        if waits_ns:
            self._waits.observe(waits_ns)
            self._emitted.inc(len(waits_ns) - len(late))
        for report in step.reports:
            self._count_report(report)
        return late

    def _count_report(self, report: Report) -> None:
        metrics = self._metrics
        match report:
            case Gap():
                self._count(metrics.gaps, report.reason)
                metrics.missing.labels(*self._place).inc(report.last - report.first + 1)
                age_s = (report.at_ns - report.known_at_ns) / NS_PER_S
                metrics.gap_age.labels(*self._place).observe(age_s)
            case Malformed():
                self._count(metrics.dead, report.reason)
                if report.kind:  # An unusable control record also counts as received.
                    self._records_in.inc()
            case Late() | Duplicate() if report.event.kind != DATA:
                self._count(metrics.control, report.event.kind)
            case Late():
                self._count(metrics.late, report.reason)
            case Duplicate():
                metrics.duplicate.labels(*self._place).inc()
                if report.conflict:
                    metrics.conflict.labels(*self._place).inc()

    def _count(self, counter: Counter, reason: str) -> None:
        counter.labels(*self._place, self._metrics.reasons.of(reason)).inc()


def _wait_family(stage: str, waits: Mapping[str, WaitCounts]) -> HistogramMetricFamily:
    """Return the histogram of the times for which events were buffered, from counts by stream.

    A histogram of the client library takes a lock and searches for the bucket in Python for each
    observation. At a hundred thousand events a second that is a large share of a CPU core. So waits
    are counted separately, and the family is built at the scrape.
    """
    text = "Time of an event from arrival to emission, in seconds"
    family = HistogramMetricFamily("inorder_wait_seconds", text, labels=("stage", "stream"))
    for stream, counts in list(waits.items()):
        buckets = list(zip(WAIT_BUCKETS_S, accumulate(counts.counts), strict=True))
        family.add_metric((stage, stream), buckets, counts.sum_ns / NS_PER_S)
    return family


def _to_unit(figure: str, value: int) -> float:
    return value / NS_PER_S if figure.endswith(TIME) else value


class Bounded:
    """A bounded set of label values: the first `limit` are kept, and all others become `other`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: set[str] = set()

    def of(self, value: str) -> str:
        if value in self._known:
            return value
        if len(self._known) >= self._limit:
            return OTHER
        self._known.add(value)
        return value
