"""Results as events of the detectors that read them.

What a detector tells is an event for its readers, at the time of the item at which it was told,
whether it has an id or not: each *telling* is one. What a window or a pattern finds is an event at
the end of the window or match, for as long as it stands: an update changes the event, a retract
takes it away.

Its payload is the result's values, and beside them, unless the values have such a name, `key` (the
query's), `start_ns` and `end_ns`. Its type is what the query says by `into`, or its name, and its
source `<query>/<id of the result>`.

Order. Results come behind all other events of their instant, those of lower levels first; there by
query, then tellings in the order of their items, and windows and matches by id. So the order of a
chain is total, and nothing in it depends on when anything arrived.

What changed travels, and nothing else: a replay that tells the same again, or tells and takes back
within an instant, changes no event (`net`).

Proved by: tests/topology/speculate/test_levels.py
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from topology.model.operator import Plain
from topology.model.result import (
    CONFIRMED,
    RETRACT,
    MatchResult,
    MatchSetResult,
    Result,
    WindowResult,
)
from topology.query.numbers import packed as packed_number
from topology.query.numbers import scalar_of
from topology.query.numbers import unpacked as unpacked_number
from topology.speculate.cursor import ToldOutput
from topology.speculate.item import EVENT, Key, Seen
from topology.speculate.values import packed, unpacked

BEHIND_SOURCES: Final = "\U0010ffff"
"""What the place of a result in the order begins with; names of sources lie before it."""

PLACE_BITS: Final = 32


class Edit(NamedTuple):
    """A detector has told this of the key `lane`, or tells it no more."""

    lane: str
    is_told: bool
    output: ToldOutput


class Telling(NamedTuple):
    """`stamp_ns`: when it is an event. `stands`: it is told, now, like this; else it is told no
    more."""

    lane: str
    stamp_ns: int
    output: ToldOutput
    stands: bool


class ResultEvent(NamedTuple):
    """An event made of a result, or, if it does not stand, the one that is gone. `name`: what it
    is known by, to a reader."""

    name: str
    stands: bool
    key: Key
    seen: Seen


class Reading(NamedTuple):
    """A query that another reads. `level`: how many detectors lie below it."""

    query: str
    into: str
    level: int
    is_keyed: bool = False


def net(edits: Iterable[Edit], stamp_ns: int | None) -> list[Telling]:
    """What they come to. `stamp_ns`: for all; None: each at its item."""
    first: dict[tuple[str, Key, int], Edit] = {}
    last: dict[tuple[str, Key, int], Edit] = {}
    for edit in edits:
        known_by = (edit.lane, edit.output.cause, edit.output.number)
        first.setdefault(known_by, edit)
        last[known_by] = edit
    tellings = []
    for known_by, edit in last.items():
        was_told = not first[known_by].is_told
        if not (was_told or edit.is_told):
            continue
        if was_told and edit.is_told and _is_alike(first[known_by].output, edit.output):
            continue
        stamp = edit.output.cause[0] if stamp_ns is None else stamp_ns
        tellings.append(Telling(edit.lane, stamp, edit.output, edit.is_told))
    return tellings


def _is_alike(one: ToldOutput, other: ToldOutput) -> bool:
    return one.id == other.id and one.error_ns == other.error_ns and other.tells(one)


def of_telling(telling: Telling, reading: Reading) -> ResultEvent:
    output = telling.output
    _, kind, source, epoch, seq = output.cause
    place = (
        f"{BEHIND_SOURCES}{reading.level:03d}/{reading.query}/{kind}{source}"
        f"/{epoch:016x}{seq:016x}/{telling.lane}"
    )
    key = (telling.stamp_ns, EVENT, place, 0, output.number)
    payload: dict[str, Any] = {"start_ns": output.start_ns, "end_ns": output.end_ns}
    if reading.is_keyed:
        payload["key"] = scalar_of(telling.lane)
    payload |= output.values
    seen = _seen(reading, key, output.id, payload, output.error_ns, unsure=output.unsure)
    return ResultEvent(f"{place}/{output.number}@{telling.stamp_ns}", telling.stands, key, seen)


def of_result(result: Result, reading: Reading) -> ResultEvent:
    """Made of a window or a match; its times are those of its events, so its error is not told."""
    place = f"{BEHIND_SOURCES}{reading.level:03d}/{reading.query}/{result.id}"
    key = (result.end_ns, EVENT, place, 0, 0)
    payload: dict[str, Any] = {"start_ns": result.start_ns, "end_ns": result.end_ns}
    if isinstance(result, WindowResult | MatchResult | MatchSetResult) and result.key is not None:
        payload["key"] = result.key
    if isinstance(result, MatchSetResult):
        payload["count"] = result.count
    payload |= result.values
    seen = _seen(reading, key, result.id, payload, 0, unsure=result.confidence != CONFIRMED)
    return ResultEvent(place, result.op != RETRACT, key, seen)


def _seen(
    reading: Reading, key: Key, id_: str, payload: Any, error_ns: int, *, unsure: bool
) -> Seen:
    number = (int(id_[-PLACE_BITS // 4 :], 16) + key[4]) % (1 << PLACE_BITS)
    source = f"{reading.query}/{id_}"
    return Seen(reading.into, key[0], payload, source, 0, number, error_ns, unsure=unsure)


def dump(lane: str, key: Key, seen: Seen) -> Plain:
    return [
        lane,
        [packed_number(key[0]), *key[1:]],
        seen.type,
        packed(seen.payload, {}),
        seen.source,
        seen.seq,
        packed_number(seen.error_ns),
        seen.unsure,
    ]


def load(plain: Plain) -> tuple[str, Key, Seen]:
    lane, (time_ns, kind, place, epoch, number), type_, payload, source, seq, error_ns, unsure = (
        plain
    )
    key = (unpacked_number(time_ns), kind, place, epoch, number)
    error = unpacked_number(error_ns)
    seen = Seen(type_, key[0], unpacked(payload, {}), source, 0, seq, error, unsure=unsure)
    return lane, key, seen
