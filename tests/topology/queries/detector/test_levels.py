"""Laws of chains: the current results match those of the levels run one after the other over the
events in order. Answers and orders of arrival vary.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest

from inorder.engine import Detector, Found, RawEvent, Seen, parse, replay
from inorder.records import LateRecord
from tests.kit.places import give_back, places_of, twins
from tests.kit.runs import through_changelog
from tests.topology.queries.detector.chain_oracle import Item, Level, chain_truth
from tests.topology.queries.detector.test_answers import DETECTORS, MS, events, standing, waited
from tests.topology.queries.detector.test_answers import STREAM as FORM
from topology.base.event import Event
from topology.config.stages import list_operators
from topology.stage.stage import Stage

ANSWERS = ("final", "early", "speculate")

STREAM = FORM.format(late="pass", new_source_allowance="0s")


def _pause(state: int | None, event: Seen) -> Any:
    return event.time_ns, None


def _paused(state: int | None, time_ns: int) -> Any:
    return None, {"since": state}


def _pass(state: tuple[Any, ...], event: Seen) -> Any:
    """Find two hits of different keys with no pause between, and the time between them."""
    if event.type == "pause":
        return (), None
    found = None
    if state and state[0] != event.payload["key"]:
        values = {"from": state[0], "to": event.payload["key"], "after": event.time_ns - state[1]}
        found = Found(values, start_ns=state[1])
    return (event.payload["key"], event.time_ns), found


def _most(state: tuple[tuple[Any, int], ...], event: Seen) -> Any:
    """Find who was passed to most, and emit again, under one id, when that changes."""
    counts = Counter(dict(state))
    before = counts.most_common(1)
    counts[event.payload["to"]] += 1
    now = min(counts.items(), key=lambda each: (-each[1], each[0]))
    after = tuple(sorted(counts.items()))
    if before and before[0][0] == now[0]:
        return after, None
    return after, [Found({"most": now[0], "of": now[1]}, id="most"), {"was": len(state)}]


class Tally:
    """A detector that reads all results of a chain, and the stream, in their order."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.due: int | None = None

    def on_event(self, event: Seen) -> Any:
        self.seen = [*self.seen, event.type][-4:]
        self.due = event.time_ns + 30 * MS
        if event.type in ("most", "pass"):
            yield {"seen": list(self.seen)}

    def deadline(self) -> int | None:
        return self.due

    def on_time(self, time_ns: int) -> Any:
        self.due = None
        yield {"last": self.seen[-1], "then": time_ns}

    def on_end(self) -> Any:
        return {"end": len(self.seen)}


HIT = DETECTORS["pairs"]
PAUSE = Detector(_pause, None, lambda since: since and since + 45 * MS, _paused)
PASS = Detector(_pass, ())
MOST = Detector(_most, ())
OWN = {"hit": HIT, "pause": PAUSE, "pass": PASS, "most": MOST, "tally": Tally}

QUERIES = """\
queries:
  tally: {{detector: tally, answer: {4}, reads: [default, pass, most, hit]}}
  hit: {{detector: hit, key: payload.k, answer: {0}}}
  most: {{detector: most, answer: {3}, reads: [pass]}}
  pause: {{detector: pause, key: payload.k, answer: {1}}}
  pass: {{detector: pass, answer: {2}, reads: [hit, pause]}}
"""
LEVELS = [
    Level("hit", HIT, "k"),
    Level("pause", PAUSE, "k"),
    Level("pass", PASS, None, ("hit", "pause"), stream=False, level=2),
    Level("most", MOST, None, ("pass",), stream=False, level=3),
    Level("tally", Tally, None, ("pass", "most", "hit"), level=4),
]


def seen_of(sent: Sequence[RawEvent]) -> list[Seen]:
    once = {(each.source, each.seq): each for each in sent}
    return [
        Seen(each.type, each.ts_ns or 0, each.payload, source, 0, seq or 0)
        for (source, seq), each in once.items()
    ]


def results_of(
    text: str, sent: Sequence[RawEvent], own: Mapping[str, Any]
) -> tuple[list[Any], list[RawEvent]]:
    """Return the results and the accepted events.

    Events that REORDER takes for older than a source's beginning are late for all.
    """
    said: list[Any] = list(replay(parse(text, detectors=own), sent))
    late = {(each.source, each.seq) for each in said if isinstance(each, LateRecord)}
    accepted = [each for each in sent if (each.source, each.seq) not in late]
    return [each for each in said if hasattr(each, "op")], accepted


def values_of(records: Sequence[Any]) -> dict[str, list[str]]:
    """Return the current values of each query."""
    stands: dict[str, list[str]] = {}
    for query, values, *_ in standing(records).values():
        stands.setdefault(query, []).append(repr(values))
    return {query: sorted(each) for query, each in stands.items()}


def expected_of(truth: dict[str, Any]) -> dict[str, list[str]]:
    return {query: sorted(map(repr, each.values())) for query, each in truth.items() if each}


def law(seed: int, answers: Sequence[str]) -> list[Any]:
    sent = events(seed, 60)
    records, accepted = results_of(STREAM + QUERIES.format(*answers), sent, OWN)
    found, expected = values_of(records), expected_of(chain_truth(LEVELS, seen_of(accepted)))
    assert found.keys() == expected.keys()
    for query, values in expected.items():
        assert found[query] == values, (seed, answers, query)
    return records


@pytest.mark.slow
@pytest.mark.parametrize("answer", ANSWERS)
def test_chain_matches_its_levels_in_turn(answer: str) -> None:
    ops: Counter[tuple[str, str]] = Counter()
    for seed in range(4):
        records = law(seed, [answer] * 5)
        ops.update((each.query, each.op) for each in records)
        assert waited(records, "most") or answer != "final"
    assert all(ops[query, "emit"] > 3 for query in ("hit", "pause", "pass", "most", "tally"))
    if answer == "final":
        again = {query for query, op in ops if op != "emit"}
        assert again <= {"most"}, "what is final is told once, but under an id, told again"
    else:
        assert ops["hit", "retract"]
        assert ops["tally", "retract"]


@pytest.mark.parametrize(
    "seeds",
    [
        range(4),
        pytest.param(
            range(10**6, 10**6 + 1_000), marks=[pytest.mark.long, pytest.mark.timeout(1_800)]
        ),
    ],
)
def test_levels_can_mix_answers(seeds: range) -> None:
    for seed in seeds:
        law(seed, [ANSWERS[(seed + at * at * (seed % 2 + 1)) % 3] for at in range(5)])


def item_of(query: str, each: Any) -> Item:
    """Return the item of a current window or match."""
    payload: dict[str, Any] = {"start_ns": each.start_ns, "end_ns": each.end_ns}
    if each.key is not None:
        payload["key"] = each.key
    seen = Seen(query, each.end_ns, payload | each.values, query)
    return Item(each.end_ns, (1, 0, query, each.id), seen)


def _spread(state: int | None, event: Seen) -> Any:
    """Find the increase since the previous window."""
    n = event.payload["n"]
    return n, None if state is None else {"more": n - state, "key": event.payload.get("key")}


def _near(state: tuple[int, ...], event: Seen) -> Any:
    """Find two matches close together."""
    if state and event.payload["end_ns"] - state[-1] < 40 * MS:
        return (), {"two": [*state, event.payload["end_ns"]]}
    return (event.payload["end_ns"],), None


SPREAD, NEAR = Detector(_spread, None), Detector(_near, ())
BESIDE = """\
queries:
  ends: {{detector: near, reads: [calm], answer: {answer}}}
  calm: {{pattern: "PATTERN SEQ(A a, !B b, C c) WITHIN 60 ms RETURN a.v AS v INTO Calm"}}
  gone: {{pattern: "PATTERN SEQ(A a, !C c) WITHIN 50 ms"}}
  away: {{detector: near, reads: [gone, calm], answer: {answer}}}
  Count: {{window: tumbling 100ms, key: payload.k, aggregate: {{n: count()}}}}
  spread: {{detector: spread, key: payload.key, reads: Count, answer: {answer}}}
"""
BESIDE_LEVELS = [
    Level("ends", NEAR, None, ("calm",), stream=False),
    Level("away", NEAR, None, ("gone", "calm"), stream=False),
    Level("spread", SPREAD, "key", ("Count",), stream=False),
]


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["final", "early"])
def test_windows_and_matches_are_read(answer: str) -> None:
    for seed in range(4):
        sent = events(seed, 80)
        own = {"near": NEAR, "spread": SPREAD}
        records, accepted = results_of(STREAM + BESIDE.format(answer=answer), sent, own)
        stands: dict[str, Any] = {}
        for each in records:
            stands[each.id] = each
        others: dict[str, list[Item]] = {"calm": [], "gone": [], "Count": []}
        for each in stands.values():
            if each.op != "retract" and each.query in others:
                others[each.query].append(item_of(each.query, each))
        expected = expected_of(chain_truth(BESIDE_LEVELS, seen_of(accepted), others))
        found = values_of(records)
        for query, values in expected.items():
            assert found[query] == values, (seed, query)
        assert expected.keys() == {"ends", "away", "spread"}
        ops = Counter((each.query, each.op) for each in records)
        if answer == "final":
            assert not any(ops[query, "retract"] for query in expected)
        else:
            assert ops["spread", "update"] + ops["spread", "retract"]


def _stage_run(seed: int, restarts: float) -> list[Any]:
    """Run all operators in one stage, which is restored now and then from its snapshot."""
    own = {"near": NEAR, "spread": SPREAD}
    topology = parse(STREAM + BESIDE.format(answer="early"), detectors=own)
    dice = Random(seed)
    stage = Stage(topology, list_operators())
    found: list[Any] = []
    sent = sorted(events(seed, 80), key=lambda each: each.arrival_ns or 0)
    for number, each in enumerate(sent):
        value, at_ns = json.dumps(each.payload).encode(), each.arrival_ns or 0
        place = (each.source, 0, each.seq or 0, each.ts_ns or 0, at_ns, number)
        event = Event("default", *place, None, value, each.type)
        found += stage.on_batch([event], at_ns).results
        if dice.random() < restarts:
            held = twins(places_of(stage))
            state = through_changelog(stage.snapshot())
            stage = Stage(topology, list_operators())
            give_back(stage, state, held)
    found += stage.on_end(found[-1].at_ns + 10**9).results
    said = [(r.at_ns, r.query, r.id, r.revision, r.op, r.final, repr(r.values)) for r in found]
    return sorted(said)


@pytest.mark.slow
def test_restart_mid_instant_changes_nothing() -> None:
    for seed in range(4):
        assert _stage_run(seed, 0.2) == _stage_run(seed, 0.0), seed
