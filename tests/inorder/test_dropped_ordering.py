"""Law: a dropped Ordering leaves no objects, though the garbage collector skips most of them."""

from __future__ import annotations

import gc
import sys
from typing import Any

from inorder.engine import ClockSample, Ordering

MS = 1_000_000
SOURCES = 60
TOPOLOGY = """
streams:
  default: {clock: {sync: udp}, reorder: {max_wait: 300ms}}
correct_for: 10s
queries:
  load: {window: sliding 2s every 500ms, key: payload.k, aggregate: {n: sum(payload.v)}}
  visits: {window: session 500ms, key: payload.k, aggregate: {n: count()}}
  pair: {pattern: "PATTERN SEQ(a a, b b) WHERE [k] WITHIN 1 s"}
"""


def line_of(number: int, source: int, now_ns: int) -> dict[str, Any]:
    """Return a line: every third source has no gaps, every seventh restarts at its 13th line."""
    seq = 0 if number == 12 and source % 7 == 0 else number + number * source % 3
    return {
        "source": f"s{source}",
        "seq": seq,
        "ts": now_ns + source % 17 * MS,
        "type": "ab"[number % 2],
        "arrival": now_ns + source,
        "payload": {"k": source % 5, "v": number},
    }


def drop_one() -> None:
    """Drop an Ordering that buffers events after gaps, and that had late events and restarts."""
    order = Ordering(TOPOLOGY)
    for number in range(20):
        now_ns = number * 100 * MS
        order.feed(*[line_of(number, source, now_ns) for source in range(SOURCES)])
        order.feed(
            ClockSample(
                source=f"s{number}",
                t1_ns=now_ns,
                t2_ns=now_ns + MS,
                t3_ns=now_ns + MS,
                t4_ns=now_ns + 2 * MS,
            )
        )
    balance = order.balance()
    assert balance.held
    assert balance.late


def test_dropped_ordering_frees_memory() -> None:
    """Fewer memory blocks than sources remain."""
    drop_one()  # Objects that all runs share, such as compiled expressions, are made once.
    gc.collect()
    before = sys.getallocatedblocks()
    drop_one()
    gc.collect()
    left = sys.getallocatedblocks() - before
    assert left < SOURCES, "less than one object for each source"
