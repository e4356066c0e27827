"""Lists the reasons for which a record is a dead letter, with a text and a remedy for each.

The readers of headers, lines and mapped records, the codec and Spark all use these texts. The
reason of a field is `<field>_<fault>`. If several apply, it is the first in the order of `FIELDS`;
the detail describes all of them.

| fault         | fields                         | meaning                                         |
|---------------|--------------------------------|-------------------------------------------------|
| `repeated`    | all                            | the header occurs more than once                |
| `missing`     | source, seq, mapped ts         | no such field, null, or a path ends before it   |
| `empty`       | all but type, kind and id      | the field has no value                          |
| `undecodable` | source, stream, type, id       | bytes that are not UTF-8                        |
| `not_text`    | source, stream, type, id       | neither text nor, in a mapped record, a number  |
| `not_integer` | seq, epoch, arrival            | anything but an integer                         |
| `negative`    | seq, epoch, arrival            | an integer below 0                              |
| `huge`        | all but type, kind and id      | too long, or outside the range of 64 bits       |
| `unreadable`  | ts                             | not a time                                      |
| `not_a_time`  | ts, arrival                    | a local time that clocks skip                   |
| `ambiguous`   | ts                             | a local time that occurs twice                  |
| `unknown`     | kind                           | not a kind that a producer may send             |
"""

from __future__ import annotations

from typing import Final, NamedTuple

from inorder.contract import MAX_SOURCE_BYTES, MAX_STREAM_BYTES, UNIT_NS

FIELDS: Final = ("source", "seq", "stream", "epoch", "ts", "arrival", "type", "kind", "id")


class WireFault(NamedTuple):
    """A fault of a record: a fixed word for metrics, and a text for people."""

    reason: str
    detail: str


class Words(NamedTuple):
    """The text of a fault, which follows the name of the field, and of its remedy."""

    what: str
    remedy: str


TAKES: Final = "{takes}"
"""A placeholder in a remedy for the description of the values that the reader accepts."""

HUGE: Final = "huge"
UNREADABLE: Final = "unreadable"
SKIPPED: Final = "not_a_time"
AMBIGUOUS: Final = "ambiguous"
ZONELESS: Final = "zoneless"
"""The fault of a time without a zone. It has its own text, but is reported as `unreadable`."""
YEARLESS: Final = "yearless"
"""The fault of a time without a year in a row without arrival, reported as `unreadable` too."""

WITHOUT_SEQ: Final = ", or write reorder: {without_seq: by_time}, if some sources have no numbers"
_DIGITS: Final = f"write {TAKES}, in plain digits"
_ELSEWHERE: Final = "write it in every record, or name the field that has it:"

_SIGN: Final = (
    "sign records of this source with its own key, which `inorder keys` makes from a master key of"
    " this worker"
)

REASONS: Final[dict[str, Words]] = {
    "repeated": Words("occurs more than once", "write it once"),
    "source_missing": Words(
        "is missing",
        f"{_ELSEWHERE} fields: {{source: payload.NAME, seq: payload.NAME, ts: payload.NAME}} in the"
        " stream (or header.NAME, key), or --source NAME for a file",
    ),
    "seq_missing": Words(
        "is missing",
        f"{_ELSEWHERE} fields: {{seq: payload.NAME}} in the stream, or --seq NAME for a file"
        f"{WITHOUT_SEQ}, or reorder: {{rule: time}}, if none of them has; if a source sends both"
        " kinds of records, map `source` to a field that tells them apart",
    ),
    "ts_missing": Words("is missing", "name a time field that every record has"),
    "clock_missing": Words("is missing", "write t1, t2, t3 and t4, or at, offset and error"),
    "partition_unreadable": Words(
        "is not the number of a partition", "write the record's partition in every line, or in none"
    ),
    "source_empty": Words("is empty", "write a name"),
    "seq_empty": Words("is empty", f"write {TAKES}{WITHOUT_SEQ}"),
    "ts_empty": Words("is empty", f"write {TAKES}"),
    "empty": Words("is empty", "write a value, or leave it out"),
    "undecodable": Words("is not UTF-8", "write UTF-8"),
    "not_text": Words("is not text", "write text, or map a field that is a text or an integer"),
    "not_integer": Words("is not an integer", f"{_DIGITS} (in a table: cast it to an integer)"),
    "epoch_not_integer": Words("is not an integer", f"{_DIGITS}, or leave it out"),
    "negative": Words("is negative", _DIGITS),
    HUGE: Words("is out of range", _DIGITS),
    "source_huge": Words("is too long", f"write at most {MAX_SOURCE_BYTES} bytes"),
    "stream_huge": Words("is too long", f"write at most {MAX_STREAM_BYTES} bytes"),
    "ts_huge": Words("is out of range", "write a time between 1678 and 2261, in its `ts_unit`"),
    UNREADABLE: Words("is not a time", f"write {TAKES}"),
    SKIPPED: Words(
        "does not exist in its `ts_zone`, where clocks were set forward past it",
        "write the time with its offset from UTC, or name the zone of the source's clock",
    ),
    AMBIGUOUS: Words(
        "occurs twice in its `ts_zone`, and both instants are before an earlier time of its source",
        "write the time with its offset from UTC, or name the arrival time of each row",
    ),
    ZONELESS: Words("has no time zone", "write `ts_zone: Europe/Berlin`"),
    YEARLESS: Words(
        "has no year, and its row has no arrival to take one from",
        "name the arrival time of each row, or write the year",
    ),
    "kind_unknown": Words("is not a kind", "write heartbeat, bye, or leave it out"),
    "stamp_missing": Words("is missing", "only stages may write to this topic"),
    "stamp_unreadable": Words("is not a valid number", "only stages may write to this topic"),
    "record_unreadable": Words("cannot be read", "send it with a conforming Kafka client"),
    "record_huge": Words("is too large", "send fewer headers, or a reference to the payload"),
    "unsigned": Words("is missing", _SIGN),
    "forged": Words("does not match the record", _SIGN),
    "line_not_json": Words("is not JSON", "write one object per line"),
    "line_not_object": Words("is JSON, but not an object", 'write {"source": …, "seq": …}'),
    "line_huge": Words("is too long", "split it"),
    "row_not_csv": Words("is not CSV", "double each quote within a quoted cell, and close it"),
    "row_ragged": Words("has too many or too few cells", "write an empty cell for a missing value"),
    "row_undecodable": Words("is not UTF-8", "save the file as UTF-8"),
    "payload_not_json": Words("is not JSON", "quote text as JSON does, or use a struct"),
}
"""The texts by reason, or by fault if all fields share the text."""


def describe_times(unit: str, *, also_text: bool = True) -> str:
    """Return a description of the times that a reader accepts."""
    return f"an integer in {unit}" + (", or RFC 3339 without leap seconds" if also_text else "")


def describe_mapped_times(unit_ns: int, form: str) -> str:
    """Return a description of the times that a mapping accepts."""
    unit = next(unit for unit, each_ns in UNIT_NS.items() if each_ns == unit_ns)
    others = "or write their form as `ts_format`"
    return f"`{form}`, {others}" if form else f"a number in {unit} or ISO 8601, {others}"


def describe_integers(low: int, high: int) -> str:
    """Return a description of the integers that a reader accepts."""
    # The `:d` is needed: without it, code compiled by mypyc leaks the text of a large number.
    return f"an integer from {low:d} to {high:d}"


def words_of(field: str, fault: str, takes: str = "") -> Words:
    """Return the texts for a field's fault; `takes` describes the values that are accepted."""
    words = REASONS.get(f"{field}_{fault}") or REASONS[fault]
    return Words(words.what, words.remedy.replace(TAKES, takes))


def fault_of(field: str, fault: str, place: str, takes: str = "", shown: str = "") -> WireFault:
    """Return a field's fault. `place` names the field, and `shown` describes its value."""
    words = words_of(field, fault, takes)
    fault = UNREADABLE if fault in {ZONELESS, YEARLESS} else fault
    return WireFault(
        f"{field}_{fault}", f"{place} {words.what}{': ' if shown else ''}{shown}; {words.remedy}"
    )


def rank_of(fault: WireFault) -> int:
    """Return the sort key that puts a record's faults in order; faults of fields come last."""
    field = fault.reason.partition("_")[0]
    return FIELDS.index(field) if field in FIELDS else -1
