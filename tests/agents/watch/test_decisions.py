"""Examples: what is kept of events that did not go the plain way, and how much of it."""

from __future__ import annotations

from agents.watch.decisions import COPY, DEAD, DIFFERS, GIVEN_UP, SENT_ON, TURNED_AWAY, Decisions
from topology.model.event import NO_EPOCH, Event
from topology.model.late import MERGE_IDLE
from topology.model.outcome import TIMEOUT, Duplicate, Gap, Late, Malformed


def event(seq: int, *, epoch: int = 0, source: str = "s") -> Event:
    return Event("pitch", source, epoch, seq, 100, 200, offset=7, value=b"payload")


def words(decisions: Decisions, seq: int, epoch: int = NO_EPOCH) -> list[str]:
    return [str(note["what"]) for note in decisions.about(None, "s", epoch, seq)]


def test_each_kind_is_found_by_its_number() -> None:
    decisions = Decisions()
    late = event(4)
    late.late, late.at_ns = MERGE_IDLE, 900
    decisions.passed([late])
    decisions.saw(
        [
            Gap(800, "pitch", "s", 0, 10, 19, TIMEOUT, 700),
            Late(810, event(5), MERGE_IDLE, 33),
            Duplicate(820, event(6)),
            Duplicate(830, event(6), conflict=True),
            Malformed(840, 12, "value", "too large", "pitch", "s", 0, 8),
            Malformed(850, 13, "headers", "no source"),
        ]
    )
    assert words(decisions, 4) == [SENT_ON]
    assert words(decisions, 5) == [TURNED_AWAY]
    assert words(decisions, 6) == [COPY, DIFFERS]
    assert words(decisions, 8) == [DEAD]
    assert words(decisions, 10) == words(decisions, 19) == [GIVEN_UP]
    assert words(decisions, 20) == []
    (note,) = decisions.about("pitch", "s", 0, 5)
    assert (note["reason"], note["by_ns"], note["offset"]) == (MERGE_IDLE, 33, 7)
    assert "payload" not in str(decisions.about(None, "s", NO_EPOCH, 5))


def test_epoch_and_stream_narrow_it_down() -> None:
    decisions = Decisions()
    decisions.saw([Duplicate(1, event(6, epoch=2))])
    assert words(decisions, 6, epoch=1) == []
    assert words(decisions, 6, epoch=2) == [COPY]
    assert decisions.about("other", "s", NO_EPOCH, 6) == []


def test_the_last_are_kept() -> None:
    decisions = Decisions(kept=10)
    decisions.saw([Duplicate(n, event(n)) for n in range(8)])
    decisions.saw([Duplicate(n, event(n)) for n in range(8, 25)])
    assert [seq for seq in range(25) if words(decisions, seq)] == list(range(15, 25))
