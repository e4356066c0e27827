"""Laws and example tables of uncertain matches, through the engine: what is confirmed is so in
every world, and what is so in some world is reported under POSSIBLE."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest

from tests.topology.pattern.following import Content, Reader, anew, content, contents, feed, taken
from tests.topology.pattern.generate import (
    entry,
    lateness_ns,
    random_query,
    random_stream,
    shuffled,
)
from tests.topology.pattern.judge import judge
from tests.topology.pattern.true_times import worlds
from topology.pattern.compiled import Compiled
from topology.pattern.engine import LATE, UNSURE, Engine
from topology.pattern.entry import Entry
from topology.pattern.parse import parse_query
from topology.pattern.syntax import Query, Uncertain
from topology.pattern.unparse import unparse
from topology.pattern.walk import components
from topology.result import CONFIRMED, UNCERTAIN

PARTS = 10
SEEDS_PER_PART = 120 * int(os.environ.get("INORDER_SEEDS", "1"))
WORLDS = 10
UNIT_NS = 4
"""Apart are the events of a stream by this or a few times as much; errors are up to 6."""

Standing = dict[Content, str]
"""Confidence by what is in the match."""


@dataclass(repr=False)
class Stream:
    seed: int
    query: Query
    entries: list[Entry]
    arrivals: list[Entry]

    def __repr__(self) -> str:
        told = [(one, one.event.error_ns, one.event.segment, one.payload) for one in self.entries]
        return f"seed {self.seed}\n{unparse(self.query)}\n{told}\n{self.arrivals}"

    def compiled(self, uncertain: Uncertain) -> Compiled:
        return Compiled(replace(self.query, uncertain=uncertain))

    @property
    def largest_ns(self) -> int:
        return max(one.event.error_ns for one in self.entries)


def streams(part: int, errors: Sequence[Sequence[int]]) -> Iterator[Stream]:
    for seed in range(part * SEEDS_PER_PART, (part + 1) * SEEDS_PER_PART):
        rng = Random(seed)
        query = random_query(rng, skips=["none"])
        if query.matches != "one" and any(getattr(c, "greedy", False) for c in components(query.node)):
            continue
        query = replace(query, within_ns=query.within_ns * UNIT_NS)
        entries = random_stream(rng, 7, errors=rng.choice(errors), types="ABC", unit_ns=UNIT_NS)
        for one in entries:
            one.event.segment = rng.randint(0, 5)
        arrivals = shuffled(rng, entries, rng.choice((0.0, 0.3, 0.9)), copies=rng.choice((0, 0.2)))
        yield Stream(seed, query, entries, arrivals)


def standing(
    query: Compiled,
    arrivals: Sequence[Entry],
    max_error_ns: int | None = None,
    *,
    follows: bool = False,
) -> Standing:
    """What stands at the end. `follows`: the frontier does, as close as nothing is late."""
    engine, reader = Engine([query], max_error_ns=max_error_ns), Reader()
    behind_ns = lateness_ns(arrivals)
    for one in arrivals:
        feed(engine, reader, [one])
        if follows:
            engine.advance(engine.clock_ns - behind_ns, 0)
            reader.read(taken(engine))
    engine.end(0)
    reader.read(taken(engine))
    assert engine.counts[LATE] == 0
    assert engine.retained == 0
    assert reader.overflows == 0
    return {content(result): result.confidence for result in reader.standing.values()}


def confirmed(found: Standing) -> set[Content]:
    return {match for match, confidence in found.items() if confidence == CONFIRMED}


parts = pytest.mark.parametrize("part", range(PARTS))
ERRORS = ((0, 0, 1), (0, 1, 2), (0, 1, 2, 4, 6))


@parts
def test_every_world_lies_between(part: int) -> None:
    """Law: confirmed ⊆ the matches of a world ⊆ possible; of MAXIMAL each is part of a possible
    one. In any order of arrival, with entries purged behind a frontier."""
    seen: Counter[str] = Counter()
    for stream in streams(part, ERRORS):
        nominal, possible = stream.compiled("nominal"), stream.compiled("possible")
        told = standing(nominal, stream.arrivals, stream.largest_ns, follows=True)
        hulls = standing(possible, stream.arrivals, stream.largest_ns, follows=True)
        sure = confirmed(told) | confirmed(hulls)
        seen["confirmed"] += len(sure)
        seen["uncertain"] += len(told) - len(confirmed(told))
        seen["possible"] += len(hulls.keys() - told.keys())
        for world in worlds(Random(stream.seed), stream.entries, WORLDS):
            seen["worlds"] += 1
            true = contents(nominal, judge(nominal.form, world))
            assert sure <= set(true), (stream, world)
            missing = [match for match in true if match not in hulls]
            if stream.query.matches == "maximal":
                missing = [m for m in missing if not any(set(m) <= set(hull) for hull in hulls)]
            assert not missing, (stream, world)
    assert min(seen.values()) > 2, seen


@parts
def test_grades_do_not_depend_on_arrival(part: int) -> None:
    """Nor on a frontier, if the largest error is known; and by reference times the matches of
    NOMINAL are those of the judge."""
    for stream in streams(part, ERRORS):
        for uncertain in ("nominal", "possible"):
            query = stream.compiled(uncertain)  # type: ignore[arg-type]
            calm = standing(query, stream.entries)
            assert standing(query, stream.arrivals) == calm, stream
            assert standing(query, stream.arrivals, 6, follows=True) == calm, stream
            if uncertain == "nominal":
                assert sorted(calm) == contents(query, judge(query.form, stream.entries)), stream


@parts
def test_exact_times_give_the_judge_s_matches_confirmed(part: int) -> None:
    """Even where errors are expected."""
    for stream in streams(part, ((0,),)):
        truth = dict.fromkeys(
            contents(it := stream.compiled("nominal"), judge(it.form, stream.entries)), CONFIRMED
        )
        for uncertain in ("ignore", "nominal", "possible"):
            query = stream.compiled(uncertain)  # type: ignore[arg-type]
            assert standing(query, stream.arrivals) == truth, stream


@parts
def test_ignored_errors_do_nothing(part: int) -> None:
    for stream in streams(part, ERRORS):
        exact = [entry_of(one, 0) for one in stream.arrivals]
        query = stream.compiled("ignore")
        assert standing(query, stream.arrivals, 0, follows=True) == standing(query, exact), stream


def entry_of(one: Entry, error_ns: int) -> Entry:
    event = one.event
    return entry(one.type, one.time_ns, event.seq, one.payload, event.source, error_ns)
