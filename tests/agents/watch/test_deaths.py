"""Examples: why records were dead, in one sentence for all who look."""

from __future__ import annotations

import pickle

from agents.watch.deaths import MAX_REASONS, OTHER, Deaths, joined
from topology.model.outcome import Malformed

MISSING = "header `sourceId` is missing; write it in every record"


def deaths(dead: int, read: int, reason: str = "source_missing", log: str = "") -> Deaths:
    found = Deaths(log)
    found.read = read
    for number in range(dead):
        found.add(Malformed(100 + number, 7 + number, reason, MISSING))
    return found


def test_every_record_is_dead() -> None:
    assert deaths(3_847, 3_847, log="events.raw/2").alarm() == (
        "every record is a dead letter (3,847), with reason source_missing; events.raw/2 offset 7: "
        + MISSING
    )


def test_most_are() -> None:
    found = deaths(6, 10)
    found.join(deaths(2, 2, "seq_missing"))
    assert found.alarm("line") == (
        "8 of 12 lines are dead letters, most of them with reason source_missing; line 7: "
        + MISSING
    )
    assert deaths(5, 10).alarm() is None
    assert deaths(0, 0).alarm() is None


def test_what_a_worker_is_told_by_its_partitions() -> None:
    parts = [deaths(2, 2, log="raw/0").plain(), deaths(1, 4, log="raw/1").plain()]
    whole = joined(parts)
    assert (whole.read, whole.dead) == (6, 3)
    assert joined([]).alarm() is None
    assert pickle.loads(pickle.dumps(whole)).plain() == whole.plain()


def test_reasons_are_bounded() -> None:
    found = Deaths()
    for number in range(2 * MAX_REASONS):
        found.add(Malformed(0, number, f"r{number}", ""))
    assert (found.dead, len(found.reasons())) == (2 * MAX_REASONS, MAX_REASONS + 1)
    assert found.reasons()[0][0] == OTHER
