"""End to end: every table of a file that an attacker has written matches a replay."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_analytics.backfill import run
from spark_analytics.tables.lake import open_lake
from tests.spark_analytics.backfill.outputs import backfill, laked, replayed, tabled
from tests.spark_analytics.marks import SPARK

pytestmark = [*SPARK]

TOPOLOGY = """
streams: {default: {clock: {unsynced: trust}}}
queries:
  w:
    window: tumbling 1s
    key: payload.k
    aggregate: {n: count(), s: sum(payload.v), m: max(payload.v), l: last(payload.v)}
  p: {pattern: "PATTERN SEQ(A a, A b) WHERE [k] WITHIN 1 s RETURN a.v AS v, b.k AS k"}
"""
NAMES = (
    *("a'b\"c`d", "new\nline", "\u202egnp.evil\u2066", "nul\0byte", "S" * 250, "../../up"),
    *("%s{}$", "\N{GRINNING FACE}", "a\\b", "--x", "'; DROP TABLE events; --"),
)
VALUES: tuple[object, ...] = (
    1e308,
    -1e308,
    5e-324,
    2**63 - 1,
    -(2**63),
    2**64,
    10**30,
    True,
    None,
    [1],
    {"x": {}},
)
LINES = (
    b'{"source":"n","seq":100,"ts":%d,"arrival":%d,"type":"A","payload":{"k":1e-16383,"v":1}}',
    b'{"source":"n","seq":101,"ts":%d,"arrival":%d,"type":"A","payload":{"k":1e400,"v":NaN}}',
    b'{"source":"n","seq":102,"ts":%d,"arrival":%d,"payload":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    b'{"source":"n","seq":103,"ts":%d,"arrival":%d,"type":"' + b"T" * 100_000 + b'"}',
    b'{"source":"n","seq":9223372036854775807,"ts":9223372036854775807}',
    b'{"source":"n","seq":-1,"ts":-9223372036854775808}',
    b'{"source":"\\ud800","seq":0}',
    *(b"not json \x00 \xff", b"{", b"", b'{"source":', b"[1]", b"null"),
)
BEGIN_NS = 1_700_000_000 * 10**9
STEP_NS = 10**7


def lines() -> Iterator[bytes]:
    def event(source: str, seq: int, k: object, v: object) -> bytes:
        values = {"source": source, "seq": seq, "type": "A", "payload": {"k": k, "v": v}}
        return json.dumps({**values, "ts": at_ns, "arrival": at_ns}).encode()

    at_ns = BEGIN_NS
    for seq in range(2):
        for name in NAMES:
            at_ns += STEP_NS
            yield event(name, seq, name, seq)
    for seq, value in enumerate(VALUES):
        at_ns += STEP_NS
        yield event("n", seq, value, value)
    for line in LINES:
        at_ns += STEP_NS
        yield line % (at_ns, at_ns) if b"%d" in line else line


@pytest.mark.parametrize(
    "form", ["parquet", *(pytest.param(f, marks=pytest.mark.long) for f in ("iceberg", "delta"))]
)
def test_hostile_lines_match_a_replay(form: Any, spark: SparkSession, tmp_path: Path) -> None:
    events, out = tmp_path / "events.jsonl", tmp_path / "out"
    events.write_bytes(b"\n".join(lines()) + b"\n")
    answer = backfill(tmp_path, events, "--format", form, "--json", text=TOPOLOGY).well()
    wanted, account = replayed(tmp_path / "t.yaml", events)
    found = tabled(out) if form == "parquet" else laked(open_lake(spark, form, str(out), run.OWNER))
    assert found == wanted
    counts = ("in", "event", "late", "duplicate", "dead", "held")
    assert [answer.summary[name] for name in counts] == [account[name] for name in counts]
    assert answer.summary["dead"] >= len(LINES) - 5
