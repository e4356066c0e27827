"""Law: no event has more rows than `max_rows`, and an overflow reports the missing rows."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.kit.queries import Side, join_query
from tests.seeds import seeds_of_today
from tests.topology.queries.join.streams import MS, arriving, history
from topology.base.event import Event
from topology.base.result import EMIT, JoinResult, Overflow
from topology.queries.join.operator import Join
from topology.queries.join.settings import JoinQuery

SEEDS = seeds_of_today(8)
MOST = 3


def config(rng: Random, max_rows: int) -> JoinQuery:
    streams = ["a", rng.choice("ab"), *rng.choice(("", "a"))]
    return join_query(
        "q",
        tuple(Side(alias, stream) for alias, stream in zip("xyz", streams, strict=False)),
        rng.choice(("interval", "sliding")),
        low_ns=-50 * MS,
        high_ns=50 * MS,
        size_ns=75 * MS,
        every_ns=25 * MS,
        outer=rng.choice(("inner", "left", "full")),
        uncertainty=rng.choice(("ignore", "expected", "bounds")),
        finals=rng.random() < 0.5,
        changes_for_ns=75 * MS,
        new_source_allowance_ns=0,
        max_rows=max_rows,
    )


def rows(join: Join, sides: int, event: Event) -> tuple[int, int, int]:
    """Return the event's rows without a null, the most null rows of one owner, and overflows."""
    emitted = join.on_batch([event], event.at_ns).results
    found = [result for result in emitted if isinstance(result, JoinResult)]
    own = [row for row in found if row.op == EMIT and len(row.partners) == sides]
    lacking = Counter(
        (row.start_ns, row.partners[0].alias, row.partners[0].source, row.partners[0].seq, row.op)
        for row in found
        if len(row.partners) < sides
    )
    overflows = sum(isinstance(result, Overflow) for result in emitted)
    return len(own), max(lacking.values(), default=0), overflows


@pytest.mark.slow
def test_rows_per_event_are_bounded() -> None:
    cut = 0
    for seed in SEEDS:
        query = config(Random(seed), MOST)
        bounded, sides = Join(query), len(query.streams)
        free = Join(config(Random(seed), 100_000))
        rng = Random(seed)
        for event in arriving(rng, history(rng, "ab", 70, errors=(0, 0, 30))):
            own, lacking, overflows = rows(bounded, sides, event)
            assert own <= MOST, f"seed {seed}: {event}"
            assert lacking <= MOST, f"seed {seed}: {event}"
            if rows(free, sides, event)[0] > MOST:
                assert own == MOST, f"seed {seed}: {event}"
                assert overflows, f"seed {seed}: {event}"
                cut += 1
        assert free.figures()["overflows"] == 0
    assert cut > 10 * len(SEEDS)
