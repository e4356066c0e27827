"""Law: what was found while all times were exact is found anew where the first error puts it in
doubt. Nobody can tell whether a run knew of errors from the start of what it holds: one that is
restarted before each event says the same, word for word."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

import pytest

from tests.seeds import seeds_of_today
from tests.topology.pattern.following import anew, taken
from tests.topology.pattern.generate import (
    BEST,
    MODES,
    entry,
    lateness_ns,
    random_query,
    random_stream,
    shuffled,
)
from tests.topology.pattern.test_engine_laws import OPEN_ENDED
from tests.topology.pattern.unparse import unparse
from topology.model.result import Finding
from topology.pattern.match.compiled import Compiled
from topology.pattern.run.engine import Engine
from topology.pattern.store.entry import Entry
from topology.pattern.tree.syntax import Uncertain

PARTS = 2
SEEDS = seeds_of_today(80)
UNIT_NS = 4
PURGED_APART = 229
"""At this seed one index has let go of an event, another not yet, when the first error comes."""


@dataclass(repr=False)
class Case:
    seed: int
    query: Compiled
    arrivals: list[Entry]

    def __repr__(self) -> str:
        told = [(one, one.event.error_ns) for one in self.arrivals]
        return f"seed {self.seed}\n{unparse(self.query.query)}\n{told}"


def cases(seeds: Iterable[int], uncertain: Uncertain) -> Iterator[Case]:
    """Times are exact until some event; often the very last one is the first that is not."""
    for seed in seeds:
        rng = Random(seed)
        is_open = rng.random() < 0.6
        modes = OPEN_ENDED if is_open else MODES
        if uncertain == "possible":
            modes = tuple(mode for mode in modes if mode not in BEST)
        query = random_query(rng, modes, rng.random() < 0.3, skips=["none"], open_ended=is_open)
        query = replace(query, within_ns=query.within_ns * UNIT_NS, uncertain=uncertain)
        types = rng.choice(("AB", "ABC", "ABCD"))
        stream = random_stream(rng, 10, types=types, unit_ns=UNIT_NS)
        arrivals = shuffled(rng, stream, rng.choice((0.0, 0.3, 0.9)), copies=0)
        last = len(arrivals) - 1
        first = rng.choice((last, rng.randint(0, last)))
        yield Case(seed, Compiled(query), [*arrivals[:first], *_blurred(rng, arrivals[first:])])


def _blurred(rng: Random, entries: Sequence[Entry]) -> list[Entry]:
    errors = [rng.choice((1, 2, 4, 6, 12, 24)), *rng.choices((0, 1, 2, 4, 6, 12), k=len(entries))]
    return [
        entry(one.type, one.time_ns, one.event.seq, one.payload, one.event.source, error_ns)
        for one, error_ns in zip(entries, errors, strict=False)
    ]


def told(case: Case, *, follows: bool, restarts: bool) -> list[list[Finding]]:
    engine, found = Engine([case.query]), []
    behind_ns = lateness_ns(case.arrivals)
    for one in case.arrivals:
        if restarts:
            state, kept = engine.snapshot(), [anew(held) for held in engine.entries()]
            engine = Engine([case.query])
            engine.restore(state, kept)
        engine.accept(anew(one), 0)
        if follows:
            engine.advance(engine.clock_ns - behind_ns, 0)
        found.append(taken(engine))
    engine.end(0)
    return [*found, taken(engine)]


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("uncertain", ["possible", "nominal"])
def test_a_restart_before_each_event_is_not_seen(part: int, uncertain: Uncertain) -> None:
    for case in cases(SEEDS[part::PARTS], uncertain):
        same_after_restarts(case)


def test_how_far_a_purge_has_come_is_not_seen() -> None:
    for case in cases([PURGED_APART], "possible"):
        same_after_restarts(case)


def same_after_restarts(case: Case) -> None:
    for follows in (False, True):
        calm = told(case, follows=follows, restarts=False)
        assert told(case, follows=follows, restarts=True) == calm, case
