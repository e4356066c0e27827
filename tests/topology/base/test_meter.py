"""Examples: the time of each query is measured by the driver's clock, without effect on results."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import orjson
import pytest

from tests.kit.topologies import in_code
from topology.base.event import Event
from topology.base.result import Result
from topology.stage.stage import Stage

MS = 1_000_000
ONE = in_code("""
streams: {a: {clock: {unsynced: trust}}, b: {clock: {unsynced: trust}}}
queries:
  window: {stream: a, window: tumbling 10ms, aggregate: {n: count()}}
  other: {stream: b, window: count 3, aggregate: {n: count()}}
  pattern: {stream: a, pattern: 'PATTERN SEQ(A x, A y) WITHIN 20 ms'}
  group: {stream: a, pattern: 'PATTERN SEQ(A x, A+ y[]) WITHIN 20 ms'}
  beside: {stream: b, pattern: 'PATTERN SEQ(A x, !B n, A y) WITHIN 20 ms'}
  join: {join: interval 4ms, sides: {x: {stream: a}, y: {stream: b}}}
""")


def events(begin: int, end: int) -> list[Event]:
    found = []
    for n in range(begin, end):
        at_ns = n * MS
        value = orjson.dumps({"n": n})
        event = Event("ab"[n % 2], f"s{n % 2}", 0, n // 2, at_ns, at_ns, n, value=value, type="A")
        found.append(event)
    return found


def taken(stage: Stage, batch: Sequence[Event]) -> list[tuple[str, str, int]]:
    found = stage.on_batch(batch, batch[-1].at_ns).results
    return [(each.query, each.id, each.revision) for each in found if isinstance(each, Result)]


@pytest.mark.parametrize("size", [1, 50])
def test_clock_measures_each_query(size: int) -> None:
    measured, plain = (Stage(ONE, ("window", "pattern", "join")) for _ in range(2))
    ticks = count()
    for begin in range(0, 300, size):
        measured.meter.clock_ns = ticks.__next__ if 100 <= begin < 200 else None
        assert taken(measured, events(begin, begin + size)) == taken(
            plain, events(begin, begin + size)
        )
        spent = measured.meter.take()
        assert bool(spent) == (100 <= begin < 200)
        if size == 50 and spent:
            assert spent.keys() == ONE.queries.keys()
            assert min(spent.values()) > 0
    assert not plain.meter.take()
