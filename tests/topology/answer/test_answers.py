"""Laws: a query with `answer: final` emits the last result that the same query emits with early
results. Neither a restart nor a cut of the input changes this. The answer can change at a
restart, and the final results stay the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from inorder.engine import RawEvent, parse
from inorder.given import Reader
from tests.kit.runs import through_changelog
from tests.topology.queries.detector.test_answers import (
    DETECTORS,
    TOPOLOGY,
    content,
    events,
    standing,
)
from topology.base.result import EMIT, RETRACT, UPDATE, Finding, Result
from topology.config import Topology
from topology.stage.batches import batches
from topology.stage.replay import Replay

MORE = """\
  slides: {{window: sliding 90ms every 30ms, aggregate: {{n: count()}}, answer: {other}}}
  counts: {{window: count 7, key: payload.k, aggregate: {{n: sum(payload.v)}}, answer: {other}}}
  bounds: {{window: tumbling 300ms, aggregate: {{n: max(payload.v)}}, uncertainty: bounds,
            answer: {other}}}
  keyed: {{window: session 60ms, key: payload.k, aggregate: {{n: count()}}, uncertainty: bounds,
           answer: {other}}}
  skips: {{pattern: "PATTERN SEQ(A a, B+ b, C c) WITHIN 60 ms SKIP PAST LAST", answer: {other}}}
  ends: {{pattern: "PATTERN SEQ(A a, !C c) WITHIN 30 ms EMIT FINAL", answer: {other}}}
  few: {{window: tumbling 50ms, key: payload.k, aggregate: {{n: count()}}, max_windows: 9,
         answer: {other}}}
"""
QUERIES = 11


def _topology(answer: str, **settings: str) -> Topology:
    """Return windows, patterns and joins, without detectors."""
    wanted = {"late": "pass", "new_source_allowance": "2s", **settings}
    lines = [line for line in (TOPOLOGY + MORE).splitlines() if "detector:" not in line]
    return parse("\n".join(lines).format(other=answer, **wanted), detectors=DETECTORS)


def _run_topology(
    topology: Topology,
    sent: list[RawEvent],
    restart: Callable[[int], Topology | None] | None = None,
    *,
    each_alone: bool = False,
) -> list[Result]:
    """Return the results; `restart` gives the topology of a restart after a batch, or None."""
    fate = Random(0)
    run = Replay(topology)
    kept: dict[str, Any] = {}
    found: list[Finding] = []
    for number, (contents, until_ns) in enumerate(_cut(topology, sent, each_alone=each_alone)):
        step = run.on_inputs(contents, until_ns)
        found += step.results if step is not None else ()
        if restart is None:
            continue
        kept |= through_changelog(run.changes())
        if (again := restart(number)) is not None:
            saved = run.save()
            assert saved is not None
            state = through_changelog(saved.state)
            assert state == {key: value for key, value in kept.items() if value is not None}
            run = Replay(again)
            run.restore(saved._replace(state=_shuffle(state, fate)))
    step = run.on_end()
    found += step.results if step is not None else ()
    return [each for each in found if isinstance(each, Result)]


def _shuffle(state: dict[str, Any], fate: Random) -> dict[str, Any]:
    """Return the state with its keys in any order, as a compacted log can have them."""
    keys = sorted(state)
    fate.shuffle(keys)
    return {key: state[key] for key in keys}


def _cut(topology: Topology, sent: list[RawEvent], *, each_alone: bool = False) -> Iterator[Any]:
    contents = list(Reader(topology).contents(sent))
    if each_alone:
        yield from batches(contents)
        return
    small = [contents[at : at + 25] for at in range(0, len(contents), 25)]
    for part, following in zip(small, [*small[1:], None], strict=True):
        first: Any = part[-1] if following is None else following[0]
        yield part, first.at_ns if following is not None else None


def _sorted_by_id(found: list[Result]) -> list[tuple[Any, ...]]:
    """Return the results of each query, in the order of the ids."""
    said = [(each.query, each.at_ns, each.id, each.confidence, content(each)) for each in found]
    return sorted(said, key=lambda each: each[:3])


def _by_query(found: list[Result]) -> list[tuple[Any, ...]]:
    """Return the results of each query in the order of their emission."""
    said = [
        (each.query, each.at_ns, each.op, each.revision, each.id, content(each)) for each in found
    ]
    return sorted(said, key=lambda each: each[0])


def _only_final(found: list[Result]) -> list[Result]:
    """Return the oracle: the last revision of each current result.

    Results that only the end of the input decides are not final.
    """
    end_ns = found[-1].at_ns
    left = [each for each in found if each.final and each.op != RETRACT]
    stands = standing(found)
    last = {each.id: each for each in found if each.op != RETRACT}
    known = {each.id for each in left}
    for id_, each in last.items():
        if id_ in stands and id_ not in known:
            assert each.at_ns == end_ns, each
            left.append(each)
    return left


@pytest.mark.slow
@pytest.mark.parametrize(("late", "allowance"), [("pass", "0s"), ("pass", "2s"), ("side", "200ms")])
def test_final_matches_last_early_results(late: str, allowance: str) -> None:
    settings = {"late": late, "new_source_allowance": allowance}
    topology = _topology("final", **settings)
    for seed in range(3):
        sent = events(seed, 70)
        final = _run_topology(topology, sent)
        early = _run_topology(_topology("early, finals: true", **settings), sent)
        assert {each.op for each in final} == {EMIT}
        assert {each.revision for each in final} == {0}
        end_ns = final[-1].at_ns
        assert all(each.final or each.at_ns == end_ns for each in final)
        assert _sorted_by_id(final) == _sorted_by_id(_only_final(early)), seed
        assert len({each.query for each in final}) == QUERIES
        fate = Random(seed)
        hurt = _run_topology(topology, sent, lambda _: topology if fate.random() < 0.3 else None)  # noqa: B023
        assert _by_query(hurt) == _by_query(final)
        assert _by_query(_run_topology(topology, sent, each_alone=True)) == _by_query(final)


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [("early", "final"), ("final", "early")])
def test_answer_can_change_at_a_restart(before: str, after: str) -> None:
    ops = set()
    for seed in range(4):
        sent = events(seed, 70)
        first, second = _topology(before), _topology(after)
        cut = [*_cut(first, sent)]
        half = len(cut) // 2
        two = _run_topology(first, sent, {half: second, half * 3 // 2: second}.get)
        half_ns = cut[half][1]
        assert standing(two) == standing(_run_topology(_topology("final"), sent)), seed
        if after == "final":
            new = [each for each in two if each.start_ns > half_ns and each.at_ns < two[-1].at_ns]
            assert new
            assert all(each.final and each.op == EMIT for each in new)
        ops |= {each.op for each in two if each.at_ns > half_ns}
    assert UPDATE in ops, "what was emitted early is corrected"
