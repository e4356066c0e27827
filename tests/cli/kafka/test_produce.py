"""Examples: `inorder produce` against the embedded broker: what is left out is counted and told."""

from __future__ import annotations

from pathlib import Path

import pytest

import agents.kafka.brokers
from cli.kafka.produce import MAX_REPORTED
from cli.local.embedded import EmbeddedBroker
from cli.local.ports import free_ports
from tests.cli.invoking import inorder
from tests.inorder.records import headers_of, read_events, read_messages
from tests.services import UniqueName

SOUND = '{"source": "a", "seq": %d, "ts": 5}'


@pytest.mark.parametrize("bad", [0, 1, MAX_REPORTED, MAX_REPORTED + 1, 3 * MAX_REPORTED])
def test_every_row_left_out_is_counted_and_the_first_are_told(
    embedded_broker: EmbeddedBroker, unique_name: UniqueName, tmp_path: Path, bad: int
) -> None:
    """Half cannot be made out as rows, half are rows that no record can be made of."""
    topic = unique_name("raw")
    embedded_broker.make_topic(topic)
    faulty = ["nonsense", '{"source": "a", "seq": -1}']
    lines = [SOUND % 0, "", *(faulty[n % 2] for n in range(bad)), SOUND % 1]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(lines) + "\n")
    answer = inorder("produce", "--brokers", embedded_broker.bootstrap, "--topic", topic, path)
    assert answer.code == 0, answer.err
    *lines_before, last = answer.err.splitlines()
    assert last.startswith("published 2 records")
    assert f"({bad} malformed rows and 0 clock rows left out)" in last
    rows = [line for line in lines_before if line.startswith("row ")]
    assert [int(line.split()[1].rstrip(":")) for line in rows] == [
        3 + n for n in range(min(bad, MAX_REPORTED))
    ]
    more = [f"and {bad - MAX_REPORTED} more"] if bad > MAX_REPORTED else []
    assert lines_before == [*rows, *more]
    assert [event.seq for event in read_events(embedded_broker.bootstrap, topic, 2)] == [0, 1]


@pytest.mark.parametrize(
    ("name", "text", "values"),
    [
        ("a.jsonl", '{"m": {"id": "a"},  "n": 1}\n{"n": 2}\n', [b'{"m": {"id": "a"},  "n": 1}']),
        ("a.csv", "id,n,x\na,1,1.5\nb,x,\n", [b'{"id":"a","n":1,"x":1.5}']),
    ],
)
def test_rows_of_others_go_out_as_they_are(
    embedded_broker: EmbeddedBroker,
    unique_name: UniqueName,
    tmp_path: Path,
    name: str,
    text: str,
    values: list[bytes],
) -> None:
    topic = unique_name("raw")
    embedded_broker.make_topic(topic)
    path = tmp_path / name
    path.write_text(text)
    brokers = ("--brokers", embedded_broker.bootstrap, "--topic", topic)
    source = "payload.m.id" if name == "a.jsonl" else "id"
    answer = inorder("produce", *brokers, "--source", source, "--seq", "n", path)
    assert answer.code == 0, answer.err
    assert "(1 malformed rows" in answer.err
    sent = read_messages(embedded_broker.bootstrap, topic, len(values))
    assert [(each.key(), each.value(), headers_of(each)) for each in sent] == [
        (b"a", value, []) for value in values
    ]


def test_an_absent_broker_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(agents.kafka.brokers, "TIMEOUT_S", 0.5)
    (port,) = free_ports(1)
    answer = inorder("produce", "--brokers", f"127.0.0.1:{port}", "--topic", "raw", stdin=b"{}")
    assert (answer.code, answer.out) == (2, "")
    (line,) = answer.err.splitlines()
    assert f"no broker answers at 127.0.0.1:{port}" in line
    assert capfd.readouterr().err == ""  # the client itself writes there


def test_input_that_cannot_be_read_ends_with_3(
    embedded_broker: EmbeddedBroker, unique_name: UniqueName, tmp_path: Path
) -> None:
    topic = unique_name("raw")
    embedded_broker.make_topic(topic)
    absent = tmp_path / "absent.jsonl"
    answer = inorder("produce", "--brokers", embedded_broker.bootstrap, "--topic", topic, absent)
    assert answer.code == 3
    assert "no such file" in answer.err


def test_the_summary_for_programs_is_the_last_line(
    embedded_broker: EmbeddedBroker, unique_name: UniqueName, tmp_path: Path
) -> None:
    topic = unique_name("raw")
    embedded_broker.make_topic(topic)
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join([SOUND % 0, "nonsense", SOUND % 1]) + "\n")
    there = ("--brokers", embedded_broker.bootstrap, "--topic", topic)
    summary = inorder("produce", *there, "--json", path).summary
    assert summary.pop("seconds") >= 0
    assert summary == {"published": 2, "malformed": 1, "clock": 0}
