"""Finds a partition's unhealthy sources: late ones, lossy ones, and names with two producers.

There is one table for each partition, from the time it was opened here. Up to `COUNTED` late
sources, and up to `COUNTED` with lost numbers, are counted exactly. If there are more, a source is
certainly counted if it has more than one in `COUNTED` of all late events or lost numbers there. The
error bounds how much greater the true count may be (`agents.watch.frequent`). There are three uses:

* `/explain`, and so the page, lists the sources with the most late events and those with the most
  lost numbers. All partitions of a stage together list `EXPLAINED` of each. One partition lists no
  fewer than the page names in all, so the page misses none. The sources that wait the
  longest, and the clocks of both, are listed too (`explain`).

  | key          | meaning                                                          |
  |--------------|------------------------------------------------------------------|
  | `late`       | number of late events, at least                                  |
  | `late_error` | maximum number of further late events                            |
  | `gaps`       | number of declared gaps, at least                                |
  | `lost`       | numbers in gaps, at least; some may still have arrived, late     |
  | `lost_error` | maximum number of further lost numbers                           |

* Metrics exist for the `LABELLED` sources of a process with the most late events. A label for each
  source would create as many series as sources. Both counters count from the source's first late
  event, so the quotient of their rates is its late share. Both restart if the source leaves the
  table and returns. The set of sources changes, so a series may end and begin again.

    inorder_source_late_total{stage, stream, source}    late events of the source
    inorder_source_read_total{stage, stream, source}    all its events

* The log warns if two producers seem to send under one source's name. The higher of two epochs
  counts, so the other producer's events are late, with the reason `old_epoch`. Two producers in one
  epoch use the same numbers, so their events are duplicates with other content. A warning comes at
  once, then at most every `WARN_EVERY_S`, with the number of such events and the first of them. A
  few of them after a restart come from the former epoch; if they continue, there are two producers.

Cost: O(late events and reports), and nothing for events in order. While somebody views the page,
also O(waiting sources) and twice `MAX_ASKED` look-ups a stream. Memory: at most twice `COUNTED`
entries a partition, which is 4 MB.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import nlargest, nsmallest
from operator import itemgetter
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily

from agents.watch.frequent import Frequent, Source
from agents.watch.page.sources import MAX_LATE, MAX_LOST
from topology.base.event import NO_EPOCH
from topology.base.late import OLD_EPOCH
from topology.base.outcome import Duplicate, Gap, Late, Report
from topology.stage.stage import Stage

log = logging.getLogger(__name__)

COUNTED: Final = 4_000
EXPLAINED: Final = 500
NAMED: Final = max(MAX_LATE, MAX_LOST)
MAX_ASKED: Final = 100
REORDER: Final = "reorder"
CLOCK: Final = "clock"

LABELLED: Final = 20
LONGEST_NAME: Final = 120
"""Maximum number of characters of a source's name in a label."""
LABELS: Final = ("stage", "stream", "source")

WARN_EVERY_S: Final = 60.0

Read = Callable[[str, str], int]
"""Function from stream and source to the number of its events that were read; 0 means unknown."""


def count_none(_: str, __: str) -> int:
    """Return 0, for a stage that does not count the events of its sources."""
    return 0


@dataclass(eq=False)
class UnhealthySources:
    """The unhealthy sources of one partition; `place` is its name in the log.

    `read` returns the number of events read from a source, and `now_s` a monotonic time.
    """

    place: str
    read: Read = count_none
    now_s: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.late, self._lost = Frequent(COUNTED), Frequent(COUNTED)
        self._warned_s = float("-inf")
        # Number of events since the last warning that indicate a second producer.
        self._doubles = 0
        self._first_double = ""

    def note_late(self, sources: Iterable[Source]) -> None:
        for source in sources:
            named = self.late.note(source)
            if named.times == 1:
                # The mark is the number of events read before this one.
                named.mark = max(0, self.read(*source) - 1)

    def note_reports(self, reports: Sequence[Report]) -> None:
        for report in reports:
            match report:
                case Gap():
                    numbers = report.last - report.first + 1
                    self._lost.note((report.stream, report.source), numbers)
                case Late():
                    self.note_late([(report.event.stream, report.event.source)])
                    if report.reason == OLD_EPOCH:
                        self._suspect(report, "came after a higher epoch began")
                case Duplicate(conflict=True):
                    self._suspect(report, "came again with other content")
        if self._doubles and self.now_s() - self._warned_s >= WARN_EVERY_S:
            self._warn()

    def _suspect(self, report: Late | Duplicate, what: str) -> None:
        if not self._doubles:
            event = report.event
            place = f"{event.source}/{event.epoch}/{event.seq} of {event.stream}"
            self._first_double = f"{place} {what}"
        self._doubles += 1

    def _warn(self) -> None:
        log.warning(
            "%s: %d event(s) repeat a number with other content, or are of an old epoch (the first:"
            " %s); a few may follow a restart; if they continue, two producers use one source's"
            " name: give each source one producer and one journal",
            *(self.place, self._doubles, self._first_double),
        )
        self._warned_s, self._doubles = self.now_s(), 0

    def find_worst_late(self) -> list[tuple[int, Source, int]]:
        """Return (late, source, read) of the `LABELLED` sources with the most late events.

        Sources whose number of read events is unknown are left out.
        """
        found = []
        for late, source in self.late.worst(LABELLED):
            read = self.read(*source)
            if read:
                named = self.late.of(source)
                # A smaller number than the mark means that the count has restarted from 0.
                if read < named.mark:
                    named.mark = 0
                found.append((late, source, read - named.mark))
        return found

    def explain(self, most: int, asked: Iterable[Source] = ()) -> list[dict[str, Any]]:
        """Return the `most` sources with most late events and with most lost numbers, by name.

        The sources of `asked` are added if they are in a table.
        """
        tables = (self.late, self._lost)
        worst = {source for table in tables for _, source in table.worst(most)}
        worst.update(source for source in asked if any(source in table for table in tables))
        return [self._explain(source) for source in sorted(worst)]

    def _explain(self, source: Source) -> dict[str, Any]:
        late, lost = self.late.of(source), self._lost.of(source)
        return {
            "stream": source[0],
            "source": source[1],
            "late": late.amount,
            "late_error": late.error,
            "gaps": lost.times,
            "lost": lost.amount,
            "lost_error": lost.error,
        }


def max_listed(partitions: int) -> int:
    """Return how many sources of each kind a partition lists if this process has `partitions`."""
    return max(NAMED, EXPLAINED // max(partitions, 1))


def explain(stage: Stage, sources: UnhealthySources, most: int) -> dict[str, Any]:
    """Return the stage's explanation, with its unhealthy sources and their clocks.

    The unhealthy sources are the `most` worst, and the `MAX_ASKED` of each stream that wait the
    longest. CLOCK lists only the sources with the largest time error. So this function adds the
    clocks of the waiting sources, and of the `MAX_ASKED` sources that are late most often.
    """
    found = stage.explain()
    waiting = {
        stream: nsmallest(MAX_ASKED, operators[REORDER]["waiting"], itemgetter("since"))
        for stream, operators in found["streams"].items()
        if REORDER in operators
    }
    asked = ((stream, each["source"]) for stream, held in waiting.items() for each in held)
    unhealthy = sources.explain(most, asked)
    for stream, operators in found["streams"].items():
        if not (REORDER in operators and CLOCK in operators):
            continue
        clocks = operators[CLOCK]["clocks"]
        known = {each["source"] for each in clocks}
        (clock,) = (node.operator for node in stage.chains[stream].nodes if node.name == CLOCK)
        late = [each for each in unhealthy if each["stream"] == stream]
        for each in [*waiting[stream], *nlargest(MAX_ASKED, late, itemgetter("late"))]:
            if each["source"] not in known:
                known.add(each["source"])
                its = clock.locate(each["source"], NO_EPOCH, 0)
                # There is no clock while the source's first events are still buffered.
                if its is not None:
                    clocks.append(its)
    return {"unhealthy": unhealthy, **found}


def late_families(stage: str, tables: Iterable[UnhealthySources]) -> Iterable[CounterMetricFamily]:
    """Yield the metric families of the stage's sources that are late most often."""
    late = CounterMetricFamily("inorder_source_late", "Late events of a source", labels=LABELS)
    read = CounterMetricFamily("inorder_source_read", "All events of that source", labels=LABELS)
    found = [each for table in tables for each in table.find_worst_late()]
    counts: dict[tuple[str, str, str], tuple[int, int]] = {}
    for late_count, (stream, source), read_count in nlargest(LABELLED, found):
        labels = (stage, stream, source[:LONGEST_NAME])
        before = counts.get(labels, (0, 0))  # A source may occur in several partitions.
        counts[labels] = before[0] + late_count, before[1] + read_count
    for labels, (late_count, read_count) in counts.items():
        late.add_metric(labels, late_count)
        read.add_metric(labels, read_count)
    yield late
    yield read
