"""Examples: the operators that are built for the methods that a text names."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.published.clock import RoundTripClock
from benchmarks.published.merge import PacedMerge
from benchmarks.published.methods import parse
from benchmarks.published.mp_k_slack import MPKSlack
from benchmarks.published.reorder import PacedReorder
from benchmarks.published.waits import QUALITY
from tests.kit.k_slack import KSlack
from topology.answer.waiting.risk import RiskSlack
from topology.base.operator import Operator
from topology.config import Topology
from topology.order.reorder.by_time import ReorderByTime
from topology.stage.ledger import Ledger
from topology.stage.registry import chain_of

QUERY = "streams: {a: {}}\nqueries: {q: {window: tumbling 1s, aggregate: {n: count()}"


def stream(sections: str) -> Topology:
    return parse(f"streams: {{a: {{{sections}}}}}")


def operators(topology: Topology) -> list[Operator]:
    chain = chain_of(topology, "a", ["reorder", "merge"], Ledger())
    return [node.operator for node in chain.nodes]


@pytest.mark.parametrize("method", ["thesis", "rfc"])
def test_methods_replace_operators(method: str) -> None:
    sections = f"experimental: {{reorder: {method}, clock: thesis, merge: thesis}}"
    made = [type(each) for each in operators(stream(sections))]
    assert made == [PacedReorder, RoundTripClock, PacedMerge]


def test_mp_k_slack_orders_by_time() -> None:
    (reorder, *_) = operators(stream("reorder: {rule: time}, experimental: {reorder: mp}"))
    assert isinstance(reorder, ReorderByTime)
    assert type(reorder._policy()) is MPKSlack


def test_each_query_method_has_a_strategy() -> None:
    for method in QUALITY:
        text = f"{QUERY}, quality: {{accuracy: 90%}}, experimental: {{quality: {method}}}}}}}"
        query: Any = parse(text).queries["q"]
        made = query.quality
        assert made.built_by is QUALITY[method]
        assert type(made.policy(1_000)) not in (KSlack, RiskSlack)
