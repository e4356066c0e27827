"""Seeded streams to be joined, each as MERGE emits it: in order except for late events, with
watermarks. One stream can lag far behind another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

from tests.laws.streams import in_log_order
from tests.topology.queries.window.streams import MS, START, disordered, place
from tests.topology.queries.window.streams import event as own_event
from tests.topology.queries.window.streams import watermark as own_watermark
from topology.base.event import Event

__all__ = ["MS", "START", "arriving", "event", "history", "place", "watermark"]


def event(
    stream: str,
    seq: int,
    ref_ms: float,
    key: Any = "k",
    *,
    source: str = "s",
    error_ms: float = 0,
    at_ms: float | None = None,
    late: str = "",
    **payload: Any,
) -> Event:
    """Return an event, with times in ms from START."""
    payload = {"key": key, **payload}
    made = own_event(source, seq, ref_ms, payload, error_ms=error_ms, at_ms=at_ms, late=late)
    made.stream = stream
    return made


def watermark(stream: str, at_ms: float, to_ms: float, complete_ms: float | None = None) -> Event:
    complete_ms = to_ms if complete_ms is None else complete_ms
    return own_watermark(at_ms, to_ms, complete_ms, stream=stream)


def history(rng: Random, streams: Sequence[str], n: int, *, errors: Any = (0,)) -> list[Event]:
    """Return events with many equal times, some of them without a key."""
    span_ms = n * 3
    made = []
    for seq in range(n):
        key = None if rng.random() < 0.03 else rng.choice(("a", 1))
        one = event(rng.choice(streams), seq, rng.randrange(span_ms), key, n=seq)
        one.source, one.type = f"s{rng.randrange(2)}", rng.choice(("", "T"))
        one.error_ns = rng.choice(errors) * MS
        made.append(one)
    return made


def arriving(
    rng: Random, events: Iterable[Event], *, late: float = 0.2, announced: float = 0.3
) -> list[Event]:
    """Return the events in an order of arrival that their watermarks allow."""
    by_stream: dict[str, list[Event]] = {}
    for one in sorted(events, key=place):
        by_stream.setdefault(one.stream, []).append(one)
    arrived: list[Event] = []
    for own in by_stream.values():
        lag_ns = rng.choice((0, 5, 40, 400)) * MS
        gaps_ns = (0, MS, 50 * MS)
        arrived += disordered(
            rng, own, late=late, announced=announced, lag_ns=lag_ns, gaps_ns=gaps_ns
        )
    return in_log_order(arrived)
