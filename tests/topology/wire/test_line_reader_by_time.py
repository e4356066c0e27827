"""Replay input of streams by time: example lines that bear no number."""

from __future__ import annotations

import io

from recordings.lines import read_lines
from topology.model.event import Event
from topology.model.outcome import Malformed
from topology.model.sample import Sample
from topology.wire.checker import Reading

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


def test_in_a_stream_by_time_the_offset_of_a_dump_counts_or_the_line() -> None:
    text = "".join(f"{line}\n" for line, _ in BY_TIME)
    lines = list(
        read_lines("-", io.BytesIO(text.encode()), reading=Reading(frozenset({"default", "p"})))
    )
    assert [line.offset for line in lines] == list(range(1, len(BY_TIME) + 1))
    for line, (_, number) in zip(lines, BY_TIME, strict=True):
        assert isinstance(line, Event), line
        assert (line.seq, line.offset) == (number, line.offset)


def test_other_streams_and_clock_lines_are_read_as_ever() -> None:
    text = """\
{"source": "a", "stream": "q"}
{"source": "a", "stream": ["p"]}
{"clock": "a", "t1": 1, "t2": 2, "t3": 3, "t4": 4}
nonsense
{"source": "a", "stream": "p", "ts": 1.5}
"""
    reading = Reading(frozenset({"default"}))
    lines = list(read_lines("-", io.BytesIO(text.encode()), reading=reading))
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


def test_where_some_sources_number_nothing_a_line_without_a_number_says_so() -> None:
    text = "".join(f"{line}\n" for line, _ in MIXED)
    reading = Reading(mixed=frozenset({"default", "p"}))
    lines = list(read_lines("-", io.BytesIO(text.encode()), reading=reading))
    for line, (_, number) in zip(lines, MIXED, strict=True):
        assert isinstance(line, Event), line
        assert (line.seq, line.offset) == (number, line.offset)
    text = '{"source": "a", "ts": "x"}\n{"source": "a", "seq": "x"}\n{"source": "a", "stream": "q"}'
    dead = list(read_lines("-", io.BytesIO(text.encode()), reading=reading))
    assert [(each.reason, each.seq) for each in dead if isinstance(each, Malformed)] == [
        ("ts_unreadable", None),
        ("seq_not_integer", None),
        ("seq_missing", None),
    ]
    assert "without_seq: by_time" in str(dead[2])
