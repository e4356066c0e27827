"""Examples: results that only the end of the input decides are uncertain and not final. All others
keep their confidence and their values.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from inorder.engine import Detector, RawEvent, parse, replay
from inorder.given import Reader, records_of
from inorder.records import JoinRecord, MatchRecord, WindowRecord
from spark_analytics.backfill.state import GroupState, pack, unpack
from topology.base.outcome import Step
from topology.stage.replay import Replay

S = 1_000_000_000
STREAM = """\
streams:
  default: {clock: {unsynced: trust}, merge: {idle_after: 10s, new_source_allowance: 0s}}
"""
QUERIES = """\
queries:
  silent: {pattern: "PATTERN SEQ(H h, !H) WHERE [machine] WITHIN 5 s"}
  told: {pattern: "PATTERN SEQ(H h, !H) WHERE [machine] WITHIN 5 s EMIT EAGER", finals: true}
  spans: {window: tumbling 5s, aggregate: {n: count()}, finals: true}
  sessions: {window: session 3s, key: payload.machine, aggregate: {n: count()}, finals: true}
  fives: {window: count 5, aggregate: {n: count()}, finals: true}
  alone:
    join: interval 0s to 5s
    sides: {one: {type: H}, other: {type: X}}
    key: payload.machine
    outer: left
    finals: true
"""

Said = tuple[int, bool, str]
"""Begin of a result, whether it is final, and its confidence."""


def event(at: int, type_: str = "H", machine: str = "m") -> RawEvent:
    payload = {"machine": machine}
    return RawEvent(
        source=machine, seq=at, ts_ns=at * S, arrival_ns=at * S + 1, type=type_, payload=payload
    )


def lives(machine: str, until: int) -> list[RawEvent]:
    """Return a heartbeat each second."""
    return [event(at, machine=machine) for at in range(until)]


def inputs() -> list[RawEvent]:
    """Return the events of a machine that lives to the end, and of one that stops twelve seconds
    before.

    The one that stops sends an end-of-stream marker.
    """
    dead = lives("dead", 9)
    bye = RawEvent(source="dead", seq=9, ts_ns=9 * S, arrival_ns=9 * S, kind="bye")
    return sorted([*lives("well", 21), *dead, bye], key=lambda each: each.arrival_ns or 0)


def said(records: Iterable[Any], of: type[Any], query: str) -> list[Said]:
    last = {}
    for record in records:
        if isinstance(record, of) and record.query == query:
            last[record.id] = record
    stands = [each for each in last.values() if each.op != "retract"]
    return sorted((each.start_ns // S, each.final, each.confidence) for each in stands)


SILENT: list[Said] = [(8, True, "confirmed"), (20, False, "uncertain")]
"""The silence is confirmed of the machine that was silent while others sent events."""
STANDS: dict[str, tuple[type[Any], list[Said]]] = {
    "silent": (MatchRecord, SILENT),
    "told": (MatchRecord, SILENT),
    "spans": (
        WindowRecord,
        [*((at, True, "confirmed") for at in (0, 5, 10, 15)), (20, False, "uncertain")],
    ),
    "sessions": (WindowRecord, [(0, False, "uncertain"), (0, True, "confirmed")]),
    "alone": (
        JoinRecord,
        [
            *((at, True, "confirmed") for at in sorted([*range(9), *range(15)])),
            *((at, False, "uncertain") for at in range(15, 21)),
        ],
    ),
}


def test_end_alone_confirms_nothing() -> None:
    """A silence, window, session or row that is open at the end is not final. A full count keeps
    its confidence.
    """
    records = list(replay(STREAM + QUERIES, inputs()))
    for query, (of, expected) in STANDS.items():
        assert said(records, of, query) == expected, query
    fives = said(records, WindowRecord, "fives")
    assert {each[1:] for each in fives} == {(True, "confirmed")}


@pytest.mark.parametrize("query", ["silent", "spans", "alone"])
@pytest.mark.parametrize("answer", ["answer: final", "finals: true"])
def test_waiting_results_appear_at_the_end(query: str, answer: str) -> None:
    of, expected = STANDS[query]
    finals = ", finals: true" if query == "spans" else "\n    finals: true"
    text = (STREAM + QUERIES).replace(finals, "")
    if query == "alone":
        text += f"    {answer}\n"
    else:
        text = text.replace(f"{query}: {{", f"{query}: {{{answer}, ")
    assert said(replay(text, inputs()), of, query) == expected


@pytest.mark.parametrize("more", ["finals: true", "answer: final"])
def test_full_match_stays_confirmed(more: str) -> None:
    """Only the match's finality depends on the end."""
    pair = f'pair: {{pattern: "PATTERN SEQ(H a, H b) WHERE [machine] WITHIN 5 s", {more}}}'
    found = said(replay(f"{STREAM}queries: {{{pair}}}\n", inputs()), MatchRecord, "pair")
    assert {confidence for _, _, confidence in found} == {"confirmed"}
    assert [at for at, final, _ in found if not final] == [19]


CHAIN = """\
queries:
  found:
    pattern: PATTERN SEQ(H h, X+ x) WITHIN 9 s MATCHES BEST RETURN h.machine AS m INTO Found
    finals: true
  then: {pattern: "PATTERN SEQ(Found f, Y y) WITHIN 9 s RETURN f.m AS m INTO Then", finals: true}
  last: {pattern: "PATTERN SEQ(Then t, Z z) WITHIN 9 s", finals: true}
  quiet: {pattern: "PATTERN SEQ(Found f, !Found g FOR 1 s) WITHIN 9 s", finals: true}
  seen: {detector: seen, reads: found, finals: true}
  above: {detector: seen, reads: seen, finals: true}
"""


@pytest.mark.parametrize("until", [1, 9, 30])
def test_final_needs_final_input(until: int) -> None:
    """A match can grow for nine seconds. Its readers have its confidence, except for an absence
    that is not over before the end.
    """
    seen = Detector(step=lambda state, event: (state, [{"type": event.type}]))
    topology = parse(STREAM + CHAIN, detectors={"seen": seen})
    found = list(replay(topology, [event(at, "HXYZ"[min(at, 3)]) for at in range(until + 1)]))
    is_final = until > 9
    for query in ("found", "seen", "above", "quiet", *("then", "last")[: until - 1]):
        sure = "uncertain" if query == "quiet" and until == 1 else "confirmed"
        assert [each[1:] for each in said(found, MatchRecord, query)] == [(is_final, sure)], query
    updates = [(each.query, each.final) for each in of_queries(found) if each.op == "update"]
    assert {final for _, final in updates} <= {True}, "an update of nothing"
    assert len(updates) == (6 if is_final else 0)


EARLY = """\
queries:
  next: {pattern: "PATTERN SEQ(H a, H b) WITHIN 5 s", finals: true}
  any: {pattern: "PATTERN SEQ(H a, H b) WITHIN 5 s USING skip_till_any", finals: true}
  absent: {pattern: "PATTERN SEQ(H a, !X x FOR 1 s) WITHIN 5 s EMIT EAGER", finals: true}
  rows:
    finals: true
    pattern: "SELECT * FROM `default` MATCH_RECOGNIZE (ALL ROWS PER MATCH AFTER MATCH SKIP TO NEXT
      ROW PATTERN (A B+ C?) WITHIN INTERVAL '4' SECOND DEFINE C AS v > 1)"
  spans: {window: tumbling 5s, aggregate: {n: count()}, early: 1s, finals: true}
  sessions: {window: session 3s, aggregate: {n: count()}, early: 1s}
  alone:
    join: interval 0s to 5s
    sides: {one: {type: H}, other: {type: X}}
    outer: left
    quality: {accuracy: 50%, max_wait: 100ms}
    finals: true
  seen: {detector: seen, finals: true}
  above: {detector: seen, reads: [seen, next], finals: true}
"""


def test_end_repeats_no_result() -> None:
    """Half of the results were emitted before the end, and are not final at the end."""
    seen = Detector(step=lambda state, event: (state, [{"type": event.type}]))
    topology = parse("correct_for: 1h\n" + STREAM + EARLY, detectors={"seen": seen})
    found = list(of_queries(replay(topology, lives("m", 8))))
    before: dict[str, Any] = {}
    for each in found:
        content = replace(each, at_ns=0, revision=0, op="")
        assert each.op != "update" or content != before[each.id], each
        before[each.id] = content
    assert {each.query for each in found if not each.final} == {*topology.queries}


def of_queries(records: Iterable[Any]) -> Iterable[Any]:
    return (each for each in records if hasattr(each, "query"))


class Silence:
    """A detector that emits after five seconds without an event, and once more at the end."""

    def __init__(self) -> None:
        self.last_ns = 0

    def on_event(self, event: Any) -> Any:
        self.last_ns = event.time_ns
        return ()

    def deadline(self) -> int | None:
        return self.last_ns + 5 * S if self.last_ns else None

    def on_time(self, now_ns: int) -> Any:
        self.last_ns = 0
        return [{"silent": True}]


@pytest.mark.parametrize("answer", ["final", "early", "speculate"])
def test_timer_fired_by_end_is_uncertain(
    answer: str,
) -> None:
    query = f"detector: silence, key: payload.machine, finals: true, answer: {answer}"
    text = f"{STREAM}queries: {{silent: {{{query}}}}}\n"
    topology = parse(text, detectors={"silence": Silence})
    found = said(replay(topology, inputs()), MatchRecord, "silent")
    assert [each[1:] for each in found] == [(True, "confirmed"), (False, "uncertain")]


def test_resumed_history_adds_no_silence() -> None:
    """A backfill leaves its state open, so the run after it gives the results of one replay. The
    machine that was alive at the end of history is still alive.
    """
    topology = parse(STREAM + QUERIES)
    sent = sorted([*inputs(), *lives("well", 40)[21:]], key=lambda each: each.arrival_ns or 0)
    contents = list(Reader(topology).contents(sent))
    history, live = Replay(topology), Replay(topology)
    found: list[Step | None] = [history.on_inputs(contents[:31], sent[31].arrival_ns)]
    saved = history.save()
    left: Any = unpack(pack(GroupState(saved, (), {}))).saved
    live.restore(left)
    found += [live.on_inputs(contents[31:]), live.on_end()]
    whole = [record for step in found if step is not None for record in records_of(step)]
    for query in ("silent", "told"):
        assert said(whole, MatchRecord, query) == said(replay(topology, sent), MatchRecord, query)
        assert said(whole, MatchRecord, query) == [(8, True, "confirmed"), (39, False, "uncertain")]
