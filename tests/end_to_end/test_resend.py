"""End to end: lost events are requested, sent again, and correct their window."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import orjson
import pytest

from inorder import Resend, SequencedProducer, current, record_of
from inorder.channel import Channel
from tests.cli.invoking import inorder
from tests.end_to_end.oracle import assert_sound
from tests.end_to_end.records import read_all
from tests.end_to_end.setting import FUSED, Setting, Settles
from tests.end_to_end.worker import at_work
from tests.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

COUNT = 40
LOST = (7, 8, 9, 20)
STEP_NS = 10_000_000
QUERY = "queries:\n  counts: {window: tumbling 1s, aggregate: {n: count()}}\n"


def count_that_stands(setting: Setting) -> int:
    lines = read_all(setting.bootstrap, setting.topology.topics.windows)
    records = [record_of(json.loads(each.value)) for each in lines if each.value is not None]
    return sum(int(each.values["n"]) for each in current(records).values())


def test_lost_events_are_resent(
    settles: Settles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway loses the numbers in LOST the first time they pass."""
    passes = Channel.send
    gone = set(LOST)

    def lose(channel: Channel, coordinates: Any, *record: Any) -> None:
        if coordinates.seq in gone:
            gone.discard(coordinates.seq)
            return
        passes(channel, coordinates, *record)

    monkeypatch.setattr(Channel, "send", lose)
    requests = f"requests-{uuid.uuid4().hex[:8]}"
    setting = settles(
        stages=f"{FUSED}+window",
        partitions=1,
        topics=f"resend: {requests}",
        stream="reorder: {max_wait: 200ms, start: zero}, merge: {quiet_after: 1s},"
        " keyed_by: stream",
        more=QUERY,
    )
    asked = ("resend", "--topology", str(setting.path), "--brokers", setting.bootstrap)
    resend = Resend(requests, tmp_path / "s1.kept")
    with at_work(setting) as worker:
        producer = SequencedProducer(
            *(setting.bootstrap, setting.raw, "s1"), key_by="stream", resend=resend
        )
        with producer:
            begin_ns = producer._clock() // 10**9 * 10**9
            for seq in range(COUNT):
                producer.send(b"{}", ts_ns=begin_ns + seq * STEP_NS)
            producer.flush()
            gaps = setting.topology.topics.gaps
            wait_until(lambda: len(read_all(setting.bootstrap, gaps)) == 2, "two gaps")
            wait_until(lambda: count_that_stands(setting) == COUNT - len(LOST), "the window")
            said = inorder(*asked, "--json").well()
            assert orjson.loads(said.out) == {"gaps": 2, "numbers": len(LOST), "unreadable": 0}
            wait_until(lambda: count_that_stands(setting) == COUNT, "its correction")
            status = producer.resend
            assert status is not None
            assert (status.requests, status.resent, status.unknown) == (2, len(LOST), 0)
            # Nothing is new, so nothing is requested; what comes again on request is a duplicate.
            nothing = {"gaps": 0, "numbers": 0, "unreadable": 0}
            assert orjson.loads(inorder(*asked, "--json").out) == nothing
            assert "asked for 4 numbers in 2 gaps" in inorder(*asked, "--again").err
            wait_until(lambda: status.resent == 2 * len(LOST), "the second answer")
            assert inorder(*asked, "--again", "--source", "s2").err.startswith("asked for 0")
        raw = COUNT + len(LOST)
        records_in = f"records_in:{FUSED}+window"
        wait_until(lambda: worker.metrics().get(records_in, 0) >= raw, "all records")
    verdict = assert_sound(setting)
    assert (verdict.unmarked, dict(verdict.late), verdict.duplicates) == (
        COUNT - len(LOST),
        {"gap": len(LOST)},
        len(LOST),
    )
