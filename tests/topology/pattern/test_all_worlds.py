"""Oracle: all worlds of small streams in which the error changes from event to event.

Every time of each event whose time is not sure is tried that can make an order, a tie or a window
of its own; the clock of a segment is behind by one number, of which something else may have been
thought at each event, and which changes by what a clock may drift. The oracle says what matches in
each world. Then what is confirmed is a match in every world, and what is a match in some is told
under POSSIBLE. Both are exact for pairs of events, each with a clock estimate of its own, and for
two events of one clock. Else some that are told as possible are a match in no world, one of seven
here: that doubts exclude each other is not seen (`topology.pattern.match.uncertain.possible`), nor
that of events of one segment the surest says how far all can be off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from random import Random

import pytest

from tests.seeds import seeds_of_today
from tests.topology.pattern.following import Content, anew, contents, taken
from tests.topology.pattern.generate import MODES, entry, random_query, shuffled
from tests.topology.pattern.oracle import oracle
from tests.topology.pattern.test_uncertain import confirmed, standing
from tests.topology.pattern.true_times import (
    at_true_time,
    behind_between,
    by_clock,
    estimated_anew,
)
from tests.topology.pattern.unparse import unparse
from topology.model.one_clock import PPM, STEADY, Play
from topology.pattern.language.parse import parse_query
from topology.pattern.match.compiled import Compiled
from topology.pattern.run.engine import Engine
from topology.pattern.store.entry import Entry
from topology.pattern.tree.syntax import Query

SEEDS = seeds_of_today(60)
PAIRS = seeds_of_today(240)
UNIT_NS = 12
STEP_NS = 3
"""A chain of so many events as can move finds room in the smallest overlap: ERRORS are twice it."""
ERRORS = (6, 6, 12, 18)
MOVING = 3
ADRIFT = Play(PPM)
"""As far as it goes, so that what a clock may drift is a multiple of a step."""
MOST_IN_NONE = 0.4
"""At most this share of what is told as possible is a match in no world; 0.01 to 0.29 of a hundred
streams was measured."""


def small_stream(rng: Random, *, apart: bool = False) -> list[Entry]:
    """Four to six events, of which `MOVING` have an error, each its own; sometimes several of one
    source and segment, whose offset was estimated anew between them, or which drifts. `apart`: each
    has a segment to itself."""
    count = rng.randint(4, 6)
    unsure = set(rng.sample(range(count), MOVING))
    made, now_ns = [], 0
    for seq in range(count):
        now_ns += rng.choice((0, 1, 1, 2)) * UNIT_NS
        source = rng.choice(("s0", "s1"))
        payload = {"id": rng.choice((0, 0, 1)), "x": rng.randint(0, 3), "y": rng.randint(0, 3)}
        error_ns = rng.choice(ERRORS) if seq in unsure else 0
        one = entry(rng.choice("ABC"), now_ns, seq, payload, source, error_ns)
        one.event.segment = seq if apart else rng.choice((seq, 100))
        made.append(one)
    if rng.random() < 0.7:
        estimated_anew(rng, made, STEP_NS)
    if rng.random() < 0.3:
        for one in made:
            one.play = ADRIFT
    return sorted(made, key=lambda each: each.key)


def all_worlds(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    every = [list(_of_clock(group)) for group in by_clock(entries)]
    for chosen in product(*every):
        yield [one for group in chosen for one in group]


def _of_clock(group: Sequence[Entry]) -> Iterator[list[Entry]]:
    if group[0].play == STEADY:
        least, most = behind_between(group)
        for behind_ns in range(least, most + 1, STEP_NS):
            yield [at_true_time(one, behind_ns) for one in group]
        return
    ranges = [behind_between([one]) for one in group]
    for behind in product(*[range(least, most + 1, STEP_NS) for least, most in ranges]):
        pairs = list(zip(group, behind, strict=True))
        if all(
            abs(one_ns - other_ns) <= abs(one.event.ts_ns - other.event.ts_ns)
            for one, one_ns in pairs
            for other, other_ns in pairs
        ):
            yield [at_true_time(one, behind_ns) for one, behind_ns in pairs]


def small_query(rng: Random) -> Query:
    query = random_query(rng, MODES, rng.random() < 0.3, skips=["none"])
    return replace(query, within_ns=query.within_ns * UNIT_NS)


@pytest.mark.slow
def test_of_pairs_all_and_only_what_some_world_has_is_told() -> None:
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        rng = Random(seed)
        shape = rng.choice(("SEQ(A a, B b)", "SEQ(A a, A b)", "AND(A a, B b)"))
        text = f"PATTERN {shape} WITHIN {rng.randint(1, 4) * UNIT_NS} ns USING skip_till_any"
        query = replace(parse_query(text), matches="all")
        stream = small_stream(rng, apart=True)
        possible = Compiled(replace(query, uncertain="possible"))
        found = standing(possible, shuffled(rng, stream, 0.5, copies=0), max(ERRORS), follows=True)
        worlds = [
            set(contents(possible, oracle(possible.form, world))) for world in all_worlds(stream)
        ]
        case = f"seed {seed}: {text} {[(e, e.event.error_ns) for e in stream]}"
        assert found.keys() == set.union(*worlds), case
        assert confirmed(found) == set.intersection(*worlds), case
        seen["sure"] += len(confirmed(found))
        seen["unsure"] += len(found) - len(confirmed(found))
    assert min(seen["sure"], seen["unsure"]) > 10, seen


@pytest.mark.slow
def test_two_events_of_one_clock_are_as_far_apart_as_their_stamps() -> None:
    """Whatever was thought of the clock at each: what is told is so in some world, what is
    confirmed in all."""
    seen: Counter[str] = Counter()
    for seed in PAIRS:
        rng = Random(seed)
        text = f"PATTERN SEQ(A a, B b) WITHIN {rng.randint(1, 8) * STEP_NS} ns"
        query = replace(parse_query(text), matches="all")
        first_ns = rng.randint(0, 3) * UNIT_NS
        play = rng.choice((STEADY, ADRIFT))
        stream = [
            entry("A", first_ns, 0, None, "s", rng.choice(ERRORS)),
            entry("B", first_ns + rng.randint(-1, 6) * STEP_NS, 1, None, "s", rng.choice(ERRORS)),
        ]
        estimated_anew(rng, stream, STEP_NS)
        for one in stream:
            one.play = play
        found = standing(Compiled(replace(query, uncertain="possible")), stream)
        nominal = Compiled(query)
        worlds = [
            set(contents(nominal, oracle(nominal.form, world))) for world in all_worlds(stream)
        ]
        case = f"seed {seed}: {text} {play} {[(e, e.event.error_ns) for e in stream]}"
        assert found.keys() == set.union(*worlds), case
        assert confirmed(found) == set.intersection(*worlds), case
        seen["sure"] += len(confirmed(found))
        seen["unsure"] += len(found) - len(confirmed(found))
        seen["none"] += not found
    assert min(seen.values()) > 5, seen


@pytest.mark.slow
def test_all_worlds() -> None:
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        rng = Random(seed)
        query, stream = small_query(rng), small_stream(rng)
        arrivals = shuffled(rng, stream, rng.choice((0.0, 0.5)), copies=0)
        nominal, possible = (
            Compiled(replace(query, uncertain=mode)) for mode in ("nominal", "possible")
        )
        told = standing(nominal, arrivals, max(ERRORS), follows=True)
        hulls = standing(possible, arrivals, max(ERRORS), follows=True)
        case = f"seed {seed}\n{unparse(query)}\n{[(e, e.event.error_ns) for e in stream]}"
        every: set[Content] | None = None
        some: set[Content] = set()
        for world in all_worlds(stream):
            true = set(contents(nominal, oracle(nominal.form, world)))
            every = true if every is None else every & true
            some |= true
            seen["worlds"] += 1
        sure = confirmed(told) | confirmed(hulls)
        assert every is not None
        assert sure <= every, case
        if query.matches == "maximal":
            missing = {m for m in some if not any(set(m) <= set(hull) for hull in hulls)}
        else:
            missing = some - hulls.keys()
            seen["told"] += len(hulls)
            seen["in none"] += len(hulls.keys() - some)
        assert not missing, case
        seen["sure"] += len(sure)
        seen["unsure"] += len(hulls.keys() - sure)
        seen["sure in truth, not told so"] += len(every - sure)
    assert min(seen["sure"], seen["unsure"], seen["told"]) > 0, seen
    assert seen["in none"] <= MOST_IN_NONE * seen["told"], seen


POSSIBLE = (
    "SEQ(A a, B b, C c) WITHIN 20 ns",
    "SEQ(A a, B b, C c) WITHIN 20 ns MATCHES ALL",
    "SEQ(A a, !B b, C c) WITHIN 20 ns USING skip_till_any MATCHES ALL",
    "SEQ(A a, B+ b[], C c) WITHIN 15 ns USING skip_till_any MATCHES ALL",
    "SEQ(A a, OR(B b, C c), A|B d) WHERE d.x > a.x WITHIN 15 ns MATCHES ALL",
    "SEQ(A a, B? b, C c, !A d) WITHIN 15 ns MATCHES ALL",
    "SEQ(!C d, A a, AND(B b, C c)) WHERE [id] WITHIN 20 ns USING skip_till_any MATCHES ALL",
)


@pytest.mark.parametrize("text", POSSIBLE)
def test_what_a_newcomer_changes_is_what_a_new_search_finds(text: str) -> None:
    query = Compiled(parse_query(f"QUERY q PATTERN {text} UNCERTAIN POSSIBLE"))
    anew_each = Compiled(parse_query(f"QUERY q PATTERN {text} UNCERTAIN POSSIBLE"))
    assert query.possible is not None
    assert anew_each.possible is not None
    assert query.possible.each_apart
    anew_each.possible.each_apart = False
    for seed in seeds_of_today(25):
        rng = Random(seed)
        stream = [
            entry(
                rng.choice("ABC"),
                rng.randrange(40),
                at,
                {"id": rng.randrange(2), "x": rng.randrange(3)},
                rng.choice("st"),
                rng.choice((0, 1, 4, 12)),
            )
            for at in range(rng.randint(3, 11))
        ]
        engines = Engine([query], max_error_ns=12), Engine([anew_each], max_error_ns=12)
        for one in stream:
            for engine in engines:
                engine.accept(anew(one), 0)
            assert taken(engines[0]) == taken(engines[1]), seed
