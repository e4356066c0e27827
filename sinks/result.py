"""Parses the record of one result of a window, a pattern or a join.

A result is a JSON object; its record's key is its id:

    id          text, 1 to MAX_ID_CHARS characters: identifies the result permanently
    query       text
    op          emit | update | retract
    revision    integer, 0 to MAX_REVISION: rises by one with each change of the result
    final       boolean
    confidence  confirmed | uncertain
    start, end  integer ns since the epoch, start <= end; null or absent if unknown
    events      list of coordinates (source, epoch, seq); values: an object; both may be absent

Other keys are preserved: `record` is the whole object as it arrived, in one line. Revisions stay
below 2^53, because JSON readers and Lua represent larger integers inexactly.

Rule for every sink: the highest revision of an id counts, in whatever order they arrive. If that is
a retract, there is no such result. The same (id, revision) always has the same content, so a
duplicate changes nothing. `select_newest` applies the rule to a batch.

In the topic of a query with `upsert` a retract has no value. Its key is the id, and its headers
have all fields above except `events` and `values`. Its `record` is a JSON object of these.

A `Control` record is deliberately not a result. It has an empty key and no value, or its
`kind` says that it is the `overflow` of a query.

An unreadable record is a `Malformed` with one of a few reasons, for counting, and a detail that
states the fault without the content. Cost: O(bytes), parsed once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated, Any, Final, Literal

import msgspec
import orjson

from inorder.contract import retraction_line

MAX_ID_CHARS: Final = 256
MAX_REVISION: Final = 2**53 - 1

VALUE_MISSING: Final = "value_missing"
NOT_JSON: Final = "not_json"
NOT_OBJECT: Final = "not_object"
FIELD_MISSING: Final = "field_missing"
FIELD_WRONG: Final = "field_wrong"
INTERVAL_BACKWARDS: Final = "interval_backwards"
KEY_NOT_ID: Final = "key_not_id"

OVERFLOW: Final = "overflow"

_GIVEN: Final = re.compile(r"Invalid enum value '.*'(?= - at )", re.DOTALL)
"""Matches the invalid word of a record, which the parser's message repeats."""

_LINE_ENDS: Final = re.compile(rb"[\r\n]+")
"""Matches line ends, which JSON allows only between its tokens."""

_Ns = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


@dataclass(slots=True)
class Result:
    """A revision of a result; `record` is its JSON object as it arrived, in one line."""

    id: str
    query: str
    op: str
    revision: int
    final: bool
    confidence: str
    start_ns: int | None
    end_ns: int | None
    record: bytes


@dataclass(slots=True)
class Malformed:
    """A record that is not a result; `id` is set if it could be read."""

    reason: str
    detail: str
    id: str | None = None


class Control:
    """A record that is deliberately not a result."""


class _Wire(msgspec.Struct):
    id: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_ID_CHARS)]
    query: str
    op: Literal["emit", "update", "retract"]
    revision: Annotated[int, msgspec.Meta(ge=0, le=MAX_REVISION)]
    final: bool
    confidence: Literal["confirmed", "uncertain"]
    start: _Ns | None = None
    end: _Ns | None = None
    events: list[dict[str, Any]] | None = None
    values: dict[str, Any] | None = None


_head: Final = attrgetter(*_Wire.__struct_fields__[:8])
"""Returns all fields but `events` and `values`, in the order of `Result`."""


def parse(
    value: bytes | None,
    key: bytes | None = None,
    headers: Sequence[tuple[str, bytes | None]] | None = None,
) -> Result | Malformed | Control:
    """Parse a record; without a `key`, as in a file, only the value is checked."""
    if value is None:
        retraction = retraction_line(key, headers)
        if retraction is None:
            detail = "no value, and no header `op` of retract; a result is a JSON object"
            return Control() if key == b"" else Malformed(VALUE_MISSING, detail)
        value = orjson.dumps(retraction)
    try:
        fields = orjson.loads(value)
    except orjson.JSONDecodeError as wrong:
        return Malformed(NOT_JSON, f"not JSON: {wrong.msg} (column {wrong.colno})")
    if not isinstance(fields, dict):
        return Malformed(NOT_OBJECT, "JSON, but not an object; write the result's fields")
    if fields.get("kind") == OVERFLOW:
        return Control()
    id_ = fields["id"] if isinstance(fields.get("id"), str) else None
    try:
        wire = msgspec.convert(fields, _Wire)
    except msgspec.ValidationError as wrong:
        missing = "missing required field" in str(wrong)
        detail = _GIVEN.sub("an unknown word", str(wrong))
        return Malformed(FIELD_MISSING if missing else FIELD_WRONG, detail, id_)
    if wire.start is not None and wire.end is not None and wire.start > wire.end:
        return Malformed(INTERVAL_BACKWARDS, "start is after end", id_)
    if key is not None and key != wire.id.encode():
        detail = "the record's key is not the result's id, so a compacted topic would lose it"
        return Malformed(KEY_NOT_ID, detail, id_)
    record = _LINE_ENDS.sub(b" ", value) if b"\n" in value or b"\r" in value else value
    return Result(*(*_head(wire), record))


def select_newest(results: Iterable[Result]) -> list[Result]:
    """Return the highest revision of each id, sorted by id; of duplicates, return the first."""
    found: dict[str, Result] = {}
    for result in results:
        known = found.get(result.id)
        if known is None or result.revision > known.revision:
            found[result.id] = result
    return [found[id_] for id_ in sorted(found)]


def split_results(
    results: Iterable[Result], most_results: int, most_bytes: int
) -> Iterator[Sequence[Result]]:
    """Yield results in pieces within the limits of one call; a larger result is its own piece."""
    piece: list[Result] = []
    size = 0
    for result in results:
        more = len(result.record)
        if piece and (len(piece) >= most_results or size + more > most_bytes):
            yield piece
            piece, size = [], 0
        piece.append(result)
        size += more
    if piece:
        yield piece
