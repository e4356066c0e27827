"""Oracle: all worlds of small streams in which the error changes from event to event.

Every time of each event whose time is not sure is tried that can make an order, a tie or a window
of its own; events of one segment are moved alike. The oracle says what matches in each world. Then
what is confirmed is a match in every world, and what is a match in some is told under POSSIBLE.
Both are exact for pairs of events, each with a clock estimate of its own. Else some that are told
as possible are a match in no world, one of seven here: that doubts exclude each other is not seen
(`topology.pattern.match.uncertain.possible`), nor that of events of one segment the surest says how
far all can be off."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from random import Random

import pytest

from tests.topology.pattern.following import Content, contents
from tests.topology.pattern.generate import MODES, entry, random_query, shuffled
from tests.topology.pattern.oracle import oracle
from tests.topology.pattern.test_uncertain import confirmed, standing
from tests.topology.pattern.true_times import moved
from topology.pattern.language.parse import parse_query
from topology.pattern.language.unparse import unparse
from topology.pattern.run.compiled import Compiled
from topology.pattern.store.entry import Entry
from topology.pattern.tree.syntax import Query

PARTS = 3
SEEDS_PER_PART = 30 * int(os.environ.get("INORDER_SEEDS", "1"))
UNIT_NS = 12
STEP_NS = 3
"""A chain of so many events as can move finds room in the smallest overlap: ERRORS are twice it."""
ERRORS = (6, 6, 12, 18)
MOVING = 3
MOST_IN_NONE = 0.4
"""At most this share of what is told as possible is a match in no world; 0.01 to 0.29 of a hundred
streams was measured."""


def small_stream(rng: Random, *, apart: bool = False) -> list[Entry]:
    """Four to six events, of which `MOVING` have an error, each its own; sometimes several of one
    source and segment. `apart`: each has a segment to itself."""
    count = rng.randint(4, 6)
    unsure = set(rng.sample(range(count), MOVING))
    made, now_ns = [], 0
    for seq in range(count):
        now_ns += rng.choice((0, 1, 1, 2)) * UNIT_NS
        source = rng.choice(("s0", "s1"))
        payload = {"id": rng.choice((0, 0, 1)), "x": rng.randint(0, 3), "y": rng.randint(0, 3)}
        error_ns = rng.choice(ERRORS) if seq in unsure else 0
        one = entry(rng.choice("ABC"), now_ns, seq, payload, source, error_ns)
        one.event.segment = seq if apart else rng.choice((seq, seq, 100))
        made.append(one)
    return sorted(made, key=lambda each: each.key)


def all_worlds(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    clocks: dict[tuple[str, int], list[Entry]] = {}
    for one in entries:
        clocks.setdefault((one.event.source, one.event.segment), []).append(one)
    groups = list(clocks.values())
    least = [min(one.event.error_ns for one in group) for group in groups]
    ranges = [range(-most, most + 1, STEP_NS) for most in least]
    for offsets in product(*ranges):
        yield [
            moved(one, offset_ns)
            for group, offset_ns in zip(groups, offsets, strict=True)
            for one in group
        ]


def small_query(rng: Random) -> Query:
    query = random_query(rng, MODES, rng.random() < 0.3, skips=["none"])
    return replace(query, within_ns=query.within_ns * UNIT_NS)


@pytest.mark.parametrize("part", range(PARTS))
def test_of_pairs_all_and_only_what_some_world_has_is_told(part: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(part * SEEDS_PER_PART, (part + 1) * SEEDS_PER_PART):
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


@pytest.mark.parametrize("part", range(PARTS))
def test_all_worlds(part: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(part * SEEDS_PER_PART, (part + 1) * SEEDS_PER_PART):
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
