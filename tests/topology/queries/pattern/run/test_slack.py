"""Law: a restart changes no result of EMIT SLACK."""

from __future__ import annotations

import json
from random import Random

import pytest

from tests.topology.queries.pattern.following import taken
from tests.topology.queries.pattern.run.test_state_stays import arrivals
from topology.base.result import MatchResult
from topology.queries.pattern.language.parse import parse_query
from topology.queries.pattern.match.compiled import Compiled
from topology.queries.pattern.run.engine import Engine
from topology.queries.pattern.store.entry import Entry

PATTERNS = (
    "SEQ(A a, B+ b[], C c) WITHIN 30 ns SKIP TO LAST b EMIT SLACK 20 ns",
    "SEQ(A a, B b, !D d, C c) WITHIN 40 ns EMIT SLACK",
)


Change = tuple[str, str, int]


def run(text: str, seed: int, restart_share: float) -> list[Change]:
    """Return the changes of results, without their times, which a restart may move."""
    query = Compiled(parse_query(f"QUERY q PATTERN {text}"))
    engine, found, rng = Engine([query]), list[Change](), Random(seed)
    for number, entry in enumerate(arrivals(unsure=False)):
        at_ns = 2 * number
        engine.accept(entry, at_ns)
        engine.advance(engine.clock_ns - 60, at_ns)
        found += changes(engine)
        if rng.random() < restart_share:
            state = json.loads(json.dumps(engine.snapshot()))
            held = [Entry(each.event, each.payload) for each in engine.entries()]
            engine = Engine([query])
            engine.restore(state, held)
            assert not taken(engine)
    engine.end(at_ns)
    return found + changes(engine)


def changes(engine: Engine) -> list[Change]:
    found = [each for each in taken(engine) if isinstance(each, MatchResult)]
    return [(each.op, each.id, each.revision) for each in found]


@pytest.mark.slow
@pytest.mark.parametrize("text", PATTERNS)
def test_restart_keeps_gathered_units(text: str) -> None:
    plain = run(text, 0, 0)
    assert any(op != "emit" for op, *_ in plain)
    for seed in range(3):
        assert run(text, seed, 0.05) == plain
