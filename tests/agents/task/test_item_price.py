"""Examples: the measured cost of an item of a speculative detector."""

from __future__ import annotations

from agents.task.item_price import STRETCH_NS, ItemPrice
from inorder.engine import Detector, parse
from topology.base.event import Event
from topology.stage.lanes import lanes_of
from topology.stage.stage import Stage

OWN = {"any": Detector(lambda state, event: (state, None))}
STREAMS = "streams: {default: {clock: {unsynced: trust}}}\n"


def _stage(answer: str) -> Stage:
    text = f"{STREAMS}queries: {{q: {{detector: any, answer: {answer}}}}}"
    return Stage(parse(text, detectors=OWN), ["merge", "detector"], lanes=lanes_of("raw", 1))


def test_price_is_time_per_item() -> None:
    stage = _stage("speculate")
    price = ItemPrice(stage.speculative_detectors)
    assert price
    price.add_cpu_ns(STRETCH_NS)
    assert price.price_ns == 0, "nothing was read"
    (ahead,) = stage.speculative_detectors
    for seq in range(101):
        event = Event("default", "s", 0, seq, 1_000 + seq, 1_000 + seq)
        stage.on_batch([event], event.at_ns)
    price.add_cpu_ns(STRETCH_NS // 2)
    price.add_cpu_ns(STRETCH_NS // 2)
    assert price.price_ns == STRETCH_NS // ahead.items
    assert ahead.explain()["q"]["processed"] == ahead.items >= 99
    assert not ItemPrice(_stage("early").speculative_detectors), "where nothing reads ahead"


def test_other_work_is_measured() -> None:
    busy, now = [0], [0]
    stage = _stage("speculate")
    price = ItemPrice(stage.speculative_detectors, lambda: busy[0], lambda: now[0])
    for seq in range(200):
        stage.on_batch([Event("default", "s", 0, seq, 1_000 + seq, 1_000 + seq)], 1_000 + seq)
        busy[0] += 3 * STRETCH_NS  # other work takes twice its own time
        now[0] += 10 * STRETCH_NS
        price.add_cpu_ns(STRETCH_NS)
    assert 190_000 < price.others_ppm <= 200_000
