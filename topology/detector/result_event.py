"""Results as events of the detectors that read them.

A result of a detector is an event for its readers, at the time of the item at which it was
emitted, with an id or without: each *emission* is one. A result of a window or a pattern is an
event at the end of the window or match, for as long as it is current: an update changes the event,
a retract removes it.

Its payload is the result's values, and beside them, unless the values have such a name, `key` (the
query's), `start_ns` and `end_ns`. Its type is the query's `into`, or its name, and its
source `<query>/<id of the result>`.

Order. Results come behind all other events of their instant, those of lower levels first; there by
query, then emissions in the order of their items, and windows and matches by id. So the order of a
chain is total, and nothing in it depends on when anything arrived.

Only what changed is passed on: a replay that emits the same again, or emits and takes back within
an instant, changes no event (`net`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from topology.detector.cursor import DetectorOutput
from topology.detector.item import EVENT, Key, Seen, dump_key, load_key
from topology.detector.values import packed, unpacked
from topology.model.kept import ValueKind, Written, row_of
from topology.model.kept import packed as packed_number
from topology.model.kept import unpacked as unpacked_number
from topology.model.operator import Plain
from topology.model.result import (
    RETRACT,
    SURE,
    MatchResult,
    MatchSetResult,
    Result,
    WindowResult,
)
from topology.query.numbers import scalar_of

BEHIND_SOURCES: Final = "\U0010ffff"
"""What the place of a result in the order begins with; names of sources lie before it."""

PLACE_BITS: Final = 32


class Edit(NamedTuple):
    """A change to the results of a detector: one was emitted for `key_text`, or was retracted."""

    key_text: str
    is_emitted: bool
    output: DetectorOutput


class Emission(NamedTuple):
    """`stamp_ns`: the time of the event. `is_current`: it is emitted, with this output; else it is
    emitted no more."""

    key_text: str
    stamp_ns: int
    output: DetectorOutput
    is_current: bool


class ResultEvent(NamedTuple):
    """An event made of a result, or, if it is not current, the one that is removed. `name`: its
    name for a reader."""

    name: str
    is_current: bool
    key: Key
    seen: Seen


class UpstreamQuery(NamedTuple):
    """A query that another reads. `level`: how many detectors lie below it."""

    query: str
    into: str
    level: int
    is_keyed: bool = False


def net(edits: Iterable[Edit], stamp_ns: int | None) -> list[Emission]:
    """What they come to. `stamp_ns`: for all; None: each at its item."""
    first: dict[tuple[str, Key, int], Edit] = {}
    last: dict[tuple[str, Key, int], Edit] = {}
    for edit in edits:
        known_by = (edit.key_text, edit.output.cause, edit.output.number)
        first.setdefault(known_by, edit)
        last[known_by] = edit
    emissions = []
    for known_by, edit in last.items():
        was_emitted = not first[known_by].is_emitted
        if not (was_emitted or edit.is_emitted):
            continue
        if was_emitted and edit.is_emitted and _is_alike(first[known_by].output, edit.output):
            continue
        stamp = edit.output.cause[0] if stamp_ns is None else stamp_ns
        emissions.append(Emission(edit.key_text, stamp, edit.output, edit.is_emitted))
    return emissions


def _is_alike(one: DetectorOutput, other: DetectorOutput) -> bool:
    return one.id == other.id and one.error_ns == other.error_ns and other.reads_as(one)


def of_emission(emission: Emission, reading: UpstreamQuery) -> ResultEvent:
    output = emission.output
    _, kind, source, epoch, seq = output.cause
    place = (
        f"{BEHIND_SOURCES}{reading.level:03d}/{reading.query}/{kind}{source}"
        f"/{epoch:016x}{seq:016x}/{emission.key_text}"
    )
    key = (emission.stamp_ns, EVENT, place, 0, output.number)
    payload: dict[str, Any] = {"start_ns": output.start_ns, "end_ns": output.end_ns}
    if reading.is_keyed:
        payload["key"] = scalar_of(emission.key_text)
    payload |= output.values
    seen = _seen(reading, key, output.id, payload, output.error_ns, unsure=output.unsure)
    return ResultEvent(
        f"{place}/{output.number}@{emission.stamp_ns}", emission.is_current, key, seen
    )


def of_result(result: Result, reading: UpstreamQuery) -> ResultEvent:
    """Made of a window or a match; its times are those of its events, so it has no error."""
    place = f"{BEHIND_SOURCES}{reading.level:03d}/{reading.query}/{result.id}"
    key = (result.end_ns, EVENT, place, 0, 0)
    payload: dict[str, Any] = {"start_ns": result.start_ns, "end_ns": result.end_ns}
    if isinstance(result, WindowResult | MatchResult | MatchSetResult) and result.key is not None:
        payload["key"] = result.key
    if isinstance(result, MatchSetResult):
        payload["count"] = result.count
    payload |= result.values
    seen = _seen(reading, key, result.id, payload, 0, unsure=result.confidence not in SURE)
    return ResultEvent(place, result.op != RETRACT, key, seen)


def _seen(
    reading: UpstreamQuery, key: Key, id_: str, payload: Any, error_ns: int, *, unsure: bool
) -> Seen:
    number = (int(id_[-PLACE_BITS // 4 :], 16) + key[4]) % (1 << PLACE_BITS)
    source = f"{reading.query}/{id_}"
    return Seen(reading.into, key[0], payload, source, 0, number, error_ns, unsure=unsure)


class SavedEvent(ValueKind):
    """The kind of events made of results."""

    def dump(self, value: ResultEvent) -> Plain:
        return [dump(value.name, value.key, value.seen), value.is_current]

    def load(self, plain: Plain, written: Written | None, owner: Any, field: str) -> ResultEvent:
        event, is_current = row_of(plain, self, 2)
        name, key, seen = load(event)
        return ResultEvent(name, is_current, key, seen)


SAVED_EVENT: Final = SavedEvent("result event", is_plain=False)


def dump(key_text: str, key: Key, seen: Seen) -> Plain:
    return [
        key_text,
        dump_key(key),
        seen.type,
        packed(seen.payload, {}),
        seen.source,
        seen.seq,
        packed_number(seen.error_ns),
        seen.unsure,
    ]


def load(plain: Plain) -> tuple[str, Key, Seen]:
    key_text, place, type_, payload, source, seq, error_ns, unsure = plain
    key = load_key(place)
    error = unpacked_number(error_ns)
    seen = Seen(type_, key[0], unpacked(payload, {}), source, 0, seq, error, unsure=unsure)
    return key_text, key, seen
