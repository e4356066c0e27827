"""Laws: a query that chooses its answers changes them whenever it likes, and what stands at last is
what `final` tells; each revision of a result is told once, without a hole; and neither a restart
nor a cut of the input changes any of it. Examples: what is held, and told when."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest

from inorder.engine import RawEvent, Reader, parse
from tests.topology.speculate.test_answers import DETECTORS, TOPOLOGY, events
from topology.config import Topology
from topology.flow.answers import MAX_HELD, Answers
from topology.flow.batches import batches
from topology.flow.replay import Replay
from topology.model.result import CONFIRMED, EMIT, RETRACT, UPDATE, Finding, Result, WindowResult
from topology.speculate.choice import Choice, Way

CHAINED = """\
  counts: {{detector: pairs, reads: [pairs], answer: {answer}}}
"""


class Forced(Choice):
    """Another way at one span in three, whatever it costs."""

    seed = 0

    def weigh(self, now_ns: int, ways: Sequence[Way], room_ppm: int) -> bool:
        super().weigh(now_ns, ways, room_ppm)
        dice = Random(f"{self.seed}/{now_ns // 100_000_000}")
        before, self.answer = self.answer, self.answer
        if dice.random() < 0.35:
            self.answer = dice.choice([way.answer for way in ways])
        return self.answer != before


def _topology(answer: str, **settings: str) -> Topology:
    wanted = {"late": "pass", "newcomers": "0s", **settings}
    text = (TOPOLOGY + CHAINED).format(answer=answer, **wanted)
    return parse(text, detectors=DETECTORS)


def _run(topology: Topology, seed: int | None) -> Replay:
    """Forced by a seed, or left to choose."""
    run = Replay(topology)
    if seed is not None:
        for forced in _choosers(run):
            choice = Forced(forced.choice.answer)
            choice.seed = seed
            forced.choice = choice
    return run


def _choosers(run: Replay) -> list[Any]:
    stage = run._stage
    found: list[Any] = list(stage._answers._queries.values())
    for chain in stage.chains.values():
        for node in chain.nodes:
            if node.name == "detector":
                detecting = node.operator._queries._detecting  # type: ignore[attr-defined]
                found += [each._auto for each in detecting if each._auto is not None]
    return found


def _told(
    topology: Topology,
    sent: list[RawEvent],
    seed: int | None = None,
    *,
    restarts: float = 0.0,
    each_alone: bool = False,
) -> list[Result]:
    fate = Random(seed)
    run = _run(topology, seed)
    kept: dict[str, Any] = {}
    found: list[Finding] = []
    for contents, until_ns in _cut(topology, sent, each_alone=each_alone):
        step = run.on_inputs(contents, until_ns)
        found += step.results if step is not None else ()
        for key, value in run.changes().items() if restarts else ():
            _apply(kept, key, value)
        if fate.random() < restarts:
            saved = run.saved()
            assert saved is not None
            assert _plain(saved.state) == kept
            run = _run(topology, seed)
            run.restore(saved._replace(state=_plain(saved.state)))
    step = run.on_end()
    found += step.results if step is not None else ()
    return [each for each in found if isinstance(each, Result)]


def _apply(kept: dict[str, Any], key: str, value: Any) -> None:
    if value is None:
        kept.pop(key, None)
    else:
        kept[key] = _plain(value)


def _plain(value: Any) -> Any:
    """As it comes back from a log."""
    return json.loads(json.dumps(value))


def _cut(topology: Topology, sent: list[RawEvent], *, each_alone: bool) -> Iterator[Any]:
    contents = list(Reader(topology).contents(sent))
    if not each_alone:
        small = [contents[at : at + 25] for at in range(0, len(contents), 25)]
        for part, following in zip(small, [*small[1:], None], strict=True):
            first: Any = part[-1] if following is None else following[0]
            yield part, first.at_ns if following is not None else None
        return
    yield from batches(contents)


def _key(result: Result) -> tuple[Any, ...]:
    rest = getattr(result, "members", None), getattr(result, "partners", None)
    return (result.query, result.values, result.start_ns, result.end_ns, result.confidence, rest)


def _standing(told: list[Result]) -> dict[str, Any]:
    """By id. Each chain of revisions is sound."""
    stands: dict[str, Any] = {}
    revisions: dict[str, int] = {}
    finals = set()
    for each in told:
        assert each.revision == revisions.get(each.id, -1) + 1, each
        assert each.id not in finals or each.query in ("odd", "counts"), each
        assert (each.op == EMIT) == (each.id not in stands), each
        revisions[each.id] = each.revision
        if each.final:
            finals.add(each.id)
        if each.op == RETRACT:
            del stands[each.id]
        else:
            stands[each.id] = _key(each)
    return stands


def _all(told: list[Result]) -> list[tuple[Any, ...]]:
    """Each query's, in its order."""
    said = [(each.query, each.at_ns, each.op, each.revision, each.id, each.values) for each in told]
    return sorted(said, key=lambda each: each[0])


@pytest.mark.parametrize(("late", "newcomers"), [("pass", "0s"), ("pass", "2s"), ("side", "200ms")])
def test_whenever_it_changes_the_same_stands(late: str, newcomers: str) -> None:
    _law(range(2), late=late, newcomers=newcomers)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("late", ["pass", "side"])
def test_whenever_it_changes_the_same_stands_long(late: str) -> None:
    _law(range(1_000, 1_150), late=late, newcomers="200ms")


def _law(seeds: range, **settings: str) -> None:
    ops = set()
    for seed in seeds:
        sent = events(seed, 70)
        stands = _standing(_told(_topology("final", **settings), sent))
        auto = _topology("auto", **settings)
        whole = _told(auto, sent, seed)
        assert _standing(whole) == stands, seed
        restarted = _told(auto, sent, seed, restarts=0.3)
        assert _all(restarted) == _all(whole), f"{seed}: a restart changes nothing"
        assert _all(_told(auto, sent, seed, each_alone=True)) == _all(whole), f"{seed}: nor a cut"
        ops |= {(each.query, each.op) for each in whole}
    assert {("window", UPDATE), ("odd", RETRACT)} <= ops
    assert ("match", RETRACT) in ops or settings["late"] == "side"


def test_left_to_choose_the_same_stands_too() -> None:
    sent = events(7, 120)
    told = _told(_topology("auto"), sent)
    assert _standing(told) == _standing(_told(_topology("final"), sent))
    assert _all(_told(_topology("auto"), sent, restarts=0.2)) == _all(told)
    assert _all(_told(_topology("auto"), sent, each_alone=True)) == _all(told)


# -- examples --------------------------------------------------------------------------------------

WAIT, CORRECT = "final", "early"


class Set(Choice):
    """As the test says."""

    wanted = CORRECT

    def weigh(self, now_ns: int, ways: Sequence[Way], room_ppm: int) -> bool:
        before, self.answer = self.answer, self.wanted
        return self.answer != before


def _answers(more: str = "") -> tuple[Answers, Set]:
    topology = parse(f"""\
streams: {{default: {{}}}}
queries:
  w: {{window: tumbling 1s, aggregate: {{n: count()}}, answer: auto{more}}}
""")
    answers = Answers(topology.queries, ["merge", "window"])
    choice = Set(CORRECT)
    answers._queries["w"].choice = choice
    return answers, choice


def _found(
    span: int, id_: str, op: str, revision: int, n: int = 0, *, final: bool = False
) -> WindowResult:
    at_ns = span * 100_000_000
    end_ns = int(id_) * 100_000_000 if id_.isdigit() else 1
    return WindowResult(at_ns, "s", "w", id_, op, revision, final, CONFIRMED, 0, end_ns, {"n": n})


def _left(answers: Answers, *found: Finding) -> list[tuple[Any, ...]]:
    left: list[Any] = answers.of(found)
    return [(each.id, each.op, each.revision, each.values["n"]) for each in left]


def test_where_it_waits_the_final_telling_is_the_first() -> None:
    answers, choice = _answers()
    choice.answer = choice.wanted = WAIT
    assert not _left(answers, _found(1, "a", EMIT, 0, 5), _found(2, "a", UPDATE, 1, 6))
    assert _left(answers, _found(3, "a", UPDATE, 2, 6, final=True)) == [("a", EMIT, 0, 6)]
    assert not _left(answers, _found(4, "b", EMIT, 0), _found(4, "b", RETRACT, 1, final=True))
    assert not answers._queries["w"].waiting


def test_what_was_told_before_it_waits_is_taken_back_at_once() -> None:
    answers, choice = _answers()
    assert _left(answers, _found(1, "a", EMIT, 0, 5)) == [("a", EMIT, 0, 5)]
    choice.wanted = WAIT
    assert not _left(answers, _found(2, "a", UPDATE, 1, 6), _found(2, "a", UPDATE, 2, 7))
    assert _left(answers, _found(3, "a", RETRACT, 3)) == [("a", RETRACT, 1, 0)]
    assert not _left(answers, _found(3, "a", EMIT, 4, 8))
    assert _left(answers, _found(4, "a", UPDATE, 5, 8, final=True)) == [("a", EMIT, 2, 8)]


def test_what_is_held_is_told_when_it_corrects_again() -> None:
    answers, choice = _answers()
    _left(answers, _found(1, "a", EMIT, 0, 5), _found(1, "b", EMIT, 0, 1))
    choice.wanted = WAIT
    held = [_found(2, "a", UPDATE, 1, 6), _found(2, "a", UPDATE, 2, 7), _found(2, "c", EMIT, 0, 1)]
    assert not _left(answers, *held)
    assert answers.explain()["w"]["held"] == 2
    choice.wanted = CORRECT
    told = answers.of([_found(3, "b", UPDATE, 1, 2)])
    assert [(each.id, each.op, each.at_ns) for each in told if isinstance(each, Result)] == [
        ("a", UPDATE, 300_000_000),
        ("c", EMIT, 300_000_000),
        ("b", UPDATE, 300_000_000),
    ]
    assert list(answers._queries["w"].waiting) == ["a"], "the others are as the operator counts"
    assert _left(answers, _found(3, "a", UPDATE, 3, 9)) == [("a", UPDATE, 2, 9)]
    assert _left(answers, _found(3, "a", UPDATE, 4, 9, final=True)) == [("a", UPDATE, 3, 9)]
    assert not answers._queries["w"].waiting


def test_no_more_is_held_than_there_is_room_for() -> None:
    answers, choice = _answers()
    choice.answer = choice.wanted = WAIT
    many = [_found(1, f"{n}", EMIT, 0) for n in range(MAX_HELD + 2)]
    assert len(_left(answers, *many)) == 2
    assert not _left(answers, _found(1, "7", RETRACT, 1))
    assert not _left(answers, _found(1, "one more", EMIT, 0)), "what was taken back makes room"
    assert len(answers._queries["w"].waiting) == MAX_HELD


def test_it_waits_where_corrections_cost_more_than_there_is() -> None:
    answers, _ = _answers(", speculate: {share: 10%}")
    answers._queries["w"].choice = Choice(CORRECT)
    told = 0
    for span in range(100):
        found = [
            _found(span, "a", UPDATE if span or n else EMIT, 600 * span + n) for n in range(600)
        ]
        told += len(_left(answers, *found))
    assert told < 40 * 600, "12 % of a processor"
    said = answers.explain()["w"]["auto"]
    assert said["answer"] == "final"
    assert said["because"].startswith("`early` took 12.0")
    assert "where 10.00 % may be taken" in said["because"]


def test_it_waits_where_more_is_taken_back_than_is_allowed() -> None:
    answers, _ = _answers(", speculate: {withdrawn: 5%}")
    query = answers._queries["w"]
    query.choice = Choice(CORRECT, 50_000)
    for span in range(30):
        _left(answers, _found(span, f"{span}", EMIT, 0), _found(span, f"{span}", RETRACT, 1))
    assert query.choice.answer == "final"
    for span in range(30, 900):
        _left(answers, _found(span, f"{span}", EMIT, 0))
        if span >= 40:
            _left(answers, _found(span, f"{span - 10}", UPDATE, 1, final=True))
        if query.choice.answer == "early":
            break
    assert 100 < span < 900, "since one in a hundred may have been taken back"
    assert all(each.result is None for each in query.waiting.values()), "what was held is told"
    assert query.choice.since_ns is not None


def test_what_the_driver_measures_is_heeded() -> None:
    answers, _ = _answers()
    query = answers._queries["w"]
    query.choice = Choice(CORRECT)
    answers.items_cost(1_000, others_ppm=900_000)
    for span in range(10):
        for n in range(60):
            _left(answers, _found(span, f"{span}/{n}", EMIT, 0))
    assert query.choice.answer == "final", "1.2 % where nothing is free"
    answers.items_cost(1_000, others_ppm=0)
    for span in range(10, 30):
        for n in range(60):
            _left(answers, _found(span, f"{span}/{n}", EMIT, 0))
    assert query.choice.answer == "early"
    assert answers.items == 30 * 60


def test_late_amend_corrects_always() -> None:
    topology = parse("""\
streams: {default: {}}
queries:
  m: {pattern: "PATTERN SEQ(A a, B b) WITHIN 1 s LATE AMEND 1 s", answer: auto}
""")
    answers = Answers(topology.queries, ["pattern"])
    assert "LATE AMEND" in answers.explain()["m"]["auto"]


def test_nothing_is_kept_of_what_found_nothing() -> None:
    answers, _ = _answers()
    assert answers.snapshot() == answers.changes() == {}
    _left(answers, _found(1, "a", EMIT, 0))
    assert len(answers.snapshot()) == len(answers.changes()) == 1


def test_what_is_kept_of_another_query_goes() -> None:
    answers, choice = _answers()
    choice.answer = choice.wanted = WAIT
    _left(answers, _found(1, "a", EMIT, 0))
    state = answers.snapshot()
    assert len(state) == 2
    topology = parse("""\
streams: {default: {}}
queries:
  w: {window: tumbling 2s, aggregate: {n: count()}, answer: auto}
""")
    other = Answers(topology.queries, ["window"])
    assert other.restore(state) == state, "the stage lets go of the rest"
    answers.set_queries(topology.queries)
    assert {key for key, value in answers.changes().items() if value is None} == set(state)
