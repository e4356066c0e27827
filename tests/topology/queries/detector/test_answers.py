"""Laws: every `answer` of a query has the same results after the last correction, and speculative
results come earlier. Whole topologies run over seeded streams whose sources lag, stall, and lose
events.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from inorder.engine import Detector, Found, RawEvent, Seen, parse, replay
from tests.topology.queries.detector.oracle import Counter

MS = 1_000_000
START = 1_700_000_000_000 * MS

STREAM = """\
streams:
  default:
    reorder: {{max_wait: 50ms, late: {late}}}
    clock: {{unsynced: trust}}
    merge: {{max_wait: 150ms, idle_after: 1s, new_source_allowance: {new_source_allowance}}}
correct_for: 2s
"""
TOPOLOGY = (
    STREAM
    + """\
queries:
  pairs: {{detector: pairs, key: payload.k, answer: {answer}}}
  odd: {{detector: odd, answer: {answer}}}
  window: {{window: tumbling 100ms, key: payload.k, aggregate: {{n: count()}}, answer: {other}}}
  session: {{window: session 30ms, aggregate: {{n: sum(payload.v)}}, answer: {other}}}
  match: {{pattern: "PATTERN SEQ(A a, !B b, C c) WITHIN 40 ms", answer: {other}}}
  rows: {{join: interval 10ms, sides: {{a: {{type: A}}, b: {{type: B}}}}, outer: left,
          answer: {other}}}
"""
)


def text_of(answer: str, more: str = "", **settings: str) -> str:
    """Return the topology with detectors of that `answer`; other queries have it if it is `final`,
    else `early`.
    """
    other = answer if answer == "final" else "early"
    return TOPOLOGY.format(answer=answer + more, other=other + more, **settings)


def _pairs(state: tuple[Seen, ...], event: Seen) -> Any:
    """Find an A and a C of one key with no B between."""
    if event.type == "C" and state:
        found = Found(
            {"v": state[0].payload["v"]}, start_ns=state[0].time_ns, events={"a": state[0]}
        )
        return (), found
    return ((event,) if event.type == "A" else () if event.type == "B" else state), None


DETECTORS = {"pairs": Detector(_pairs, (), classes=(Seen,)), "odd": Counter}


def events(seed: int, size: int = 120) -> list[RawEvent]:
    dice = Random(seed)
    sent: list[tuple[int, RawEvent]] = []
    for source in range(3):
        ts_ns = START
        for seq in range(size):
            ts_ns += dice.randrange(1, 20) * MS
            stalls = 120 if source == 2 and seq % 40 < 10 else 0
            delay = dice.choice((1, 2, 5, dice.randrange(40), stalls)) * MS
            if dice.random() < 0.02:
                delay += 400 * MS
            event = RawEvent(
                source=f"s{source}",
                seq=seq,
                ts_ns=ts_ns,
                arrival_ns=ts_ns + delay,
                type=dice.choice("ABC"),
                payload={"k": dice.randrange(3), "v": seq},
            )
            if dice.random() > 0.02:
                sent.append((ts_ns + delay, event))
    return [event for _, event in sorted(sent, key=lambda each: each[0])]


def results(text: str, sent: list[RawEvent]) -> list[Any]:
    topology = parse(text, detectors=DETECTORS)
    return [each for each in replay(topology, sent) if hasattr(each, "op")]


def content(each: Any) -> tuple[Any, ...]:
    rest = [getattr(each, name, None) for name in ("events", "members", "partners")]
    return (each.query, each.values, each.start_ns, each.end_ns, rest)


def standing(records: Sequence[Any]) -> dict[str, Any]:
    """Return the current results by id, and assert that each chain of revisions is valid."""
    stands: dict[str, Any] = {}
    revisions: dict[str, int] = {}
    finals = set()
    for each in records:
        assert each.revision == revisions.get(each.id, -1) + 1, each
        assert each.id not in finals, each
        assert (each.op == "emit") == (each.id not in stands), each
        revisions[each.id] = each.revision
        if each.final:
            finals.add(each.id)
        if each.op == "retract":
            del stands[each.id]
        else:
            stands[each.id] = content(each)
    return stands


def waited(records: list[Any], *but: str) -> bool:
    """Return whether all results are final, except those of the queries `but` and those at the
    input's end.
    """
    last_ns = max(each.at_ns for each in records)
    opened = [each for each in records if not each.final and each.query not in but]
    return all(each.at_ns == last_ns for each in opened)


@pytest.mark.slow
@pytest.mark.parametrize("late", ["pass", "side"])
@pytest.mark.parametrize("allowance", ["0s", "2s"])
def test_all_answers_agree(late: str, allowance: str) -> None:
    for seed in range(2):
        runs: dict[str, list[Any]] = {}
        for answer in ("final", "early", "speculate"):
            text = text_of(answer, late=late, new_source_allowance=allowance)
            runs[answer] = results(text, events(seed))
        stands = {answer: standing(records) for answer, records in runs.items()}
        assert len(stands["final"]) > 100
        for answer in ("early", "speculate"):
            assert stands[answer] == stands["final"], (seed, answer)
        assert waited(runs["final"], "odd")
        ops = {each.op for each in runs["final"]}
        assert ops == {"emit"}, "what is final is told once"
        assert "retract" in {each.op for each in runs["speculate"]}


@pytest.mark.slow
def test_finals_make_confidence_agree() -> None:
    """Without `finals`, some results of `answer: early` stay `uncertain`."""
    sent = events(0, 70)

    def sure(answer: str, finals: str = "") -> dict[str, tuple[str, bool]]:
        text = text_of(answer, finals, late="pass", new_source_allowance="200ms")
        said: dict[str, tuple[str, bool]] = {}
        for each in results(text, sent):
            said[each.id] = (each.confidence, each.final)
            if each.op == "retract":
                del said[each.id]
        return said

    final, early = sure("final"), sure("early")
    differ = [id_ for id_ in final if early[id_][0] != final[id_][0]]
    assert {(final[id_][0], *early[id_]) for id_ in differ} == {("confirmed", "uncertain", False)}
    sure_of = {id_: said for id_, (said, _) in final.items()}
    last = sure("early", ", finals: true")
    assert {id_: said for id_, (said, _) in last.items()} == sure_of


def test_speculative_results_come_earlier() -> None:
    sent = events(1, 500)

    def first_ns(answer: str) -> dict[str, int]:
        first: dict[str, int] = {}
        text = text_of(answer, late="pass", new_source_allowance="0s").partition("  odd:")[0]
        for each in results(text, sent):
            first.setdefault(each.id, each.at_ns - each.end_ns)
        return first

    final, early, ahead = (first_ns(answer) for answer in ("final", "early", "speculate"))
    both = final.keys() & early.keys() & ahead.keys()
    means = [sum(first[id_] for id_ in both) for first in (ahead, early, final)]
    assert means[0] < 0.7 * means[1] <= 0.7 * means[2]


@pytest.mark.slow
def test_share_changes_no_result() -> None:
    text = text_of("speculate", late="pass", new_source_allowance="0s")
    stands = []
    for share in ("0.01%", "100%"):
        granted = text.replace(
            "answer: speculate}", f"answer: speculate, speculate: {{share: {share}}}}}"
        )
        stands.append(standing(results(granted, events(2))))
    assert stands[0] == stands[1]
