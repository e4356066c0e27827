"""Law: results and their instants depend on the events and their instants alone. Cuts of the time
between them and restarts change nothing if the cost of an item is given. A restarted worker
assumes 4 us until it has measured (agents.task.item_price).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from random import Random
from string import ascii_lowercase
from typing import Any, NamedTuple

import pytest

from inorder.engine import Detector, RawEvent, parse
from inorder.given import Reader
from tests.seeds import seeds_of_today
from topology.answer.load_model import LoadModel
from topology.answer.spending import WHOLE
from topology.config import Topology
from topology.stage.replay import Replay

MS = 1_000_000
START = 1_700_000_000_000 * MS
TOPOLOGY = """\
streams:
  default:
    reorder: {max_wait: 400ms}
    clock: {unsynced: trust}
    merge: {max_wait: 300ms, idle_after: 2s, new_source_allowance: 1s}
correct_for: 2s
queries:
"""
ASKED = (
    "answer: early",
    "answer: speculate",
    "answer: speculate, speculate: {share: 1%}",
)


def third(state: int, event: Any) -> tuple[int, list[dict[str, Any]]]:
    count = state + 1
    return count, ([{"n": count, "by": event.source}] if count % 3 == 0 else [])


def event(source: str, seq: int, ts_ns: int, lag_ms: int, key: str) -> RawEvent:
    arrival_ns = ts_ns + lag_ms * MS
    return RawEvent(source=source, seq=seq, ts_ns=ts_ns, arrival_ns=arrival_ns, payload={"k": key})


class Log(NamedTuple):
    """A log of three sources that have late events and are sometimes all idle."""

    length: int
    longest_ms: int
    late: float
    most_late_ms: int
    key: Callable[[Random, int], str]

    def recorded(self, dice: Random) -> list[RawEvent]:
        sent = []
        now_ms = 0
        for seq in range(self.length):
            now_ms += dice.choice((5, 20, 20, 90, 400, self.longest_ms))
            for source in range(3):
                is_late = dice.random() < self.late
                lag_ms = dice.randrange(self.most_late_ms if is_late else 5)
                ts_ns = START + (now_ms + dice.randrange(20)) * MS
                sent.append(event(f"s{source}", seq, ts_ns, lag_ms, self.key(dice, seq)))
        return sorted(sent, key=lambda each: each.arrival_ns or 0)


def one_of_two(dice: Random, _: int) -> str:
    return dice.choice("xy")


def one_of_many(dice: Random, seq: int) -> str:
    return ascii_lowercase[(seq // 4 + dice.randrange(3)) % 26]


FEW_KEYS = Log(60, 2_500, 0.1, 600, one_of_two)
MANY_KEYS = Log(80, 1_500, 0.2, 250, one_of_many)
"""Keys come and go."""


def run_log(
    topology: Topology,
    dice: Random,
    log: Log = FEW_KEYS,
    *,
    cuts: float = 0.0,
    restarts: float = 0.0,
    step_ns: int | None = None,
) -> list[Any]:
    """Return the output of a run.

    Args:
        cuts: How often the time before an event is cut.
        restarts: How often the run is restarted from its saved state.
        step_ns: The given cost of an item.
    """
    contents: list[Any] = list(Reader(topology).contents(log.recorded(dice)))
    run = begun(topology, step_ns)
    found: list[Any] = []
    for before, content in zip([contents[0], *contents], contents, strict=False):
        rest_ns = content.at_ns - before.at_ns
        if rest_ns and dice.random() < cuts:  # time advances only when an instant is complete
            found += run.on_time(before.at_ns + dice.randrange(rest_ns)).results
        if content is not before and dice.random() < restarts:
            saved = run.save()
            assert saved is not None
            run = begun(topology, step_ns)
            run.restore(saved)
        step = run.on_inputs([content])
        found += step.results if step is not None else ()
    last = run.on_end()
    assert last is not None
    return [*found, *last.results]


def begun(topology: Topology, step_ns: int | None) -> Replay:
    run = Replay(topology)
    if step_ns is not None:
        for each in run._stage.speculative_detectors:
            each.set_costs(step_ns, 100_000)
    return run


def count(state: int, event: Any) -> tuple[int, Any]:
    return state + 1, ({"n": state + 1} if event.source == "s0" else None)


def one_more(state: int, event: Any, results: Any) -> Any:
    if event.source == "s0":
        return None
    return state + 1, None, [each.with_values({"n": each.values["n"] + 1}) for each in results]


def grow(state: dict[int, str], event: Any) -> tuple[dict[int, str], Any]:
    state = {**state, event.seq % 20: "x" * 300 + str(len(state))}
    return state, ({"n": len(state)} if event.seq % 3 == 0 else None)


DETECTORS = {
    "third": Detector(third, 0),
    "count": Detector(count, 0, correct=one_more),
    "grow": Detector(grow, {}),
}


BY_KEY = "detector: third, key: payload.k"
CASES: dict[str, tuple[list[str], Log, float, float]] = {
    "plain": ([BY_KEY] * 3, FEW_KEYS, 0.3, 0.09),
    "chain": (
        [
            "detector: count, key: payload.k",
            "detector: third, reads: [q0, default]",
            "detector: grow",
        ],
        FEW_KEYS,
        0.0,
        0.1,
    ),
    "by key": ([BY_KEY, "detector: grow, key: payload.k"], MANY_KEYS, 0.0, 0.15),
}
"""Queries, their log, and how often it is cut and the run restarted.

The chain is over a detector that corrects late events, beside one of large states. If states are
large by key, some are thinned out before others exist. Both get a high cost of an item, again after
each restart.
"""
OF_EACH_KEY = (72, 134, 146, 152, 162, 185)
"""Seeds that once failed: a key whose entries all had checkpoints was read again with fewer."""


def topology_of(*queries: str) -> Topology:
    lines = [f"  q{number}: {{{query}}}" for number, query in enumerate(queries)]
    return parse("\n".join([TOPOLOGY, *lines, ""]), detectors=DETECTORS)


def said(name: str, seed: int, *, hurt: bool) -> list[Any]:
    queries, log, cuts, restarts = CASES[name]
    dice = Random(seed)
    ways = ASKED[1:] if name == "by key" else ASKED
    topology = topology_of(*(f"{query}, {dice.choice(ways)}" for query in queries))
    dear_ns = dice.choice((400_000, 2_000_000, 6_000_000, 15_000_000))
    step_ns = None if name == "plain" else dear_ns
    if not hurt:
        return run_log(topology, dice, log, step_ns=step_ns)
    return run_log(topology, dice, log, cuts=cuts, restarts=restarts, step_ns=step_ns)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "seed"),
    [
        *product(("plain", "chain"), seeds_of_today(12)),
        *product(("by key",), (*seeds_of_today(2), *OF_EACH_KEY)),
    ],
)
def test_cuts_and_restarts_change_nothing(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Except in the plain case, only few checkpoints are kept."""
    if name != "plain":
        monkeypatch.setattr("topology.queries.detector.unit.MAX_KEPT", 400)
    assert said(name, seed, hurt=True) == said(name, seed, hurt=False)


def test_figures_show_the_lead() -> None:
    """A query with `answer: early` gains nothing. Times of several queries are not added up."""
    answers = ("early", "speculate", "speculate")
    topology = topology_of(*(f"detector: third, answer: {answer}" for answer in answers))
    run = begun(topology, None)
    run.on_inputs(list(Reader(topology).contents(FEW_KEYS.recorded(Random(1)))))
    explained = json.loads(json.dumps(run._stage.explain()))
    asked_of = explained["streams"]["default"]["detector"]
    for (name, said), answer in zip(asked_of.items(), answers, strict=True):
        assert (said["answer"], said["emitted"] > 0) == (answer, True)
        assert ("rollbacks" in said["reads_up_to"]) == (answer == "speculate")
        ahead_ns = said["ahead_of_merge_ns"] if name != "q0" else 0
        assert said["lead_ns"] == ahead_ns - said["wait_ns"], name
        assert said["wait_share_ppm"] == said["wait_ns"] * 1_000_000 // max(ahead_ns, 1), name
    assert asked_of["q1"]["lead_ns"] > 0
    figures = run._stage.figures_of("default")
    for name in ("wait_ns", "wait_share_ppm", "lead_ns"):
        assert figures[f"detector_{name}"] == max(said[name] for said in asked_of.values()), name


def test_idle_time_weighs_nothing() -> None:
    load = LoadModel(WHOLE, 0)
    before = load.budget.dump()
    for second in range(1, 4):
        load.settle(second * 1_000 * MS, 0)
    assert load.budget.dump() == before
    for second in range(4, 6):
        load.note_event(second, second)
        load.settle(second * 1_000 * MS, 0)
    assert load.budget.dump() != before
