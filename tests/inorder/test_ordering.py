"""Laws, over seeds and cut at each input: inputs that are fed one by one give the records of a
replay.

No safe offset passes an event that is not reported yet. A restart from a snapshot gives the records
of an unbroken run, and one from the safe offsets alone misses no event. Examples: time, and refused
inputs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

import pytest

from inorder.engine import (
    ClockSample,
    Detector,
    Input,
    Ordering,
    Partition,
    RawEvent,
    StateUnreadable,
    Topology,
    parse,
    replay,
)
from inorder.given import Reader, records_of
from inorder.ordering import FORM, MAX_PARTITIONS
from inorder.records import (
    DeadRecord,
    DuplicateRecord,
    EventPlace,
    LateRecord,
    MatchRecord,
    OrderedEvent,
    Record,
    WindowRecord,
    record_of,
)
from tests.seeds import seeds_of_today
from topology.records.json_lines import make_step_lines
from topology.records.places import RUNS_UNUSED
from topology.stage.replay import Replay
from topology.state.saved import ShapeRefused

MS = 1_000_000
BEGIN_NS = 1_700_000_000_000 * MS
INPUTS = 40

PLAIN = "streams: {default: {clock: {unsynced: trust}, reorder: {rule: fixed, max_wait: 300ms}}}"
BY_TIME = "streams: {default: {clock: {unsynced: trust}, reorder: {rule: time, max_wait: 300ms}}}"
MIXED = PLAIN.replace("max_wait", "without_seq: by_time, max_wait")
ESTIMATED = "streams: {default: {clock: {sync: udp}, reorder: {late: side}}}"
QUERIES = """
streams:
  default: {clock: {unsynced: trust}, reorder: {rule: fixed, max_wait: 200ms}}
  other: {clock: {unsynced: trust}, merge: {idle_after: 1s}}
queries:
  load: {window: tumbling 1s, aggregate: {n: count(), sum: sum(payload.id)}, stream: default}
  pair: {pattern: "PATTERN SEQ(A a, B b) WITHIN 1 s", stream: default}
  met: {join: interval 300ms, sides: {x: {stream: default}, y: {stream: other}}}
  seen: {detector: jumps, stream: default}
"""
OPEN = (
    QUERIES
    + """
  calls:
    {window: session 400ms, key: payload.kind, aggregate: {n: count()},
      finals: true, stream: default}
  soon: {window: session 200ms, aggregate: {n: count()}, stream: default, early: 100ms}
  sure: {window: session 300ms, aggregate: {n: count()}, stream: default, answer: final}
  tens: {window: count 3, aggregate: {n: count()}, stream: default}
  alone: {join: interval 300ms, sides: {x: {stream: default}, y: {stream: other}}, outer: left}
  pairs: {pattern: "PATTERN SEQ(A a, B b) WITHIN 1 s RETURN a.id AS a INTO Pair", stream: default}
  quiet: {pattern: "PATTERN SEQ(A a, !B x FOR 400 ms) WITHIN 1 s", stream: default}
  told: {pattern: "PATTERN SEQ(A a, !B x) WITHIN 1 s EMIT EAGER", stream: default, finals: true}
  after: {pattern: "PATTERN SEQ(Pair p, !Pair x FOR 200 ms) WITHIN 1 s", stream: default}
  once: {pattern: "PATTERN SEQ(A a, B+ b) WITHIN 500 ms", stream: default, answer: final}
"""
)


def jumps() -> Detector:
    def step(state: Any, event: Any) -> Any:
        found = [] if state is None or event.value["id"] > state else [event.value["id"]]
        return event.value["id"], found

    return Detector(step=step)


TOPOLOGIES = {
    "plain": parse(PLAIN),
    "by_time": parse(BY_TIME),
    "estimated": parse(ESTIMATED),
    "queries": parse(QUERIES, detectors={"jumps": jumps()}),
}
ENDING = {
    unsynced: parse(OPEN.replace("trust", unsynced), detectors={"jumps": jumps()})
    for unsynced in ("trust", "estimate")
}


class Fed(NamedTuple):
    """An input with its partition and offset; without an input, time advances to `tick_ns`."""

    input: Input | None
    partition: Partition = 0
    offset: int = 0
    tick_ns: int = 0


def world(name: str, seed: int, *, ticks: bool = True, odd: bool = True) -> list[Fed]:
    """Draw sources in three partitions with gaps in their offsets: delays, duplicates, lost events.

    With `odd`, there are also dead letters, heartbeats and clock readings. Each input has an id.
    """
    random = Random(seed)
    now_ns, fed, offsets, seqs = BEGIN_NS, list[Fed](), dict[Partition, int](), dict[str, int]()
    known: list[tuple[Partition, RawEvent]] = []
    for id_ in range(INPUTS):
        now_ns += random.choice((0, 1, 30, 100, 700)) * MS
        source = random.choice("abcd")
        partition: Partition = {"a": 0, "b": 0, "c": 1}.get(source, "last")
        seq = seqs[source] = seqs.get(source, -1) + random.choice((1, 1, 1, 2))
        stream = "other" if name == "queries" and source == "d" else "default"
        ts_ns = now_ns - random.randrange(400) * MS
        event = RawEvent(
            source=source,
            seq=seq,
            ts_ns=ts_ns,
            arrival_ns=now_ns,
            type=random.choice("AB"),
            payload={"id": id_, "kind": id_ % 3},
            stream=stream,
        )
        given: Input = event
        kind = random.random()
        if kind < 0.1 and known:
            partition, copied = random.choice(known)  # This event is a duplicate.
            given = replace(copied, arrival_ns=now_ns)
        elif kind < 0.2:
            known.append((partition, event))  # The event is missing now, and may arrive late.
            continue
        elif odd and kind < 0.25:
            given = {**event.line(), "ts": "soon"}
        elif odd and kind < 0.3:
            given = replace(event, kind="heartbeat", payload=None)
        elif odd and kind < 0.4:
            t1_ns = now_ns - 7 * MS
            given = ClockSample(
                source=source, t1_ns=t1_ns, t2_ns=now_ns, t3_ns=now_ns, t4_ns=t1_ns + 2
            )
        else:
            known.append((partition, event))
        offset = offsets.get(partition, 5)
        offsets[partition] = offset + random.choice((1, 1, 3))
        fed.append(Fed(given, partition, offset))
        if ticks and random.random() < 0.2:
            now_ns += random.choice((0, 5, 400)) * MS
            fed.append(Fed(None, tick_ns=now_ns))
    return fed


def push(order: Ordering, each: Fed) -> list[Record]:
    if each.input is None:
        return order.tick(each.tick_ns)
    return order.feed(each.input, partition=each.partition, offset=each.offset)


def is_data(given: Input | None) -> bool:
    """Return whether the input is an event that must be reported."""
    if isinstance(given, RawEvent):
        return not given.kind
    return given is not None and not isinstance(given, ClockSample)


class Out:
    """A set of the inputs that a run has reported, by partition and offset.

    An input is recognised by its line or its payload.
    """

    def __init__(self, fed: Iterable[Fed]) -> None:
        inputs = [each for each in fed if each.input is not None]
        self._lines = dict(enumerate(inputs, 1))
        self.places: list[tuple[Partition, int]] = []

    def add(self, records: Iterable[Record]) -> None:
        for record in records:
            if isinstance(record, OrderedEvent):
                self._leave(self._of(record))
            elif isinstance(record, LateRecord | DuplicateRecord | DeadRecord):
                assert record.line is not None
                self._leave(self._lines[record.line])

    def _of(self, record: OrderedEvent) -> Fed:
        """Return the first duplicate of the event that is not reported yet."""
        return next(
            each
            for each in self._lines.values()
            if isinstance(each.input, RawEvent)
            and each.input.payload == record.payload
            and (each.partition, each.offset) not in self.places
        )

    def _leave(self, each: Fed) -> None:
        self.places.append((each.partition, each.offset))


CASES = [(name, seed) for name in TOPOLOGIES for seed in seeds_of_today(2)]


@pytest.mark.parametrize(("name", "seed"), CASES)
def test_law_feeding_matches_replay(name: str, seed: int) -> None:
    topology, random = TOPOLOGIES[name], Random(seed)
    inputs = [each.input for each in world(name, seed, ticks=False) if each.input is not None]
    edges = sorted([0, *(random.randrange(len(inputs)) for _ in range(12)), len(inputs)])
    whole = sorted(map(repr, replay(topology, inputs)))
    assert feed_all(topology, ([each] for each in inputs)) == whole
    assert feed_all(topology, (inputs[begin:end] for begin, end in pairwise(edges))) == whole


def feed_all(topology: Topology, calls: Iterable[list[Input]]) -> list[str]:
    """Return the records of one call for each list of inputs, and those of the end, sorted."""
    order = Ordering(topology)
    found = [record for inputs in calls for record in order.feed(*inputs)]
    return sorted(map(repr, found + order.close()))


@pytest.mark.parametrize(
    "first", [{}, {"clock": "a", "at": 0, "offset": 5, "error": 1}, {"seq": 1}]
)
@pytest.mark.parametrize("name", TOPOLOGIES)
def test_law_feeding_needs_no_arrivals(name: str, first: dict[str, Any]) -> None:
    """Events without an arrival time give the records of a replay too."""
    inputs: list[Input] = [first] if first else []
    given = [each.input for each in world(name, 3, ticks=False)]
    inputs += [replace(each, arrival_ns=None) for each in given if isinstance(each, RawEvent)]
    whole = sorted(map(repr, replay(TOPOLOGIES[name], inputs)))
    assert feed_all(TOPOLOGIES[name], ([each] for each in inputs)) == whole


@pytest.mark.parametrize(("name", "seed"), CASES)
def test_law_events_can_be_left_out(name: str, seed: int) -> None:
    """With `events=False` an Ordering returns the same records, except for ordered events that are
    in time.
    """
    whole, rest = Ordering(TOPOLOGIES[name]), Ordering(TOPOLOGIES[name], events=False)
    for each in world(name, seed):
        records = push(whole, each)
        kept = [one for one in records if not isinstance(one, OrderedEvent) or one.late]
        assert list(map(repr, push(rest, each))) == list(map(repr, kept))
        assert rest.balance() == whole.balance()


@pytest.mark.parametrize(("name", "seed"), CASES)
def test_law_records_match_lines(name: str, seed: int) -> None:
    order = Ordering(TOPOLOGIES[name])
    run, reader = Replay(order.topology), Reader(order.topology)
    for each in world(name, seed, ticks=False):
        assert each.input is not None
        step = run.on_inputs([reader.read(each.input)])
        if step is not None:
            assert repr(records_of(step)) == repr(
                [record_of(line) for line in make_step_lines(step)]
            )


@pytest.mark.parametrize(("name", "seed"), CASES)
def test_law_safe_offset_passes_no_event(name: str, seed: int) -> None:
    """An event below the safe offset has been reported."""
    fed, order = world(name, seed), Ordering(TOPOLOGIES[name])
    out, seen = Out(fed), list[Fed]()
    before: dict[Partition, int] = {}
    for each in [*fed, None]:
        out.add(order.close() if each is None else push(order, each))
        seen += [each] if each is not None and each.input is not None else []
        assert order.balance().holds
        for partition in {one.partition for one in seen}:
            mine = [one for one in seen if one.partition == partition]
            safe = order.safe_offset(partition)
            assert safe is not None
            assert safe >= before.get(partition, 0)
            before[partition] = safe
            passed = {
                (partition, one.offset) for one in mine if one.offset < safe if is_data(one.input)
            }
            assert passed <= {*out.places}
            if each is None:
                assert safe == mine[-1].offset + 1
    assert len(out.places) == len({*out.places}) == sum(is_data(one.input) for one in seen)


@pytest.mark.parametrize("seed", seeds_of_today(2))
def test_law_safe_offset_is_tight(seed: int) -> None:
    """For inputs without dead letters, heartbeats and clock readings, the safe offset is the first
    unreported one.
    """
    fed, order = world("plain", seed, odd=False), Ordering(TOPOLOGIES["plain"])
    out, seen, waited = Out(fed), list[Fed](), 0
    for each in fed:
        out.add(push(order, each))
        seen += [each] if each.input is not None else []
        for partition in {one.partition for one in seen}:
            mine = [one.offset for one in seen if one.partition == partition]
            waits = [at for at in mine if (partition, at) not in out.places]
            waited += bool(waits)
            assert order.safe_offset(partition) == min(waits, default=mine[-1] + 1)
    assert waited


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seed"), CASES)
def test_law_restored_matches_unbroken(name: str, seed: int) -> None:
    """A run is cut at each input, and the consumer goes back to the safe offsets."""
    topology, fed = TOPOLOGIES[name], world(name, seed)
    whole = Ordering(topology)
    steps = [push(whole, each) for each in fed]
    end = whole.close()
    order = Ordering(topology)
    for at, each in enumerate(fed):
        again = restarted(order)
        assert again.balance() == order.balance()
        for one in back(order, fed[:at]):
            assert push(again, one) == []
        for number, one in enumerate(fed[at:], at):
            assert push(again, one) == steps[number]
        assert again.close() == end
        assert again.balance() == whole.balance()
        push(order, each)


@pytest.mark.parametrize("unsynced", ENDING)
@pytest.mark.parametrize("seed", seeds_of_today(2))
def test_law_restarts_change_nothing(seed: int, unsynced: str) -> None:
    """All operators are restarted at each event.

    At a third of the cuts the input ends, immediately or after a silence.
    """
    topology, fed = ENDING[unsynced], world("queries", seed)
    shaken, unbroken, random = Ordering(topology), Ordering(topology), Random(seed)
    for at, each in enumerate(fed):
        if at % 3 == seed % 3:
            whole, quiet = Ordering(topology), restarted(shaken)
            for one in fed[:at]:
                push(whole, one)
            now_ns = (whole.now_ns or 0) + random.choice((0, 100, 2_000, 60_000)) * MS
            assert quiet.tick(now_ns) == whole.tick(now_ns)
            assert restarted(quiet).close() == whole.close()
        shaken = restarted(shaken)
        assert push(shaken, each) == push(unbroken, each)


def restarted(order: Ordering) -> Ordering:
    again = Ordering(order.topology)
    again.restore(order.snapshot())
    return again


def back(order: Ordering, fed: Iterable[Fed]) -> Iterator[Fed]:
    """Yield the inputs that a consumer reads again."""
    for each in fed:
        if each.input is not None and each.offset >= (order.safe_offset(each.partition) or 0):
            yield each


@pytest.mark.parametrize(("name", "seed"), CASES)
def test_law_safe_offsets_miss_nothing(name: str, seed: int) -> None:
    topology, fed = TOPOLOGIES[name], world(name, seed)
    wanted = {(each.partition, each.offset) for each in fed if is_data(each.input)}
    order, before = Ordering(topology), Out(fed)
    for at, each in enumerate(fed):
        again, rest = Ordering(topology), [*back(order, fed[:at]), *fed[at:]]
        after = Out(rest)
        for one in rest:
            after.add(push(again, one))
        after.add(again.close())
        assert {*before.places, *after.places} == wanted
        before.add(push(order, each))


def test_stored_offsets_are_bounded() -> None:
    order = Ordering(PLAIN)
    for at in range(3 * RUNS_UNUSED):
        order.feed(RawEvent(source="s", seq=at, ts_ns=at * MS, arrival_ns=at * MS))
        assert len(order._places) <= RUNS_UNUSED + 2
    order.close()
    assert order.safe_offset() == 3 * RUNS_UNUSED


# -- time ------------------------------------------------------------------------------------------


def event(seq: int, ts_ns: int = 0, arrival_ns: int | None = None) -> RawEvent:
    return RawEvent(source="s", seq=seq, ts_ns=ts_ns, arrival_ns=arrival_ns)


def test_ticks_replace_event_time() -> None:
    order = Ordering(PLAIN)
    order.feed(event(0, BEGIN_NS))
    assert order.now_ns == BEGIN_NS
    order.tick(BEGIN_NS + 5)
    order.feed(event(1, BEGIN_NS + 41_000 * MS))
    assert order.now_ns == BEGIN_NS + 5


def test_time_does_not_go_back() -> None:
    order = Ordering(PLAIN)
    assert order.now_ns is None
    order.feed(event(0, 0, BEGIN_NS))
    order.tick(BEGIN_NS - 9)
    order.feed(event(1, 0, BEGIN_NS - 5), {"source": 3, "arrival": "x"})
    assert order.now_ns == BEGIN_NS


S = 1_000 * MS
SILENT = """
streams: {default: {clock: {unsynced: trust}, merge: {quiet_after: 3s}}}
queries:
  window: {window: tumbling 5s, aggregate: {n: count()}}
  gone: {pattern: "PATTERN SEQ(A a, !A) WHERE [machine] WITHIN 5 s EMIT EAGER"}
  span: {pattern: "PATTERN SEQ(A a, !B FOR 5 s) WITHIN 1 min EMIT EAGER"}
  near: {pattern: "PATTERN SEQ(A a, !B b) WHERE b.time - a.time < 5 s WITHIN 1 min EMIT EAGER"}
  both: {pattern: "PATTERN SEQ(A a, AND(!B FOR 5 s, !C FOR 3 s)) WITHIN 5 s EMIT EAGER"}
  best: {pattern: "PATTERN SEQ(A a, OR(C c, !B FOR 5 s)) WITHIN 1 s MATCHES BEST EMIT EAGER"}
  each: {pattern: "PATTERN SEQ(A a, !B) WITHIN 5 s USING skip_till_any MATCHES ALL EMIT EAGER"}
  skip: {pattern: "PATTERN SEQ(A a, !B) WITHIN 5 s SKIP PAST LAST EMIT EAGER"}
  slack: {pattern: "PATTERN SEQ(A a, !B) WITHIN 5 s EMIT SLACK 1 s"}
  trust: {pattern: "PATTERN SEQ(A a, !B) WITHIN 5 s UNCERTAIN IGNORE EMIT EAGER"}
  doubt: {pattern: "PATTERN SEQ(A a, !B) WITHIN 5 s UNCERTAIN POSSIBLE EMIT EAGER"}
  below: {pattern: "PATTERN SEQ(A a, !B FOR 2 s) WITHIN 5 s EMIT EAGER RETURN a.seq AS m INTO Gone"}
  above: {pattern: "PATTERN SEQ(Gone g, !Gone FOR 3 s) WITHIN 5 s EMIT EAGER"}
  final: {pattern: "PATTERN SEQ(A a, !B) WITHIN 5 s"}
"""
EARLIER = {"below": 5}
LATER = {"best": 9, "final": 608}


def alive(source: str, seq: int, at_s: float, arrival_s: float | None = None) -> RawEvent:
    ts_ns, arrival_ns = (BEGIN_NS + int(s * S) for s in (at_s, arrival_s or at_s))
    payload = {"machine": source}
    return RawEvent(
        source=source, seq=seq, ts_ns=ts_ns, arrival_ns=arrival_ns, type="A", payload=payload
    )


def silence(order: Ordering, since_s: int, until_s: int) -> list[Record]:
    """Return the records of ticks from `since_s` to `until_s`, while no input arrives."""
    ticks = range(since_s * 10, until_s * 10)
    return [record for at in ticks for record in order.tick(BEGIN_NS + at * S // 10)]


def told(records: Iterable[Record]) -> list[tuple[str, str, int, bool]]:
    """Return query, operation, time in seconds since the start, and finality of each result."""
    return [
        (each.query, each.op, (each.at_ns - BEGIN_NS) // S, each.final)
        for each in records
        if isinstance(each, MatchRecord | WindowRecord)
    ]


def test_absence_follows_watermark() -> None:
    order = Ordering(SILENT)
    order.feed(alive("m", 0, 0))
    found = told(silence(order, 0, 620))
    names = set(order.topology.queries)
    wanted = {name: EARLIER.get(name, LATER.get(name, 8)) for name in names}
    assert {name: at_s for name, op, at_s, _ in found if op == "emit"} == wanted
    assert len(found) == len(names)
    assert {name for name, _, _, is_final in found if is_final} == {"final"}


def test_active_source_hides_no_absence() -> None:
    order = Ordering(SILENT)
    order.feed(*(alive(source, 0, 0) for source in "abcd"))
    records = [
        record
        for at in range(1, 80)
        for record in (*order.feed(alive("a", at, at / 10)), *order.tick(BEGIN_NS + at * S // 10))
    ]
    gone = [
        (each.values["a"]["machine"], (each.at_ns - BEGIN_NS) // S)
        for each in records
        if isinstance(each, MatchRecord) and each.query == "gone"
    ]
    assert gone == [("b", 5), ("c", 5), ("d", 5)]


@pytest.mark.parametrize("pieces", [1, 7, 60])
def test_backlog_causes_no_absence(pieces: int) -> None:
    """A backlog of a minute is read at once; no tick passes events that are still in the log."""
    order = Ordering(SILENT)
    backlog = [alive(source, at, at) for at in range(60) for source in "ab"]
    step = len(backlog) // pieces
    records: list[Record] = []
    for at in range(0, len(backlog), step):
        records += order.feed(*backlog[at : at + step])
    records += silence(order, 60, 67)
    assert "gone" not in [query for query, *_ in told(records)]
    assert "gone" in [query for query, *_ in told(silence(order, 67, 69))]


def test_late_event_retracts_absence() -> None:
    order = Ordering(SILENT)
    order.feed(alive("m", 0, 0))
    silence(order, 0, 20)
    found = [each for each in told(order.feed(alive("m", 1, 4, 20))) if each[0] == "gone"]
    found += [each for each in told(silence(order, 20, 40)) if each[0] == "gone"]
    assert found == [("gone", "retract", 20, False), ("gone", "emit", 20, False)]


@pytest.mark.parametrize("at_s", [1, 7, 9, 100])
def test_restart_keeps_absences(at_s: int) -> None:
    whole, cut = Ordering(SILENT), Ordering(SILENT)
    for order in (whole, cut):
        order.feed(alive("m", 0, 0), alive("n", 0, 1))
    before = told(silence(cut, 2, at_s))
    assert before + told(silence(restarted(cut), at_s, 620)) == told(silence(whole, 2, 620))


@pytest.mark.parametrize("to_end", [False, True])
def test_replay_reports_absences(to_end: bool) -> None:
    """Each absence has the time at which a worker would emit it.

    At the end of the input, absences are emitted that the watermark has not passed yet.
    """
    inputs = [alive("m", 0, 0), alive("m", 1, 60)]
    found = told(replay(parse(SILENT), inputs, to_end=to_end))
    assert [each for each in found if each[0] == "gone"] == [
        ("gone", "emit", 8, False),
        *[("gone", "emit", 60, False)] * to_end,
    ]


# -- refused inputs --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "wrong", "says"),
    [
        ({"offset": -1}, ValueError, "is not valid"),
        ({"offset": 1 << 63}, ValueError, "is not valid"),
        *[({"offset": offset}, TypeError, "is not an integer") for offset in (1.0, True)],
        *[({"partition": p}, TypeError, "is neither an integer nor") for p in (None, True, [1])],
    ],
)
def test_bad_offset_is_refused(given: Any, wrong: Any, says: str) -> None:
    order = Ordering(PLAIN)
    (name, value), *_ = given.items()
    with pytest.raises(wrong, match=f"^{name} {re.escape(repr(value))} {says}"):
        order.feed(event(0), **given)
    assert order.balance().sent == 0


@pytest.mark.parametrize("given", [None, "x", 3, [], [event(0)], b"{}"])
def test_bad_input_refuses_whole_call(given: Any) -> None:
    order = Ordering(PLAIN)
    with pytest.raises(TypeError, match="input 2 is of type .*; pass RawEvent"):
        order.feed(event(0), given)
    assert (order.balance().sent, order.safe_offset()) == (0, None)
    order.feed(event(0))
    assert order.safe_offset() == 0


@pytest.mark.parametrize("now_ns", [1.5, None, True, -1, 1 << 62])
def test_bad_time_is_refused(now_ns: Any) -> None:
    wrong = ValueError if type(now_ns) is int else TypeError
    with pytest.raises(wrong, match=r"now_ns is .*pass time.time_ns\(\)"):
        Ordering(PLAIN).tick(now_ns)


ROW = ("s", 0, 5)


@pytest.mark.parametrize(
    ("names", "rows", "wrong", "why"),
    [
        ("source", [ROW], TypeError, "names is of type str; pass a list of the keys of a line"),
        (3, [ROW], TypeError, "names is of type int"),
        (("source", "seq", 3), [ROW], TypeError, "names has 3, which is not a text"),
        (("source", "seq", "seq"), [ROW], ValueError, "names has `seq` twice; give each name once"),
        (("source", "seq", "ts"), {"s": ROW}, TypeError, "rows is of type dict; pass a list"),
        (("source", "seq", "ts"), [ROW, "s05"], TypeError, "input 2 is of type str; pass tuples"),
        (("source", "seq", "ts"), [ROW, ROW[:2]], ValueError, "input 2 has 2 values for 3 names"),
        (("source", "seq"), [ROW], ValueError, "input 1 has 3 values for 2 names; give one for"),
    ],
)
def test_unfit_rows_are_refused(names: Any, rows: Any, wrong: type[Exception], why: str) -> None:
    order = Ordering(PLAIN)
    with pytest.raises(wrong, match=why):
        order.feed_rows(names, rows)
    assert (order.balance().sent, order.safe_offset()) == (0, None)
    order.feed_rows(["source", "seq", "ts"], iter([ROW, EventPlace("s", 1, 6)]))
    order.close()
    assert (order.balance().event, order.safe_offset()) == (2, 2)


def test_closed_ordering_refuses_calls() -> None:
    order = Ordering(PLAIN)
    order.feed(event(0))
    assert len(order.close()) == 1
    assert order.close() == []
    for call in (lambda: order.feed(event(1)), lambda: order.tick(1), order.snapshot):
        with pytest.raises(ValueError, match="the input has ended"):
            call()
    assert (order.balance().event, order.safe_offset()) == (1, 1)


def test_partitions_are_bounded() -> None:
    order = Ordering(PLAIN)
    for partition in range(MAX_PARTITIONS):
        order.feed(partition=partition)
    order.feed(partition=0)
    with pytest.raises(
        ValueError, match=f"partition 'x' exceeds the maximum of {MAX_PARTITIONS} partitions"
    ):
        order.feed(partition="x")


def kept(order: Ordering) -> bytes:
    order.feed(event(0), event(2))
    return order.snapshot()


ASKED = "{window: tumbling 1s, aggregate: {n: count()}, quality: {accuracy: 90%, max_wait: 1s}}"


@pytest.mark.parametrize(
    ("snapshot", "says"),
    [
        (b"", "damaged"),
        (b"inorder state 1", "damaged"),
        (b"inorder ordering 9 in marshal 4 of Python 3.9\nx", "another version"),
        (kept(Ordering(PLAIN))[:-1], "damaged .*digest"),
        (kept(Ordering(PLAIN)).replace(b"default", b"defau1t"), "damaged .*digest"),
        (kept(Ordering(PLAIN.replace("default", "mine"))), "with the streams mine and"),
        (kept(Ordering(BY_TIME)), r"streams default \(rule: time\) and .* the streams default and"),
        (kept(Ordering(MIXED)), r"streams default \(without_seq: by_time\) and"),
        (kept(Ordering(f"{PLAIN}\nqueries: {{load: {ASKED}}}")), "operators reorder, merge"),
    ],
)
def test_foreign_snapshot_is_refused(snapshot: bytes, says: str) -> None:
    order = Ordering(PLAIN)
    with pytest.raises(StateUnreadable, match=says):
        order.restore(snapshot)
    assert len(order.feed(event(0))) == 0
    assert order.balance().held == 1


def test_restore_accepts_added_without_seq() -> None:
    order = Ordering(MIXED)
    order.restore(kept(Ordering(PLAIN)))
    assert order.balance().sent == 2


def test_other_version_is_named() -> None:
    def refuse(values: object) -> None:
        raise ShapeRefused("merge.source is written in version 9")

    with pytest.raises(
        StateUnreadable, match="version 9.*go on with the version that wrote it, or begin with"
    ):
        FORM.read(kept(Ordering(PLAIN)), refuse)


def test_restore_needs_new_ordering() -> None:
    order = Ordering(PLAIN)
    snapshot = kept(order)
    with pytest.raises(ValueError, match="have already been processed"):
        order.restore(snapshot)
    with pytest.raises(TypeError, match="the snapshot is of type str"):
        Ordering(PLAIN).restore("x")  # type: ignore[arg-type]


def test_unstorable_payload_is_refused() -> None:
    order = Ordering(PLAIN)
    order.feed(RawEvent(source="s", seq=0, ts_ns=1, payload=object()))
    with pytest.raises(ValueError, match="cannot be stored .*plain values"):
        order.snapshot()
    assert len(order.close()) == 1
