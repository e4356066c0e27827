"""End to end: records of the ledger that are no gaps, on the broker inside the process."""

from __future__ import annotations

from pathlib import Path

import orjson
from confluent_kafka import Producer

from cli.kafka.resend import MAX_REPORTED
from cli.local.embedded import EmbeddedBroker
from tests.cli.invoking import inorder, text_file
from tests.services import UniqueName

GAP = {"kind": "gap", "stream": "default", "source": "s1", "epoch": 1, "first": 7, "last": 9}
NONE = (
    b"x",
    b"[1]",
    b'{"kind":"gap"}',
    *(
        orjson.dumps({**GAP, **wrong})
        for wrong in ({"source": ["s1"]}, {"stream": None}, {"last": 6}, {"epoch": "1"})
    ),
)


def test_what_is_no_gap_is_told_and_passed_over(
    embedded_broker: EmbeddedBroker, unique_name: UniqueName, tmp_path: Path
) -> None:
    ledger, requests = unique_name("gaps"), unique_name("resend")
    path = text_file(
        tmp_path / "t.yaml",
        f"application: {ledger}\nstreams: {{default: {{input: raw}}}}\n"
        f"topics: {{gaps: {ledger}, resend: {requests}}}\n",
    )
    for topic in (ledger, requests):
        embedded_broker.make_topic(topic)
    producer = Producer({"bootstrap.servers": embedded_broker.bootstrap})
    bad = NONE * 3
    for value in (*bad, orjson.dumps({"kind": "late"}), orjson.dumps({**GAP, "reason": "jump"})):
        producer.produce(ledger, value, partition=0)
    assert producer.flush(10) == 0
    asked = ("resend", "--topology", path, "--brokers", embedded_broker.bootstrap)
    done = inorder(*asked, "--json")
    assert (done.code, orjson.loads(done.out)) == (
        0,
        {"gaps": 1, "numbers": 3, "unreadable": len(bad)},
    )
    lines = done.err.splitlines()
    assert len(lines) == MAX_REPORTED < len(bad)
    assert lines[1].startswith(f"{ledger}/0/1 is not a gap and was skipped: a JSON object")
    again = inorder(*asked)
    assert (again.code, again.err) == (0, "asked for 0 numbers in 0 gaps\n")
