"""Replay input: example tables of good lines, bad lines and unreadable files, and laws."""

from __future__ import annotations

import gzip
import io
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from recordings import rows
from recordings.file import InputError
from recordings.lines import read_lines
from tests.kit.events import fields, place, place_of
from topology.base.event import BYE, HEARTBEAT, NO_EPOCH, Event
from topology.base.outcome import Malformed
from topology.base.sample import Declared, Sample
from topology.records.checker import Reading
from topology.records.line_reader import BEFORE_EVERYTHING_NS, MAX_ARRIVAL_NS, LineReader, Row

LAST_NS = 2**63 - 1
NUMBERED = Reading()

S1 = '{"source": "s1", "seq": 1}'


def from_text(text: str | bytes, reading: Reading = NUMBERED) -> list[Any]:
    """Return the items that are read from standard input with the given content."""
    content = text.encode() if isinstance(text, str) else text
    return list(read_lines("-", io.BytesIO(content), reading=reading))


def from_file(path: Path) -> list[Any]:
    return list(read_lines(str(path)))


def one(line: str | bytes) -> Any:
    (content,) = from_text(line)
    return content


def shape(event: Any) -> dict[str, Any]:
    return fields(event, "offset", "record", "is_stamped")


TS_NS, ARRIVAL_NS = 1_700_000_000_123_456_789, 1_700_000_000_130_000_000
NAMES = {"source": "s1", "type": "A", "stream": "pitch", "payload": {"x": 1}}
FULL = {**NAMES, "seq": 17, "ts": TS_NS, "arrival": ARRIVAL_NS, "epoch": 3}


def test_line_with_all_fields_is_read() -> None:
    event = one(json.dumps(FULL))
    expected = Event("pitch", "s1", 3, 17, TS_NS, ARRIVAL_NS, value={"x": 1}, type="A")
    assert shape(event) == shape(expected)
    assert (event.offset, event.record) == (1, FULL)


@pytest.mark.parametrize(
    "line",
    [S1, ('{"source": "s1", "seq": 1, "ts": null, "arrival": null, "type": null, "stream": null,'
     ' "epoch": null, "payload": null, "kind": null, "clock": null, "colour": "red"}')],
)  # fmt: skip
def test_missing_fields_have_defaults(line: str) -> None:
    assert shape(one(line)) == shape(Event("default", "s1", NO_EPOCH, 1, 0, 0))


Time = tuple[int | str, int]
"""Timestamp and arrival of an event, or reason and instant of a dead line."""

TIMES: dict[str, tuple[list[dict[str, int] | str], list[Time]]] = {
    "given": ([{"ts": 5, "arrival": 9}, {"ts": 6, "arrival": 9}], [(5, 9), (6, 9)]),
    "never goes back": ([{"ts": 5, "arrival": 9}, {"ts": 6, "arrival": 7}], [(5, 9), (6, 9)]),
    "arrival is the largest ts": ([{"ts": 5}, {"ts": 3}, {"ts": 8}], [(5, 5), (3, 5), (8, 8)]),
    "ts is the arrival": ([{"arrival": 9}, {"arrival": 7}], [(9, 9), (9, 9)]),
    "neither": ([{"ts": 5}, {}, {"ts": 4}], [(5, 5), (5, 5), (4, 5)]),
    "neither, at the start": ([{}, {"ts": 4}], [(0, 0), (4, 4)]),
    "mixed": (
        [{"ts": 9, "arrival": 5}, {"ts": 3}, {"ts": 2, "arrival": 6}],
        [(9, 5), (3, 9), (2, 9)],
    ),
    "before 1970": ([{"ts": -5}, {"ts": -7}, {}], [(-5, -5), (-7, -5), (-5, -5)]),
    "edges": ([{"ts": -LAST_NS, "arrival": MAX_ARRIVAL_NS}], [(-LAST_NS, MAX_ARRIVAL_NS)]),
    "operators begin at 0": ([{"arrival": -1}, {"ts": -7}], [("arrival_negative", 0), (-7, 0)]),
    "a bad line before everything": (["nonsense", {"ts": -7}], [("line_not_json", 0), (-7, 0)]),
    "bad lines move the arrival by what can be read of it": (
        [{"seq": -1, "arrival": 5, "ts": 99}, "nonsense", {"ts": 3}],
        [("seq_negative", 5), ("line_not_json", 5), (3, 5)],
    ),
}


@pytest.mark.parametrize(("lines", "times"), TIMES.values(), ids=TIMES)
def test_missing_times_are_filled_in(lines: list[dict[str, int] | str], times: list[Time]) -> None:
    text = "\n".join(
        json.dumps({"source": "s", "seq": n} | line) if isinstance(line, dict) else line
        for n, line in enumerate(lines)
    )
    found = [
        (item.ts_ns, item.arrival_ns) if isinstance(item, Event) else (item.reason, item.at_ns)
        for item in from_text(text)
    ]
    assert found == times


def test_control_lines_are_read() -> None:
    beat, bye = from_text(
        '{"kind": "heartbeat", "source": "s", "seq": 4, "ts": 7}\n'
        '{"kind": "bye", "source": "s", "seq": 5}\n'
    )
    assert shape(beat) == shape(Event("default", "s", NO_EPOCH, 4, 7, 7, kind=HEARTBEAT))
    assert shape(bye) == shape(Event("default", "s", NO_EPOCH, 5, 7, 7, kind=BYE))


def test_clock_line_has_last_arrival() -> None:
    sample = '{"clock": "s", "t1": 1, "t2": 2, "t3": 3, "t4": 4}'
    offset = '{"clock": "s", "at": 5, "offset": -6, "error": 0}'
    first, _, second, third = from_text(f'{sample}\n{{"source": "s", "seq": 1, "ts": 9}}\n'
                                        f"{offset}\n{sample}\n")  # fmt: skip
    assert first == Sample("s", 1, 2, 3, 4, BEFORE_EVERYTHING_NS, offset=1)
    assert second == Declared("s", 5, -6, 0, 9, offset=3)
    assert third == Sample("s", 1, 2, 3, 4, 9, offset=4)


def line(**changes: Any) -> str:
    return json.dumps({"source": "s", "seq": 1} | changes)


def offset(by: float, error: int) -> str:
    return json.dumps({"clock": "s", "at": 1, "offset": by, "error": error})


NOWHERE = "stream source seq"
CLOCK = "stream epoch seq"

BAD: list[tuple[str | bytes, str, str, str]] = [
    ("nonsense", "line_not_json", "write one object per line", NOWHERE),
    (b'{"source": "\xff", "seq": 1}', "line_not_json", "UTF-8", NOWHERE),
    ('{"source": "\\ud800", "seq": 1}', "line_not_json", "surrogate", NOWHERE),
    ('{"source": "NaN", "seq": NaN}', "line_not_json", "number NaN: write null; write", NOWHERE),
    ('{"source": "\\"Infinity", "seq": -Infinity}', "line_not_json", "number -Infinity", NOWHERE),
    ('{"source": "NaN', "line_not_json", "is not JSON: unexpected control character", NOWHERE),
    ("[" * 5_000, "line_not_json", "not JSON", NOWHERE),
    ("[1]", "line_not_object", "but not an object", NOWHERE),
    ("{}", "source_missing", "`seq` is missing", "source seq"),
    ('{"source": "s"}', "seq_missing", "write it", "seq"),
    (line(source=7), "source_not_text", "is not text: 7; write", "source"),
    (line(source=""), "source_empty", "write a name", "source"),
    (line(source="é" * 129), "source_huge", "256 bytes", "source"),
    (line(seq=1.0), "seq_not_integer", "`seq` is not an integer: 1.0; write an integer", "seq"),
    (line(seq="17"), "seq_not_integer", '`seq` is not an integer: "17"; write', "seq"),
    (line(seq=True), "seq_not_integer", "`seq` is not an integer: true", "seq"),
    (line(seq=[1]), "seq_not_integer", "`seq` is not an integer: a list", "seq"),
    (line(seq={}), "seq_not_integer", "`seq` is not an integer: an object", "seq"),
    (line(seq=-1), "seq_negative", "`seq` is negative: -1", "seq"),
    (line(seq=2**63), "seq_huge", "0 to 9223372036854775807", "seq"),
    (line(seq=1e300), "seq_huge", "`seq` is out of range: 1e+300", "seq"),
    (line(ts=1.5), "ts_unreadable", "`ts` is not a time: 1.5", ""),
    (line(ts="2024-01-01T00:00:00Z"), "ts_unreadable", "write an integer in ns", ""),
    (line(ts=2**63), "ts_huge", "write a time between", ""),
    (line(arrival=False), "arrival_not_integer", "`arrival` is not an integer: false", ""),
    (line(arrival=2**63), "arrival_huge", "write an integer", ""),
    (line(epoch=-1), "epoch_negative", "from 0 to 9223372036854775807", "epoch"),
    (line(epoch=2**63, ts=[]), "epoch_huge", "`ts` is not a time: a list", "epoch"),
    (line(stream=1), "stream_not_text", "is not text: 1", "stream"),
    (line(stream=""), "stream_empty", "write a value", "stream"),
    (line(stream="x" * 250), "stream_huge", "249 bytes", "stream"),
    (line(type=3), "type_not_text", "`type` is not text: 3", ""),
    (line(kind="watermark"), "kind_unknown", "write heartbeat, bye, or leave it out", ""),
    (line(kind=1), "kind_unknown", "`kind` is not a kind: 1", ""),
    ('{"clock": 1}', "clock_not_text", "`clock` is not text: 1", f"source {CLOCK}"),
    ('{"clock": ""}', "clock_empty", "write a value", f"source {CLOCK}"),
    ('{"clock": "s"}', "clock_missing", "write t1, t2, t3 and t4, or", CLOCK),
    ('{"clock": "s", "t1": 1}', "clock_missing", "`t4` is missing", CLOCK),
    (offset(2.5, 0), "offset_not_integer", "`offset` is not an integer: 2.5", CLOCK),
    (offset(2, -1), "error_negative", "`error` is negative: -1", CLOCK),
]


@pytest.mark.parametrize(("text", "reason", "hint", "lost"), BAD, ids=range(len(BAD)))
def test_bad_line_is_dead_and_run_continues(
    text: str | bytes, reason: str, hint: str, lost: str
) -> None:
    content = text.encode() if isinstance(text, str) else text
    good, dead, after = from_text(
        b'{"source": "a", "seq": 0, "ts": 4}\n' + content + b"\n" + S1.encode()
    )
    assert isinstance(good, Event)
    assert isinstance(after, Event)
    assert (dead.reason, dead.offset, dead.at_ns) == (reason, 2, 4)
    assert hint in dead.detail
    assert place_of(dead) == place("s", 1, lost)


def test_line_numbers_count_blank_lines() -> None:
    """Blank lines themselves are skipped."""
    text = f"\ufeff{S1}\r\n\n   \n{S1}\nnonsense"
    assert [line.offset for line in from_text(text)] == [1, 4, 5]


def test_endless_line_is_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MAX_LINE_BYTES", 100)
    fits = S1 + " " * (99 - len(S1))
    before, dead, after = from_text(f"{fits}\n{'x' * 350}\n{S1}\n")
    assert (before.seq, dead.reason, after.offset) == (1, "line_huge", 3)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=3,
)
KEYS = ["source", "seq", "ts", "arrival", "stream", "epoch", "type", "kind", "clock", "t1", "error"]
ROWS = st.dictionaries(st.sampled_from(KEYS), JSON_VALUES).map(
    lambda some: {"source": "s", "seq": 1} | some
)


@pytest.mark.slow
@given(st.lists(ROWS, min_size=1, max_size=8))
def test_law_arrival_never_goes_back(some: list[dict[str, Any]]) -> None:
    """No line raises an error."""
    reader = LineReader()
    arrivals = []
    for number, values in enumerate(some, start=1):
        content = reader.read(Row(number, values))
        if isinstance(content, Event):
            arrivals.append(content.arrival_ns)
            assert content.offset == number
        elif isinstance(content, Malformed):
            arrivals.append(content.at_ns)
            assert content.detail
    assert arrivals == sorted(arrivals)


@pytest.mark.slow
@given(ROWS)
def test_law_plain_path_matches_slow_path(values: dict[str, Any]) -> None:
    quick = LineReader().read(Row(1, values))
    if values.get("clock") is not None:
        return
    close = LineReader()._examine(Row(1, values))
    if isinstance(quick, Event):
        assert shape(quick) == shape(close)
    else:
        assert quick == close


@given(st.binary(max_size=60))
def test_law_only_input_errors_are_raised(content: bytes) -> None:
    with suppress(InputError):
        from_text(content)


CSV = """source,seq,ts,arrival,type,stream,epoch,payload.x,payload.a.b,payload.id,colour
s1,17,5,6,A,pitch,3,1.5,true,007,red
s1,18,,,,,,,,,
"""


def test_csv_rows_are_read() -> None:
    full, bare = from_text(CSV)
    value = {"x": 1.5, "a": {"b": True}, "id": "007"}
    assert shape(full) == shape(Event("pitch", "s1", 3, 17, 5, 6, value=value, type="A"))
    assert shape(bare) == shape(Event("default", "s1", NO_EPOCH, 18, 6, 6))
    assert (full.offset, bare.offset) == (2, 3)


def test_csv_can_have_json_and_control_rows() -> None:
    text = (
        '\ufeffsource,seq,payload,kind,clock,t1,t2,t3,t4\n'
        's,1,"{""x"": [1,\n""zwei""]}",,,,,,\n'
        "s,2,,heartbeat,,,,,\n"
        ",,,,s,1,2,3,4\n"
    )  # fmt: skip
    event, beat, sample = from_text(text)
    assert event.value == {"x": [1, "zwei"]}
    assert beat.kind == HEARTBEAT
    assert sample == Sample("s", 1, 2, 3, 4, 0, offset=5)
    assert [event.offset, beat.offset, sample.offset] == [2, 4, 5]


BAD_CSV: list[tuple[bytes, str, str]] = [
    (b"s,1.0,,", "seq_not_integer", "seq"),
    (b"s,-1,,", "seq_negative", "seq"),
    (b"s,9223372036854775808,,", "seq_huge", "seq"),
    ("s,١,,".encode(), "seq_not_integer", "seq"),
    (b"s,,,", "seq_missing", "seq"),
    (b",1,,", "source_missing", "source"),
    (b"s,1,x,", "ts_unreadable", ""),
    (b"s,1,,x", "payload_not_json", ""),
    (b"\xff,1,,", "row_undecodable", "source"),
    (b"s,1,,\xff", "row_undecodable", ""),
    (b"s,1", "row_ragged", NOWHERE),
    (b"s,1,,,,", "row_ragged", NOWHERE),
    (b's,1,,"x"y', "row_not_csv", NOWHERE),
]


@pytest.mark.parametrize(("row", "reason", "lost"), BAD_CSV, ids=range(len(BAD_CSV)))
def test_bad_csv_row_is_dead(row: bytes, reason: str, lost: str) -> None:
    dead, after = from_text(b"source,seq,ts,payload\n" + row + b"\ns,2,,\n")
    assert (dead.reason, dead.offset) == (reason, 2)
    assert place_of(dead) == place("s", 1, lost)
    assert (after.seq, after.offset) == (2, 3)


def test_parquet_rows_are_read(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    table = pa.table(
        {
            "source": ["s1", "s1", None],
            "seq": [17, 18, 19],
            "ts": pa.array([5, None, None], pa.timestamp("us")),
            "arrival": [6, None, None],
            "payload": pa.array([{"x": 1}, None, None], pa.struct([("x", pa.int64())])),
            "price": pa.array([None, None, None], pa.decimal128(5, 2)),
        }
    )
    parquet.write_table(table, path)
    full, bare, dead = from_file(path)
    assert shape(full) == shape(Event("default", "s1", NO_EPOCH, 17, 5_000, 6, value={"x": 1}))
    assert shape(bare) == shape(Event("default", "s1", NO_EPOCH, 18, 5_000, 5_000))
    assert (dead.reason, dead.offset, dead.seq) == ("source_missing", 3, 19)


def test_bad_parquet_value_is_dead(tmp_path: Path) -> None:
    path = tmp_path / "events"
    table = pa.table({"source": [1, 1], "seq": [1.0, 2.0], "payload": ["{", '{"x": 1}']})
    parquet.write_table(table, path)
    first, second = from_file(path)
    assert (first.reason, first.source) == ("payload_not_json", "1")
    assert second.reason == "seq_not_integer"


def test_every_form_is_recognised(tmp_path: Path) -> None:
    """A form is recognised by its name or its content, whether compressed or not."""
    expected = shape(Event("default", "s1", NO_EPOCH, 1, 0, 0))
    sink = io.BytesIO()
    parquet.write_table(pa.table({"source": ["s1"], "seq": [1]}), sink)
    contents = {"jsonl": S1.encode(), "csv": b"source,seq\ns1,1\n", "parquet": sink.getvalue()}
    for form, content in contents.items():
        for end, data in (("", content), (".gz", gzip.compress(content))):
            for name in (f"events.{form}{end}", f"unnamed_{form}{end}"):
                (tmp_path / name).write_bytes(data)
                assert [shape(event) for event in from_file(tmp_path / name)] == [expected]
            assert [shape(event) for event in from_text(data)] == [expected]


def test_standard_input_is_left_open() -> None:
    stdin = io.BytesIO(S1.encode())
    assert len(list(read_lines("-", stdin))) == 1
    assert not stdin.closed


UNREADABLE: list[tuple[str, bytes | None, str]] = [
    ("absent.jsonl", None, "there is no such file; check the path"),
    ("x.jsonl.gz", b"plain", "ends in .gz but is not gzip"),
    ("x.jsonl.gz", gzip.compress(S1.encode() * 9_999, mtime=0)[:-20], "damaged gzip"),
    ("x.jsonl", b"\x1f\x8b\x08\x00 not gzip at all", "gzip"),
    ("x.parquet", b"not Parquet", "cannot be read as Parquet"),
    ("x", b"PAR1 but no more", "cannot be read as Parquet"),
    ("x.csv", b"a,b\n", "there is no column `source` and `seq` among a, b; name the columns like"),
    ("x.csv", b",".join(b"c%d" % n for n in range(99)) + b"\n", "c10, c11, …; name the columns"),
    ("x.csv", b"Source,Seq No,x\n", "the columns to use: --source Source --seq 'Seq No' --ts NAME"),
    ("x.csv", b"source,seq,source\n", "two columns are called `source`; rename one"),
    ("x.csv", b"source,seq,payload,payload.x\n", "`payload.x` is a part of `payload`"),
    ("x.csv", b"source,seq,payload.x.y,payload.x\n", "`payload.x.y` is a part of `payload.x`"),
]


@pytest.mark.parametrize(("name", "content", "words"), UNREADABLE, ids=range(len(UNREADABLE)))
def test_unreadable_input_error_names_path(
    tmp_path: Path, name: str, content: bytes | None, words: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError) as refused:
        from_file(path)
    assert words in str(refused.value)
    assert str(path) in str(refused.value)


def test_directory_or_bad_column_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a directory; name one file"):
        from_file(tmp_path)
    path = tmp_path / "x.parquet"
    for column, words in (
        ({"payload": [b"x"]}, "column `payload` has type binary, not JSON"),
        ({"ts": [[1]]}, "column `ts` is of type list"),
    ):
        parquet.write_table(pa.table({"source": ["s"], "seq": [1], **column}), path)
        with pytest.raises(InputError, match=words):
            from_file(path)


# -- streams by time -------------------------------------------------------------------------------


BY_TIME = [
    ('{"source": "a", "ts": 5}', 1),
    ('{"source": "a", "ts": 6, "seq": 700}', 2),
    ('{"source": "a", "ts": 7, "seq": "none at all", "kind": "heartbeat"}', 3),
    ('{"source": "a", "ts": 8, "stream": "p", "epoch": 4}', 4),
    ('{"source": "a", "ts": 9, "seq": 3, "offset": 88}', 88),
    ('{"source": "a", "ts": 9, "offset": 0}', 0),
    ('{"source": "a", "ts": 9, "offset": -1}', 7),
    ('{"source": "a", "ts": 9, "offset": "4"}', 8),
]


def assert_numbered(rows: list[tuple[str, int]], reading: Reading) -> None:
    lines = from_text("".join(f"{line}\n" for line, _ in rows), reading)
    assert [line.offset for line in lines] == list(range(1, len(rows) + 1))
    for line, (_, number) in zip(lines, rows, strict=True):
        assert isinstance(line, Event), line
        assert line.seq == number


def test_stream_by_time_counts_offsets() -> None:
    """Without the offset of a dump, the line number counts."""
    assert_numbered(BY_TIME, Reading(frozenset({"default", "p"})))


def test_other_streams_still_need_numbers() -> None:
    text = """\
{"source": "a", "stream": "q"}
{"source": "a", "stream": ["p"]}
{"clock": "a", "t1": 1, "t2": 2, "t3": 3, "t4": 4}
nonsense
{"source": "a", "stream": "p", "ts": 1.5}
"""
    lines = from_text(text, Reading(frozenset({"default"})))
    reasons = [line.reason for line in lines if isinstance(line, Malformed)]
    assert reasons == ["seq_missing", "seq_missing", "line_not_json", "seq_missing"]
    assert isinstance(lines[2], Sample)


MIXED = [
    ('{"source": "a", "ts": 5}', ~1),
    ('{"source": "a", "ts": 6, "seq": 700}', 700),
    ('{"source": "a", "ts": 7, "seq": null, "kind": "heartbeat", "stream": "p"}', ~3),
    ('{"source": "a", "ts": 9, "offset": 0}', ~0),
    ('{"source": "a", "ts": 9, "seq": 4, "offset": 88}', 4),
]


def test_mixed_line_shows_missing_number() -> None:
    reading = Reading(mixed=frozenset({"default", "p"}))
    assert_numbered(MIXED, reading)
    text = '{"source": "a", "ts": "x"}\n{"source": "a", "seq": "x"}\n{"source": "a", "stream": "q"}'
    dead = from_text(text, reading)
    assert [(each.reason, each.seq) for each in dead] == [
        ("ts_unreadable", None),
        ("seq_not_integer", None),
        ("seq_missing", None),
    ]
    assert "without_seq: by_time" in str(dead[2])
