"""Examples and laws: which way is chosen by its figures, when it changes, and that it does not
flap."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from topology.answer.choice import (
    LASTS,
    LEAVES,
    MOST_PATIENCE,
    PATIENCE,
    SLIGHT_PPM,
    Choice,
    Way,
)

MS = 1_000_000
SPAN = 100 * MS
WAIT, MERGED, AHEAD = "final", "early", "speculate"


def _ways(merged_ppm: int = 0, ahead_ppm: int = 0, changed_ppm: int = 0) -> list[Way]:
    return [
        Way(WAIT, 900 * MS, 0, 0),
        Way(MERGED, 300 * MS, merged_ppm, 0),
        Way(AHEAD, 10 * MS, ahead_ppm, changed_ppm),
    ]


def _run(choice: Choice, spans: int, ways: list[Way], room_ppm: int, first: int = 0) -> list[str]:
    chosen = []
    for span in range(first, first + spans):
        choice.weigh(span * SPAN, ways, room_ppm)
        chosen.append(choice.answer)
    return chosen


def test_the_shortest_wait_that_fits_is_taken_after_a_while() -> None:
    choice = Choice(MERGED)
    assert _run(choice, PATIENCE + 1, _ways(), 500_000) == [MERGED] * (PATIENCE - 1) + [AHEAD] * 2
    assert choice.since_ns == (PATIENCE - 1) * SPAN


def test_what_does_not_fit_is_left_for_the_best_that_does() -> None:
    for merged_ppm, left_for in ((0, MERGED), (400_000, WAIT)):
        choice = Choice(AHEAD)
        chosen = _run(choice, LEAVES, _ways(merged_ppm, 600_000), 300_000)
        assert chosen == [AHEAD] * (LEAVES - 1) + [left_for]
        assert (
            "`speculate` took 60.00 % of a processor where 30.00 %" in choice.explain()["because"]
        )


def test_one_span_alone_changes_nothing() -> None:
    choice = Choice(AHEAD)
    for span in range(100):
        dear = 900_000 if span % LEAVES == 0 else 0
        choice.weigh(span * SPAN, _ways(0, dear), 300_000)
    assert (choice.answer, choice.since_ns) == (AHEAD, None)


def test_a_slight_price_is_paid_where_nothing_is_free() -> None:
    assert set(_run(Choice(AHEAD), 9, _ways(0, SLIGHT_PPM), 0)) == {AHEAD}
    assert _run(Choice(AHEAD), 9, _ways(0, SLIGHT_PPM + 1), 0)[-1] == MERGED


def test_it_comes_back_only_with_a_quarter_to_spare() -> None:
    choice = Choice(MERGED)
    assert set(_run(choice, 300, _ways(0, 230_000), 300_000)) == {MERGED}
    assert _run(choice, PATIENCE, _ways(0, 225_000), 300_000)[-1] == AHEAD


def test_a_gain_that_is_none_is_not_worth_a_change() -> None:
    ways = [Way(WAIT, 100 * MS, 0, 0), Way(MERGED, 90 * MS, 0, 0)]
    assert set(_run(Choice(WAIT), 300, ways, 500_000)) == {WAIT}


def test_no_more_may_be_taken_back_than_the_query_allows() -> None:
    choice = Choice(AHEAD, withdrawn_ppm=20_000)
    assert _run(choice, LEAVES, _ways(changed_ppm=20_001), 500_000)[-1] == MERGED
    assert "2.00 % was taken back or changed" in choice.explain()["because"]
    assert set(_run(choice, 300, _ways(changed_ppm=16_000), 500_000)) == {MERGED}
    assert _run(choice, 300, _ways(changed_ppm=15_000), 500_000)[-1] == AHEAD


def _changes(chosen: list[str]) -> int:
    return sum(one != other for one, other in pairwise(chosen))


def test_a_load_that_comes_and_goes_makes_it_more_patient() -> None:
    """Two seconds each: at first it follows, then it stays where it fits always."""
    choice = Choice(MERGED)
    chosen = []
    for turn in range(60):
        room_ppm = 50_000 if turn % 2 else 500_000
        chosen += _run(choice, 20, _ways(0, 100_000), room_ppm, first=20 * turn)
    assert _changes(chosen[:200]) >= 2
    assert _changes(chosen[-600:]) <= 2 * 600 // MOST_PATIENCE


def test_patience_is_forgotten_by_who_was_kept_for_long() -> None:
    choice = Choice(AHEAD)
    for _ in range(9):
        _run(choice, LEAVES, _ways(0, 600_000), 300_000)
        _run(choice, choice.explain()["patience_spans"], _ways(), 300_000)
        assert choice.answer == AHEAD
    assert choice.explain()["patience_spans"] == MOST_PATIENCE
    _run(choice, LASTS, _ways(), 300_000)
    _run(choice, LEAVES, _ways(0, 600_000), 300_000)
    assert choice.explain()["patience_spans"] == PATIENCE


def test_whatever_comes_it_changes_seldom_and_never_holds_what_does_not_fit() -> None:
    for seed in range(40):
        dice = Random(seed)
        choice, other = Choice(MERGED), Choice(MERGED)
        chosen, unfitted = [], 0
        for span in range(600):
            ways = _ways(dice.choice((0, 5_000, 90_000)), dice.randrange(400_000))
            room_ppm = dice.choice((0, 100_000, 500_000))
            choice.weigh(span * SPAN, ways, room_ppm)
            other.weigh(span * SPAN, ways, room_ppm)
            if dice.random() < 0.2:
                kept = Choice(WAIT)
                kept.restore(other.snapshot())
                other = kept
            assert other.snapshot() == choice.snapshot()
            chosen.append(choice.answer)
            held = next(way for way in ways if way.answer == choice.answer)
            fits = held.price_ppm <= max(room_ppm, SLIGHT_PPM)
            unfitted = 0 if fits else unfitted + 1
            assert unfitted < LEAVES
        assert _changes(chosen) <= 2 * (1 + 600 // PATIENCE)


def test_it_says_which_way_since_when_and_why() -> None:
    choice = Choice(MERGED)
    assert choice.explain()["because"] == "it is how it begins"
    _run(choice, PATIENCE, _ways(2_000, 41_000), 500_000)
    said = choice.explain()
    assert (said["answer"], said["since"], said["room_ppm"]) == (AHEAD, 9 * SPAN, 500_000)
    assert said["because"] == (
        "it waits 10.0 ms in place of 300.0 ms, and costs 4.10 % of a processor where 50.00 %"
        " may be taken"
    )
    assert [way["fits"] for way in said["ways"]] == [True] * 3
