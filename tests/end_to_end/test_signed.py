"""End to end: only a source's own key makes its events, even if others may write the input.

A stranger sends every number first, and also a huge one, a higher epoch and an end-of-stream
marker. The source's events are in order all the same, and all records of the stranger are dead
letters. A kill does not change that.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import orjson
import pytest

from inorder import SequencedProducer, SigningKey
from inorder.signing_keys import signing_key
from tests.cli.invoking import inorder
from tests.end_to_end.records import Headers, events_of, letters_of, send
from tests.end_to_end.replaying import dump, replay
from tests.end_to_end.setting import Setting, Settles
from tests.end_to_end.waiting import Emitted
from tests.end_to_end.worker import running, worker_on

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

MASTER = bytes(range(32))
COUNT = 40
SECRET = "what a payload holds"


def key(source: str) -> SigningKey:
    return SigningKey.parse(signing_key(MASTER, "source", source))


class Stranger:
    """A sender that may write the topic, and has the key of another source."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self.sent = Counter[str]()

    def claims(self, seq: int, *more: tuple[str, bytes], signs: bool) -> None:
        names = self._setting.topology.streams["default"].headers.names()
        headers: Headers = [("sourceId", b"press-7"), ("seqNum", b"%d" % seq), *more]
        if signs:
            headers.append(("sig", key("oven-2").signature(names, headers, b"no")))
        send(self._setting, [("press-7", b"no", headers)])
        self.sent["forged" if signs else "unsigned"] += 1


def test_stranger_is_ignored(
    settles: Settles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    masters = tmp_path / "masters"
    masters.write_text(f"# the newest first\n{'cd' * 32}\n{MASTER.hex()}\n")
    monkeypatch.setenv("INORDER_MASTER_KEYS_FILE", str(masters))
    setting = settles.fused(
        stream="signed: true, keyed_by: stream, reorder: {start: zero, rule: fixed, max_wait: 3s}",
    )
    stranger = Stranger(setting)
    worker = worker_on(setting)
    producer = SequencedProducer(
        setting.bootstrap,
        setting.raw,
        "press-7",
        key_by="stream",
        first_epoch=3,
        signing_key=key("press-7"),
    )
    with producer, running(worker):
        emitted = Emitted(setting)
        stranger.claims(2**40, ("epoch", b"3"), signs=False)
        stranger.claims(0, ("epoch", b"9"), signs=True)
        for seq in range(COUNT):
            stranger.claims(seq, ("epoch", b"3"), signs=seq % 2 == 0)
            producer.send(orjson.dumps({"n": seq, "s": SECRET}))
            producer.flush()
            if seq == COUNT // 2:
                stranger.claims(seq + 1, ("epoch", b"3"), ("kind", b"bye"), signs=True)
                emitted.wait_for(seq)
                worker.kill_stage(0)
        emitted.wait_for(COUNT + stranger.sent.total())
        emitted.close()
        assert worker.stop() == 0, worker.log
    out, dead = events_of(setting), letters_of(setting)
    assert [(r.name, r.header("late")) for r in out] == [
        (("press-7", 3, seq), None) for seq in range(COUNT)
    ]
    assert Counter(letter["reason"] for letter in dead) == stranger.sent
    assert {(letter["source"], letter["seq"]) for letter in dead} == {("press-7", None)}
    assert SECRET not in worker.log
    # The signature stays with the event, so readers of the ordered topic can check it again.
    names = setting.topology.streams["default"].headers.names()
    for record in out:
        headers = [h for h in record.headers if h[0] in {*names} - {"sig"}]
        bears = record.header("sig")
        assert bears is not None
        assert key("press-7").signature(names, headers, record.value) == bears.encode()
    lines = tmp_path / "raw.jsonl"
    assert dump(setting, lines) == COUNT + stranger.sent.total()
    replayed = replay(setting, lines)
    assert replayed.summary["dead"] == stranger.sent.total()
    assert {said[:3] for said, _ in replayed.events} == {record.name for record in out}


def test_produce_signs_its_records(
    settles: Settles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INORDER_MASTER_KEYS", MASTER.hex())
    setting = settles(partitions=1, stream="signed: true")
    made = inorder("keys", "--prefix", "press-")
    lines = [{"source": f"press-{n % 2}", "seq": n // 2, "ts": time.time_ns()} for n in range(6)]
    there = ("--brokers", setting.bootstrap, "--topic", setting.raw, "--topology", setting.path)
    stdin = b"".join(orjson.dumps(line) + b"\n" for line in lines)
    env = {"INORDER_SIGNING_KEY": made.out.strip()}
    inorder("produce", *there, stdin=stdin, env=env).well()
    (tmp_path / "oven").write_text('{"source": "oven-1", "seq": 0}\n')
    done = inorder("produce", *there, tmp_path / "oven", env=env)
    assert done.code == 1
    assert "SigningKey(prefix 'press-') does not cover source 'oven-1'" in done.err
    done = inorder("dump", "--topology", setting.path, "--brokers", setting.bootstrap).well()
    dumped = done.lines
    assert [(line["source"], line["seq"]) for line in dumped] == [
        (line["source"], line["seq"]) for line in lines
    ]
    assert all(line["type"] == "" for line in dumped)
