"""Examples: how events, places and state pass through a flow graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.kit.places import give_back, twins
from tests.kit.places import places_of as kept_places
from tests.kit.runs import through_changelog
from topology.base.event import DATA, NO_EPOCH, Event
from topology.base.operator import Operator
from topology.base.outcome import Duplicate, Step
from topology.config import Topology, parse
from topology.stage.chain import Chain
from topology.stage.graph import Graph, Junction
from topology.stage.lanes import lanes_of
from topology.stage.ledger import Ledger
from topology.stage.node import BATCH, END, JoinInput
from topology.stage.registry import ALIGN_PLACE, move_places, operators_of, place_moves, places_of
from topology.stage.stage import Stage

MS = 1_000_000
START = 1_700_000_000_000 * MS
TWO = "streams: {a: {clock: {unsynced: trust}}, b: {clock: {unsynced: trust}}, c: {}}\n"
JOIN = "join: interval 40ms, sides: {x: {stream: a}, y: {stream: b}}, outer: left"
QUALITY = "quality: {accuracy: 90%, max_wait: 300ms}"
WINDOW = "window: tumbling 100ms, aggregate: {n: count()}"
PATTERN = "pattern: 'PATTERN SEQ(A x, B y) WITHIN 1 s'"


def topology(*queries: str, more: str = "") -> Topology:
    named = "".join(f"  q{at}: {{{query}}}\n" for at, query in enumerate(queries))
    return parse(f"{TWO}{more}\nqueries:\n{named}")


def event(stream: str, seq: int, ms: int, offset: int, kind: str = "A") -> Event:
    at_ns = START + ms * MS
    made = Event(stream, f"s{stream}", NO_EPOCH, seq, at_ns, at_ns + MS, offset, None, b"{}", kind)
    made.epoch = 0
    return made


def alternating() -> list[Event]:
    return [event("ab"[at % 2], at // 2, at * 5, at, "AB"[at // 2 % 2]) for at in range(20)]


class Noting(Operator):
    """An operator that notes its input and its time, and reports each event as a duplicate."""

    def __init__(self) -> None:
        self.given: list[tuple[list[int], int]] = []

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        self.given.append(([event.offset for event in events], now_ns))
        return Step(now_ns, list(events), [Duplicate(one.at_ns, one) for one in events])


def two_chains(keeps_log_order: bool) -> tuple[Graph, Noting]:
    """Return a graph of streams a and b, which meet without a node before the meeting point."""
    chains = {stream: Chain([]) for stream in "ab"}
    inputs = {stream: JoinInput() for stream in "ab"}
    for stream, chain in chains.items():
        chain.edges.append(inputs[stream])
    noting = Noting()
    junction = Junction("noting", noting, 2, Ledger(), inputs, keeps_log_order=keeps_log_order)
    return Graph(chains, [junction], own_clocks=keeps_log_order), noting


def test_streams_meet_by_time() -> None:
    graph, noting = two_chains(keeps_log_order=False)
    graph.run(BATCH, {"a": [event("a", 0, 9, 0)], "b": [event("b", 0, 5, 1)]}, START + 20 * MS)
    assert noting.given == [([1, 0], START + 20 * MS)]


def test_ordered_topic_keeps_log_order() -> None:
    """After the ordered topic each stream has its own clock."""
    graph, noting = two_chains(keeps_log_order=True)
    graph.run(BATCH, {"b": [event("b", 0, 5, 1)], "a": [event("a", 0, 9, 0)]}, START + 20 * MS)
    assert noting.given == [([0, 1], START + 6 * MS)]


def test_junction_passes_each_event_once() -> None:
    graph, _ = two_chains(keeps_log_order=False)
    step = graph.run(BATCH, {"a": [event("a", 0, 9, 0)], "b": []}, START + 20 * MS)
    assert [one.offset for one in step.released] == [0]
    assert [report.at_ns for report in step.reports] == [START + 10 * MS]
    assert graph.run(END, {}, START + 20 * MS).released == []


def test_join_holds_the_input_events() -> None:
    """An input's owner then knows whether an event is buffered, wherever joins read."""
    for answer, stages in (
        ("early", (["join"], ["merge", "join"])),
        ("speculate", (["merge", "join"],)),
    ):
        asked = topology(f"{JOIN}, {QUALITY}, answer: {answer}")
        for operators in stages:
            stage = Stage(asked, operators, lanes=lanes_of("raw", 1))
            events = alternating()
            stage.on_batch(events, events[-1].at_ns)
            held = list(stage.iter_held())
            assert held
            assert stage.ledger.kept_among(events) == set(held)


def test_unjoined_stream_has_no_edge() -> None:
    stage = Stage(topology(JOIN), ["join"])
    stage.begin(stage.streams)
    assert stage.chains["a"].edges
    assert not stage.chains["c"].edges


def started(asked: Topology, operators: Sequence[str], events: list[Event]) -> Stage:
    stage = Stage(asked, operators)
    stage.on_batch(events, events[-1].at_ns)
    return stage


def test_removed_query_has_no_state() -> None:
    both = topology(f"stream: a, {WINDOW}", f"stream: b, {WINDOW}")
    one = topology(f"stream: a, {WINDOW}")
    stage = started(both, ["window"], alternating())
    table: dict[str, Any] = stage.snapshot()
    again = Stage(one, ["window"])
    give_back(again, through_changelog(table), twins(kept_places(stage)))
    table |= again.changes()
    assert {key for key, value in table.items() if value is not None} == set(again.snapshot())
    others = {key for key in again.snapshot() if not key.startswith("a\n")}
    assert others == {"b\npassed/#shape", "b\npassed/passed"}, "its events go on passing"
    assert not any(value is None for value in again.changes().values()), "it is said once"


def test_removed_query_frees_events() -> None:
    both = topology(f"stream: a, {PATTERN}", f"stream: b, {PATTERN}")
    stage = started(both, ["pattern"], alternating())
    held = kept_places(stage)
    assert {one.stream for one in held} == {"a", "b"}
    again = Stage(topology(f"stream: a, {PATTERN}"), ["pattern"])
    give_back(again, stage.snapshot(), held)
    assert again.ledger.kept_among(held) == set(again.iter_held())
    assert {one.stream for one in again.iter_held()} == {"a"}


def test_places_follow_the_file() -> None:
    """Adding the first query of a kind, or removing the last one, shifts the places after it."""
    few, more = ["reorder", "merge", "pattern"], ["reorder", "merge", "window", "pattern"]
    was, now = places_of(few), places_of(more)
    moves = place_moves(few, more)
    places = ALIGN_PLACE | was["merge"] | was["pattern"]
    assert move_places(places, moves) == ALIGN_PLACE | now["merge"] | now["pattern"]
    back = place_moves(more, few)
    assert move_places(now["window"] | now["pattern"], back) == was["pattern"]
    assert place_moves(few, few) == {}
    assert operators_of({"merge": 3, "clock": 2, "reorder": 3, "pattern": 3}) == few


def test_only_earlier_events_are_moved() -> None:
    stage = Stage(topology(f"stream: a, {WINDOW}"), ["reorder", "merge", "window"], streams=["a"])
    stage.ledger.moved = []
    events = [event("a", seq, seq, seq, DATA) for seq in range(5)]
    stage.on_batch(events, START + 5 * MS)
    stage.on_time(START + 10_000 * MS)
    moved = [one.offset for one in stage.ledger.take_moved()]
    assert moved == [events[-1].offset], "MERGE emitted the others in the step in which they came"
    assert stage.ledger.take_moved() == []
