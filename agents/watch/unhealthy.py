"""Which sources of a partition are unhealthy: late, with lost numbers, or of two producers.

One table for each partition, since it was opened here. Up to `COUNTED` sources that come late, and
as many that lose numbers, are counted exactly. Where there are more, those are counted for certain
that make more than one in `COUNTED` of all that is late or lost there, and the error says how much
more may have been (`agents.watch.frequent`). Three readers:

* `/explain`, and so the page: those that are late most often and those that have lost the most
  numbers, be it in one hole or in many: `EXPLAINED` of each by all partitions of a stage together,
  but of one never fewer than the page names of all, so that none of these is missed. Beside them
  the sources that wait the longest, and the clocks of both (`explained`).

  | key          | what                                                             |
  |--------------|------------------------------------------------------------------|
  | `late`       | events that came late, at least                                  |
  | `late_error` | at most so many more did                                         |
  | `gaps`       | holes that were given up, at least                               |
  | `lost`       | numbers in holes, at least; some may yet have come, late         |
  | `lost_error` | at most so many more were                                        |

* Metrics, for the `LABELLED` of a process that are late most often, as a label for each source
  would make as many series as there are sources. Both count from the source's first late event on,
  so their rates divided are its share late; both begin anew when it lost its place in the table and
  came back. Which sources these are changes, so a series may end and begin anew.

      inorder_source_late_total{stage, stream, source}    what was late of it
      inorder_source_read_total{stage, stream, source}    all that came of it

* The log, where two producers seem to send under one source's name. The higher of two epochs
  counts, so the other producer's events are late, reason `old_epoch`; two producers in one epoch
  use the same numbers, so what differs from what is held is a duplicate with other content. A line
  comes at once, then at most every `WARN_EVERY_S`, with how many there were and the first of them.
  A few after a restart are stragglers of the former life; if they go on there are two.

Cost: O(late events and reports); nothing for what is in order; O(sources that wait), and twice
`MAX_ASKED` questions a stream, while somebody looks. Memory: twice `COUNTED` entries a partition,
4 MB where so many sources are late and lose numbers.
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
from topology.flow.stage import Stage
from topology.model.event import NO_EPOCH
from topology.model.late import OLD_EPOCH
from topology.model.outcome import Duplicate, Gap, Late, Report

log = logging.getLogger(__name__)

COUNTED: Final = 4_000
EXPLAINED: Final = 500
NAMED: Final = max(MAX_LATE, MAX_LOST)
MAX_ASKED: Final = 100
REORDER: Final = "reorder"
CLOCK: Final = "clock"

LABELLED: Final = 20
LONGEST_NAME: Final = 120
"""Characters of a source's name in a label."""
LABELS: Final = ("stage", "stream", "source")

WARN_EVERY_S: Final = 60.0

Read = Callable[[str, str], int]
"""From stream and source to how many events came of it; 0: unknown."""


def no_reading(_: str, __: str) -> int:
    """For a stage that counts no sources."""
    return 0


@dataclass(eq=False)
class UnhealthySources:
    """One partition's; `place` is its name in the log. `now_s` only rises."""

    place: str
    read: Read = no_reading
    now_s: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.late, self._lost = Frequent(COUNTED), Frequent(COUNTED)
        self._warned_s = float("-inf")
        self._doubles = 0  # signs of a second producer since the last warning
        self._first_double = ""

    def came_late(self, sources: Iterable[Source]) -> None:
        for source in sources:
            named = self.late.note(source)
            if named.times == 1:
                named.mark = max(0, self.read(*source) - 1)  # read before this one

    def saw(self, reports: Sequence[Report]) -> None:
        for report in reports:
            match report:
                case Gap():
                    numbers = report.last - report.first + 1
                    self._lost.note((report.stream, report.source), numbers)
                case Late():
                    self.came_late([(report.event.stream, report.event.source)])
                    if report.reason == OLD_EPOCH:
                        self._suspect(report, "after a higher epoch began")
                case Duplicate(conflict=True):
                    self._suspect(report, "twice, and differs")
        if self._doubles and self.now_s() - self._warned_s >= WARN_EVERY_S:
            self._warn()

    def _suspect(self, report: Late | Duplicate, what: str) -> None:
        if not self._doubles:
            event = report.event
            place = f"{event.source}/{event.epoch}/{event.seq} of {event.stream}"
            self._first_double = f"{place} came {what}"
        self._doubles += 1

    def _warn(self) -> None:
        log.warning(
            "%s: %d event(s) of an old epoch, or under a used number (the first: %s); a few are"
            " stragglers of a restart, if they go on two producers send under one source's name:"
            " give each source one producer and one journal",
            *(self.place, self._doubles, self._first_double),
        )
        self._warned_s, self._doubles = self.now_s(), 0

    def worst_late(self) -> list[tuple[int, Source, int]]:
        """(late, source, read) of the LABELLED that are late most often; not of those that have
        been forgotten."""
        found = []
        for late, source in self.late.worst(LABELLED):
            read = self.read(*source)
            if read:
                named = self.late.of(source)
                if read < named.mark:  # forgotten since, and come anew
                    named.mark = 0
                found.append((late, source, read - named.mark))
        return found

    def explain(self, most: int, asked: Iterable[Source] = ()) -> list[dict[str, Any]]:
        """The `most` worst of both kinds, and of those `asked` for the ones that are of either, in
        the order of their names."""
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


def share(partitions: int) -> int:
    """How many of each kind one of so many partitions explains."""
    return max(NAMED, EXPLAINED // max(partitions, 1))


def explained(stage: Stage, sources: UnhealthySources, most: int) -> dict[str, Any]:
    """What the stage explains, and its unhealthy sources: the `most` worst, and the `MAX_ASKED` of
    each stream that wait the longest. CLOCK names the sources whose time is least sure, as it does
    not know who waits; so the clocks of those that wait, and of as many that are late most often,
    are asked for here."""
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
                if its is not None:  # else its first events wait
                    clocks.append(its)
    return {"unhealthy": unhealthy, **found}


def late_families(stage: str, tables: Iterable[UnhealthySources]) -> Iterable[CounterMetricFamily]:
    """Yield the counts of those sources of a stage that are late most often."""
    late = CounterMetricFamily("inorder_source_late", "Late events of a source", labels=LABELS)
    read = CounterMetricFamily("inorder_source_read", "Events of it in all", labels=LABELS)
    found = [each for table in tables for each in table.worst_late()]
    counts: dict[tuple[str, str, str], tuple[int, int]] = {}
    for late_count, (stream, source), read_count in nlargest(LABELLED, found):
        labels = (stage, stream, source[:LONGEST_NAME])
        before = counts.get(labels, (0, 0))  # a source that comes by several partitions
        counts[labels] = before[0] + late_count, before[1] + read_count
    for labels, (late_count, read_count) in counts.items():
        late.add_metric(labels, late_count)
        read.add_metric(labels, read_count)
    yield late
    yield read
