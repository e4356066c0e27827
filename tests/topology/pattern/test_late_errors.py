"""Law: what was found while all times were exact is found anew where the first error puts it in
doubt. Nobody can tell whether a run knew of errors from the start of what it holds: one that is
restarted before each event says the same, word for word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

import pytest

from tests.seeds import seeds_of_today
from tests.topology.pattern.following import World, in_step, restarted
from tests.topology.pattern.generate import (
    BEST,
    MODES,
    dice,
    entry,
    lateness_ns,
    random_query,
    random_stream,
    shuffled,
)
from tests.topology.pattern.test_engine_laws import OPEN_ENDED
from topology.pattern.match.compiled import Compiled
from topology.pattern.run.engine import Engine
from topology.pattern.store.entry import Entry
from topology.pattern.tree.syntax import Uncertain

PARTS = 2
UNIT_NS = 4
PURGED_APART = 229
"""At this seed one index has let go of an event, another not yet, when the first error comes."""


SEEDS = (*seeds_of_today(80), PURGED_APART)


def cases(part: int, uncertain: Uncertain) -> Iterator[World]:
    """Times are exact until some event; often the very last one is the first that is not."""
    for seed, rng in dice(SEEDS[part::PARTS]):
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
        arrivals[first:] = _blurred(rng, arrivals[first:])
        yield World(seed, Compiled(query), arrivals, arrivals)


def _blurred(rng: Random, entries: Sequence[Entry]) -> list[Entry]:
    errors = [rng.choice((1, 2, 4, 6, 12, 24)), *rng.choices((0, 1, 2, 4, 6, 12), k=len(entries))]
    return [
        entry(one.type, one.time_ns, one.event.seq, one.payload, one.event.source, error_ns)
        for one, error_ns in zip(entries, errors, strict=False)
    ]


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("uncertain", ["possible", "nominal"])
@pytest.mark.parametrize("follows", [False, True])
def test_a_restart_before_each_event_is_not_seen(
    part: int, uncertain: Uncertain, follows: bool
) -> None:
    for case in cases(part, uncertain):
        engines = [Engine([case.query]), Engine([case.query])]
        behind_ns = lateness_ns(case.arrivals) if follows else None
        for _, (calm, cut) in in_step(engines, case.arrivals, behind_ns):
            assert calm == cut, case
            engines[1] = restarted(engines[1], [case.query])
