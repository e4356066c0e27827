"""Examples and a law: rows with a null are emitted as soon as the quality target allows it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.kit.queries import join_query, quality_of
from tests.kit.runs import results_of
from tests.seeds import seeds_of_today
from tests.topology.queries.join.oracle import last_word, oracle
from tests.topology.queries.join.oracle import rendered as row_of
from tests.topology.queries.join.streams import MS, START, history
from tests.topology.queries.join.test_examples import TUMBLING, WITHIN, X, Y, rows, x, y
from topology.base.event import BYE, HEARTBEAT
from topology.base.result import UNCERTAIN
from topology.queries.join.operator import Join
from topology.queries.join.queries import JoinQueries
from topology.queries.join.settings import JoinQuery

SEEDS = seeds_of_today(4)
PROMISE: dict[str, Any] = {"quality": quality_of(900_000, 50 * MS, idle_ns=500 * MS)}
PIECE_MS = 50 / 16


def config_of(**settings: Any) -> JoinQuery:
    return join_query("q", (X, Y), **{**WITHIN, "outer": "left", **PROMISE, **settings})


def join(*, ordered: bool = False, **settings: Any) -> JoinQueries:
    return JoinQueries([Join(config_of(**settings), ordered=ordered)])


def until(operator: JoinQueries, ms: float) -> list[Any]:
    return list(operator.on_time(START + round(ms * MS)).results)


def test_null_row_follows_all_sources() -> None:
    operator = join()
    assert results_of(operator, y(1, 80), x(1, 100), x(2, 130, at_ms=130)) == []
    assert until(operator, 131) == []
    found = results_of(operator, y(2, 140), x(3, 140)) + until(operator, 141)
    assert rows(found) == ["x2 y2!", "x3 y2!", "x1?"]
    assert found[-1].at_ns == START + 140 * MS


def test_null_row_follows_max_wait() -> None:
    operator = join()
    results_of(operator, y(1, 80), x(1, 100))
    deadline_ns = operator.next_deadline_ns()
    assert deadline_ns is not None
    results = until(operator, 400)
    assert rows(results) == ["x1?"]
    assert 110 + 50 - PIECE_MS <= (results[0].at_ns - START) / MS <= 110 + 50 + PIECE_MS


def test_later_partner_corrects_null() -> None:
    operator = join()
    results_of(operator, y(1, 80), x(1, 100))
    until(operator, 400)
    assert rows(results_of(operator, y(2, 108, at_ms=401))) == ["x1 y2!", "-x1!"]
    figures = operator.figures()
    assert figures["target_ppm"] == 900_000
    assert (figures["missed"] > 0, figures["late_ppm"] > 0) == (True, True)


@pytest.mark.parametrize("kind", [HEARTBEAT, BYE])
def test_control_event_of_source_counts(kind: str) -> None:
    """A control event from a source of the same name on the other stream does not count."""
    operator = join()
    results_of(operator, y(1, 80), x(1, 100), x(2, 130, at_ms=130))
    other = x(3, 140, at_ms=140)
    other.kind = HEARTBEAT
    assert results_of(operator, other) + until(operator, 140) == []
    word = y(2, 140, at_ms=141)
    word.kind = kind
    assert rows(results_of(operator, word) + until(operator, 141)) == ["x1?"]


def test_target_adds_no_wait_after_merge() -> None:
    plain = JoinQueries([Join(config_of(quality=None))])
    for operator in (plain, join(ordered=True)):
        results_of(operator, y(1, 80), x(1, 100))
        assert rows(results_of(operator, y(2, 112)) + until(operator, 112)) == ["x1"]


@pytest.mark.parametrize("relation", [WITHIN, TUMBLING], ids=["interval", "tumbling"])
@pytest.mark.parametrize("outer", ["left", "full"])
def test_rows_before_merge_match_the_oracle(relation: dict[str, Any], outer: str) -> None:
    corrected = 0
    for seed in SEEDS:
        rng = Random(seed)
        events = history(rng, "XY", 60, errors=(0, 0, 3))
        for one in events:
            delay_ms = rng.choice((0, 0, 0, 2, 30, 120))
            one.at_ns = one.arrival_ns = one.ref_time_ns + delay_ms * MS
        events.sort(key=lambda one: one.at_ns)
        config = config_of(outer=outer, **relation)
        operator = JoinQueries([Join(config, ordered=False)])
        results = results_of(operator, *events) + list(operator.on_end(events[-1].at_ns).results)
        assert {row_of(row, config) for row in last_word(results)} == oracle(events, config)
        corrected += sum(row.op == "retract" for row in results)
    assert corrected


def test_unheard_stream_confirms_nothing() -> None:
    found = results_of(join(), *(x(number, 100 + 5 * number) for number in range(400)))
    assert found
    assert {result.confidence for result in found} == {UNCERTAIN}
