"""Examples and laws: `ts` in a stream's own unit, and lines without a stream, in replay, produce
and dump.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from inorder.contract import MAX_INT64, UNIT_NS
from recordings.lines import read_lines
from recordings.topic_lines import _event_line
from tests.cli.invoking import inorder, json_lines, text_file
from tests.inorder.records import Topic
from topology.base.event import Event
from topology.base.outcome import Malformed
from topology.config import parse
from topology.records.line_reader import LineReader, Row

TOPOLOGY = """\
streams:
  pitch: {input: raw, headers: {ts_unit: ms}}
  plain: {input: other}
stages: [reorder+merge]
"""


def read(values: dict[str, Any], topology: str = TOPOLOGY) -> Event | Malformed:
    (line,) = read_lines("-", io.BytesIO(json.dumps(values).encode()), parse(topology).reading())
    assert isinstance(line, Event | Malformed)
    return line


@pytest.mark.parametrize(
    ("said", "ts_ns"),
    [
        ({"stream": "pitch", "ts": 7}, 7_000_000),
        ({"stream": "pitch", "ts": -7}, -7_000_000),
        ({"stream": "pitch", "ts": "1970-01-01T00:00:01.000000001Z"}, 1_000_000_001),
        ({"stream": "plain", "ts": 7}, 7),
        ({"stream": "plain", "arrival": 9}, 9),
        ({"stream": "pitch", "arrival": 9}, 9),
        ({"stream": "unknown", "ts": 7}, 7),
    ],
)
def test_stream_sets_the_unit_of_ts(said: dict[str, Any], ts_ns: int) -> None:
    event = read({"source": "a", "seq": 0} | said)
    assert isinstance(event, Event)
    assert event.ts_ns == ts_ns
    assert event.arrival_ns == said.get("arrival", ts_ns)


@pytest.mark.parametrize(
    ("said", "reason", "remedy"),
    [
        ({"stream": "pitch", "ts": 10**13}, "ts_huge", "in its `ts_unit`"),
        ({"stream": "pitch", "ts": 1.5}, "ts_unreadable", "write an integer in ms, or RFC 3339"),
        ({"stream": "pitch", "ts": "9999-01-01T00:00:00Z"}, "ts_huge", "between 1678 and 2261"),
        ({"stream": "plain", "ts": 1.5}, "ts_unreadable", "write an integer in ns"),
        ({"stream": ["pitch"], "ts": 7}, "stream_not_text", "write text"),
    ],
)
def test_bad_time_is_dead_letter(said: dict[str, Any], reason: str, remedy: str) -> None:
    dead = read({"source": "a", "seq": 0} | said)
    assert isinstance(dead, Malformed)
    assert dead.reason == reason
    assert remedy in dead.detail


@given(
    st.sampled_from(list(UNIT_NS)),
    st.none() | st.integers(-(2**64), 2**64) | st.sampled_from(["1970-01-01T00:00:01Z", 1.5]),
)
def test_law_fast_path_is_exact(unit: str, ts: Any) -> None:
    reading = parse(f"streams: {{p: {{headers: {{ts_unit: {unit}}}}}}}").reading()
    row = Row(1, {"source": "a", "seq": 0, "ts": ts})
    quick, close = LineReader(reading).read(row), LineReader(reading)._examine(row)
    if isinstance(quick, Event):
        assert isinstance(close, Event)
        assert (quick.ts_ns, quick.arrival_ns) == (close.ts_ns, close.arrival_ns)
    else:
        assert quick == close


@given(st.sampled_from(list(UNIT_NS)), st.integers(-MAX_INT64, MAX_INT64))
def test_law_dumped_line_reads_back(unit: str, ts_ns: int) -> None:
    """Any `ts` reads back exactly, including one that is no whole number of the stream's unit."""
    line = _event_line(Event("p", "a", 0, 1, ts_ns, 5), UNIT_NS[unit])
    event = read(line, f"streams: {{p: {{headers: {{ts_unit: {unit}}}}}}}")
    assert isinstance(event, Event)
    assert event.ts_ns == ts_ns


@pytest.mark.parametrize(
    ("streams", "stream"),
    [("{pitch: {}}", "pitch"), ("{a: {}, b: {}}", "default"), ("{default: {}}", "default")],
)
def test_line_goes_to_the_only_stream(streams: str, stream: str) -> None:
    """With several streams, a line without a stream goes to `default`."""
    topology = f"streams: {streams}"
    assert read({"source": "a", "seq": 0}, topology).stream == stream
    assert read({"source": "a", "seq": -1}, topology).stream == stream
    by_time = "streams: {pitch: {reorder: {rule: time}}}"
    assert read({"source": "a"}, by_time).stream == "pitch"


def test_parquet_column_sets_its_unit(tmp_path: Path) -> None:
    columns = {"source": ["a"], "seq": [0], "stream": ["pitch"]}
    instant = pa.array([1_700_000_000_123_456], type=pa.timestamp("us", tz="UTC"))
    parquet.write_table(pa.table({**columns, "ts": instant}), tmp_path / "e.parquet")
    reading = parse(TOPOLOGY).reading()
    (line,) = read_lines(str(tmp_path / "e.parquet"), reading=reading)
    assert isinstance(line, Event)
    assert line.ts_ns == 1_700_000_000_123_456_000


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_produce_reads_rows_like_replay(raw: Topic, tmp_path: Path, form: str) -> None:
    """A time in Parquet has its own unit, whatever the topology's unit is."""
    topology = text_file(
        tmp_path / "t.yaml", f"streams: {{pitch: {{input: {raw.name}, headers: {{ts_unit: ms}}}}}}"
    )
    rows = json_lines(tmp_path / "e.jsonl", [{"source": "a", "seq": 0, "ts": 1_700_000_000_123}])
    if form == "parquet":
        rows = tmp_path / "e.parquet"
        instant = pa.array([1_700_000_000_123], type=pa.timestamp("ms"))
        parquet.write_table(pa.table({"source": ["a"], "seq": [0], "ts": instant}), rows)
    inorder("produce", *raw.words, "--topology", topology, rows).well()
    config = parse(topology.read_text()).headers_of(raw.name)
    (event,) = raw.events(1, config)
    assert (event.stream, event.ts_ns) == ("pitch", 1_700_000_000_123_000_000)
