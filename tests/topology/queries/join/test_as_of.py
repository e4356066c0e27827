"""As-of joins: examples, laws of their answers, and an oracle that reads all events at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.kit.events import copies
from tests.kit.queries import Field, Side, join_query
from tests.seeds import seeds_of_today
from tests.topology.queries.join.oracle import last_word, oracle, rendered
from tests.topology.queries.join.streams import MS, arriving, event, history, watermark
from tests.topology.queries.join.test_oracle import SAME, TWO, count_confirmed, count_expired, run
from tests.topology.queries.join.test_worlds import stamped, word_of, worlds
from tests.topology.queries.window.streams import seeded
from topology.base.event import Event
from topology.base.result import CONFIRMED, EMIT, RETRACT
from topology.queries.join.operator import Join
from topology.queries.join.settings import JoinQuery

SEEDS = seeds_of_today(10)
SIDES = {
    "two": TWO,
    "of one stream": SAME,
    "typed": (Side("a", "A", "T", ("key",)), Side("b", "B", key=("key",))),
    "unkeyed": (Side("a", "A"), Side("b", "B")),
}
every_outer = pytest.mark.parametrize("outer", ["inner", "left"])
every_sides = pytest.mark.parametrize("sides", SIDES)


def config_of(
    outer: str = "inner", sides: str = "two", size_ns: int = 12 * MS, **settings: Any
) -> JoinQuery:
    own = SIDES[sides]
    fields = tuple(Field(f"n{number}", number, ("n",)) for number in range(len(own)))
    known = {"new_source_allowance_ns": 0} | settings
    return join_query("q", own, "as_of", size_ns=size_ns, fields=fields, outer=outer, **known)


def answers_of(config: JoinQuery, *events: Event) -> list[tuple[str, int, int | None]]:
    """Return (operation, number of the event, number of its newest partner) of each answer."""
    join = Join(config)
    found: list[Any] = []
    for one in events:
        found += join.on_batch([one], one.at_ns).results
    found += join.on_end(events[-1].at_ns).results
    return [(each.op, each.values["n0"], each.values["n1"]) for each in found]


def numbered(stream: str, ref_ms: float, at_ms: float, n: int, **more: Any) -> Event:
    return event(stream, n, ref_ms, at_ms=at_ms, n=n, **more)


def test_newest_partner_counts() -> None:
    first = [numbered("B", 1, 1, 1), numbered("B", 5, 5, 2), numbered("B", 6, 6, 3)]
    assert answers_of(config_of(), *first, numbered("A", 5, 7, 9)) == [(EMIT, 9, 2)]
    assert answers_of(config_of(), *first, numbered("A", 4, 7, 9)) == [(EMIT, 9, 1)]
    assert answers_of(config_of("left"), *first, numbered("A", 0, 7, 9)) == [(EMIT, 9, None)]
    assert answers_of(config_of(), *first, numbered("A", 0, 7, 9)) == []


def test_reach_is_inclusive() -> None:
    for ref_ms, expected in ((13, [(EMIT, 9, 1)]), (13.001, [])):
        assert (
            answers_of(config_of(), numbered("B", 1, 1, 1), numbered("A", ref_ms, 20, 9))
            == expected
        )


def test_equal_times_use_event_order() -> None:
    same = [numbered("B", 1, 1, 2, source="t"), numbered("B", 1, 1, 1, source="u")]
    assert answers_of(config_of(), *same, numbered("A", 1, 2, 9)) == [(EMIT, 9, 1)]


def test_late_partner_corrects_rows() -> None:
    events = [numbered("B", 1, 1, 1), *(numbered("A", ms, ms, ms) for ms in (2, 4, 6))]
    events += [numbered("B", 5, 7, 5), watermark("A", 8, 8, 0), watermark("B", 8, 8, 0)]
    late = numbered("B", 3, 9, 3, late="behind")
    assert answers_of(config_of(), *events, late) == [
        (EMIT, 2, 1), (EMIT, 4, 1), (EMIT, 6, 5), (RETRACT, 4, 1), (EMIT, 4, 3),
    ]  # fmt: skip


def test_late_partner_creates_inner_row() -> None:
    events = [numbered("A", 4, 4, 4), watermark("A", 8, 8, 0), watermark("B", 8, 8, 0)]
    late = numbered("B", 3, 9, 3, late="behind")
    assert answers_of(config_of(), *events, late) == [(EMIT, 4, 3)]


def test_given_up_partner_is_uncertain() -> None:
    config = config_of("left", size_ns=500 * MS, max_events=4)
    join = Join(config)
    events = [numbered("B", 0, 0, 0), *(numbered("A", ms, ms, ms) for ms in range(1, 9))]
    events += [watermark(stream, ms, 300) for ms in (300, 301) for stream in "AB"]
    results = [each for one in events for each in join.on_batch([one], one.at_ns).results]
    assert join.figures()["given_up"] > 0
    rows = [(each.values["n1"], each.confidence) for each in last_word(results)]
    assert [confidence == CONFIRMED for n, confidence in rows if n is None] == [False] * 4


@every_sides
@every_outer
def test_final_rows_match_the_oracle(outer: str, sides: str) -> None:
    corrected = 0
    for seed, rng in seeded(SEEDS):
        events = history(rng, "AB", 60)
        config = config_of(outer, sides, rng.choice((4, 12, 90)) * MS, finals=seed % 2 == 0)
        stream = arriving(rng, events, late=rng.choice((0.0, 0.1, 0.5)))
        results, _ = run(config, stream, rng if seed % 3 == 0 else None)
        rows = [rendered(result, config) for result in last_word(results)]
        assert len(rows) == len(set(rows))
        assert set(rows) == oracle(events, config), seed
        corrected += sum(result.op == RETRACT for result in results)
    assert corrected


@every_outer
def test_arrival_order_changes_nothing(outer: str) -> None:
    """Values and probabilities do not depend on the order either, even with errors and restarts."""
    for seed, rng in seeded(SEEDS):
        events = history(rng, "AB", 40, errors=(0, 0, 1, 5))
        config = config_of(outer, uncertainty=rng.choice(("ignore", "expected")))
        words = []
        for late in (0.0, 0.3, 0.9):
            results, _ = run(
                config, arriving(rng, copies(events), late=late), rng if late else None
            )
            word = last_word(results)
            words.append(sorted((r.id, r.probability, r.values, r.partners) for r in word))
            assert {rendered(result, config) for result in word} == oracle(events, config), seed
        assert words[0] == words[1] == words[2], seed


@every_outer
def test_only_expired_events_are_left_out(outer: str) -> None:
    expired = 0
    for seed, rng in seeded(SEEDS):
        events = history(rng, "AB", 50, errors=rng.choice(((0,), (0, 3))))
        config = config_of(outer, changes_for_ns=rng.choice((0, 5, 30)) * MS)
        expired += count_expired(config, events, rng, seed)
    assert expired


@every_outer
def test_confirmed_row_stays(outer: str) -> None:
    confirmed = 0
    for seed, rng in seeded(SEEDS):
        events = history(rng, "AB", 50, errors=(0, 0, 0, 4))
        results, _ = run(config_of(outer), arriving(rng, events, late=0.3, announced=1.0))
        confirmed += count_confirmed(results, seed)
    assert confirmed


@every_outer
@every_sides
def test_confirmed_rows_are_in_each_world(outer: str, sides: str) -> None:
    confirmed = unsure = 0
    for seed, rng in seeded(range(25)):
        events = stamped(rng, "AB", 8, unlike=seed % 2 == 0)
        config = config_of(outer, sides, 6)
        word = word_of(config, rng, events)
        sure = {row for row, result in word.items() if result.confidence == CONFIRMED}
        assert word.keys() == oracle(events, config)
        for world in worlds(events):
            assert sure <= oracle(world, config), seed
        confirmed += len(sure)
        unsure += len(word) - len(sure)
    assert sides == "typed" or (confirmed and unsure)


def test_old_partners_are_released() -> None:
    """Events of the second side are kept for the reach before the horizon, and no longer."""
    join = Join(config_of(size_ns=10 * MS, changes_for_ns=0))
    kept = []
    for ms in range(0, 400, 2):
        batch: Sequence[Event] = [
            numbered("A", ms, ms, ms), numbered("B", ms, ms, ms + 1),
            watermark("A", ms, ms), watermark("B", ms, ms),
        ]  # fmt: skip
        join.on_batch(batch, batch[-1].at_ns)
        kept.append(join.figures()["retained"])
    assert max(kept[50:]) <= 12
