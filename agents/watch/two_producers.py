"""A word in the log when it looks as if two producers sent under one source's name.

The higher of two epochs counts, so the other producer's events are late, reason
`old_epoch`; two producers in one epoch use the same numbers, so what differs from what is
held is a duplicate that says something else. Both are counted
(`inorder_records_late_total{reason="old_epoch"}`, `inorder_records_conflict_total`), and told
here: at once, then at most every TOLD_EVERY_S, with how many there were and the first of them.
A few after a restart are stragglers of the former life; if they go on there are two.

Proved by: tests/agents/watch/test_two_producers.py
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from topology.model.outcome import OLD_EPOCH, Duplicate, Late, Report

TOLD_EVERY_S: Final = 60.0

log = logging.getLogger(__name__)


class TwoProducers:
    """For one partition of a stage. `now_s` only rises. O(reports)."""

    def __init__(self, place: str, now_s: Callable[[], float] = time.monotonic) -> None:
        self._place = place
        self._now_s = now_s
        self._told_s = float("-inf")
        self._count = 0
        self._first = ""

    def saw(self, reports: Sequence[Report]) -> None:
        for report in reports:
            match report:
                case Late(reason=reason) if reason == OLD_EPOCH:
                    self._note(report, "after a higher epoch began")
                case Duplicate(conflict=True):
                    self._note(report, "twice, and differs")
        if self._count and self._now_s() - self._told_s >= TOLD_EVERY_S:
            self._tell()

    def _note(self, report: Late | Duplicate, what: str) -> None:
        if not self._count:
            event = report.event
            self._first = f"{event.source}/{event.epoch}/{event.seq} of {event.stream} came {what}"
        self._count += 1

    def _tell(self) -> None:
        log.warning(
            "%s: %d event(s) of an old epoch, or under a used number (the first: %s); a few are"
            " stragglers of a restart, if they go on two producers send under one source's name:"
            " give each source one producer and one journal",
            *(self._place, self._count, self._first),
        )
        self._told_s, self._count = self._now_s(), 0
