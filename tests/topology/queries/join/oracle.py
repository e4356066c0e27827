"""An oracle for joins, from all events at once: slow and by the definitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any

from tests.topology.queries.window import oracle as window_oracle
from tests.topology.queries.window.streams import place
from topology.base.event import DATA, Event
from topology.base.result import RETRACT, JoinResult
from topology.queries.join.settings import AS_OF, FULL, JoinQuery

Coordinates = tuple[str, str, int]
Row = tuple[Any, str, tuple[Coordinates | None, ...]]
"""The window's start, or None; the key, as text; stream, source and seq of each event."""


def coordinates(event: Event | None) -> Coordinates | None:
    return None if event is None else (event.stream, event.source, event.seq)


def key_of(event: Event) -> str:
    return repr(event.value["key"])


def on_side(events: Iterable[Event], config: JoinQuery, number: int) -> list[Event]:
    type_, key = config.types[number], config.key_paths[number]
    return [
        event
        for event in events
        if event.kind == DATA
        and event.stream == config.streams[number]
        and type_ in ("", event.type)
        and (key is None or event.value["key"] is not None)
    ]


def starts(event: Event, config: JoinQuery) -> set[int]:
    """Return the starts of the windows that contain the event."""
    found = set()
    start_ns = event.ref_time_ns // config.join.every_ns * config.join.every_ns
    while start_ns + config.join.size_ns > event.ref_time_ns:
        found.add(start_ns)
        start_ns -= config.join.every_ns
    return found


def meets(config: JoinQuery, first: Event, other: Event, start_ns: int | None) -> bool:
    if first is other or (config.key_paths[0] and key_of(first) != key_of(other)):
        return False
    if start_ns is not None:
        return start_ns in starts(first, config) and start_ns in starts(other, config)
    apart_ns = other.ref_time_ns - first.ref_time_ns
    if config.join.kind == AS_OF:
        return -config.join.size_ns <= apart_ns <= 0
    return config.join.low_ns <= apart_ns <= config.join.high_ns


def oracle(events: Sequence[Event], config: JoinQuery) -> set[Row]:
    sides = [on_side(events, config, number) for number in range(len(config.streams))]
    windows: list[int | None] = [None]
    if not config.join.is_by_distance:
        windows = [*{start for own in sides for one in own for start in starts(one, config)}]
    return {
        (
            start_ns,
            key_of(next(one for one in row if one)) if config.key_paths[0] else "",
            named(row),
        )
        for start_ns in windows
        for row in rows(config, sides, start_ns)
    }


def named(row: Sequence[Event | None]) -> tuple[Coordinates | None, ...]:
    return tuple(coordinates(one) for one in row)


def newest(partners: list[Event]) -> list[Event]:
    return sorted(partners, key=place)[-1:]


def rows(
    config: JoinQuery, sides: list[list[Event]], start_ns: int | None
) -> Iterator[Sequence[Event | None]]:
    for first in sides[0]:
        if start_ns is not None and start_ns not in starts(first, config):
            continue
        chosen: list[list[Event | None]] = [[first]]
        for others in sides[1:]:
            partners = [one for one in others if meets(config, first, one, start_ns)]
            partners = newest(partners) if config.join.kind == AS_OF else partners
            chosen.append([*partners] or [None])
        for row in product(*chosen):
            present = [one for one in row if one is not None]
            if len({id(one) for one in present}) < len(present):
                continue
            if len(present) == len(sides) or config.is_outer:
                yield row
    if config.outer != FULL:
        return
    for number, others in enumerate(sides[1:], start=1):
        for other in others:
            if start_ns is not None and start_ns not in starts(other, config):
                continue
            if not any(meets(config, first, other, start_ns) for first in sides[0]):
                yield [other if side == number else None for side in range(len(sides))]


def last_word(results: Iterable[Any]) -> list[JoinResult]:
    """Return the current results at the end, and assert that the revisions before are in order."""
    told: list[Any] = [*results]
    assert all(result.final for result in told if result.op == RETRACT)
    standing: list[Any] = window_oracle.last_word(told)
    return standing


def rendered(result: JoinResult, config: JoinQuery) -> Row:
    by_alias = {partner.alias: partner for partner in result.partners}
    members = []
    for alias in config.aliases:
        partner = by_alias.get(alias)
        members.append(partner and (partner.stream, partner.source, partner.seq))
    start_ns = None if config.join.is_by_distance else result.start_ns
    assert start_ns is None or result.end_ns == start_ns + config.join.size_ns
    return start_ns, repr(result.key) if config.key_paths[0] else "", tuple(members)
