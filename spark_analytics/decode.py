"""Decode Kafka records to typed rows, by the header contract of the topology file.

The input has the columns of Spark's Kafka source with `includeHeaders` (`key`, `value`, `topic`,
`partition`, `offset`, `timestamp`, `headers`), or the same from an archive.

Every record becomes one row; none is dropped. A row has the coordinates, `key`, `value`, and

| column                | raw              | ordered | meaning                             |
|-----------------------|------------------|---------|-------------------------------------|
| `stream`, `source`    | yes              | yes     | string                              |
| `epoch`               | null: absent     | yes     | long; absent is 0 where stages write|
| `seq`                 | yes              | yes     | long                                |
| `type`, `kind`        | yes              | yes     | string, empty where absent          |
| `ts_ns`               | yes              | if sent | the source's own time               |
| `appended_ns`         | yes              |         | the record's timestamp              |
| `ref_ns`, `ref_time`  | = `ts_ns`        | yes     | header `refTs`; and as a timestamp  |
| `error_ns`, `segment` |                  | yes     | headers `err`, `segment`            |
| `at_ns`, `at_time`    |                  | yes     | arrival clock of the decision       |
| `late`                |                  | yes     | the reason, empty where in order    |
| `complete_ns`         |                  | yes     | a watermark's completeness frontier |
| `fault`, `detail`     | null where sound |         | the unreadable field, and why       |

A fault is `<field>_<word>`, the first that applies, in the words of `topology.records.reasons`.
`mark_unknown_streams` adds `unknown_stream`. `split` separates the rows into events, control
records and bad rows. Bad rows keep the coordinates and the reason, but not the payload, which is
still in the topic.

Readers of topics that stages write set `read_committed` (`jobs`). The cost is two projections
without a shuffle, in code that Spark generates. Functions over arrays (`filter`) are avoided, since
Spark interprets them record by record. Sessions should set `spark.sql.codegen.hugeMethodLimit` to
8000, as `session` does: the generated code is longer than Java compiles in one piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from inorder.contract import MAX_INT64, MAX_SOURCE_BYTES, MAX_STREAM_BYTES, PRODUCER_KINDS
from spark_analytics.instants import (
    digits,
    is_rfc3339,
    parse_header_time_ns,
    parse_integer,
    to_ns,
    to_timestamp,
)
from spark_analytics.once import compute_once
from topology.config import HeaderConfig
from topology.records.reasons import describe_integers, describe_times, words_of

RECORD: Final = ("topic", "partition", "offset", "timestamp", "key", "value")
BAD: Final = (*RECORD[:4], "stream", "source", "epoch", "seq", "reason", "detail")
SHOWN_CHARS: Final = 40
DIGITS: Final = r"\A[0-9]+\z"


class Decoded(NamedTuple):
    """The decoded rows: `events`, `control` records, and `bad` rows with `reason` and `detail`."""

    events: DataFrame
    control: DataFrame
    bad: DataFrame


@dataclass(frozen=True)
class _Fault:
    """A reason why a record cannot be used, which applies where `when` is true."""

    reason: str
    when: Column
    detail: Column


def decode_raw(
    records: DataFrame, headers: HeaderConfig, also: Mapping[str, str] | None = None
) -> DataFrame:
    """Decode records of an input topic, as producers write them.

    `also` has the names of further headers to return as text, by the names of their columns.
    """
    names = headers.names()
    numbers = {"epoch": digits, "seq": digits, "ts": _make_time_parser(headers.ts_unit)}
    rows = _find(records, names._asdict() | dict(also or {}), numbers, counted=True)
    rows = rows.select(
        *RECORD,
        to_ns(F.col("timestamp")).alias("appended_ns"),
        F.coalesce(_text("stream"), F.lit("default")).alias("stream"),
        _text("source").alias("source"),
        _header_number("epoch").alias("epoch"),
        _header_number("seq").alias("seq"),
        F.coalesce(_text("type"), F.lit("")).alias("type"),
        F.coalesce(_text("kind"), F.when(_count("kind") > 0, F.lit("")), F.lit("")).alias("kind"),
        F.when(_count("ts") > 0, _header_number("ts"))
        .otherwise(to_ns(F.col("timestamp")))
        .alias("ts_ns"),
        *(_text(column).alias(column) for column in also or ()),
        *_first_fault(_contract_faults(names._asdict(), headers.ts_unit)),
    )
    return rows.withColumns({"ref_ns": F.col("ts_ns"), "ref_time": to_timestamp(F.col("ts_ns"))})


def decode_ordered(records: DataFrame, headers: HeaderConfig) -> DataFrame:
    """Decode records of `events.ordered`, as the merge writes them."""
    names = headers.names()
    stamps = {"ref": "refTs", **{name: name for name in ("err", "segment", "at", "complete")}}
    wanted = names._asdict() | stamps | {"late": "late"}
    numbers: dict[str, Callable[[Column], Column]] = dict.fromkeys(stamps, parse_integer)
    numbers |= {"epoch": digits, "seq": digits, "ts": _make_time_parser(headers.ts_unit)}
    rows = _find(records, wanted, numbers)
    rows = rows.select(
        *RECORD,
        F.coalesce(_text("stream"), F.lit("default")).alias("stream"),
        _text("source").alias("source"),
        F.coalesce(_header_number("epoch"), F.lit(0).cast("long")).alias("epoch"),
        _header_number("seq").alias("seq"),
        F.coalesce(_text("type"), F.lit("")).alias("type"),
        F.coalesce(_text("kind"), F.lit("")).alias("kind"),
        _header_number("ts").alias("ts_ns"),
        _header_number("ref").alias("ref_ns"),
        _header_number("err").alias("error_ns"),
        _header_number("segment").alias("segment"),
        _header_number("at").alias("at_ns"),
        F.coalesce(_text("late"), F.lit("")).alias("late"),
        _header_number("complete").alias("complete_ns"),
        *_first_fault(_stamp_faults(names._asdict())),
    )
    return rows.withColumns(
        {"ref_time": to_timestamp(F.col("ref_ns")), "at_time": to_timestamp(F.col("at_ns"))}
    )


def select_sound(rows: DataFrame) -> DataFrame:
    """Return the rows that are not bad: events and control records."""
    return rows.where(F.col("fault").isNull()).drop("fault", "detail")


def mark_unknown_streams(rows: DataFrame, streams: Sequence[str]) -> DataFrame:
    """Mark decoded events, raw or ordered, as bad if their stream is not one of `streams`."""
    strange = F.col("fault").isNull() & (F.col("kind") == "") & ~F.col("stream").isin(*streams)
    known = ", ".join(sorted(streams))
    detail = F.concat(
        F.lit("stream `"),
        F.substring("stream", 1, SHOWN_CHARS),
        F.lit(f"` is not in the topology file (it has: {known}); add it under `streams:`"),
    )
    return rows.withColumns(
        {
            "detail": F.when(strange, detail).otherwise(F.col("detail")),
            "fault": F.when(strange, F.lit("unknown_stream")).otherwise(F.col("fault")),
        }
    )


def split(rows: DataFrame) -> Decoded:
    """Split decoded rows, raw or ordered, into events, control records and bad rows."""
    usable = select_sound(rows)
    bad = rows.where(F.col("fault").isNotNull()).withColumnRenamed("fault", "reason")
    return Decoded(
        usable.where(F.col("kind") == "").drop("kind", "complete_ns"),
        usable.where(F.col("kind") != "").drop("key", "value"),
        bad.select(*BAD),
    )


# -- one header ------------------------------------------------------------------------------------


def _find(
    records: DataFrame,
    names: Mapping[str, str],
    numbers: Mapping[str, Callable[[Column], Column]],
    *,
    counted: bool = False,
) -> DataFrame:
    """Return the records with columns for each field, read from its header.

    Each field has three columns: whether its header is present, its bytes, and the bytes as text. A
    field in `numbers` has a fourth with the number. With `counted`, the first column is 2 for a
    repeated header. The value is that of the first header with the name.

    All columns are in one projection, in which Spark computes a common expression once. A separate
    projection would write and read each row once more. The caller adds a second projection. Spark
    does not merge it into this one, since it mentions each column more than once.
    """
    columns: list[Column] = []
    for field, name in names.items():
        place = f"array_position(headers.key, {_literal(name)})"
        there = f"CAST(coalesce({place}, 0L) > 0 AS INT)"
        if counted:
            last = f"size(headers) + 1 - array_position(reverse(headers.key), {_literal(name)})"
            there = f"{there} + CAST(coalesce({place} > 0 AND {place} < {last}, false) AS INT)"
        value = f"get(headers.value, CAST({place} AS INT) - 1)"
        text = F.expr(f"try_validate_utf8(CAST({value} AS STRING))")
        columns += [F.expr(f"{there} AS n_{field}"), F.expr(f"{value} AS b_{field}")]
        columns.append(text.alias(f"t_{field}"))
        if field in numbers:
            columns.append(numbers[field](text).alias(f"i_{field}"))
    return records.select(*RECORD, *columns)


def _make_time_parser(unit: str) -> Callable[[Column], Column]:
    return lambda text: parse_header_time_ns(text, unit)


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _count(field: str) -> Column:
    return F.col(f"n_{field}")


def _header_bytes(field: str) -> Column:
    return F.col(f"b_{field}")


def _text(field: str) -> Column:
    """Return the header as UTF-8 text; null if it is absent or not UTF-8."""
    return F.col(f"t_{field}")


def _header_number(field: str) -> Column:
    """Return the header as a long; null if it is absent or not a long."""
    return F.col(f"i_{field}")


# -- faults ----------------------------------------------------------------------------------------


def _first_fault(faults: Sequence[_Fault]) -> tuple[Column, Column]:
    """Return `fault` and `detail` of the first fault that applies, or nulls.

    Spark computes these columns once (`once`), and does not push filters on them down.
    """
    first = F.coalesce(
        *(
            F.when(fault.when, F.struct(F.lit(fault.reason).alias("r"), fault.detail.alias("d")))
            for fault in faults
        )
    )
    return compute_once(first["r"]).alias("fault"), compute_once(first["d"]).alias("detail")


def _fault(
    field: str, word: str, when: Column, name: str, takes: str = "", shown: str | None = None
) -> _Fault:
    """Return a fault in the wording of all readers; the detail quotes the header `shown`."""
    words = words_of(field, word, takes)
    place = f"header `{name}` {words.what}"
    detail = F.lit(f"{place}; {words.remedy}")
    if shown is not None:
        text = F.coalesce(_text(shown), F.hex(_header_bytes(shown)), F.lit(""))
        excerpt = F.substring(text, 1, SHOWN_CHARS)
        detail = F.concat(F.lit(f"{place}: `"), excerpt, F.lit(f"`; {words.remedy}"))
    return _Fault(f"{field}_{word}", when, detail)


def _contract_faults(names: dict[str, str], unit: str) -> list[_Fault]:
    kind = _count("kind") > 0
    unknown = kind & ~F.coalesce(_text("kind").isin(*sorted(PRODUCER_KINDS)), F.lit(False))
    return [
        *_text_faults("source", names["source"], MAX_SOURCE_BYTES, needed=True),
        *_number_faults("seq", names["seq"], needed=True),
        *_text_faults("stream", names["stream"], MAX_STREAM_BYTES),
        *_number_faults("epoch", names["epoch"]),
        *_time_faults(names["ts"], unit),
        *_text_faults("type", names["type"], None),
        *_header_faults("kind", names["kind"], may_be_empty=True),
        _fault("kind", "unknown", unknown, names["kind"], shown="kind"),
    ]


def _header_faults(
    field: str, name: str, *, needed: bool = False, may_be_empty: bool = False
) -> Iterator[_Fault]:
    """Yield the faults that any header may have."""
    yield _fault(field, "repeated", _count(field) > 1, name)
    if needed:
        yield _fault(field, "missing", _count(field) == 0, name)
    if not may_be_empty:
        void = F.coalesce(F.length(_header_bytes(field)), F.lit(0)) == 0
        yield _fault(field, "empty", (_count(field) > 0) & void, name)


def _text_faults(
    field: str, name: str, max_bytes: int | None, *, needed: bool = False
) -> Iterator[_Fault]:
    """Yield the faults that a text header may have; without `max_bytes` it may also be empty."""
    yield from _header_faults(field, name, needed=needed, may_be_empty=max_bytes is None)
    if max_bytes is not None:
        yield _fault(field, "huge", F.length(_header_bytes(field)) > max_bytes, name, shown=field)
    spoilt = _header_bytes(field).isNotNull() & _text(field).isNull()
    yield _fault(field, "undecodable", spoilt, name, shown=field)


def _number_faults(field: str, name: str, *, needed: bool = False) -> list[_Fault]:
    unread = _header_bytes(field).isNotNull() & _header_number(field).isNull()
    text = F.coalesce(_text(field), F.lit(""))
    plain, takes = text.rlike(DIGITS), describe_integers(0, MAX_INT64)
    below = unread & text.rlike(r"\A-[0-9]+\z")
    return [
        *_header_faults(field, name, needed=needed),
        _fault(field, "negative", below, name, takes, field),
        _fault(field, "not_integer", unread & ~plain, name, takes, field),
        _fault(field, "huge", unread & plain, name, takes, field),
    ]


def _time_faults(name: str, unit: str) -> list[_Fault]:
    unread = _header_bytes("ts").isNotNull() & _header_number("ts").isNull()
    text = _text("ts")
    number = F.coalesce(text.rlike(r"\A-?[0-9]+\z") | is_rfc3339(text), F.lit(False))
    return [
        *_header_faults("ts", name),
        _fault("ts", "huge", unread & number, name, shown="ts"),
        _fault("ts", "unreadable", unread, name, describe_times(unit), "ts"),
    ]


def _stamp_faults(names: dict[str, str]) -> list[_Fault]:
    is_data = _count("kind") == 0
    faults = []
    for field, name in (("ref", "refTs"), ("err", "err"), ("at", "at"), ("segment", "segment")):
        due = is_data if field == "segment" else F.lit(True)
        unread = due & _header_number(field).isNull()
        faults.append(_fault("stamp", "missing", due & (_count(field) == 0), name))
        faults.append(_fault("stamp", "unreadable", unread, name, shown=field))
    takes = describe_integers(0, MAX_INT64)
    return [
        *faults,
        _fault("source", "missing", is_data & (_count("source") == 0), names["source"]),
        _fault(
            "seq",
            "not_integer",
            is_data & _header_number("seq").isNull(),
            names["seq"],
            takes,
            "seq",
        ),
    ]
