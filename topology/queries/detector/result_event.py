"""Turns results of queries into events for the detectors that read them.

Each result that a detector emits at an item is an event at the time of the item. Results with the
same id are separate events. A result of a window or a pattern is an event at the end of the window
or match, while it is current. An update changes the event, and a retraction removes it.

The payload has the result's values. It also has `key` (the value of the query's key), `start_ns`
and `end_ns`, unless a value has that name. The event's type is the query's `into`, or its name. Its
source is `<query>/<id of the result>`.

Results come after all other events of their instant, those of lower levels first. Within a level
they are in the order of the queries. A detector's results are in the order of their items, and
those of windows and patterns in the order of their ids. So the order of a chain is total, and does
not depend on the order of arrival.

Only changes are passed on. No event changes if a replay emits the same result again, or if a result
is emitted and retracted within an instant (`net`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from topology.answer.frontier import NOT_YET
from topology.answer.query.numbers import scalar_of
from topology.base.result import RETRACT, SURE, MatchResult, MatchSetResult, Result, WindowResult
from topology.queries.detector.cursor import DetectorOutput
from topology.queries.detector.item import EVENT, KEY, Key, LogEntry, Seen
from topology.queries.detector.values import VALUE
from topology.state.saved import BIG, FLAG, INT, PLAIN, TEXT, record
from topology.state.tables import Table

BEHIND_SOURCES: Final = "\U0010ffff"
"""The prefix of the source name in a result's key; it sorts after all names of sources."""

PLACE_BITS: Final = 32


class Edit(NamedTuple):
    """A change to the results of a detector: an output for `key_text` was emitted or retracted.

    `stamp_ns` is the time of the event that is made from the output.
    """

    key_text: str
    is_emitted: bool
    output: DetectorOutput
    stamp_ns: int


class ResultEvent(NamedTuple):
    """An event made from a result, or its removal if the result is no longer current.

    `name` is unique among the events that one detector reads.
    """

    name: str
    is_current: bool
    key: Key
    seen: Seen


class UpstreamQuery(NamedTuple):
    """A query that another query reads. `level` is the number of detector levels below it."""

    query: str
    into: str
    level: int
    is_keyed: bool = False


def net_changes(edits: Iterable[Edit]) -> list[Edit]:
    """Return the net changes of these edits."""
    first: dict[tuple[str, Key, int, int], Edit] = {}
    last: dict[tuple[str, Key, int, int], Edit] = {}
    for edit in edits:
        known_by = (edit.key_text, edit.output.cause, edit.output.number, edit.stamp_ns)
        first.setdefault(known_by, edit)
        last[known_by] = edit
    return [edit for known_by, edit in last.items() if _has_changed(first[known_by], edit)]


def _has_changed(first: Edit, last: Edit) -> bool:
    """Return whether the result after the last edit differs from the one before the first."""
    if first.is_emitted:  # There was no result before these edits.
        return last.is_emitted
    one, other = first.output, last.output
    is_alike = one.id == other.id and one.error_ns == other.error_ns and other.has_same_content(one)
    return not (last.is_emitted and is_alike)


def event_from_edit(edit: Edit, reading: UpstreamQuery) -> ResultEvent:
    """Return the event for an emitted or retracted output of a detector."""
    output = edit.output
    _, kind, source, epoch, seq = output.cause
    place = (
        f"{BEHIND_SOURCES}{reading.level:03d}/{reading.query}/{kind}{source}"
        f"/{epoch:016x}{seq:016x}/{edit.key_text}"
    )
    key = (edit.stamp_ns, EVENT, place, 0, output.number)
    payload: dict[str, Any] = {"start_ns": output.start_ns, "end_ns": output.end_ns}
    if reading.is_keyed:
        payload["key"] = scalar_of(edit.key_text)
    payload |= output.values
    seen = _make_seen(reading, key, output.id, payload, output.error_ns, unsure=output.unsure)
    return ResultEvent(f"{place}/{output.number}@{edit.stamp_ns}", edit.is_emitted, key, seen)


def event_from_result(result: Result, reading: UpstreamQuery) -> ResultEvent:
    """Return the event for a result of a window or a pattern.

    Its time is the end of the window or match, and has no error.
    """
    place = f"{BEHIND_SOURCES}{reading.level:03d}/{reading.query}/{result.id}"
    key = (result.end_ns, EVENT, place, 0, 0)
    payload: dict[str, Any] = {"start_ns": result.start_ns, "end_ns": result.end_ns}
    if isinstance(result, WindowResult | MatchResult | MatchSetResult) and result.key is not None:
        payload["key"] = result.key
    if isinstance(result, MatchSetResult):
        payload["count"] = result.count
    payload |= result.values
    seen = _make_seen(reading, key, result.id, payload, 0, unsure=result.confidence not in SURE)
    return ResultEvent(place, result.op != RETRACT, key, seen)


def _make_seen(
    reading: UpstreamQuery, key: Key, id_: str, payload: Any, error_ns: int, *, unsure: bool
) -> Seen:
    number = (int(id_[-PLACE_BITS // 4 :], 16) + key[4]) % (1 << PLACE_BITS)
    source = f"{reading.query}/{id_}"
    return Seen(reading.into, key[0], payload, source, 0, number, error_ns, unsure=unsure)


# -- state -----------------------------------------------------------------------------------------

SEEN: Final = record(
    Seen,
    type=TEXT,
    time_ns=INT,
    payload=VALUE,
    source=TEXT,
    epoch=INT,
    seq=INT,
    error_ns=BIG,
    unsure=FLAG,
)
SAVED_EVENT: Final = record(ResultEvent, name=TEXT, is_current=FLAG, key=KEY, seen=SEEN)


class KeptResult(NamedTuple):
    """An event made from a result, and the key of the log that contains it."""

    key_text: str
    entry: LogEntry


# The `event` of such an entry is None.
ENTRY: Final = record(LogEntry, seen=SEEN, event=PLAIN, key=KEY, name=TEXT)
KEPT: Final = record(KeptResult, key_text=TEXT, entry=ENTRY)


class ResultLog(Table[str, KeptResult]):
    """A table, by name, of the results that a detector reads as events and that may still change.

    The logs of the keys do not store events, so this table does. Each result is written when it is
    added and when it is removed.
    """

    def __init__(self, prefix: str) -> None:
        super().__init__(prefix, KEPT)

    def keep(self, name: str, key_text: str, entry: LogEntry) -> None:
        self.put(name, KeptResult(key_text, entry))
        self.note(name)

    def let_go(self, entries: Iterable[LogEntry]) -> None:
        """Forget the results of these entries, which are no longer buffered.

        Entries that are not results are ignored, and so are those whose result has been replaced.
        """
        for entry in entries:
            kept = self.find(entry.name) if entry.name else None
            if kept is not None and kept.entry is entry:
                self.forget(entry.name)

    @property
    def newest_ns(self) -> int:
        return max((kept.entry.key[0] for kept in self.rows.values()), default=NOT_YET)
