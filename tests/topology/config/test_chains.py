"""Examples: queries that read each other's results, what is refused, and the resulting stages."""

from __future__ import annotations

import pytest

from inorder.engine import Detector, TopologyError, parse
from topology.config import DetectorQuery, Topology
from topology.config.chains import level_of
from topology.config.resolved import resolve_query
from topology.stage.build import inputs_of

OWN = {"d": Detector(lambda state, event: (state, None), 0)}
STREAMS = "streams: {default: {}, other: {}}\n"
ONE = "streams: {default: {}}\n"


def topology(queries: str, more: str = ONE) -> Topology:
    lines = "".join(f"  {line.strip()}\n" for line in queries.splitlines() if line.strip())
    return parse(f"{more}queries:\n{lines}", detectors=OWN)


A_READS_B = "a: {detector: d, reads: [b]}"
WINDOW = "w: {window: tumbling 1s, key: payload.k, aggregate: {n: count()}}"

CASES = [
    (A_READS_B, "there is no query `b`, and it is not the stream"),
    ("a: {detector: d, reads: hits}\nhit: {detector: d}", "did you mean `hit`?"),
    ("a: {detector: d, reads: []}", "is not a list of queries"),
    ("a: {detector: d, reads: [b, b]}\nb: {detector: d}", "`b` appears here twice; name it once"),
    ("a: {detector: d, reads: [a]}", "reads itself: `a` reads `a`"),
    (
        f"{A_READS_B}\nb: {{detector: d, reads: [default, c]}}\nc: {{detector: d, reads: [a]}}",
        "reads itself: `a` reads `b` reads `c` reads `a`",
    ),
    (
        "a: {window: tumbling 1s, aggregate: {n: count()}, reads: [b]}\nb: {detector: d}",
        "belongs to a detector, not to a window",
    ),
    (
        "a: {detector: d, reads: [r]}\nr: {join: interval 1s, sides: {x: {type: X}, y: {type: Y}}}",
        "is a join, whose rows are not events",
    ),
    (f"a: {{detector: d, reads: [w], answer: speculate}}\n{WINDOW}", "waits for the merge, but"),
    ("a: {detector: d, reads: [default]}\ndefault: {detector: d}", "is a stream and a query"),
]


@pytest.mark.parametrize(("queries", "wrong"), CASES)
def test_bad_reads_are_refused(queries: str, wrong: str) -> None:
    with pytest.raises(TopologyError) as refused:
        topology(queries)
    assert wrong in str(refused.value)
    assert str(refused.value).count("reads itself") <= 1, "a circle is told once"


def test_reading_other_stream_is_refused() -> None:
    queries = "a: {detector: d, stream: default, reads: [b]}\nb: {detector: d, stream: other}"
    with pytest.raises(TopologyError) as refused:
        topology(queries, STREAMS)
    assert "`b` finds its results in stream `other`" in str(refused.value)


def test_reader_shares_the_stage() -> None:
    queries = f"a: {{detector: d, reads: [w]}}\n{WINDOW}"
    found = topology(queries)
    (stage,) = found.stages
    assert {"window", "detector"} <= {*stage.operators}
    with pytest.raises(TopologyError) as refused:
        topology(queries, f"{ONE}stages: [reorder, merge, window, detector]\n")
    assert "`w` runs in another stage than `detector`" in str(refused.value)
    topology(queries, f"{ONE}stages: [reorder, merge+window+detector]\n")


def test_levels_follow_from_reads() -> None:
    found = topology(
        f"{WINDOW}\n"
        "low: {detector: d, reads: [default, w], correct_for: 2s}\n"
        "high: {detector: d, reads: [low, w], correct_for: 1s}\n"
    )
    high = found.queries["high"]
    assert isinstance(high, DetectorQuery)
    assert [level_of(found, name) for name in ("w", "low", "high")] == [0, 1, 2]
    readings = inputs_of(found, high).reads
    assert [(each.query, each.into, each.is_keyed) for each in readings] == [
        ("low", "low", False),
        ("w", "w", True),
    ]
    runs = resolve_query(found, "high", high)
    assert (runs.changes_for_ns, inputs_of(found, high).reads_stream) == (600 * 10**9, False)
