"""Examples: digests of whole answers to recorded traces; an internal change of the code must not
change a byte.

The digests changed with decisions 5 and 24, and with the rules in docs/concepts/watermarks.md,
docs/concepts/clocks.md and docs/guides/windows.md. To change an answer on purpose, give the reason
in docs/decisions and write the new digest that this test prints.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from zlib import crc32

import pytest

from benchmarks.traces import (
    TraceAbsent,
    TraceRow,
    read_balloon_clocks,
    read_jr_umts,
    read_kafka_brokers,
    read_limecep,
    read_lorawan_gateways,
    read_mesh_sensors,
    read_quic_two_endpoints,
    read_soccer_tagging,
    read_usgs_quakes,
)
from tests.cli.invoking import inorder, text_file
from tests.services import without_trace

ROWS = 3_000
"""Number of rows read from the beginning of each trace."""

WINDOWS = """
  counted: {window: tumbling 10s, key: payload.who, aggregate: {n: count(), m: avg(payload.n)}}
  gliding: {window: sliding 60s every 20s, aggregate: {n: count(), d: distinct(payload.who)}}
  spoken: {window: session 5s, key: payload.who, aggregate: {n: count(), last: last(payload.n)}}
"""
PAIRS = """
  pairs: {pattern: "PATTERN SEQ(T0 a, T1 b) WHERE [who] WITHIN 100 ms RETURN a.n AS a, b.n AS b"}
  gone: {pattern: "PATTERN SEQ(T0 a, !T1, T2 c) WHERE [who] WITHIN 50 ms RETURN a.n AS a"}
"""
JOINS = """
  near: {join: interval 1s, sides: {x: {stream: even}, y: {stream: odd}}, outer: full}
  same: {join: tumbling 10s, sides: {x: {stream: even}, y: {stream: odd}}, outer: left}
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
    "joins": "streams: {even: {}, odd: {}}\nqueries:" + JOINS,
}

TRACES = {
    each.__name__.removeprefix("read_"): each
    for each in (
        *(
            read_balloon_clocks,
            read_jr_umts,
            read_kafka_brokers,
            read_limecep,
            read_lorawan_gateways,
            read_mesh_sensors,
        ),
        *(read_quic_two_endpoints, read_soccer_tagging, read_usgs_quakes),
    )
}

ANSWERS = """
balloon_clocks     8ea600edd6a5 d3ff1b3edf08 666e73059b06 e6f59149fbfd b2beee698d2a
jr_umts            e534e5bffacc d888845ebb35 572bb63cfd01 efe6f7102d2c -
kafka_brokers      fc148f22d238 -            b28a3983ab43 6f361afc14e9 -
limecep            0e8de669ff58 6f25fa4fc16d b2db02327c9d 9eb6796a2790 -
lorawan_gateways   0bc53b0ebbe6 a3ad4e21d60e bf7ae92981dc 0a66672f68e2 -
mesh_sensors       695ace22a413 30668c3c1702 4465508137fa 7f897d869524 -
quic_two_endpoints 24a04ed56fa8 -            3476347737f9 652df40e9788 -
soccer_tagging     d45b95f1c59f 4bb148a8c2b1 a776f15ed1d7 d1059657cb71 -
usgs_quakes        f00230aaf427 02251cabf5e2 b94aeb1977b6 4d6b89df03ad 5a117d77bf95
"""
"""Digests of each trace by each topology, in order. A dash stands where patterns would take
minutes, as most events are within their errors, or where a join would match all pairs."""

ASKED = {
    "pairs": "PATTERN SEQ(T0 a, T1 b) WHERE {one} WITHIN {within} RETURN a.n AS a, b.n AS b",
    "gone": "PATTERN SEQ(T0 a, !T1, T2 c) WHERE {one} WITHIN {within} RETURN a.n AS a",
}
WITHIN = {
    "balloon_clocks": "10 s",
    "jr_umts": "2 s",
    "soccer_tagging": "10 s",
    "usgs_quakes": "10 min",
}
"""Time span of patterns in traces where a match takes events of all sources; elsewhere it takes
events of one."""

SHORT = {"pairs": "100 ms", "gone": "50 ms"}
MATCHES = """
balloon_clocks     aa0942bd5670 f97d011eaa3a 23324d70aeef d5e5bd0ce786
jr_umts            5c83c10098f2 6f3713334fcd 9b85e5f9a9a8 a4f788c56d53
kafka_brokers      f0b428633f92 25d9961c324f 7431512a75e9 130af58fbf1b
limecep            1be2a7f1dfdb 5471aac24bb2 65fd151f7777 e3b0c44298fc
lorawan_gateways   4558279186d8 9645657ea5e3 daaf8a339eec 972698c44145
mesh_sensors       1644aec542c1 56eb8703cd7e 62234fe91928 a2e63ed77c12
quic_two_endpoints 9f0b2393a995 ce24d6568db3 c1783112af2f 6d606fe8eae1
soccer_tagging     2ed3f9628f05 e03cd1ac7bb1 daf171c50788 357771d9f95e
usgs_quakes        9b8e8386ecc7 9321a968e779 0d44951e1536 6613866b0cae
"""
"""Digests of each trace by each query of `ASKED` with each of the options."""


@cache  # Reading a trace takes as long as replaying it.
def rows_of(trace: str) -> list[TraceRow]:
    try:
        return TRACES[trace]()[:ROWS]
    except TraceAbsent as missing:
        without_trace(missing)


def lines(rows: Sequence[TraceRow], streams: bool) -> Iterator[str]:
    for row in rows:
        stream = {"stream": ("even", "odd")[crc32(row.source.encode()) % 2]} if streams else {}
        yield json.dumps(
            {
                **stream,
                "arrival": row.arrival_ns,
                "source": row.source,
                "seq": row.seq,
                "ts": row.ts_ns,
                "type": f"T{row.seq % 3}",
                "payload": {"who": row.source, "n": row.seq},
            }
        )


def written(folder: Path, trace: str, *, streams: bool = False) -> str:
    path = folder / "events.jsonl"
    text = "".join(f"{line}\n" for line in lines(rows_of(trace), streams))
    path.write_text(text, encoding="utf-8")
    return str(path)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def digests_of(table: str, trace: str) -> list[str]:
    (row,) = (line.split() for line in table.splitlines() if line.startswith(trace))
    return row[1:]


CASES = [
    (trace, topology, expected)
    for trace in TRACES
    for topology, expected in zip(TOPOLOGIES, digests_of(ANSWERS, trace), strict=True)
    if expected != "-"
]


@pytest.mark.in_turns(3)
@pytest.mark.parametrize(("trace", "topology", "expected"), CASES)
def test_replay_answers_are_unchanged(
    tmp_path: Path, trace: str, topology: str, expected: str
) -> None:
    file = text_file(tmp_path / "topology.yaml", TOPOLOGIES[topology])
    events = written(tmp_path, trace, streams=topology == "joins")
    done = inorder("replay", "--topology", str(file), "--json", events).well()
    assert digest(done.out) == expected


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("trace", TRACES)
def test_match_answers_are_unchanged(tmp_path: Path, trace: str) -> None:
    events = written(tmp_path, trace)
    digests = []
    for asked, text in ASKED.items():
        within = WITHIN.get(trace, SHORT[asked])
        query = text.format(one="a.n >= 0" if trace in WITHIN else "[who]", within=within)
        for options in ((), ("--correct", "--final-only")):
            done = inorder("match", "--query", query, *options, events).well()
            digests.append(digest(done.out))
    assert digests == digests_of(MATCHES, trace)
