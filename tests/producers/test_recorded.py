"""Examples: a row of a recording becomes a record, or a reason why it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from producers.recorded import ClockRow, Malformed, Record, record_of
from topology.base.event import NO_EPOCH, WATERMARK, Event

ROW: dict[str, Any] = {"source": "s1", "seq": 17}
EVERYTHING = {"ts": 5, "arrival": 9, "type": "A", "stream": "p", "epoch": 2, "payload": {"x": 1}}


def plain(**said: Any) -> Record:
    return Record("s1", 17, None, None, None, "default", "", "", b"null")._replace(**said)


@pytest.mark.parametrize(
    ("row", "record"),
    [
        pytest.param(ROW, plain(), id="only what is required"),
        pytest.param(
            ROW | EVERYTHING, Record("s1", 17, 5, 9, 2, "p", "A", "", b'{"x":1}'), id="everything"
        ),
        pytest.param(ROW | {"arrival": 9}, plain(ts_ns=9, arrival_ns=9), id="arrival for ts"),
        pytest.param(ROW | {"ts": 5}, plain(ts_ns=5, arrival_ns=5), id="ts for arrival"),
        pytest.param(
            ROW | {"seq": "17", "ts": "-5", "epoch": ""}, plain(ts_ns=-5, arrival_ns=-5), id="CSV"
        ),
        pytest.param(ROW | {"kind": "bye"}, plain(kind="bye", value=None), id="a control row"),
        pytest.param(ROW | {"colour": "red"}, plain(), id="an unknown column"),
        pytest.param(b'{"source": "s1", "seq": 17}', plain(), id="a line of bytes"),
        pytest.param('{"source": "s1", "seq": 17}\n', plain(), id="a line of text"),
        pytest.param(ROW | {"payload": "text"}, plain(value=b'"text"'), id="text is JSON too"),
    ],
)
def test_row_becomes_record(row: Any, record: Record) -> None:
    assert record_of(row, 1) == record


MALFORMED: dict[str, list[Any]] = {
    "json": [b"{", b"\xff", b"[1]", b""],
    "source": [{"seq": 1}, *(ROW | {"source": wrong} for wrong in ("", 7, "s" * 257))],
    "seq": [
        {"source": "s1"},
        *(ROW | {"seq": wrong} for wrong in (None, -1, 2**63, True, 1.0, "1_0")),
    ],
    "ts": [ROW | {"ts": wrong} for wrong in ("2024-01-01", 2**63)],
    "arrival": [ROW | {"arrival": 1.5}],
    "epoch": [ROW | {"epoch": wrong} for wrong in (-1, 2**63)],
    "type": [ROW | {"type": wrong} for wrong in (3, "\ud800")],
    "stream": [ROW | {"stream": ["p"]}],
    "kind": [ROW | {"kind": "watermark"}],
    "payload": [ROW | {"payload": wrong} for wrong in ({1, 2}, 2**70)],
}


@pytest.mark.parametrize(
    ("row", "reason"), [(row, reason) for reason, rows in MALFORMED.items() for row in rows]
)
def test_malformed_row_has_reason(row: Any, reason: str) -> None:
    found = record_of(row, 12)
    assert isinstance(found, Malformed)
    assert (found.row, found.reason) == (12, reason)
    assert found.detail


@pytest.mark.parametrize("unnumbered", [{"default"}, ("default", "p")])
def test_stream_by_time_needs_no_seq(unnumbered: Any) -> None:
    assert record_of({"source": "s1"}, 1, unnumbered) == plain(seq=None)
    assert record_of({"source": "s1", "seq": None}, 1, unnumbered) == plain(seq=None)
    assert record_of(ROW, 1, unnumbered) == plain()  # A given number is published.
    for row in ({"source": "s1", "stream": "q"}, {"source": "s1", "seq": -1}):
        found = record_of(row, 3, unnumbered)
        assert isinstance(found, Malformed)
        assert found.reason == "seq"
    assert "{without_seq: by_time} or {rule: time}" in str(record_of({"source": "s1"}, 1))


def test_long_value_is_shortened() -> None:
    found = record_of(ROW | {"ts": "9" * 10_000}, 1)
    assert isinstance(found, Malformed)
    assert len(found.detail) < 200


def test_clock_rows_are_no_events() -> None:
    assert record_of({"clock": "s1", "t1": 1, "t2": 2, "t3": 3, "t4": 4}, 1) == ClockRow("s1")


def test_event_becomes_record() -> None:
    event = Event("p", "s1", NO_EPOCH, 17, 5, 9, value=b"raw bytes", type="A")
    assert record_of(event, 1) == Record("s1", 17, 5, 9, None, "p", "A", "", b"raw bytes")
    event = Event("p", "s1", 3, 17, 5, 9, value={"x": 1})
    assert record_of(event, 1) == Record("s1", 17, 5, 9, 3, "p", "", "", b'{"x":1}')
    assert isinstance(record_of(Event("p", "", 0, 1, 5, 9, kind=WATERMARK), 1), Malformed)
    assert isinstance(record_of(Event("p", "s1", 0, -1, 5, 9), 1), Malformed)
