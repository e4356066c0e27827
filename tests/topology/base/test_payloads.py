"""Laws: queries that share a step's decoded payloads find the same as each query alone."""

from __future__ import annotations

from random import Random
from typing import Any

import orjson
import pytest

from codec import make_scan
from topology.base.encoded import Encoded
from topology.base.event import Event
from topology.base.payload import MAX_SCANNED, UNREADABLE, Payloads
from topology.config import Topology, parse
from topology.stage.stage import Stage

S = 1_000_000_000
WINDOW = (
    "{name}: {{window: tumbling 10s, key: payload.{key},"
    " aggregate: {{n: count(), s: sum(payload.{field})}}}}"
)
WHOLE = "whole: {window: session 10s, key: payload, aggregate: {n: count(), s: sum(payload)}}"
KEYED = "keyed: {window: tumbling 10s, key: payload, aggregate: {n: count()}}"
HALF = 'half: {window: tumbling 10s, key: payload.k, aggregate: {s: "sum(payload.\\ud800)"}}'
DEEP = "deep: {window: tumbling 10s, aggregate: {s: sum(payload.in.x)}}"
PATTERN = 'p: {pattern: "PATTERN SEQ(t a, t b) WHERE a.x < b.x WITHIN 5s"}'
VALUES: list[Any] = [
    {"k": "a", "x": 1}, {"k": "b", "x": 2.5, "y": 3}, {"k": 7, "x": "no"}, {"k": "a"}, [1], None, 5,
    {"k": "\xe4", "x": 1, "in": {"x": 4}}, {"k": "a", "x": 10**18}, {"x": True, "k": None},
]  # fmt: skip
ODD = [
    b"",
    b"{",
    b'{"k":"a","x":1,"x":2}',
    b'{"k":"\\u0061","x":-0}',
    b'{"k":"a","x":1e300} ',
    b"\xff",
]


def topology_of(*queries: str) -> Topology:
    merge = "merge: {max_wait: 1s, idle_after: 1min, quiet_after: 2min}"
    stream = f"streams: {{default: {{clock: {{unsynced: trust}}, {merge}}}}}\n"
    return parse(stream + "queries:\n" + "".join(f"  {query}\n" for query in queries))


def window(name: str, key: str = "k", field: str = "x") -> str:
    return WINDOW.format(name=name, key=key, field=field)


def events(dice: Random, count: int = 200) -> list[Event]:
    found = []
    for seq in range(count):
        value = dice.choice(ODD) if dice.random() < 0.2 else orjson.dumps(dice.choice(VALUES))
        source = dice.choice(["s0", "s1"])
        ts_ns = (100 + seq) * S // 4
        found.append(Event("default", source, 0, seq, ts_ns, ts_ns, seq, None, value, "t"))
    return found


def results(topology: Topology, given: list[Event], scan: Any = None) -> list[str]:
    stage = Stage(topology, ("reorder", "merge", "window", "pattern"), make_scan=scan)
    found = []
    for at in range(0, len(given), 17):
        batch = given[at : at + 17]
        found += stage.on_batch(batch, batch[-1].at_ns).results
    found += stage.on_end(given[-1].at_ns + 100 * S).results
    return sorted([repr(each) for each in found] + [repr(stage.figures_of("default"))])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "queries",
    [
        [window("one")],
        [window("one"), window("two", "y"), window("three", field="y")],
        [window("one"), DEEP],
        [window("one"), PATTERN],
        [WHOLE],
        [KEYED, window("one")],
        [HALF],
    ],
    ids=[
        "one window",
        "several windows",
        "below the first level",
        "a pattern",
        "the whole payload",
        "the whole payload as a key",
        "half of a character",
    ],
)
def test_law_scanned_fields_match_payloads(queries: list[str], seed: int) -> None:
    if make_scan is None:
        pytest.skip("the compiled codec is not built")
    scanned = results(topology_of(*queries), events(Random(seed)), make_scan)
    assert scanned == results(topology_of(*queries), events(Random(seed)))
    assert any("Result" in each for each in scanned)


def test_law_shared_queries_find_the_same() -> None:
    queries = [window("one"), window("two", "y"), DEEP, PATTERN]

    def about_results(found: list[str]) -> list[str]:
        return [each for each in found if "Result" in each]

    together = about_results(results(topology_of(*queries), events(Random(1))))
    alone = [
        each
        for one in queries
        for each in about_results(results(topology_of(one), events(Random(1))))
    ]
    assert together == sorted(alone)


@pytest.mark.parametrize("queries", [1, 3])
def test_value_is_decoded_once(queries: int) -> None:
    calls: list[bytes] = []

    def read(value: bytes) -> Any:
        calls.append(value)
        return orjson.loads(value)

    given = events(Random(0))
    for event in given:
        event.value = Encoded.of(b'{"k":%d,"x":1}' % event.seq, read)
    results(topology_of(*[window(f"w{at}") for at in range(queries)]), given)
    assert len(calls) == len(given)


def test_payloads_are_kept_until_step_ends() -> None:
    """A payload with more than `MAX_SCANNED` fields to read is decoded as a whole."""
    asked: list[list[str]] = []

    def make(names: Any) -> Any:
        asked.append([*names])
        return lambda _: {"k": 1}

    event = Event("default", "s", 0, 0, 0, 0, value=b'{"k":2}')
    payloads = Payloads(make)
    payloads.register_paths([("k",), ("x",)])
    assert payloads.of(event) == {"k": 1}
    payloads.register_paths([("k",), ("y",)])
    assert asked == [["k", "x"], ["k", "x", "y"]]
    first = payloads.of(event)
    assert payloads.of(event) is first
    payloads.clear()
    assert payloads.of(event) is not first
    payloads.register_paths([(f"f{at}",) for at in range(MAX_SCANNED)])
    payloads.clear()
    assert payloads.of(event) == {"k": 2}
    event.value = b"{"
    payloads.clear()
    assert payloads.of(event) is UNREADABLE


def test_large_step_keeps_few_payloads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """MERGE can emit all its buffered events at once."""
    monkeypatch.setattr("topology.base.payload.MAX_KNOWN", 3)
    payloads = Payloads()
    for _ in range(2):
        payloads.register_paths(None)
    given = [Event("default", "s", 0, seq, 0, 0, value=b'{"k":2}') for seq in range(5)]
    found = [payloads.of(event) for event in given]
    again = [payloads.of(event) for event in given]
    assert found == again == [{"k": 2}] * 5
    assert [one is other for one, other in zip(found, again, strict=True)] == [True] * 3 + [
        False
    ] * 2
