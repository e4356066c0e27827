"""Examples: `inorder read` prints the records that a stage writes as lines."""

from __future__ import annotations

from cli.kafka.read import _to_line
from tests.agents.records import SOUND, FakeRecord
from topology.config import HeaderConfig
from topology.records.header_reader import HeaderReader

READER = HeaderReader(HeaderConfig())


def test_late_event_keeps_its_payload() -> None:
    record = FakeRecord(headers=(*SOUND, ("reason", b"gap")), value=b'{"room": 1}')
    line = _to_line(record, READER)
    assert line is not None
    assert (line["kind"], line["source"], line["seq"], line["ts"]) == ("late", "s1", 7, 5_000_000)
    assert (line["reason"], line["epoch"], line["payload"]) == ("gap", None, {"room": 1})


def test_late_event_needs_no_headers() -> None:
    """Its fields are in the value, whose mapping the topic does not have."""
    line = _to_line(FakeRecord(headers=(("reason", b"conflict"),), value=b"\xff"), READER)
    assert line is not None
    assert (line["kind"], line["source"], line["reason"]) == ("late", None, "conflict")
    assert line["payload"] == "\ufffd"


def test_late_event_of_cut_stages_is_late() -> None:
    headers = (*SOUND, ("refTs", b"6000000"), ("err", b"0"), ("reason", b"merge_pause"))
    line = _to_line(FakeRecord(headers=headers), READER)
    assert line is not None
    assert (line["kind"], line["reason"]) == ("late", "merge_pause")
