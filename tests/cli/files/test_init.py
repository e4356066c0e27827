"""Examples and a law: `inorder init` fits the recording, and its file is sound and runs."""

from __future__ import annotations

import tempfile
from operator import attrgetter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli.local.embedded import EmbeddedBroker
from tests.cli.invoking import Answer, inorder, json_lines, text_file
from tests.services import UniqueName
from topology.config import StreamConfig, parse

MS = 1_000_000
S = 1_000 * MS
BEGIN = 1_700_000_000 * S


def init(folder: Path, rows: list[dict[str, Any]], *options: str) -> Answer:
    return inorder("init", json_lines(folder / "events.jsonl", rows), *options)


def replayed(folder: Path, answer: Answer, *options: str) -> Answer:
    """Replay with the topology that `init` has written."""
    topology = text_file(folder / "t.yaml", answer.well().out)
    inorder("check", topology).well()
    events = folder / "events.jsonl"
    return inorder("replay", "--topology", topology, "--json", *options, events).well()


def proposed(folder: Path, rows: list[dict[str, Any]]) -> StreamConfig:
    """Return the only stream of the written topology, after checking that it runs."""
    answer = init(folder, rows)
    run = replayed(folder, answer)
    assert "WARNING" not in run.err
    (stream,) = parse(answer.out).streams.values()
    if stream.clock.unsynced == "trust":  # An estimate needs some events first.
        assert run.summary["late"] == 0
    return stream


def two_sources(offset_ns: int = 0) -> list[dict[str, Any]]:
    """Return events 100 ms apart from two sources, one with a clock that is `offset_ns` ahead."""
    return [
        {"source": source, "seq": seq, "ts": at + ahead, "arrival": at + 5 * MS, "type": "A",
         "payload": {"v": seq}}
        for seq in range(100)
        for at in (BEGIN + seq * 100 * MS,)
        for source, ahead in (("a", 0), ("b", offset_ns))
    ]  # fmt: skip


def disordered() -> list[dict[str, Any]]:
    rows = two_sources()
    rows[20]["arrival"] += 700 * MS
    return sorted(rows, key=lambda row: row["arrival"])


def unnumbered() -> list[dict[str, Any]]:
    rows = two_sources()
    rows[40], rows[50] = rows[50], rows[40]
    return [{key: row[key] for key in row.keys() - {"seq", "arrival"}} for row in rows]


SILENT = [row for row in two_sources() if row["source"] == "a" or not 10 <= row["seq"] < 80]
QUERY = "#   q: {stream: default, window: tumbling 10s, aggregate: {v: avg(payload.v)}}"


@pytest.mark.parametrize(
    ("rows", "settings", "comments"),
    [
        (
            two_sources(),
            {"reorder.max_wait_ns": 100 * MS, "merge.idle_after_ns": 2 * S},
            ["# events: 200; sources: 2\n", QUERY],
        ),
        (
            disordered(),
            {"reorder.max_wait_ns": 1 * S, "merge.max_wait_ns": 1 * S},
            ["arrived out of order: 1; never arrived: 0"],
        ),
        (
            SILENT,
            {"merge.idle_after_ns": 10 * S},
            ["nine of ten machines were never silent for more than 7.1 s"],
        ),
        (two_sources(90 * S), {"clock.unsynced": "estimate"}, ["b fast by 90 s"]),
        (two_sources(-3_600 * S), {"clock.unsynced": "estimate"}, ["b slow by 60 min"]),
        ([{**row, "ts": row["ts"] // MS} for row in two_sources()], {"headers.ts_unit": "ms"}, []),
        # 500 ms late, and a margin
        (unnumbered(), {"reorder.rule": "time", "reorder.max_wait_ns": 1 * S}, []),
    ],
    ids=["quiet", "disorder", "a silence", "fast", "slow", "a unit", "without numbers"],
)
def test_proposal_fits_the_recording(
    tmp_path: Path, rows: list[dict[str, Any]], settings: dict[str, Any], comments: list[str]
) -> None:
    stream = proposed(tmp_path, rows)
    clock = {"clock.unsynced": "trust"}  # the proposal for a correct clock
    for name, value in (clock | settings).items():
        assert attrgetter(name)(stream) == value, name
    text = (tmp_path / "t.yaml").read_text()
    assert [comment for comment in comments if comment not in text] == []


def test_mixed_numbering_is_proposed(tmp_path: Path) -> None:
    rows = two_sources()
    for row in rows:
        if row["source"] == "b":
            del row["seq"]
    assert proposed(tmp_path, rows).reorder.is_mixed
    answer = init(tmp_path, rows)
    assert "without_seq: by_time  # machines without numbers: 1\n" in answer.out
    assert "never arrived: 0\n" in answer.out
    table = "".join(
        f"m{at % 2},{'' if at % 2 else at // 2},{BEGIN + at * MS}\n" for at in range(60)
    )
    (tmp_path / "own.csv").write_text(f"machine,n,time\n{table}")
    names = ("--source", "machine", "--seq", "n", "--ts", "time")
    (stream,) = parse(inorder("init", *names, tmp_path / "own.csv").out).streams.values()
    assert stream.reorder.is_mixed


def test_duplicate_ids_are_not_late(tmp_path: Path) -> None:
    rows = [{"device": "a", "time": BEGIN + at * S, "uuid": f"id-{at:04}"} for at in range(100)]
    twice, named = [*rows, *rows[:30]], ("--source", "device", "--ts", "time")
    said = "late records arrived within 0 ms"
    assert said in init(tmp_path, twice, *named, "--id", "uuid").well().out
    for row in rows:
        del row["uuid"]
    assert said not in init(tmp_path, twice, *named).well().out


def test_missing_number_is_reported(tmp_path: Path) -> None:
    rows = two_sources()
    del rows[40]["seq"]
    answer = init(tmp_path, rows)
    assert "without_seq" not in answer.out
    assert "dead, as only some records of their source have numbers: 1\n" in answer.out
    assert "arrived out of order: 0; never arrived: 1\n" in answer.out


def test_stream_names_are_quoted(tmp_path: Path) -> None:
    rows = two_sources()
    for row in rows:
        row["stream"] = {"a": "yes", "b": "a b: {c}"}[row["source"]]
    answer = init(tmp_path, rows)
    assert set(parse(answer.out).streams) == {"yes", "a b: {c}"}


def test_streams_keep_their_own_units(tmp_path: Path) -> None:
    rows = two_sources()
    for row in rows:
        row["stream"] = row["source"]
        if row["source"] == "b":
            row["ts"] //= MS
    streams = parse(init(tmp_path, rows).out).streams
    assert {name: stream.headers.ts_unit for name, stream in streams.items()} == {
        "a": "ns", "b": "ms"
    }  # fmt: skip
    (tmp_path / "made.yaml").write_text(init(tmp_path, rows).out)
    inorder("check", tmp_path / "made.yaml").well()


def test_dead_lines_are_reported(tmp_path: Path) -> None:
    answer = init(tmp_path, [*two_sources(), {"seq": 1}, {"source": ""}])
    assert "# Dead lines: 2, as source_missing 1, the first in line 201" in answer.out
    nothing = init(tmp_path, [{"seq": 1}] * 3)
    assert (nothing.code, nothing.out) == (3, "")
    assert "no line is an event, as source_missing 3, the first in line 1" in nothing.err


def test_existing_file_is_kept(tmp_path: Path) -> None:
    out = str(tmp_path / "t.yaml")
    assert init(tmp_path, two_sources(), "--out", out).out == ""
    again = init(tmp_path, two_sources(), "--out", out)
    assert again.code == 2
    assert "exists already" in again.err
    inorder("check", out).well()
    init(tmp_path, two_sources(), "--out", str(tmp_path / "absent" / "t.yaml")).refused("absent")


@pytest.mark.parametrize("options", [[], ["x.jsonl", "--topic", "t"], ["--topic", "t"]])
def test_exactly_one_input_is_needed(options: list[str]) -> None:
    inorder("init", *options).refused("name a file of EVENTS, or give --brokers and --topic")


def test_topic_is_read(
    embedded_broker: EmbeddedBroker, unique_name: UniqueName, tmp_path: Path
) -> None:
    topic = unique_name("raw")
    embedded_broker.make_topic(topic, 3)
    json_lines(tmp_path / "e.jsonl", two_sources())
    at = ("--brokers", embedded_broker.bootstrap, "--topic", topic)
    inorder("produce", *at, tmp_path / "e.jsonl").well()
    answer = inorder("init", *at).well()
    topology = parse(answer.out)
    (stream,) = topology.streams.values()
    assert (stream.input, topology.topics.partitions) == (topic, 3)
    assert "# events: 200; sources: 2\n" in answer.out
    empty = unique_name("empty")
    embedded_broker.make_topic(empty)
    inorder("init", "--brokers", embedded_broker.bootstrap, "--topic", empty).refused(
        "has no records", code=3
    )


VALUES = (
    st.none() | st.integers(-(2**63), 2**63) | st.text(max_size=3) | st.floats() | st.booleans()
)
ROWS = st.lists(
    st.dictionaries(
        st.sampled_from(["source", "seq", "ts", "arrival", "stream", "type", "kind", "clock"]),
        VALUES,
    ).map(lambda some: {"source": "s", **some}),
    min_size=1,
    max_size=20,
)


@settings(max_examples=60)
@given(ROWS, st.integers())
def test_law_written_file_is_sound(rows: list[dict[str, Any]], seed: int) -> None:
    Random(seed).shuffle(rows)
    with tempfile.TemporaryDirectory() as folder:
        answer = init(Path(folder), rows)
    assert answer.code in (0, 3)
    if answer.code == 0:
        assert parse(answer.out).streams
    else:
        assert answer.err.startswith("Error: ")


def foreign(number: int, machine: int) -> dict[str, Any]:
    at_ms = BEGIN // MS + 250 * number + 7 * machine
    return {"device": {"id": f"press-{machine}"}, "n": number, "time": at_ms, "temp": number % 7}


def test_foreign_file_gets_a_mapping(tmp_path: Path) -> None:
    rows = [foreign(number, machine) for number in range(60) for machine in range(3)]
    answer = init(tmp_path, rows)
    assert "source: payload.device.id  (certain: 3 values in 180 records)" in answer.err
    assert answer.err.count("  source press-0  number 0  2023-11-14T22:13:20.000000000Z") == 1
    mapping = parse(answer.out).streams["default"].mapping()
    assert mapping is not None
    found = (str(mapping.seq), str(mapping.ts), mapping.ts_unit)
    assert found == ("payload.n", "payload.time", "ms")
    assert replayed(tmp_path, answer, "--values").summary["event"] == 180


def test_times_as_text_get_a_zone(tmp_path: Path) -> None:
    """Files in our own format are included."""
    rows = [{"source": "a", "seq": n, "ts": f"2026-09-21 12:00:{n:02}", "v": n} for n in range(60)]
    answer = init(tmp_path, rows)
    assert answer.code == 0, answer.err
    assert "ts_zone: UTC  (uncertain: the times name no zone)" in answer.err
    assert "ts_zone: UTC  # uncertain: the times name no zone\n" in answer.out
    stream = parse(answer.out).streams["default"]
    assert (stream.ts_zone, stream.ts_unit) == ("UTC", None)


def test_missing_fields_are_noted(tmp_path: Path) -> None:
    csv = text_file(
        tmp_path / "e.csv",
        "when,temp\n" + "".join(f"{BEGIN // S + n * 3},{n % 5}\n" for n in range(50)),
    )
    answer = inorder("init", csv).well(
        'source: ="machine"  (uncertain: no field tells machines apart',
        "each is ordered by its time",
    )
    stream = parse(answer.out).streams["default"]
    assert stream.reorder.rule == "time"


def test_mean_is_only_for_values(
    tmp_path: Path,
) -> None:
    rows = [f"m{at % 2},{at // 2},{BEGIN + at * S},{at % 7}" for at in range(60)]
    table = tmp_path / "own.csv"
    for columns, value in (
        ("Truck No,n,time,name", "avg(payload.name)"),
        ("Truck No,msg no,at what time,Temp (°C)", "avg(payload.`Temp (°C)`)"),
    ):
        table.write_text("\n".join([columns, *rows, ""]))
        answer = inorder("init", table).well()
        assert f"aggregate: {{v: {value}}}" in answer.out.replace("'", "")
    table.write_text("\n".join(["machine,n,time", *(row.rpartition(",")[0] for row in rows), ""]))
    assert "aggregate: {v: count()}" in inorder("init", table).well().out


def test_audit_gives_same_settings(tmp_path: Path) -> None:
    rows = [f"m{at % 2},{at // 2},{BEGIN + at * S},{'AB'[at % 2]},{at}" for at in range(60)]
    table = tmp_path / "own.csv"
    table.write_text("\n".join(["Truck No,msg no,Time,type,v", *rows, ""]))
    inorder("audit", table, "--out", tmp_path / "audit.yaml").well()
    audited = parse((tmp_path / "audit.yaml").read_text())
    proposed = parse(inorder("init", table).well().out)
    assert audited.streams == proposed.streams
    assert audited.topics == proposed.topics
    assert audited.queries == proposed.queries
    fields = proposed.streams["default"].fields
    assert fields is not None
    assert fields.type == "payload.type"
