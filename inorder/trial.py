"""A detector by itself, on trial: for tests of one's own (`inorder.testing` has it, too).

    from inorder.testing import check_detector

    report = check_detector(Detector(step, initial), events)
    assert report.state_bytes < 200

Needs the distribution `inorder-engine`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from inorder.engine import RawEvent
from inorder.given import check_many
from topology.detector.detector import behaviour_of
from topology.detector.item import Seen
from topology.detector.trial import tried

SNAPSHOTS: Final = 1_000


class BadDetector(AssertionError):
    """The text states what is wrong with it, and at which event."""


@dataclass(frozen=True, slots=True)
class DetectorReport:
    """`events` and timers were read, `results` emitted. `state_values`: how many values the largest
    state has, `state_bytes`: what it takes where it is kept, `snapshot_us`: how long a way back to
    it takes to keep, on this machine."""

    items: int
    results: int
    state_values: int
    state_bytes: int
    snapshot_us: float


def check_detector(detector: Any, events: Iterable[RawEvent]) -> DetectorReport:
    """Check a detector by itself, of one key, with the events in order: that it gives the same of
    the same, changes nothing that it was given, raises nowhere, and that its states can be copied,
    compared, written down and read back. Raises BadDetector, with the first few faults; TypeError
    for what is no detector."""
    check_many("events", events, "RawEvents")
    rules = behaviour_of(detector)
    trial = tried(rules, [_seen(number, event) for number, event in enumerate(events)])
    if trial.problems:
        raise BadDetector("; ".join(trial.problems))
    begun = time.perf_counter()
    for _ in range(SNAPSHOTS):
        rules.copy_of(trial.state)
    snapshot_us = (time.perf_counter() - begun) * 1e6 / SNAPSHOTS
    size = len(json.dumps(rules.pack(trial.state)))
    return DetectorReport(trial.items, trial.results, trial.state_values, size, snapshot_us)


def _seen(number: int, event: RawEvent) -> Seen:
    time_ns = (
        event.ts_ns if event.arrival_ns is None or event.ts_ns is not None else event.arrival_ns
    )
    if time_ns is None:
        raise ValueError(f"{event} has neither ts_ns nor arrival_ns; give one")
    seq = number if event.seq is None else event.seq
    return Seen(event.type, time_ns, event.payload, event.source, event.epoch or 0, seq)
