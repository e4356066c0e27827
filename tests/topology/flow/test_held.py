"""Examples: what is held where a query with `answer: auto` waits, told when, and why it waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from inorder.engine import parse
from topology.flow.answers import Answers
from topology.flow.held import MAX_HELD, MAX_HELD_BYTES
from topology.model.result import CONFIRMED, EMIT, RETRACT, UPDATE, Finding, Result, WindowResult
from topology.speculate.choice import Choice, Chosen, Way

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
    left: list[Any] = answers.of([*found])
    return [(each.id, each.op, each.revision, each.values["n"]) for each in left]


def test_where_it_waits_the_final_telling_is_the_first() -> None:
    answers, choice = _answers()
    choice.answer = choice.wanted = WAIT
    assert not _left(answers, _found(1, "a", EMIT, 0, 5), _found(2, "a", UPDATE, 1, 6))
    assert _left(answers, _found(3, "a", UPDATE, 2, 6, final=True)) == [("a", EMIT, 0, 6)]
    assert not _left(answers, _found(4, "b", EMIT, 0), _found(4, "b", RETRACT, 1, final=True))
    assert not answers._queries["w"].held.waiting


def test_where_it_waits_what_was_told_is_corrected_at_once() -> None:
    answers, choice = _answers()
    assert _left(answers, _found(1, "a", EMIT, 0, 5)) == [("a", EMIT, 0, 5)]
    choice.wanted = WAIT
    assert _left(answers, _found(2, "a", UPDATE, 1, 6)) == [("a", UPDATE, 1, 6)]
    assert _left(answers, _found(3, "a", RETRACT, 2)) == [("a", RETRACT, 2, 0)]
    assert not answers._queries["w"].held.waiting, "as the operator counts"
    assert not _left(answers, _found(3, "a", EMIT, 3, 8), _found(3, "a", UPDATE, 4, 9))
    assert _left(answers, _found(4, "a", UPDATE, 5, 9, final=True)) == [("a", EMIT, 3, 9)]


def test_what_is_held_is_told_when_it_corrects_again() -> None:
    answers, choice = _answers()
    choice.answer = choice.wanted = WAIT
    held = [_found(2, "c", EMIT, 0, 1), _found(2, "a", EMIT, 0, 6), _found(2, "a", UPDATE, 1, 7)]
    assert not _left(answers, *held)
    assert answers.explain()["w"]["held"] == 2
    assert answers.explain()["w"]["held_bytes"] > 0
    choice.wanted = CORRECT
    told = answers.of([_found(3, "b", EMIT, 0, 2)])
    assert [(each.id, each.op, each.at_ns) for each in told if isinstance(each, Result)] == [
        ("a", EMIT, 300_000_000),
        ("c", EMIT, 300_000_000),
        ("b", EMIT, 300_000_000),
    ]
    waiting = answers._queries["w"].held.waiting
    assert list(waiting) == ["a"], "the others are as the operator counts"
    assert _left(answers, _found(3, "a", UPDATE, 2, 9)) == [("a", UPDATE, 1, 9)]
    assert _left(answers, _found(3, "a", UPDATE, 3, 9, final=True)) == [("a", UPDATE, 2, 9)]
    assert not waiting
    assert answers.explain()["w"]["held"] == answers.explain()["w"]["held_bytes"] == 0


def test_what_cannot_be_kept_is_told_at_once() -> None:
    answers, choice = _answers()
    choice.answer = choice.wanted = WAIT
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    one = [_found(1, "a", EMIT, 0, deep), _found(1, "b", EMIT, 0, 1 << 64), _found(1, "c", EMIT, 0)]
    assert [each[:3] for each in _left(answers, *one)] == [("a", EMIT, 0), ("b", EMIT, 0)]
    assert _left(answers, _found(1, "c", UPDATE, 1, deep)) == [("c", EMIT, 0, deep)]
    assert _left(answers, _found(1, "c", UPDATE, 2, 1)) == [("c", UPDATE, 1, 1)]
    assert answers.explain()["w"]["told_at_once"] == 3


def test_no_more_bytes_are_held_than_there_is_room_for() -> None:
    answers, choice = _answers()
    choice.answer = choice.wanted = WAIT
    many: list[Any] = [_found(1, f"{n}", EMIT, 0) for n in range(60)]
    for each in many:
        each.values["text"] = "x" * 100_000
    assert 15 < len(_left(answers, *many)) < 25
    held = answers._queries["w"].held
    assert MAX_HELD_BYTES - 110_000 < held.size_bytes <= MAX_HELD_BYTES


def test_no_more_is_held_than_there_is_room_for() -> None:
    answers, choice = _answers()
    choice.answer = choice.wanted = WAIT
    many = [_found(1, f"{n}", EMIT, 0) for n in range(MAX_HELD + 2)]
    assert len(_left(answers, *many)) == 2
    assert not _left(answers, _found(1, "7", RETRACT, 1))
    assert not _left(answers, _found(1, "one more", EMIT, 0)), "what was taken back makes room"
    assert len(answers._queries["w"].held.waiting) == MAX_HELD
    size_bytes = answers._queries["w"].held.size_bytes
    assert answers.chosen() == [Chosen("w", "final", 0, MAX_HELD, size_bytes, told_at_once=2)]


def test_it_waits_where_corrections_cost_more_than_there_is() -> None:
    answers, _ = _answers(", speculate: {share: 10%}")
    answers._queries["w"].choice = Choice(CORRECT)
    told = 0
    for span in range(100):
        found = [_found(span, f"{span}", UPDATE if n else EMIT, n) for n in range(600)]
        told += len(_left(answers, *found))
    assert told < 40 * 600, "12 % of a processor"
    said = answers.explain()["w"]["auto"]
    assert (said["answer"], said["changes"]) == ("final", 1)
    assert answers.chosen()[0][:3] == ("w", "final", 1)
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
    assert all(each.result is None for each in query.held.waiting.values()), "what was held is told"
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


def test_queries_that_choose_share_the_processor() -> None:
    """Each takes a quarter of it, which is there for none of the others."""
    names = [f"w{number}" for number in range(4)]
    window = "{window: tumbling 1s, aggregate: {n: count()}, answer: auto}"
    answers = Answers(
        parse(
            "streams: {default: {}}\nqueries:\n" + "".join(f"  {n}: {window}\n" for n in names)
        ).queries,
        ["window"],
    )
    answers.items_cost(100_000)
    for span in range(20):
        for name in names:
            for number in range(250):
                found = _found(
                    span, f"{number % 125}", UPDATE if number >= 125 else EMIT, number // 125
                )
                found.query = name
                answers.of([found])
    for name in names:
        said = answers.explain()[name]["auto"]
        assert (said["answer"], said["room_ppm"]) == ("final", 0), name


@pytest.mark.parametrize("withdrawn", ["1%", "0.5%", "0.1%"])
def test_however_little_may_be_taken_back_it_corrects_where_nothing_is(withdrawn: str) -> None:
    answers, _ = _answers(f", speculate: {{withdrawn: {withdrawn}}}")
    query = answers._queries["w"]
    query.choice = Choice(WAIT, round(float(withdrawn[:-1]) * 10_000))
    for span in range(90):
        found = [_found(span, f"{span}/{number}", EMIT, 0) for number in range(60)]
        if span >= 10:
            born = span - 10
            found += [_found(span, f"{born}/{n}", UPDATE, 1, final=True) for n in range(60)]
        for each in found:
            each.end_ns = int(each.id.partition("/")[0]) * 100_000_000
        _left(answers, *found)
    assert query.choice.answer == "early"


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
