"""Examples: how a detector with `answer: auto` answers when others take the processor, when events
come behind the merge, and both; and what it takes a late event to cost."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from inorder.engine import Detector, RawEvent, parse
from inorder.given import Reader
from topology.answer.auto import CORRECTION_STEPS, AutoAnswer
from topology.answer.budget import FADES, Budget
from topology.answer.spending import Load
from topology.flow.replay import Replay
from topology.model.result import EMIT

MS = 1_000_000
SECOND = 1_000 * MS
TOPOLOGY = """\
streams:
  default:
    reorder: {max_wait: 1s, late: pass}
    clock: {unsynced: trust}
    merge: {max_wait: 150ms, idle_after: 10s, newcomers: 500ms}
correct_for: 1s
queries:
  after: {detector: after, answer: auto}
"""


def _after(state: str, event: Any) -> tuple[str, Any]:
    """Who came before, of other sources."""
    return event.source, {"before": state} if state > event.source else None


def _stream(late_ms: dict[int, int], seconds: int) -> list[RawEvent]:
    """Three sources, 50 events a second each; one lags now and then, in a second by so much."""
    dice = Random(1)
    sent = []
    for source in range(3):
        last_ns = 0
        for seq in range(seconds * 50):
            ts_ns = (seq * 20 + dice.randrange(20)) * MS
            most_ms = late_ms.get(ts_ns // SECOND, 120)
            lag_ms = dice.random() ** 2 * most_ms if source == 2 and dice.random() < 0.1 else 0
            last_ns = max(last_ns, ts_ns + int((5 + lag_ms) * MS))
            sent.append(RawEvent(source=f"s{source}", seq=seq, ts_ns=ts_ns, arrival_ns=last_ns))
    return sorted(sent, key=lambda each: each.arrival_ns or 0)


def _answers(
    loaded: range, late: range, seconds: int, *, restarts: bool = False
) -> tuple[list[str], list[Any]]:
    """How it answers, second by second, and what is told. An item takes a millisecond."""
    topology = parse(TOPOLOGY, detectors={"after": Detector(_after, "")})
    run = Replay(topology)
    answers: list[str] = []
    found: list[Any] = []
    for content in Reader(topology).contents(_stream(dict.fromkeys(late, 900), seconds)):
        now_ns = content.at_ns  # type: ignore[union-attr]
        if now_ns // SECOND == len(answers):
            if restarts and answers:
                saved = run.saved()
                assert saved is not None
                run = Replay(topology)
                run.restore(saved)
            (detectors,) = run._stage.reading_ahead()
            taken_ppm = 900_000 if len(answers) in loaded else 100_000
            detectors.items_cost(MS, taken_ppm)
            answers.append(detectors.explain()["after"]["auto"]["answer"])
        step = run.on_inputs([content])
        found += step.results if step is not None else ()
    return answers[:seconds], found


def test_under_load_it_waits_for_the_merge_and_is_back_in_two_seconds() -> None:
    answers, _ = _answers(range(5, 14), range(0), 18)
    assert answers[2:6] == ["speculate"] * 4
    assert answers[9:14] == ["early"] * 5
    assert answers[16:] == ["speculate"] * 2


def test_where_the_merge_is_overtaken_and_nothing_is_free_it_waits_for_what_is_final() -> None:
    loaded, late = range(5, 14), range(4, 14)
    answers, found = _answers(loaded, late, 18)
    assert answers[8:14] == ["final"] * 6
    assert answers[17:] == ["speculate"]
    in_time = [each for each in found if 8 * SECOND < each.at_ns < 13 * SECOND]
    assert len(in_time) > 100
    assert sum(each.op != EMIT for each in in_time) < 5
    assert sum(each.final for each in in_time) > 0.95 * len(in_time)
    again, same = _answers(loaded, late, 18, restarts=True)
    assert (again, same) == (answers, found), "a restart changes nothing"


def test_late_events_alone_are_no_reason_to_wait() -> None:
    answers, found = _answers(range(0), range(4, 14), 14)
    assert answers[3:] == ["speculate"] * 11
    assert sum(each.op != EMIT for each in found) > 50


def test_what_holds_is_told_with_the_figures() -> None:
    topology = parse(TOPOLOGY, detectors={"after": Detector(_after, "")})
    run = Replay(topology)
    run.on_inputs(list(Reader(topology).contents(_stream({}, 4))))
    said = run._stage.explain()["streams"]["default"]["detector"]["after"]
    (chosen,) = run._stage.chosen()
    assert chosen[:3] == ("after", said["auto"]["answer"], said["auto"]["changes"])
    assert said["answer"] == "auto"
    auto = said["auto"]
    assert (auto["answer"], auto["because"][:8]) == ("speculate", "it waits")
    waits = {way["answer"]: way["wait_ns"] for way in auto["ways"]}
    assert waits["speculate"] < waits["early"] < waits["final"]
    assert 0 < auto["since"] < 2 * SECOND


def test_figures_say_what_reading_ahead_wins() -> None:
    """`early` wins nothing; of several queries no times are added up."""
    own = {"after": Detector(_after, "")}
    asked = "  {}: {{detector: after, answer: {}, speculate: {{share: 0.01%}}}}"
    early = asked.format("late", "early").replace(", speculate: {share: 0.01%}", "")
    more = [early, asked.format("also", "speculate"), asked.format("again", "speculate")]
    topology = parse("\n".join([TOPOLOGY.rstrip(), *more, ""]), detectors=own)
    run = Replay(topology)
    run.on_inputs(list(Reader(topology).contents(_stream({}, 4))))
    asked_of = run._stage.explain()["streams"]["default"]["detector"]
    for name, said in asked_of.items():
        ahead_ns = said["ahead_of_merge_ns"] if name != "late" else 0
        assert said["won_ns"] == ahead_ns - said["wait_ns"], name
        assert said["alpha_ppm"] == said["wait_ns"] * 1_000_000 // max(ahead_ns, 1), name
    assert asked_of["after"]["won_ns"] > 0
    figures = run._stage.figures_of("default")
    for name in ("wait_ns", "alpha_ppm", "won_ns"):
        assert figures[f"detector_{name}"] == max(said[name] for said in asked_of.values()), name


@pytest.mark.parametrize("corrects", [True, False])
def test_a_late_event_costs_no_more_than_its_correction(*, corrects: bool) -> None:
    budget = Budget(500_000)
    auto = AutoAnswer(budget, None, None, corrects=corrects)
    assert budget.most_steps == (CORRECTION_STEPS if corrects else 0)
    prices = []
    for took in ([1, 0], [0, 1]):
        for span in range(2 * FADES):
            budget.note_late(90 * MS)
            load = Load(50 * MS, 0, 100 * MS)
            budget.weigh(load, 100 * MS, 1_000, 0)
            auto.weigh(span * 100 * MS, load, 100 * MS, SECOND, 1_000, took)
        prices.append(budget.wanted_ppm)
    seldom, always = prices
    assert always > 100 * seldom if corrects else always == seldom
    assert budget.most_steps == 0, "it takes them no more"
    other = AutoAnswer(Budget(500_000), None, None, corrects=corrects)
    other.restore(auto.snapshot())
    assert other.snapshot() == auto.snapshot()
