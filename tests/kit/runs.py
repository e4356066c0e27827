"""Run an operator or a stage in calls of any size, through restarts, up to its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import Any, Protocol

import msgspec

from tests.kit.places import places_of
from topology.base.event import Event, copy_event
from topology.base.operator import Operator
from topology.base.outcome import Step

SIZES = (0, 1, 1, 2, 3, 10, 50)


class Runnable(Protocol):
    """An operator or a stage, by the methods that they have in common."""

    def on_batch(self, events: list[Event], now_ns: int) -> Step: ...

    def on_end(self, now_ns: int) -> Step: ...


def cut(
    events: Sequence[Event], rng: Random, sizes: Sequence[int] = SIZES
) -> Iterator[list[Event]]:
    """Yield the events in batches, each of a size drawn from `sizes`."""
    at = 0
    while at < len(events):
        size = rng.choice(sizes)
        yield list(events[at : at + size])
        at += size


def results_of(operator: Runnable, *events: Event) -> list[Any]:
    """Return the results of one call for each event; the last instant stays open."""
    results: list[Any] = []
    for each in events:
        results += operator.on_batch([each], each.at_ns).results
    return results


def released_of(operator: Runnable, *events: Event) -> list[Event]:
    """Return what a call for each event releases; the last instant stays open."""
    released: list[Event] = []
    for each in events:
        released += operator.on_batch([each], each.at_ns).released
    return released


def results_to_end(operator: Runnable, batches: Iterable[list[Event]]) -> list[Any]:
    """Return the results of a call for each batch, and those at the end, at the time of the last
    event.
    """
    results: list[Any] = []
    now_ns = 0
    for batch in batches:
        if batch:
            now_ns = batch[-1].at_ns
            results += operator.on_batch(batch, now_ns).results
    return results + operator.on_end(now_ns).results


def through_changelog(state: Any) -> Any:
    """Return the state as a changelog restores it."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(state))


def held_after_restart(
    operator: Operator, raw: Sequence[Event], stamped_from: int
) -> dict[Event, int]:
    """Return the events that the operator buffers, as they are read after a restart.

    They are read from the input again in log order, with the lateness marks that they had. From
    place `stamped_from` on they also keep their corrected timestamps.
    """
    by_offset = {event.offset: event for event in raw}
    places: dict[Event, int] = {}
    for held, at in places_of(operator).items():
        event = copy_event(held if at >= stamped_from else by_offset[held.offset])
        event.at_ns, event.late = held.at_ns, held.late
        places[event] = at
    return places
