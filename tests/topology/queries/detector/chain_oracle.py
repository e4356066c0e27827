"""An oracle for chains of detectors over events in order. It runs level by level, each over all
results of the levels below, and is slow and simple.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.topology.queries.detector.oracle import END, told_in_order
from topology.queries.detector.item import Seen


@dataclass(frozen=True)
class Level:
    """A level of a chain.

    Attributes:
        key: A name in the payload.
        reads: The queries whose results it reads.
        stream: Whether it also reads the events.
    """

    query: str
    detector: Any
    key: str | None
    reads: tuple[str, ...] = ()
    stream: bool = True
    level: int = 1


class Item(NamedTuple):
    """An item of a level's input.

    At one instant, events come by source, then results by level, query, and the item that caused
    each.
    """

    time_ns: int
    order: tuple[Any, ...]
    seen: Seen


Emitted = dict[tuple[str, Any], dict[str, Any]]
"""The current results of each query: by key and id, or by the place that caused them."""


def chain_truth(
    levels: Sequence[Level],
    events: Iterable[Seen],
    others: Mapping[str, Sequence[Item]] | None = None,
) -> dict[str, Emitted]:
    """Return the current results of each query; `others` has those of windows and patterns."""
    items = [Item(each.time_ns, (0, each.source, each.epoch, each.seq), each) for each in events]
    last_ns = max(each.time_ns for each in items)
    for found in (others or {}).values():
        last_ns = max([last_ns, *(each.time_ns for each in found)])
    told_by: dict[str, list[Item]] = {name: [*found] for name, found in (others or {}).items()}
    standing: dict[str, Emitted] = {}
    for level in levels:
        read = [*items] if level.stream else []
        for name in level.reads:
            read += told_by[name]
        logs: dict[Any, list[Item]] = {}
        for item in sorted(read, key=lambda each: (each.time_ns, each.order)):
            key = "" if level.key is None else item.seen.payload.get(level.key)
            if key is not None:
                logs.setdefault(key, []).append(item)
        told_by[level.query] = []
        standing[level.query] = {}
        for key, log in logs.items():
            _read(level, key, log, last_ns, told_by[level.query], standing[level.query])
    return standing


def _read(
    level: Level, key: Any, log: list[Item], last_ns: int, emissions: list[Item], stands: Emitted
) -> None:
    seen = [item.seen for item in log]
    for told in told_in_order(level.detector, seen, last_ns, ended=True):
        stamp_ns = last_ns if told.cause == END else min(told.time_ns, last_ns)
        cause = (-told.cause,) if told.cause < 0 else (0, log[told.cause].order)
        for number, found in enumerate(told.found):
            start_ns = told.time_ns if found.start_ns is None else found.start_ns
            payload = {"start_ns": start_ns, "end_ns": told.time_ns}
            if level.key is not None:
                payload["key"] = key
            result = Seen(level.query, stamp_ns, payload | dict(found.values), level.query)
            order = (1, level.level, level.query, cause, str(key), number)
            emissions.append(Item(stamp_ns, order, result))
            known = (key, told.time_ns, cause, number) if found.id is None else (key, found.id)
            stands[level.query, known] = dict(found.values)
