"""Seeded streams to be joined: each as it leaves its MERGE, in order but for what is marked late,
with watermarks. One may lag behind another by far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, Final

from tests.topology.window.streams import delayed
from topology.model.event import WATERMARK, Event

MS: Final = 1_000_000
START: Final = 1_700_000_000_000 * MS


def event(
    stream: str,
    seq: int,
    ref_ms: float,
    key: Any = "k",
    *,
    source: str = "s",
    kind: str = "",
    error_ms: float = 0,
    at_ms: float | None = None,
    late: str = "",
    offset: int = 0,
    **payload: Any,
) -> Event:
    """Times from START."""
    ref_ns = START + round(ref_ms * MS)
    at_ns = START + round((ref_ms if at_ms is None else at_ms) * MS)
    made = Event(stream, source, 0, seq, ref_ns, at_ns, offset, type=kind)
    made.error_ns = round(error_ms * MS)
    made.value = {"key": key, **payload}
    made.late = late
    return made


def watermark(
    stream: str, at_ms: float, to_ms: float, complete_ms: float | None = None, error_ms: float = 0
) -> Event:
    said = Event(stream, "", 0, 0, START + round(to_ms * MS), START + round(at_ms * MS))
    said.kind = WATERMARK
    said.complete_ns = START + round((to_ms if complete_ms is None else complete_ms) * MS)
    said.error_ns = round(error_ms * MS)
    return said


def history(
    rng: Random,
    streams: Sequence[str],
    n: int,
    *,
    keys: Sequence[Any] = ("a", 1),
    errors: Any = (0,),
) -> list[Event]:
    """With many equal times, and some events without a key."""
    span_ms = n * 3
    made = []
    for seq in range(n):
        stream = rng.choice(streams)
        key = None if rng.random() < 0.03 else rng.choice(keys)
        source = f"s{rng.randrange(2)}"
        kind = rng.choice(("", "T"))
        error_ms = rng.choice(errors)
        one = event(
            stream, seq, rng.randrange(span_ms), key, source=source, kind=kind, error_ms=error_ms
        )
        one.value["n"] = seq
        made.append(one)
    return made


def arriving(
    rng: Random, events: Iterable[Event], *, late: float = 0.2, announced: float = 0.3
) -> list[Event]:
    """In an order of arrival that its watermarks allow."""
    by_stream: dict[str, list[Event]] = {}
    for one in sorted(events, key=place):
        by_stream.setdefault(one.stream, []).append(one)
    arrived: list[Event] = []
    for own in by_stream.values():
        arrived += _of_stream(rng, own, late, announced)
    arrived.sort(key=lambda one: one.at_ns)
    for offset, one in enumerate(arrived):
        one.offset = offset
    return arrived


def _of_stream(rng: Random, events: list[Event], late: float, announced: float) -> list[Event]:
    lag_ns = rng.choice((0, 5, 40, 400)) * MS
    error_ns = max(one.error_ns for one in events)
    waiting: list[Event] = []
    stream: list[Event] = []
    at_ns = 0
    for one in events:
        at_ns = max(at_ns + rng.choice((0, 0, MS, 3 * MS)), one.ref_time_ns + lag_ns)
        if rng.random() < late:
            waiting.append(one)
        else:
            one.at_ns = one.arrival_ns = at_ns
            stream.append(one)
        if rng.random() < 0.3 and waiting:
            stream.append(delayed(waiting.pop(rng.randrange(len(waiting))), at_ns))
        if rng.random() < announced:
            complete_ns = min([one.ref_time_ns, *(other.ref_time_ns for other in waiting)])
            said = Event(one.stream, "", 0, 0, one.ref_time_ns, at_ns, kind=WATERMARK)
            said.complete_ns, said.error_ns = complete_ns, error_ns
            stream.append(said)
    for one in waiting:
        at_ns += rng.choice((0, MS, 50 * MS))
        stream.append(delayed(one, at_ns))
    return stream


def place(one: Event) -> tuple[int, str, int, int]:
    return one.ref_time_ns, one.source, one.epoch, one.seq
