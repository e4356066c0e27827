"""End to end, an example table: every record has the outcome that the table lists.

`bad_input.CASES` is the table. Both stages process all of it in one go: nothing is lost, no case
disturbs another, and the worker survives.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.end_to_end.bad_input import CASES, CONTROL, DUPLICATE, EMITTED, LATE, Case
from tests.end_to_end.records import Headers, Read, deliver, events_of, letters_of, read_all
from tests.end_to_end.replaying import dump, replay
from tests.end_to_end.setting import Setting, Settles
from tests.end_to_end.topics import large_input
from tests.end_to_end.waiting import Emitted
from tests.end_to_end.worker import running, worker_on
from tests.services import SharedKafka

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SOUND = Case("sound", EMITTED)


def send_round(setting: Setting, seq: int) -> None:
    """Send number `seq` of each case, one case after the other."""

    def records() -> Iterator[tuple[bytes | None, bytes | None, Headers, int]]:
        for case in CASES:
            shaped = case if seq == 1 else SOUND
            yield shaped.key, *shaped.record(case.what, seq, time.time_ns()), 0

    deliver(setting.bootstrap, setting.raw, records())


def test_records_have_listed_outcomes(kafka: SharedKafka, settles: Settles, tmp_path: Path) -> None:
    setting = settles(raw=large_input(kafka), partitions=1)
    worker = worker_on(setting)
    with running(worker):
        emitted = Emitted(setting)
        send_round(setting, 0)
        emitted.wait_for(len(CASES))  # Their time is certainly over then.
        send_round(setting, 1)
        send_round(setting, 2)
        uncounted = sum(1 for case in CASES if case.outcome in (DUPLICATE, CONTROL))
        emitted.wait_for(3 * len(CASES) - uncounted)
        emitted.close()
        worker.wait_ready()
        assert worker.ask("live")[0] == 200
        assert worker.stop() == 0, worker.log
    assert "Traceback" not in worker.log
    ordered, dead = events_of(setting), letters_of(setting)
    gaps = read_all(setting.bootstrap, setting.topology.topics.gaps)
    missing = {(g["source"], g["first"]) for g in (orjson.loads(r.value or b"") for r in gaps)}
    assert outcomes(ordered, dead) == {case.what: case.outcome for case in CASES}
    assert {what for what, first in missing if first == 1} == {c.what for c in CASES if c.hole}
    sound = {r.name for r in ordered if r.name[2] != 1}
    assert sound == {(case.what, 0, seq) for case in CASES for seq in (0, 2)}
    lines = tmp_path / "raw.jsonl"
    assert dump(setting, lines) == 3 * len(CASES)
    replayed = replay(setting, lines)
    assert replayed.summary["dead"] == len(dead)
    assert {said[:3] for said, _ in replayed.events} == {record.name for record in ordered}
    for letter in dead:
        assert letter["topic"] == setting.raw
        assert letter["detail"]
        assert "payload" not in letter
        assert "value" not in letter


def outcomes(ordered: list[Read], dead: list[dict[str, Any]]) -> dict[str, str]:
    """Return the outcome of each case's number 1; offsets follow the order of sending."""
    found = {}
    places = [(case.what, seq) for seq in range(3) for case in CASES]
    out = {record.name: record for record in ordered}
    reasons = {places[letter["offset"]]: letter["reason"] for letter in dead}
    assert len(reasons) == len(dead)
    for case in CASES:
        if (case.what, 1) in reasons:
            found[case.what] = reasons[case.what, 1]
        elif (case.what, 0, 1) in out:
            value, _ = case.record(case.what, 1, 0)
            record = out[case.what, 0, 1]
            assert (record.key, record.value) == (case.key, value), case.what
            found[case.what] = EMITTED if record.header("late") is None else LATE
        else:
            found[case.what] = case.outcome if case.outcome in (DUPLICATE, CONTROL) else "lost"
    return found
