"""Examples: rows of any file are read as values.

The conformance table is read as JSON lines and as CSV; Parquet files are read too. Law: rows read
with a mapping give the contents of a recording in our own format.
"""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from recordings import parquet_rows
from recordings.audit.from_values import reading_by
from recordings.file import InputError
from recordings.lines import lines_of, read_lines
from recordings.parquet_rows import parquet_rows as rows_of
from recordings.values import FileMapping, mapped_rows
from tests.cli.invoking import TOPOLOGY, inorder, text_file
from tests.kit.conformance import COLUMNS, MAPPING, cases_of, fields_of
from tests.kit.programs import printed
from tests.topology.records.test_field_reader import said
from topology.base.event import Event
from topology.base.outcome import Malformed
from topology.records.checker import AS_WRITTEN
from topology.records.where import parse_where


def contents_of(mapping: dict[str, str], content: str | bytes, path: str = "-") -> list[Any]:
    raw = content.encode() if isinstance(content, str) else content
    rows = mapped_rows(path, FileMapping(fields_of(mapping)), AS_WRITTEN, io.BytesIO(raw))
    return list(lines_of(rows, AS_WRITTEN))


LINES = [
    case
    for case in cases_of("json")
    # Two are left out: a line cannot be null or cut, and a file can start with a byte order mark.
    if case[2] is not None and case[0] != "a mark of byte order"
]


@pytest.mark.parametrize(("case", "mapping", "value", "expected"), LINES)
def test_json_lines_match_the_table(
    case: str, mapping: dict[str, str], value: bytes, expected: Any
) -> None:
    assert [said(each) for each in contents_of(mapping, value + b"\n")] == [expected], case


@pytest.mark.parametrize(("case", "mapping", "cells", "expected"), cases_of("csv"))
def test_csv_matches_the_table(
    case: str, mapping: dict[str, str], cells: list[str], expected: Any
) -> None:
    text = ",".join(COLUMNS) + "\n" + ",".join(cells) + "\n"
    assert [said(each) for each in contents_of(mapping, text)] == [expected], case


def test_csv_payload_gets_types() -> None:
    text = "s,n,a,b,c,d,e\npress,0,007,1.50,true,,+3\n"
    mapping = {"source": "payload.s", "seq": "payload.n"}
    (event,) = contents_of(mapping, text)
    assert event.value == {"s": "press", "n": 0, "a": "007", "b": 1.5, "c": True, "e": "+3"}


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_csv_can_have_other_delimiters(mark: str) -> None:
    text = "s;n;x\na;1;12,5\nb;1;\n".replace(";", mark)
    one, other = contents_of({"source": "payload.s", "seq": "payload.n"}, text)
    assert one.value == {"s": "a", "n": 1, "x": "12,5"}
    assert other.source == "b"


def test_missing_column_is_named(tmp_path: Path) -> None:
    path = text_file(tmp_path / "a.csv", "dev,n,time\n")
    mapping = {"source": "payload.device", "seq": "payload.n"}
    with pytest.raises(InputError, match=r"no column `device` among dev, n, time"):
        contents_of(mapping, "", str(path))


def test_bad_csv_rows_are_dead_letters() -> None:
    text = b"s,n\na,1\na\n\xff,2\na,3\n"
    found = contents_of({"source": "payload.s", "seq": "payload.n"}, text)
    seen = [each.reason if isinstance(each, Malformed) else each.seq for each in found]
    assert seen == [1, "row_ragged", "row_undecodable", 3]


def parquet_of(path: Path, columns: dict[str, Any], **options: Any) -> list[Any]:
    parquet.write_table(pa.table(columns), path, **options)
    mapping = {"source": "payload.s", "seq": "payload.n", "ts": "payload.t", "ts_unit": "s"}
    rows = mapped_rows(str(path), FileMapping(fields_of(mapping)), AS_WRITTEN)
    return list(lines_of(rows, AS_WRITTEN))


AT = datetime(1970, 1, 1, 0, 0, 1, 250_000, tzinfo=UTC).replace(tzinfo=None)


@pytest.mark.parametrize(
    ("times", "options", "expected"),
    [
        (pa.array([1.25]), {}, 1_250_000_000),
        (pa.array([Decimal("1.25")]), {}, 1_250_000_000),
        (pa.array([AT.replace(tzinfo=UTC)], pa.timestamp("us", "UTC")), {}, 1_250_000_000),
        (pa.array([AT], pa.timestamp("us")), {}, "ts_unreadable"),
        (pa.array([AT]), {"use_deprecated_int96_timestamps": True}, 1_250_000_000),
        (pa.array([float("nan")]), {}, "ts_unreadable"),
        (pa.array([None], pa.int64()), {}, "ts_missing"),
        (pa.array([b"1.25"]), {}, 1_250_000_000),
    ],
)
def test_parquet_times_are_read(tmp_path: Path, times: Any, options: Any, expected: Any) -> None:
    columns = {"s": ["a"], "n": [7], "t": times}
    (found,) = parquet_of(tmp_path / "a.parquet", columns, **options)
    assert (found.reason if isinstance(found, Malformed) else found.ts_ns) == expected


def local_rows(text: str, arrival: str = "") -> list[int | str]:
    """Return each row's hour in UTC, or the reason why it is a dead letter."""
    mapping = {"source": "payload.s", "ts": "payload.t", "ts_zone": "America/Denver"}
    if "n," in text:
        mapping["seq"] = "payload.n"
    by = FileMapping(fields_of(mapping), parse_where(arrival) if arrival else None)
    reading = AS_WRITTEN if "n," in text else reading_by(by.fields)
    raw = io.BytesIO(text.encode())
    found = lines_of(mapped_rows("-", by, reading, raw), reading)
    return [
        each.ts_ns // 3_600_000_000_000 % 24 if isinstance(each, Event) else each.reason
        for each in found
        if isinstance(each, Event | Malformed)
    ]


HOURS = ("2022-11-06 00:30:00", "2022-11-06 01:30:00", "2022-11-06 01:30:00", "2022-11-06 02:30:00")


def test_repeated_hour_follows_row_order() -> None:
    assert local_rows("s,n,t\n" + "".join(f"a,{n},{at}\n" for n, at in enumerate(HOURS))) == [
        6, 7, 8, 9,
    ]  # fmt: skip
    assert local_rows("s,t\n" + "".join(f"a,{at}\n" for at in HOURS)) == [6, 7, 8, 9]
    late = "s,t\na,2022-11-06 02:30:00\na,2022-11-06 01:30:00\nb,2022-11-06 01:30:00\n"
    assert local_rows(late) == [9, "ts_ambiguous", 7]


def test_arrival_decides_repeated_hour() -> None:
    rows = "".join(
        f"a,{n},{at},2022-11-06T0{7 + n}:00:00Z\n"
        for n, at in enumerate((HOURS[2], HOURS[1], HOURS[1]))
    )
    assert local_rows(f"s,n,t,r\n{rows}", "payload.r") == [7, 7, 8]
    # Arrivals in local time rise from row to row.
    rows = "".join(f"a,{n},{at},{at}\n" for n, at in enumerate(("2022-11-06 01:45:00", *HOURS[2:])))
    assert local_rows(f"s,n,t,r\n{rows}", "payload.r") == [7, 8, 9]


def test_skipped_local_time_is_dead() -> None:
    skipped = "2022-03-13 02:30:00"
    assert local_rows(f"s,n,t\na,0,{skipped}\n") == ["ts_not_a_time"]
    row = f"a,0,2022-03-13 01:30:00,{skipped}\n"
    assert local_rows(f"s,n,t,r\n{row}", "payload.r") == ["arrival_not_a_time"]


@pytest.mark.parametrize("number", [7.0, float("nan")])
def test_double_as_seq_is_refused(tmp_path: Path, number: float) -> None:
    (found,) = parquet_of(tmp_path / "a.parquet", {"s": ["a"], "n": [number], "t": [1]})
    assert isinstance(found, Malformed)
    assert found.reason == "seq_not_integer"
    assert "cast it" in found.detail


def test_parquet_payload_is_json(tmp_path: Path) -> None:
    columns = {
        "s": ["a"], "n": [7], "t": [1], "d": pa.array([Decimal("1.50")]), "b": [b"\xff"],
        "in": [{"at": AT, "x": [1, None]}],
    }  # fmt: skip
    (event,) = parquet_of(tmp_path / "a.parquet", columns)
    assert event.value == {
        "s": "a", "n": 7, "t": 1, "d": "1.50", "b": {"base64": "/w=="},
        "in": {"at": "1970-01-01T00:00:01.250000000", "x": [1, None]},
    }  # fmt: skip


def test_arrival_has_the_unit_of_ts() -> None:
    mapping = FileMapping(fields_of(MAPPING), parse_where("seen", on_file=True))
    text = b'{"device":"a","n":1,"time":1,"seen":2}\n{"device":"a","n":2,"time":1,"seen":true}\n'
    rows = mapped_rows("-", mapping, AS_WRITTEN, io.BytesIO(text))
    contents: list[Any] = list(lines_of(rows, AS_WRITTEN))
    first, second = contents
    assert (first.ts_ns, first.arrival_ns) == (1_000_000, 2_000_000)
    assert second.reason == "arrival_unreadable"


FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "source": st.sampled_from(["a", "b", ""]),
    "seq": st.integers(0, 9) | st.none(),
    "ts": st.integers(0, 10**18),
    "type": st.sampled_from(["", "A"]),
    "epoch": st.none() | st.integers(-1, 2),
}
ROWS = st.lists(st.fixed_dictionaries(FIELDS), max_size=9)


@given(ROWS)
def test_law_mapped_rows_match_own_format(rows: list[dict[str, Any]]) -> None:
    """Each event and each dead letter is the same."""
    own = "".join(json.dumps({**row, "payload": row}) + "\n" for row in rows)
    places = {name: f"payload.{name}" for name in ("source", "seq", "ts", "type", "epoch")}
    text = "".join(json.dumps(row) + "\n" for row in rows)
    expected = list(read_lines("-", io.BytesIO(own.encode())))
    assert [law(each) for each in contents_of(places, text)] == [law(each) for each in expected]


def law(content: Any) -> Any:
    if isinstance(content, Event):
        return said(content), content.arrival_ns, content.value, content.offset
    return content.reason.partition("_")[0], content.source or None, content.offset, content.at_ns


# -- Parquet files that unpack to much more than their size -------------------------------------


NEEDED = ("source", "seq")
READ = """
import sys
import pyarrow as pa
from recordings.parquet_rows import parquet_rows
with open(sys.argv[1], "rb") as file:
    rows = parquet_rows(file, "f", ("source", "seq"))
    count = sum(len(row.values["payload"]["a"]) for row in rows)
print(count, pa.default_memory_pool().max_memory() >> 20)
"""


def written(path: Path, payloads: list[str]) -> Path:
    count = len(payloads)
    columns = {"source": ["a"] * count, "seq": list(range(count)), "ts": [5] * count}
    parquet.write_table(pa.table({**columns, "payload": payloads}), path)
    return path


def test_shared_text_needs_little_memory(tmp_path: Path) -> None:
    each = 200_000
    bomb = written(tmp_path / "in.parquet", [f'{{"a":"{"0" * each}"}}'] * 4_000)
    assert bomb.stat().st_size < 100_000
    count, most_mib = map(int, printed("-c", READ, bomb).split())
    assert count == 4_000 * each
    assert most_mib < 64


def test_huge_row_is_refused(tmp_path: Path) -> None:
    bomb = written(tmp_path / "in.parquet", ['"' + "0" * 70_000_000 + '"'])
    (tmp_path / "t.yaml").write_text(TOPOLOGY)
    inorder("replay", "--topology", str(tmp_path / "t.yaml"), str(bomb)).refused(
        "`payload`", code=3
    )


def test_huge_text_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_rows, "MAX_VALUE_BYTES", 10_000)
    small = written(tmp_path / "in.parquet", ["1"] * 500 + ['"' + "0" * 20_000 + '"'])
    with small.open("rb") as file, pytest.raises(InputError, match="row 501: `payload`"):
        list(rows_of(file, "in.parquet", NEEDED))
