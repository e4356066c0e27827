"""Examples: the whole answer of recorded traces, as digests; a change of the house changes no byte.

The digests were made by the code before the rooms were moved. Whoever changes an answer on purpose
says why in docs/decisions, and writes the new digest that this test prints.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from benchmarks.traces import (
    TraceAbsent,
    TraceRow,
    balloon_clocks,
    jr_umts,
    kafka_brokers,
    lorawan_gateways,
    mesh_sensors,
    quic_two_endpoints,
    usgs_quakes,
)
from tests.cli.invoking import inorder
from tests.services import absent

ROWS = 3_000
"""The first of each trace."""

WINDOWS = """
  counted: {window: tumbling 10s, key: payload.who, aggregate: {n: count(), m: avg(payload.n)}}
  gliding: {window: sliding 60s every 20s, aggregate: {n: count(), d: distinct(payload.who)}}
  spoken: {window: session 5s, key: payload.who, aggregate: {n: count(), last: last(payload.n)}}
"""
PAIRS = """
  pairs: {pattern: "PATTERN SEQ(T0 a, T1 b) WHERE [who] WITHIN 100 ms RETURN a.n AS a, b.n AS b"}
  gone: {pattern: "PATTERN SEQ(T0 a, !T1, T2 c) WHERE [who] WITHIN 50 ms RETURN a.n AS a"}
"""

TOPOLOGIES = {
    "numbered": "streams: {default: {}}\nstages: [reorder+merge]\nqueries:" + WINDOWS,
    "patterns": "streams: {default: {}}\nstages: [reorder+merge]\nqueries:" + PAIRS,
    "by time": "streams: {default: {reorder: {rule: time}}}\nstages: [reorder+merge]\n"
    "queries:" + WINDOWS,
    "waiting": "streams: {default: {reorder: {rule: fixed, max_wait: 300ms, start: zero}}}\n"
    "stages: [reorder+merge]\nqueries:\n"
    "  asked: {window: tumbling 5s, aggregate: {n: count()},"
    " quality: {accuracy: 99%, max_wait: 2s}}\n",
}

TRACES = {
    "balloon_clocks": balloon_clocks,
    "jr_umts": jr_umts,
    "kafka_brokers": kafka_brokers,
    "lorawan_gateways": lorawan_gateways,
    "mesh_sensors": mesh_sensors,
    "quic_two_endpoints": quic_two_endpoints,
    "usgs_quakes": usgs_quakes,
}

CROWDED = {"kafka_brokers", "quic_two_endpoints"}
"""So many events within their errors that patterns take minutes."""

CASES = [
    (trace, topology)
    for trace in TRACES
    for topology in TOPOLOGIES
    if not (topology == "patterns" and trace in CROWDED)
]

ANSWERS: dict[tuple[str, str], str] = {
    ("balloon_clocks", "numbered"): "1367f3c615255744",
    ("balloon_clocks", "patterns"): "f296a4b0ed58e708",
    ("balloon_clocks", "by time"): "6116a32198e62b75",
    ("balloon_clocks", "waiting"): "51d1905d00ba1971",
    ("jr_umts", "numbered"): "202f3abd2f97ee52",
    ("jr_umts", "patterns"): "d888845ebb35641d",
    ("jr_umts", "by time"): "248fc5e0394f224d",
    ("jr_umts", "waiting"): "b99aed5d6e08d1b4",
    ("kafka_brokers", "numbered"): "9d1d6ad9df54ee18",
    ("kafka_brokers", "by time"): "57ef6312e9b5abba",
    ("kafka_brokers", "waiting"): "72d724f785bf384c",
    ("lorawan_gateways", "numbered"): "24b3d76cfd979081",
    ("lorawan_gateways", "patterns"): "825ed472bbe78bfe",
    ("lorawan_gateways", "by time"): "d07240b2a7c48a7e",
    ("lorawan_gateways", "waiting"): "e6fc4816b2d661b5",
    ("mesh_sensors", "numbered"): "6229a922809393c0",
    ("mesh_sensors", "patterns"): "c969037339f52c78",
    ("mesh_sensors", "by time"): "05ae2a8af35433a7",
    ("mesh_sensors", "waiting"): "b3ef6cf717298a2c",
    ("quic_two_endpoints", "numbered"): "56f0ad6f61fb1488",
    ("quic_two_endpoints", "by time"): "f84037b419a9b70a",
    ("quic_two_endpoints", "waiting"): "303279abfaabd056",
    ("usgs_quakes", "numbered"): "b095373fe8984feb",
    ("usgs_quakes", "patterns"): "07729ccda477b8a1",
    ("usgs_quakes", "by time"): "6ed5f0b278f4e68b",
    ("usgs_quakes", "waiting"): "e755a2c071d6cf3c",
}


def rows_of(trace: str) -> list[TraceRow]:
    try:
        return TRACES[trace]()[:ROWS]
    except TraceAbsent as missing:
        absent(str(missing))


def lines(rows: Sequence[TraceRow]) -> Iterator[str]:
    for row in rows:
        yield json.dumps(
            {
                "arrival": row.arrival_ns,
                "source": row.source,
                "seq": row.seq,
                "ts": row.ts_ns,
                "type": f"T{row.seq % 3}",
                "payload": {"who": row.source, "n": row.seq},
            }
        )


def written(folder: Path, trace: str) -> str:
    path = folder / "events.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines(rows_of(trace))), encoding="utf-8")
    return str(path)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@pytest.mark.parametrize(("trace", "topology"), CASES)
def test_a_replay_says_what_it_said(tmp_path: Path, trace: str, topology: str) -> None:
    file = tmp_path / "topology.yaml"
    file.write_text(TOPOLOGIES[topology], encoding="utf-8")
    done = inorder("replay", "--topology", str(file), "--json", written(tmp_path, trace))
    assert done.code == 0, done.err
    assert digest(done.out) == ANSWERS[trace, topology]
