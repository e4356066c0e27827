"""Logs a stage's start, its readiness, its dead letters, and a line a minute.

    owns        the partitions that the stage has been assigned
    restore     the progress of a restore, every `PROGRESS_S`
    ready       and not ready, with the reasons; repeated every `REPEAT_S` while not ready
    dead        that most records are dead letters, why, and the remedy; repeated every `REPEAT_S`
    minute      rate, lag, late by cause, dead, held, the last checkpoint

The figures are those of `/metrics`, as differences over the minute. Readiness is checked once a
second. A change is logged only if two checks in a row show it, because each rebalance passes
through "not ready". Each line also has its values as `fields`, for a log in JSON.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from aiokafka.structs import TopicPartition
from prometheus_client import Counter as Counted
from prometheus_client import Gauge
from prometheus_client.samples import Sample

from agents.watch.deaths import Deaths
from agents.watch.metrics.worker import Metrics

log = logging.getLogger(__name__)

MINUTE_S: Final = 60.0
PROGRESS_S: Final = 5.0
REPEAT_S: Final = 60.0
ENOUGH: Final = 20
"""Minimum number of records for a statement about the share of dead letters."""

STARTS_S: Final = 10.0
"""Time after the start during which "not ready" is not logged."""


class StageLog:
    """The log of one stage's process; `clock` is monotonic, in seconds.

    All methods are cheap except `minute`, which reads the counters once in `MINUTE_S`.
    """

    def __init__(self, metrics: Metrics, clock: Callable[[], float] = time.monotonic) -> None:
        self._metrics = metrics
        self._clock = clock
        self._began_s = self._since_s = clock()
        self._before: Counter[tuple[str, str]] = Counter()
        self._restore_logged_s: dict[TopicPartition, float] = {}
        self._was_ready: bool | None = None
        self._seen: bool | None = None
        self._logged_s = 0.0
        self._deaths_seen = Deaths()
        self._deaths_logged_s = float("-inf")

    def owns(self, partitions: Collection[TopicPartition]) -> None:
        places = [f"{source.topic}/{source.partition}" for source in sorted(partitions)]
        _log_fields("owns %s", ", ".join(places) or "no partition", partitions=places)

    def log_restore(self, source: TopicPartition, position: int, end: int) -> None:
        """Log the progress of a restore, unless it was logged recently."""
        now_s = self._clock()
        if now_s - self._restore_logged_s.setdefault(source, now_s) < PROGRESS_S:
            return
        self._restore_logged_s[source] = now_s
        place = f"{source.topic}/{source.partition}"
        _log_fields(
            "%s: restoring, %d of %d records are read",
            *(place, position, end),
            partition=place,
            position=position,
            end=end,
        )

    def forget_restore(self, source: TopicPartition) -> None:
        self._restore_logged_s.pop(source, None)

    def note_readiness(self, reasons: Collection[str]) -> None:
        """Log a change of readiness, once a second; without `reasons` the stage is ready."""
        now_s = self._clock()
        is_ready = not reasons
        lasts = is_ready == self._seen
        self._seen = is_ready
        if not lasts or (is_ready and self._was_ready):
            return
        if is_ready:
            _log_fields("ready", ready=True)
        elif (self._was_ready is None and now_s - self._began_s < STARTS_S) or (
            self._was_ready is False and now_s - self._logged_s < REPEAT_S
        ):
            return
        else:
            fields = {"ready": False, "reasons": list(reasons)}
            log.warning("not ready: %s", "; ".join(reasons), extra={"fields": fields})
        self._was_ready = is_ready
        self._logged_s = now_s

    def dead(self) -> None:
        """Warn if most of the recent records are dead letters; call this once a second.

        The share is judged when there are at least `ENOUGH` new records. If the first records of
        all include dead letters, it is judged at once.
        """
        before, now_s = self._deaths_seen, self._clock()
        deaths = Deaths()
        for each in self._metrics.deaths.values():
            deaths.join(each)
        # The worker now has other partitions, whose counts start again from 0.
        if deaths.read < before.read:
            before = self._deaths_seen = Deaths()
        read, dead = deaths.read - before.read, deaths.dead - before.dead
        if read < ENOUGH and (before.read or not dead):
            return
        if now_s - self._deaths_logged_s < REPEAT_S and dead:
            return
        self._deaths_seen = deaths.since(Deaths())
        alarm = deaths.since(before).find_alarm()
        if alarm is not None:
            self._deaths_logged_s = now_s
            fields = {"read": read, "dead": dead}
            log.warning("%s", alarm, extra={"fields": fields})

    def log_minute(self, checkpoint_s: Callable[[], float | None]) -> None:
        """Log the figures once a minute; `checkpoint_s` returns the time of the last checkpoint."""
        now_s = self._clock()
        elapsed_s = now_s - self._since_s
        if elapsed_s < MINUTE_S:
            return
        self._since_s = now_s
        counted = self._count()
        grown, self._before = counted - self._before, counted
        metrics, last_s = self._metrics, checkpoint_s()
        fields: dict[str, Any] = {
            "in": grown["in", ""],
            "per_second": round(grown["in", ""] / elapsed_s, 1),
            "out": grown["out", ""],
            "late": {cause: n for (kind, cause), n in sorted(grown.items()) if kind == "late"},
            "duplicate": grown["duplicate", ""],
            "dead": {cause: n for (kind, cause), n in sorted(grown.items()) if kind == "dead"},
            "lag": int(sum(_values(metrics.input_lag))),
            "held": int(sum(_values(metrics.held))),
            "lag_s": round(max(_values(metrics.input_lag_seconds), default=0.0), 1),
            "checkpoint_age_s": None if last_s is None else round(now_s - last_s, 1),
        }
        _log_fields("%s", _minute_line(fields, elapsed_s), **fields)

    def _count(self) -> Counter[tuple[str, str]]:
        """Return the sums of the counters over all streams and partitions, by kind and cause."""
        metrics = self._metrics
        families = {
            "in": metrics.records_in,
            "out": metrics.emitted,
            "late": metrics.late,
            "duplicate": metrics.duplicate,
            "dead": metrics.dead,
        }
        found: Counter[tuple[str, str]] = Counter()
        for kind, family in families.items():
            for sample in _samples(family):
                found[kind, sample.labels.get("reason", "")] += int(sample.value)
        return found


def _samples(family: Counted | Gauge) -> list[Sample]:
    return [sample for metric in family.collect() for sample in metric.samples]


def _values(gauge: Gauge) -> list[float]:
    return [sample.value for sample in _samples(gauge)]


def _minute_line(fields: Mapping[str, Any], elapsed_s: float) -> str:
    last_s = fields["checkpoint_age_s"]
    parts = [
        f"{elapsed_s:.0f} s: {fields['in']:,} in, {fields['per_second']:,}/s",
        f"{fields['out']:,} out",
        f"lag {fields['lag']:,}" + (f" ({fields['lag_s']:,} s)" if fields["lag_s"] else ""),
        f"held {fields['held']:,}",
        f"late {_format_causes(fields['late'])}",
        f"dead {_format_causes(fields['dead'])}",
        f"duplicate {fields['duplicate']:,}",
        "no checkpoint yet" if last_s is None else f"last checkpoint {last_s:.1f} s ago",
    ]
    return ", ".join(parts)


def _format_causes(causes: Mapping[str, int]) -> str:
    whole = f"{sum(causes.values()):,}"
    listed = ", ".join(f"{cause} {count:,}" for cause, count in causes.items())
    return f"{whole} ({listed})" if listed else whole


def _log_fields(text: str, *values: Any, **fields: Any) -> None:
    log.info(text, *values, extra={"fields": fields})
