"""Examples: how many are chosen, that all stages choose the same, and sources are met alike."""

from __future__ import annotations

from collections import Counter

import pytest

from sinks.otlp.sampling import Sampling, identity
from topology.model.event import HEARTBEAT, Event


def events(sources: int, each: int) -> list[Event]:
    return [Event("default", f"s{n}", 0, seq, 0, 0) for n in range(sources) for seq in range(each)]


@pytest.mark.parametrize("one_in", [1, 2, 7, 32, 100, 1_000])
def test_one_in_so_many_is_chosen(one_in: int) -> None:
    chosen = Sampling(one_in).of(events(50, 4_000))
    assert len(chosen) == pytest.approx(200_000 / one_in, rel=0.25)


def test_the_same_whoever_asks_and_in_whatever_batches() -> None:
    all_of_them = events(5, 4_000)
    whole = list(map(identity, Sampling(50).of(all_of_them)))
    pieces = [
        identity(e)
        for at in range(0, 20_000, 333)
        for e in Sampling(50).of(all_of_them[at : at + 333])
    ]
    assert whole == pieces
    assert Counter(who[1] for who in whole).keys() == {f"s{n}" for n in range(5)}


def test_what_is_no_data_is_not_chosen() -> None:
    beat = Event("default", "s", 0, 0, 0, 0, kind=HEARTBEAT)
    assert Sampling(1).of([beat]) == []


def test_none_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="write 1 or more"):
        Sampling(0)
