"""Example: an engine writes the same rows into the state table as earlier versions did.

The current version reads states of earlier versions, and finds their rows by key. If a digest
changes, a version has to be raised: that of the `Shape`, or of PATTERN's row in the registry. An
older state is then refused with a message (see `topology.state.saved`).
"""

from __future__ import annotations

import json
from hashlib import blake2b
from random import Random
from typing import Any, Final

import pytest

from topology.base.event import Event
from topology.base.outcome import Step
from topology.queries.pattern.language.parse import parse_query
from topology.queries.pattern.match.compiled import Compiled
from topology.queries.pattern.run.engine import Engine
from topology.queries.pattern.store.entry import Entry

EVENTS: Final = 300
ERROR_NS: Final = 2
ANY = "USING skip_till_any MATCHES"
DIGESTS: Final = (
    ("SEQ(A a, B+ b[], C c) WITHIN 40 ns", False, "8f0b0b619118b3af"),
    ("SEQ(A a, B+ b[], C c) WITHIN 40 ns EMIT SLACK", False, "7e92a2344ecbd215"),
    ("SEQ(A a, B b, !D d, C c) WITHIN 40 ns EMIT SLACK 5 ns", False, "fe30aad6ac21f3b9"),
    ("SEQ(A a, C c, !B b) WITHIN 30 ns EMIT EAGER", False, "e180cb7df074616c"),
    (f"SEQ(A a, B b, C c) WITHIN 20 ns {ANY} ALL SKIP PAST LAST", False, "adb573475e8f3cfe"),
    ("SEQ(A a, B b) WHERE [x] WITHIN 60 ns USING strict", False, "bc7f5d825c6d3fee"),
    ("SEQ(A a, B+ b[], C c) WITHIN 30 ns SKIP TO LAST b", True, "b5e6486f193e712b"),
    (f"SEQ(A a, B b, C c) WITHIN 15 ns {ANY} MAXIMAL UNCERTAIN POSSIBLE", True, "22674b56652086f8"),
)


def arrivals(*, unsure: bool) -> list[Entry]:
    """Return events of four types, one at every tick, a third of them up to 30 ticks late."""
    rng = Random(7)
    late = sorted(
        (at + (rng.randrange(30) if rng.random() < 0.3 else 0), at) for at in range(EVENTS)
    )
    found = []
    for _, at in late:
        error_ns = rng.randrange(ERROR_NS + 1) if unsure else 0
        event = Event(f"s{at % 3}", "s", 0, at, at, error_ns, type=rng.choice("ABCD"))
        found.append(Entry(event, {"x": rng.randrange(10)}))
    return found


def plain(state: Any) -> str:
    return json.dumps(state, sort_keys=True)


@pytest.mark.slow
@pytest.mark.parametrize(("text", "unsure", "digest"), DIGESTS)
def test_rows_match_earlier_versions(text: str, unsure: bool, digest: str) -> None:
    query = Compiled(parse_query(f"QUERY q PATTERN {text}"))
    max_error_ns = ERROR_NS if unsure else None
    engine, written = Engine([query], max_error_ns=max_error_ns), blake2b(digest_size=8)
    for number, entry in enumerate(arrivals(unsure=unsure)):
        engine.accept(entry, 2 * number)
        engine.advance(engine.clock_ns - 60, 2 * number)
        engine.flush(Step(0))
        if number % 7 == 0:
            written.update(plain(engine.changes()).encode())
        if number % 97 == 50:
            state = json.loads(plain(engine.snapshot()))
            written.update(plain(state).encode())
            held = [Entry(each.event, each.payload) for each in engine.entries()]
            engine = Engine([query], max_error_ns=max_error_ns)
            engine.restore(state, held)
    engine.end(2 * EVENTS)
    written.update(plain(engine.changes()).encode())
    assert written.hexdigest() == digest
