"""Examples: each path in a topology can contain a name in backquotes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from inorder.engine import Detector, parse, replay
from inorder.records import JoinRecord, MatchRecord, WindowRecord
from topology.base.event import Event
from topology.records.line_reader import LineReader, Row
from topology.stage.unmet import make_unmet_check

MS = 1_000_000
HEAD = "streams: {default: {}}\nqueries:\n  q:\n"

Found = dict[tuple[str | None, ...], dict[str, Any]]


def lines() -> list[dict[str, Any]]:
    """Return two events for each of three types, one from s0 and one from s1, with different
    values.
    """
    return [
        {"source": source, "seq": seq, "ts": seq * 100 * MS, "type": type_,
         "payload": {"Truck No": f"truck {source}", "x.y": {"Größe": seq + more, "a`b": "B"}}}
        for seq, type_ in enumerate("ABC")
        for source, more in (("s0", 0), ("s1", 10))
    ]  # fmt: skip


def answer(query: str, detectors: Mapping[str, Any] | None = None) -> Found:
    """Return the values of each result of the query, keyed by the parts of the result's key."""
    text = HEAD + "".join(f"    {line}\n" for line in query.strip().splitlines())
    records = [*replay(parse(text, detectors=detectors), lines())]
    found: Found = {}
    for each in records:
        if isinstance(each, WindowRecord | JoinRecord | MatchRecord):
            key = each.key if isinstance(each.key, tuple | list) else (each.key,)
            found[(*key,)] = dict(each.values)
    return found


S0, S1 = ("truck s0",), ("truck s1",)
COUNTED = {"n": 3}
SIDES = "sides: {a: {type: A}, b: {type: B}}"
WHERE = "pattern: PATTERN SEQ(A a, B b) WHERE [`Truck No`]"


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("window: tumbling 10s\nkey: payload.`Truck No`\naggregate: {n: count()}",
         {S0: COUNTED, S1: COUNTED}),
        ("window: tumbling 10s\nkey: source\naggregate: {n: count()}",
         {("s0",): COUNTED, ("s1",): COUNTED}),
        ("window: tumbling 10s\nkey: source\naggregate: {m: sum(payload.`x.y`.Größe)}",
         {("s0",): {"m": 3}, ("s1",): {"m": 33}}),
        ("window: sliding 10s every 10s\nkey: source\naggregate: {m: first(payload.`x.y`.`a``b`)}",
         {("s0",): {"m": "B"}, ("s1",): {"m": "B"}}),
        ("window: session 5s\naggregate: {m: 'quantile(payload.`x.y`.`Größe`, 0)'}",
         {(None,): {"m": 0}}),
        ((f"join: interval 1s\nkey: payload.`Truck No`\n{SIDES}\n"
         "values: {v: a.payload.`x.y`.`a``b`, w: b.payload.`x.y`.Größe}"),
         {S0: {"v": "B", "w": 1}, S1: {"v": "B", "w": 11}}),
        (f"join: interval 1s\nkey: source\n{SIDES}\nvalues: {{w: b.payload.`x.y`.Größe}}",
         {("s0",): {"w": 1}, ("s1",): {"w": 11}}),
        (("join: interval 1s\nsides:\n  a: {type: A, key: payload.`Truck No`}\n"
         "  b: {type: B, key: payload.`Truck No`}\nvalues: {w: a.payload.`x.y`.Größe}"),
         {S0: {"w": 0}, S1: {"w": 10}}),
        (f"{WHERE} WITHIN 5 s RETURN a.`x.y`.`a``b` AS v, b.payload.`x.y`.Größe AS w",
         {S0: {"v": "B", "w": 1}, S1: {"v": "B", "w": 11}}),
        ((f"{WHERE} AND a.`x.y`.`Größe` + 1 = b.payload.`x.y`.Größe AND a.`x.y`.Größe > 5"
         " WITHIN 5 s RETURN a.source AS s"), {S1: {"s": "s1"}}),
        (("pattern: PATTERN A|B|C+ a[] WHERE [payload.`Truck No`] WITHIN 5 s"
         " USING skip_till_any MATCHES MAXIMAL RETURN sum(a[].`x.y`.Größe) AS m"),
         {S0: {"m": 3}, S1: {"m": 33}}),
        (("pattern: PATTERN SEQ(A a, B|C+ b[] UNTIL (b.`x.y`.Größe = 2), C c) WHERE [`Truck No`]"
         " WITHIN 5 s RETURN count(b[].`x.y`.`a``b`) AS n"), {S0: {"n": 1}, S1: {"n": 1}}),
        ("detector: last\nkey: payload.`Truck No`", {S0: {"at": 2}, S1: {"at": 12}}),
        ("detector: last\nkey: source", {("s0",): {"at": 2}, ("s1",): {"at": 12}}),
    ],
)  # fmt: skip
def test_query_reads_backquotes(query: str, wanted: Found) -> None:
    last = Detector(lambda state, event: (state, _last(event)), None)
    assert answer(query, {"last": last} if "detector" in query else None) == wanted


def _last(event: Any) -> dict[str, Any] | None:
    return {"at": event.payload["x.y"]["Größe"]} if event.type == "C" else None


def test_sql_reads_backquotes() -> None:
    query = """
pattern: |
  SELECT `Truck No`, v FROM default MATCH_RECOGNIZE (
    PARTITION BY `Truck No` ORDER BY ref_time
    MEASURES A.`x.y`.`a``b` AS v
    PATTERN (A B) WITHIN INTERVAL '5' SECOND
    DEFINE A AS A.type = 'A', B AS B.`x.y`.Größe > 10)
"""
    assert answer(query) == {S1: {"Truck No": "truck s1", "v": "B"}}


def test_misspelt_name_has_remedy() -> None:
    topology = parse(
        HEAD + "    {window: tumbling 10s, key: payload.`Trck No`, aggregate: {n: count()}}"
    )
    event = LineReader(topology.reading()).read(Row(1, lines()[0]))
    assert isinstance(event, Event)
    unmet = make_unmet_check(topology)
    unmet.observe([event])
    (words,) = unmet.words("q")
    assert words == (
        "no event has the field ``Trck No``; did you mean ``Truck No``? fields seen: Truck No, x.y"
    )
