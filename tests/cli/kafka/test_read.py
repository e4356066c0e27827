"""Examples: `inorder read` prints the records that a stage writes as lines."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from cli.kafka.read import RecordReader, _find_headers
from cli.topology_file import Refused
from tests.agents.records import SOUND, FakeRecord
from tests.cli.invoking import text_file

READER = RecordReader([])


def test_late_event_keeps_its_payload() -> None:
    record = FakeRecord(headers=(*SOUND, ("reason", b"gap")), value=b'{"room": 1}')
    assert READER.to_line(record) == {
        "kind": "late", "stream": None, "source": "s1", "epoch": None, "seq": 7, "reason": "gap",
        "ts": 5_000_000, "payload": {"room": 1},
    }  # fmt: skip


def test_late_event_needs_no_headers() -> None:
    """Its fields are in the value, whose mapping the topic does not have."""
    line = READER.to_line(FakeRecord(headers=(("reason", b"conflict"),), value=b"\xff"))
    assert line is not None
    assert [line[name] for name in ("kind", "source", "stream")] == ["late", None, None]
    assert (line["reason"], line["payload"]) == ("conflict", "\ufffd")


def test_late_event_of_cut_stages_is_late() -> None:
    headers = (*SOUND, ("refTs", b"6000000"), ("err", b"0"), ("reason", b"merge_pause"))
    line = READER.to_line(FakeRecord(headers=headers))
    assert line is not None
    assert [line[name] for name in ("kind", "reason", "epoch")] == ["late", "merge_pause", 0]


@pytest.mark.parametrize("reason", [None, b"\xff", b"a producer's"])
def test_other_reason_makes_no_late_event(reason: bytes | None) -> None:
    record = FakeRecord(headers=(*SOUND, ("reason", reason)), value=b'{"kind": "match"}')
    assert READER.to_line(record) == {"kind": "match"}
    with pytest.raises(Refused, match="for an input topic use `inorder dump`"):
        READER.to_line(SimpleNamespace(topic="t", headers=record.headers, value=b"{}"))


def test_late_topic_has_all_headers(tmp_path: Path) -> None:
    """Each record is read by the names that it has."""
    text = """
streams:
  plain: {}
  cloud: {input: c.raw, output: c.ordered, headers: {preset: cloudevents, ts_unit: ms}}
"""
    path = text_file(tmp_path / "t.yaml", text)
    reader = RecordReader(_find_headers("events.late", str(path)))
    late = ("reason", b"gap")
    cloud = (("ce_source", b"c"), ("ce_sequence", b"1"), ("ce_time", b"5"), late)
    lines = [reader.to_line(FakeRecord(headers=each)) for each in (cloud, (*SOUND, late))]
    found = [line and (line["source"], line["seq"], line["ts"]) for line in lines]
    assert found == [("c", 1, 5_000_000), ("s1", 7, 5_000_000)]
