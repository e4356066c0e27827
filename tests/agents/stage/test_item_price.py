"""Examples: what an item costs, as it is measured and told."""

from __future__ import annotations

from agents.stage.item_price import STRETCH_NS, ItemPrice
from inorder.engine import Detector, parse
from topology.config import query_of
from topology.flow.answers import Answers
from topology.flow.stage import Stage
from topology.model.event import Event
from topology.model.result import CONFIRMED, EMIT, MatchResult
from topology.speculate.ahead import Ahead

OWN = {"any": Detector(lambda state, event: (state, None))}
STREAMS = "streams: {default: {clock: {unsynced: trust}}}\n"


def _stage(answer: str) -> Stage:
    text = f"{STREAMS}queries: {{q: {{detector: any, answer: {answer}}}}}"
    return Stage(parse(text, detectors=OWN), ["detector"], lanes=1)


def test_a_price_is_the_time_by_the_items() -> None:
    stage = _stage("speculate")
    price = ItemPrice(stage.reading_ahead())
    assert price
    price.spent(STRETCH_NS)
    assert price.price_ns == 0, "nothing was read"
    (ahead,) = stage.reading_ahead()
    assert isinstance(ahead, Ahead)
    for seq in range(101):
        event = Event("default", "s", 0, seq, 1_000 + seq, 1_000 + seq)
        ahead.on_batch([event], event.at_ns)
    price.spent(STRETCH_NS // 2)
    price.spent(STRETCH_NS // 2)
    assert price.price_ns == STRETCH_NS // ahead.items
    assert ahead.explain()["q"]["first"] == ahead.items >= 99


def test_what_the_process_does_besides_is_told() -> None:
    busy, now = [0], [0]
    stage = _stage("speculate")
    price = ItemPrice(stage.reading_ahead(), lambda: busy[0], lambda: now[0])
    (ahead,) = stage.reading_ahead()
    assert isinstance(ahead, Ahead)
    for seq in range(200):
        ahead.on_batch([Event("default", "s", 0, seq, 1_000 + seq, 1_000 + seq)], 1_000 + seq)
        busy[0] += 3 * STRETCH_NS  # twice as much as its own
        now[0] += 10 * STRETCH_NS
        price.spent(STRETCH_NS)
    assert 190_000 < price.others_ppm <= 200_000


def test_where_nothing_reads_ahead_nothing_is_measured() -> None:
    assert not ItemPrice(_stage("early").reading_ahead())


def test_what_chooses_its_answers_is_told_of_the_load() -> None:
    window = "{window: tumbling 1s, aggregate: {n: count()}, answer: auto}"
    stage = Stage(parse(f"{STREAMS}queries: {{q: {window}}}"), ["window"])
    assert ItemPrice(stage.reading_ahead())


def test_live_queries_are_priced_from_the_first() -> None:
    streams = "streams: {default: {clock: {unsynced: trust}}}\nlive_queries: true\n"
    topology = parse(f"{streams}stages: [reorder+merge, pattern]")
    stage = Stage(topology, ["pattern"])
    busy, now = [5 * STRETCH_NS], [5 * STRETCH_NS]
    price = ItemPrice(stage.reading_ahead(), lambda: busy[0], lambda: now[0])
    assert not price
    busy[0] += 90 * STRETCH_NS  # before anything was measured
    now[0] += 90 * STRETCH_NS
    found = query_of({"pattern": "PATTERN SEQ(A a, B b) WITHIN 1 s", "answer": "auto"}, topology)
    stage.set_queries({"m": found})
    price.now_of(stage.reading_ahead())
    assert price
    (answers,) = stage.reading_ahead()
    assert isinstance(answers, Answers)
    for number in range(10):
        answers.of(
            [
                MatchResult(
                    number,
                    "default",
                    "m",
                    str(number),
                    EMIT,
                    0,
                    number < 0,
                    CONFIRMED,
                    0,
                    0,
                    {},
                    [],
                )
            ]
        )
    now[0] += 10 * STRETCH_NS
    price.spent(STRETCH_NS)
    assert price.price_ns == STRETCH_NS // 10
    assert price.others_ppm == 0
    price.now_of(stage.reading_ahead())
    price.spent(STRETCH_NS)
    assert price.price_ns == STRETCH_NS // 10, "nothing was found since"
    stage.set_queries({})
    price.now_of(stage.reading_ahead())
    assert not price
