"""Laws, over seeds and cut at each input: events that are pushed give what a replay of them gives;
no safe offset passes an event that is not out; a restart from a snapshot gives what an unbroken run
gives, and one from the safe offsets alone misses no event. Examples: time, and what is refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
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
from inorder.ordering import MAX_PARTITIONS, PLACES_UNUSED
from inorder.records import (
    DeadRecord,
    DuplicateRecord,
    EventPlace,
    GapRecord,
    LateRecord,
    OrderedEvent,
    Record,
    WindowRecord,
    record_of,
)
from tests.seeds import seeds_of_today
from topology.flow.replay import Replay
from topology.wire.json_lines import step_lines

MS = 1_000_000
BEGIN_NS = 1_700_000_000_000 * MS
INPUTS = 40

PLAIN = "streams: {default: {clock: {unsynced: trust}, reorder: {rule: fixed, max_wait: 300ms}}}"
BY_TIME = "streams: {default: {clock: {unsynced: trust}, reorder: {rule: time, max_wait: 300ms}}}"
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


class Fed(NamedTuple):
    """An input and its place; `tick_ns` in place of an input: time goes on."""

    input: Input | None
    partition: Partition = 0
    offset: int = 0
    tick_ns: int = 0


def world(name: str, seed: int, *, ticks: bool = True, odd: bool = True) -> list[Fed]:
    """Sources in three partitions, whose offsets have holes: delays, copies, missing numbers.
    `odd`: dead lines, heartbeats and readings of clocks, too. Each input bears an id."""
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
            payload={"id": id_},
            stream=stream,
        )
        given: Input = event
        kind = random.random()
        if kind < 0.1 and known:
            partition, copied = random.choice(known)  # a copy
            given = replace(copied, arrival_ns=now_ns)
        elif kind < 0.2:
            known.append((partition, event))  # it is missing, and may come late
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
    """It is to be reported."""
    if isinstance(given, RawEvent):
        return not given.kind
    return given is not None and not isinstance(given, ClockSample)


class Out:
    """Which inputs of a run are out, by their place. An input is known by its line or its time."""

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
        """The first of its copies that is not out yet."""
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
def test_law_what_is_pushed_gives_what_a_replay_gives(name: str, seed: int) -> None:
    topology, fed = TOPOLOGIES[name], world(name, seed, ticks=False)
    inputs = [each.input for each in fed if each.input is not None]
    whole = sorted(map(repr, replay(topology, inputs)))
    order, random = Ordering(topology), Random(seed)
    one_by_one = [record for each in inputs for record in order.feed(each)]
    one_by_one += order.close()
    assert sorted(map(repr, one_by_one)) == whole
    order, found, at = Ordering(topology), list[Record](), 0
    while at < len(inputs):
        size = random.choice((0, 1, 2, 9))
        found += order.feed(*inputs[at : at + size])
        at += size
    assert sorted(map(repr, found + order.close())) == whole


@pytest.mark.parametrize(
    "first", [{}, {"clock": "a", "at": 0, "offset": 5, "error": 1}, {"seq": 1}]
)
@pytest.mark.parametrize("name", TOPOLOGIES)
def test_law_without_arrivals_too(name: str, first: dict[str, Any]) -> None:
    inputs: list[Input] = [first] if first else []
    given = [each.input for each in world(name, 3, ticks=False)]
    inputs += [replace(each, arrival_ns=None) for each in given if isinstance(each, RawEvent)]
    order = Ordering(TOPOLOGIES[name])
    found = [record for each in inputs for record in order.feed(each)]
    whole = replay(TOPOLOGIES[name], inputs)
    assert sorted(map(repr, found + order.close())) == sorted(map(repr, whole))


@pytest.mark.parametrize(("name", "seed"), CASES)
def test_law_without_events_all_else_is_the_same(name: str, seed: int) -> None:
    whole, rest = Ordering(TOPOLOGIES[name]), Ordering(TOPOLOGIES[name], events=False)
    for each in world(name, seed):
        records = push(whole, each)
        kept = [one for one in records if not isinstance(one, OrderedEvent) or one.late]
        assert list(map(repr, push(rest, each))) == list(map(repr, kept))
        assert rest.balance() == whole.balance()


@pytest.mark.parametrize(("name", "seed"), CASES)
def test_law_records_are_those_of_the_lines(name: str, seed: int) -> None:
    order = Ordering(TOPOLOGIES[name])
    run, reader = Replay(order.topology), Reader(order.topology)
    for each in world(name, seed, ticks=False):
        assert each.input is not None
        step = run.on_inputs([reader.read(each.input)])
        if step is not None:
            assert repr(records_of(step)) == repr([record_of(line) for line in step_lines(step)])


@pytest.mark.parametrize(("name", "seed"), CASES)
def test_law_no_safe_offset_passes_an_event_that_is_not_out(name: str, seed: int) -> None:
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
def test_law_the_safe_offset_is_the_first_that_is_not_out(seed: int) -> None:
    """Where no number is taken that nobody reports."""
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
def test_law_a_restart_from_a_snapshot_gives_what_an_unbroken_run_gives(
    name: str, seed: int
) -> None:
    """At each cut, and the consumer goes back to the safe offsets of that moment."""
    topology, fed = TOPOLOGIES[name], world(name, seed)
    whole = Ordering(topology)
    steps = [push(whole, each) for each in fed]
    end = whole.close()
    order = Ordering(topology)
    for at, each in enumerate(fed):
        again = Ordering(topology)
        again.restore(order.snapshot())
        assert again.balance() == order.balance()
        for one in back(order, fed[:at]):
            assert push(again, one) == []
        for number, one in enumerate(fed[at:], at):
            assert push(again, one) == steps[number]
        assert again.close() == end
        assert again.balance() == whole.balance()
        push(order, each)


def back(order: Ordering, fed: Iterable[Fed]) -> Iterator[Fed]:
    """What a consumer reads again."""
    for each in fed:
        if each.input is not None and each.offset >= (order.safe_offset(each.partition) or 0):
            yield each


@pytest.mark.parametrize(("name", "seed"), CASES)
def test_law_a_restart_from_the_safe_offsets_misses_no_event(name: str, seed: int) -> None:
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


def test_it_goes_on_from_its_snapshot_time_after_time() -> None:
    topology, fed = TOPOLOGIES["queries"], world("queries", 1)
    whole, order = Ordering(topology), Ordering(topology)
    for each in fed:
        kept = order.snapshot()
        order = Ordering(topology)
        order.restore(kept)
        assert push(order, each) == push(whole, each)
    assert order.close() == whole.close()


def test_what_is_kept_of_offsets_is_bounded() -> None:
    order = Ordering(PLAIN)
    for at in range(3 * PLACES_UNUSED):
        order.feed(RawEvent(source="s", seq=at, ts_ns=at * MS, arrival_ns=at * MS))
        assert len(order._places) <= PLACES_UNUSED + 2
    order.close()
    assert order.safe_offset() == 3 * PLACES_UNUSED


# -- time ------------------------------------------------------------------------------------------


def event(seq: int, ts_ns: int = 0, arrival_ns: int | None = None) -> RawEvent:
    return RawEvent(source="s", seq=seq, ts_ns=ts_ns, arrival_ns=arrival_ns)


def test_a_hole_is_given_up_when_its_time_is_over() -> None:
    order = Ordering(PLAIN)
    order.tick(BEGIN_NS)
    assert order.feed(event(0, BEGIN_NS), event(2, BEGIN_NS), offset=10) == []
    order.tick(BEGIN_NS + 1)
    assert (order.held(), order.safe_offset()) == ([EventPlace("s", 0, 2)], 11)
    gap, ordered = order.tick(BEGIN_NS + 300 * MS + 1)
    assert isinstance(gap, GapRecord)
    assert isinstance(ordered, OrderedEvent)
    assert order.safe_offset() == 12


def test_from_the_first_tick_on_no_clock_of_a_machine_moves_time() -> None:
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


def test_windows_close_by_ticks_alone() -> None:
    query = "queries: {w: {window: tumbling 1s, aggregate: {n: count()}}}"
    order = Ordering(f"streams: {{default: {{clock: {{unsynced: trust}}}}}}\n{query}")
    order.feed(event(0, BEGIN_NS, BEGIN_NS))
    found = [record for at in range(1, 60) for record in order.tick(BEGIN_NS + at * 1_000 * MS)]
    assert [each.values for each in found if isinstance(each, WindowRecord)] == [{"n": 1}]


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "wrong", "says"),
    [
        ({"offset": -1}, ValueError, "offset -1 is none of a log"),
        ({"offset": 1 << 63}, ValueError, "is none of a log"),
        ({"offset": 1.0}, TypeError, "offset 1.0 is no whole number"),
        ({"offset": True}, TypeError, "offset True is no whole number"),
        ({"partition": None}, TypeError, "partition None is neither a whole number nor a text"),
        ({"partition": True}, TypeError, "partition True is neither"),
        ({"partition": [1]}, TypeError, r"partition \[1\] is neither"),
    ],
)
def test_a_place_that_is_none_is_refused(given: Any, wrong: Any, says: str) -> None:
    order = Ordering(PLAIN)
    with pytest.raises(wrong, match=says):
        order.feed(event(0), **given)
    assert order.balance().sent == 0


@pytest.mark.parametrize("given", [None, "x", 3, [], [event(0)], b"{}"])
def test_what_is_no_input_is_refused_and_nothing_is_taken(given: Any) -> None:
    order = Ordering(PLAIN)
    with pytest.raises(TypeError, match="input 2 is of type .*; give RawEvent"):
        order.feed(event(0), given)
    assert (order.balance().sent, order.safe_offset()) == (0, None)
    order.feed(event(0))
    assert order.safe_offset() == 0


@pytest.mark.parametrize(
    ("now_ns", "wrong"),
    [
        (1.5, TypeError),
        (None, TypeError),
        (True, TypeError),
        (-1, ValueError),
        (1 << 62, ValueError),
    ],
)
def test_what_is_no_time_is_refused(now_ns: Any, wrong: Any) -> None:
    with pytest.raises(wrong, match=r"now_ns is .*give time.time_ns\(\)"):
        Ordering(PLAIN).tick(now_ns)


def test_when_it_is_closed_nothing_is_taken() -> None:
    order = Ordering(PLAIN)
    order.feed(event(0))
    assert len(order.close()) == 1
    assert order.close() == []
    for call in (lambda: order.feed(event(1)), lambda: order.tick(1), order.snapshot):
        with pytest.raises(ValueError, match="the input is over"):
            call()
    assert (order.balance().event, order.safe_offset()) == (1, 1)


def test_partitions_are_bounded() -> None:
    order = Ordering(PLAIN)
    for partition in range(MAX_PARTITIONS):
        order.feed(partition=partition)
    order.feed(partition=0)
    with pytest.raises(ValueError, match=f"partition 'x' is one more than {MAX_PARTITIONS}"):
        order.feed(partition="x")


def kept(order: Ordering) -> bytes:
    order.feed(event(0), event(2))
    return order.snapshot()


@pytest.mark.parametrize(
    ("snapshot", "says"),
    [
        (b"", "damaged"),
        (b"inorder state 1", "damaged"),
        (b"inorder ordering 9 in marshal 4 of Python 3.9\nx", "another version"),
        (kept(Ordering(PLAIN))[:-1], "damaged .*digest"),
        (kept(Ordering(PLAIN)).replace(b"default", b"defau1t"), "damaged .*digest"),
        (
            kept(Ordering(BY_TIME.replace("default", "mine"))),
            "with the streams mine and",
        ),
    ],
)
def test_a_snapshot_that_is_none_of_its_own_is_refused(snapshot: bytes, says: str) -> None:
    order = Ordering(PLAIN)
    with pytest.raises(StateUnreadable, match=says):
        order.restore(snapshot)
    assert len(order.feed(event(0))) == 0
    assert order.balance().held == 1


def test_a_snapshot_is_not_for_another_order_of_the_chain() -> None:
    asked = "{window: tumbling 1s, aggregate: {n: count()}, quality: {accuracy: 90%, max_wait: 1s}}"
    query = f"queries: {{load: {asked}}}"
    snapshot = kept(Ordering(f"{PLAIN}\n{query}"))
    with pytest.raises(StateUnreadable, match="operators reorder, window, merge"):
        Ordering(f"{PLAIN}\n{query}\nwindows_read: sequenced").restore(snapshot)


def test_a_snapshot_is_for_a_fresh_one() -> None:
    order = Ordering(PLAIN)
    snapshot = kept(order)
    with pytest.raises(ValueError, match="have been taken already"):
        order.restore(snapshot)
    with pytest.raises(TypeError, match="a snapshot is bytes, not of type str"):
        Ordering(PLAIN).restore("x")  # type: ignore[arg-type]


def test_a_payload_that_cannot_be_kept_is_refused_with_the_remedy() -> None:
    order = Ordering(PLAIN)
    order.feed(RawEvent(source="s", seq=0, ts_ns=1, payload=object()))
    with pytest.raises(ValueError, match="cannot be kept .*plain values"):
        order.snapshot()
    assert len(order.close()) == 1


def test_a_topology_that_is_none_is_refused() -> None:
    with pytest.raises(TypeError, match="3 is no topology"):
        Ordering(3)  # type: ignore[arg-type]


def test_a_value_or_its_text_is_the_same() -> None:
    assert isinstance(Ordering(PLAIN).topology, Topology)
