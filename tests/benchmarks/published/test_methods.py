"""Examples: the sections `experimental`, the operators that they make, and what is refused."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from tests.kit.k_slack import KSlack
from tests.topology.config.test_problem import refusal
from topology.config import Topology, parse
from topology.config.experimental import QualityMethod
from topology.flow.build import with_method
from topology.flow.registry import chain_of
from topology.model.operator import Operator
from topology.published.clock import RoundTripClock
from topology.published.merge import PacedMerge
from topology.published.mp_k_slack import MPKSlack
from topology.published.reorder import PacedReorder
from topology.published.waits import QUALITY
from topology.reorder.by_time import ReorderByTime
from topology.waiting.risk import RiskSlack

QUERY = "streams: {a: {}}\nqueries: {q: {window: tumbling 1s, aggregate: {n: count()}"


def stream(sections: str) -> Topology:
    return parse(f"streams: {{a: {{{sections}}}}}")


def operators(topology: Topology) -> list[Operator]:
    chain = chain_of(topology, "a", ["reorder", "merge"])
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
    assert set(QUALITY) == set(get_args(QualityMethod))
    for method in QUALITY:
        text = f"{QUERY}, quality: {{accuracy: 90%}}, experimental: {{quality: {method}}}}}}}"
        topology = parse(text)
        made: Any = with_method(topology.queries["q"]).quality
        assert made.published is QUALITY[method]
        assert type(made.policy(1_000)) not in (KSlack, RiskSlack)


REFUSED = [
    ("experimental: {reorder: mp}", "experimental.reorder", "write reorder: {rule: time}"),
    (
        "reorder: {rule: time}, experimental: {reorder: rfc}",
        "experimental.reorder",
        "leave one of the two out",
    ),
    (
        "reorder: {rule: time, miss_target: 1%}, experimental: {reorder: mp}",
        "reorder.miss_target",
        "has no effect with `mp`; leave it out",
    ),
    ("experimental: {merge: theses}", "experimental.merge", "did you mean `thesis`?"),
]


@pytest.mark.parametrize(("sections", "path", "words"), REFUSED, ids=[each[0] for each in REFUSED])
def test_bad_stream_method_is_refused(sections: str, path: str, words: str) -> None:
    (problem,) = refusal(f"streams: {{a: {{{sections}}}}}")
    assert problem.path == f"streams.a.{path}"
    assert words in str(problem)


def test_bad_query_method_is_refused() -> None:
    (problem,) = refusal(f"{QUERY}, experimental: {{quality: aq}}}}}}")
    assert problem.path == "queries.q.experimental.quality"
    assert "write quality: {accuracy: 99%}" in str(problem)


def test_default_wait_may_be_written() -> None:
    assert stream("merge: {wait: delay}") == stream("merge: {}")
