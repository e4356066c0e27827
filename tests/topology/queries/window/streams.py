"""Seeded streams as MERGE emits them: in order except for marked late events, with watermarks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import Any, Final

from tests.laws.streams import numbered
from topology.base.event import WATERMARK, Event
from topology.base.late import GAP

MS: Final = 1_000_000
START: Final = 1_700_000_000_000 * MS

VALUES: Final = (1, 2, 3, -4, 0, 0.1, 0.2, 0.3, 1e15, -1e15, 1e-9, 7.5, 3.0)
KEYS: Final = ("a", "b", 1, 2.5, True)


def event(
    source: str,
    seq: int,
    ref_ms: float,
    payload: Any = None,
    *,
    error_ms: float = 0,
    at_ms: float | None = None,
    late: str = "",
    ts_ms: float | None = None,
) -> Event:
    """Return an event with times in ms from START."""
    ts_ns = START + round((ref_ms if ts_ms is None else ts_ms) * MS)
    made = Event("default", source, 0, seq, ts_ns, START + round((at_ms or ref_ms) * MS))
    made.ref_time_ns = START + round(ref_ms * MS)
    made.error_ns = round(error_ms * MS)
    made.value = payload
    made.late = late
    return made


def watermark(
    at_ms: float, to_ms: float, complete_ms: float, error_ms: float = 0, stream: str = "default"
) -> Event:
    said = Event(stream, "", 0, 0, START + round(to_ms * MS), START + round(at_ms * MS))
    said.kind = WATERMARK
    said.complete_ns = START + round(complete_ms * MS)
    said.error_ns = round(error_ms * MS)
    return said


def seeded(seeds: Iterable[int]) -> Iterator[tuple[int, Random]]:
    """Yield each seed with a random generator made from it."""
    for seed in seeds:
        yield seed, Random(seed)


def payload_of(rng: Random) -> Any:
    """Return a payload; most have all fields, some lack one or have an unusable value."""
    payload: dict[str, Any] = {"key": rng.choice(KEYS), "v": rng.choice(VALUES)}
    fate = rng.random()
    if fate < 0.05:
        payload["v"] = rng.choice((None, "x", True, float("nan"), float("inf"), 10**400, [1]))
    elif fate < 0.08:
        del payload["v"]
    elif fate < 0.1:
        payload["key"] = rng.choice((None, [], {}, float("nan")))
    elif fate < 0.11:
        return None
    return payload


def sorted_events(rng: Random, n: int) -> list[Event]:
    """Return events of three sources in order, with many equal times."""
    seqs, events = Counter[str](), []
    for ref_ms in sorted(rng.randrange(n * 10) for _ in range(n)):
        source = f"s{rng.randrange(3)}"
        events.append(event(source, seqs[source], ref_ms, payload_of(rng)))
        seqs[source] += 1
    return sorted(events, key=place)


def place(one: Event) -> tuple[int, str, int, int]:
    return one.ref_time_ns, one.source, one.epoch, one.seq


def disordered(
    rng: Random,
    events: Sequence[Event],
    *,
    late: float = 0.2,
    announced: float = 0.2,
    lag_ns: int = 0,
    gaps_ns: Sequence[int] = (0,),
) -> list[Event]:
    """Return the events with some of them late and marked so, and with correct watermarks.

    All arrive `lag_ns` after their times; late events at the end come after one of `gaps_ns` each.
    """
    waiting: list[Event] = []
    stream: list[Event] = []
    at_ns = events[0].ref_time_ns
    for one in events:
        at_ns = max(at_ns + rng.choice((0, 0, MS, 3 * MS)), one.ref_time_ns + lag_ns)
        if rng.random() < late:
            waiting.append(one)
            continue
        one.at_ns = one.arrival_ns = at_ns
        stream.append(one)
        if rng.random() < 0.3 and waiting:
            stream.append(delayed(waiting.pop(rng.randrange(len(waiting))), at_ns))
        if rng.random() < announced:
            complete_ns = min([one.ref_time_ns, *(other.ref_time_ns for other in waiting)])
            said = Event(one.stream, "", 0, 0, one.ref_time_ns, at_ns, kind=WATERMARK)
            said.complete_ns = complete_ns
            said.error_ns = max(other.error_ns for other in events)
            stream.append(said)
    for one in waiting:
        at_ns += rng.choice(gaps_ns)
        stream.append(delayed(one, at_ns))
    return numbered(stream)


def delayed(one: Event, at_ns: int) -> Event:
    one.late = GAP
    one.at_ns = one.arrival_ns = at_ns
    return one
