"""Stores notes on the last irregular events of a partition, to answer questions about one of them.

A late event, a duplicate, a dead letter or a gap leaves a note with the reason; an event in order
leaves none. The last `KEPT` notes of a partition are stored. Older ones, except duplicates, are
only in the topics `events.late`, `events.gaps` and `events.dead`. No payload is stored.

Cost: O(reports), nothing for events in order. Memory: `KEPT` notes, below 2 MB a partition.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from topology.base.event import NO_EPOCH, Event
from topology.base.outcome import Duplicate, Gap, Late, Malformed, Report
from topology.stage.lanes import lane_of, offset_in_lane

KEPT: Final = 4_096
SHOWN: Final = 20
"""Maximum number of notes in one answer; the newest are chosen."""

SENT_ON: Final = "late"
TURNED_AWAY: Final = "late_apart"
COPY: Final = "duplicate"
DIFFERS: Final = "conflict"
DEAD: Final = "dead"
GIVEN_UP: Final = "gap"


class Decision(NamedTuple):
    """A note about the sequence numbers `first` to `last` of a source.

    `what` is one of the words above. `by_ns` is how late the event was; 0 means unknown. `log` is
    the partition with the record, in a task that reads several.
    """

    what: str
    stream: str | None
    source: str | None
    epoch: int
    first: int
    last: int
    reason: str
    at_ns: int
    arrival_ns: int
    offset: int
    by_ns: int = 0
    log: str = ""


class Decisions:
    """The notes on the last irregular events of one task.

    `logs` has the names of its partitions by the number of their lane, if there are several.
    """

    def __init__(self, kept: int = KEPT, logs: Mapping[int, str] | None = None) -> None:
        self._notes: deque[Decision] = deque(maxlen=kept)
        self._logs = logs or {}

    def note_reports(self, reports: Sequence[Report]) -> None:
        if reports:
            self._add(map(_decision, reports[-(self._notes.maxlen or 0) :]))

    def note_late(self, late: Iterable[Event]) -> None:
        """Add notes on late events that were emitted with the mark of late events."""
        self._add(_decision_on_event(SENT_ON, e, e.late, e.at_ns) for e in late)

    def _add(self, decisions: Iterable[Decision]) -> None:
        for each in decisions:
            log, offset = self._logs.get(lane_of(each.offset), ""), offset_in_lane(each.offset)
            self._notes.append(each._replace(log=log, offset=offset))

    def about(self, stream: str | None, source: str, epoch: int, seq: int) -> list[dict[str, Any]]:
        """Return the notes about one event, oldest first.

        `stream` None matches any stream, NO_EPOCH any epoch.
        """
        found = [
            decision._asdict()
            for decision in self._notes
            if decision.source == source
            and decision.first <= seq <= decision.last
            and epoch in {NO_EPOCH, decision.epoch}
            and stream in {None, decision.stream}
        ]
        return found[-SHOWN:]

    def late(self) -> list[dict[str, Any]]:
        """Return the last `SHOWN` late events, the newest first."""
        newest = (each for each in reversed(self._notes) if each.what in {SENT_ON, TURNED_AWAY})
        return [decision._asdict() for decision in islice(newest, SHOWN)]


def _decision(report: Report) -> Decision:
    match report:
        case Gap():
            return Decision(
                *(GIVEN_UP, report.stream, report.source, report.epoch, report.first, report.last),
                *(report.reason, report.at_ns, report.known_at_ns, -1),
            )
        case Malformed():
            number = -1 if report.seq is None else report.seq
            epoch = NO_EPOCH if report.epoch is None else report.epoch
            return Decision(
                *(DEAD, report.stream, report.source, epoch, number, number),
                *(report.reason, report.at_ns, report.at_ns, report.offset),
            )
        case Late():
            return _decision_on_event(
                TURNED_AWAY, report.event, report.reason, report.at_ns, report.by_ns
            )
        case Duplicate():
            what = DIFFERS if report.conflict else COPY
            return _decision_on_event(what, report.event, "", report.at_ns)


def _decision_on_event(
    what: str, event: Event, reason: str, at_ns: int, by_ns: int = 0
) -> Decision:
    return Decision(
        *(what, event.stream, event.source, event.epoch, event.seq, event.seq),
        *(reason, at_ns, event.arrival_ns, event.offset, by_ns),
    )
