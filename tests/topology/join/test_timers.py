"""Law: an agenda gives back what is kept, in time, and does not grow by what is not."""

from __future__ import annotations

from random import Random

from tests.topology.join.streams import event
from topology.join.entry import Entry
from topology.join.timers import SPARE, Agenda


def entry(seq: int) -> Entry:
    made = Entry(event("X", seq, seq), 0, "", 0, ())
    made.is_kept = True
    return made


def test_it_gives_each_once_when_its_instant_has_passed() -> None:
    agenda, rng = Agenda(), Random(1)
    noted = [(rng.randrange(50), entry(seq)) for seq in range(100)]
    for instant, one in noted:
        agenda.add(instant, (0, one))
    noted[3][1].is_kept = False
    taken: list[int] = []
    for until in (-1, 10, 10, 49, 60):
        now = [one.event.seq for _, one in agenda.take(until)]
        assert sorted(now) == sorted(
            one.event.seq
            for instant, one in noted
            if instant <= until and one.is_kept and one.event.seq not in taken
        )
        taken += now
    assert len(taken) == 99


def test_what_is_gone_is_thrown_out() -> None:
    agenda = Agenda()
    for seq in range(20 * SPARE):
        one = entry(seq)
        agenda.add(seq, (0, one))
        one.is_kept = seq % 100 == 0
        assert len(agenda) <= 2 * (seq // 100 + 1) + 2 * SPARE
    assert [one.event.seq for _, one in agenda.take(1_000)] == list(range(0, 1_001, 100))
