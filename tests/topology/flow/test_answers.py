"""Laws: a query that chooses its answers changes them whenever it likes, and what stands at last is
what `final` tells; each revision of a result is told once, without a hole; and neither a restart
nor a cut of the input changes any of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest

from inorder.engine import RawEvent, Reader, parse
from tests.topology.flow.test_held import WAIT, Set
from tests.topology.speculate.test_answers import DETECTORS, TOPOLOGY, events
from topology.config import Topology, query_of
from topology.flow.answers import AnswerChanged
from topology.flow.batches import batches
from topology.flow.replay import Replay
from topology.model.result import EMIT, RETRACT, UPDATE, Finding, Result
from topology.speculate.choice import Choice, Way

MANY_NS = 300_000_000
ANSWERS = ("early", "auto", "final")
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
            run.restore(saved._replace(state=_shuffled(_plain(saved.state), fate)))
    step = run.on_end()
    found += step.results if step is not None else ()
    return [each for each in found if isinstance(each, Result)]


def _apply(kept: dict[str, Any], key: str, value: Any) -> None:
    if value is None:
        kept.pop(key, None)
    else:
        kept[key] = _plain(value)


def _shuffled(state: dict[str, Any], fate: Random) -> dict[str, Any]:
    """A log has the order of keys, or none."""
    keys = sorted(state)
    fate.shuffle(keys)
    return {key: state[key] for key in keys}


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


@pytest.mark.parametrize(("answer", "to"), [(a, b) for a in ("early", "auto") for b in ANSWERS])
def test_another_answer_at_a_restart_and_the_same_stands(answer: str, to: str) -> None:
    for seed in range(2):
        sent = events(seed, 70)
        before, after, final = _alone(answer), _alone(to), _alone("final")
        two = _told_by_two(before, after, sent, seed)
        assert _values(two) == _values(_told(final, sent)), seed
        if to == "final":
            half = two[-1].at_ns // 2 + two[0].at_ns // 2
            new = [each for each in two if each.op == EMIT and each.start_ns > half + MANY_NS]
            assert all(each.final for each in new), "what was not told before waits"


def test_what_waited_is_told_with_the_next_step_where_it_is_to_correct_now() -> None:
    sent = events(3, 70)
    run = _run(_alone("auto"), None)
    for chooser in _choosers(run):
        chooser.choice = Set(WAIT)
        chooser.choice.wanted = WAIT
    cut = [*_cut(_alone("auto"), sent, each_alone=False)]
    for contents, until_ns in cut[: len(cut) // 2]:
        run.on_inputs(contents, until_ns)
    saved = run.saved()
    assert saved is not None
    held = sum(each.held.results for each in _choosers(run))
    assert held > 10
    after = Replay(_alone("early"))
    after.restore(saved._replace(state=_plain(saved.state)))
    contents, until_ns = cut[len(cut) // 2]
    step = after.on_inputs(contents, until_ns)
    assert step is not None
    assert len(step.results) >= held
    assert after._stage._answers.explain()["window"]["held"] == 0


@pytest.mark.parametrize("to", ["early", "auto"])
def test_what_was_final_cannot_be_told_otherwise(to: str) -> None:
    with pytest.raises(AnswerChanged, match=r"its `answer` was `final`.*another name"):
        _told_by_two(_alone("final"), _alone(to), events(0, 70), 0)


@pytest.mark.parametrize("to", ["early", "auto"])
def test_a_live_query_stays_final_whatever_is_written_there_and_at_a_restart(to: str) -> None:
    final, other = _live("final"), _live(to)
    sent = events(0, 70)
    whole = _told_live(sent, final, final, change_at=0, restart_at=-1)
    assert len(whole) > 10
    for change_at in (3, 5):
        told = _told_live(sent, final, other, change_at=change_at, restart_at=5)
        assert told == whole, change_at


def _told_live(
    sent: list[RawEvent], before: Any, after: Any, *, change_at: int, restart_at: int
) -> list[Any]:
    topology = _topology_of_live()
    run = Replay(topology)
    found: list[Finding] = []
    for at, (contents, until_ns) in enumerate(_cut(topology, sent, each_alone=False)):
        if at == restart_at:
            saved = run.saved()
            assert saved is not None
            run = Replay(topology)
            run._stage.set_queries(after)
            run.restore(saved._replace(state=_plain(saved.state)))
            assert "set `answer: final` again" in run._stage.kept_final["follows"]
        run._stage.set_queries(before if at < change_at else after)
        step = run.on_inputs(contents, until_ns)
        found += step.results if step is not None else ()
    step = run.on_end()
    found += step.results if step is not None else ()
    assert all(each.final for each in found if isinstance(each, Result))
    return [repr(each) for each in found]


def _topology_of_live() -> Topology:
    return parse("streams: {default: {merge: {newcomers: 200ms}}}\nlive_queries: true\n")


def _live(answer: str) -> dict[str, Any]:
    asked = {"pattern": "PATTERN SEQ(A a, B b) WITHIN 100 ms", "answer": answer}
    return {"follows": query_of(asked, _topology_of_live())}


def _alone(answer: str) -> Topology:
    """Windows, a pattern and a join without detectors."""
    text = TOPOLOGY.format(answer=answer, late="pass", newcomers="2s")
    return parse(
        "".join(line for line in text.splitlines(keepends=True) if "detector:" not in line)
    )


def _values(told: list[Result]) -> dict[str, Any]:
    """What stands, without how sure it is: `early` does not say once more what is final."""
    return {id_: (*each[:4], each[5]) for id_, each in _standing(told).items()}


def _told_by_two(
    before: Topology, after: Topology, sent: list[RawEvent], seed: int
) -> list[Result]:
    """The other answer is in the file after half of the input."""
    found: list[Finding] = []
    cut = [*_cut(before, sent, each_alone=False)]
    assert len(cut) > 3
    run = _run(before, seed)
    for number, (contents, until_ns) in enumerate(cut):
        step = run.on_inputs(contents, until_ns)
        found += step.results if step is not None else ()
        if number in {len(cut) // 2, len(cut) * 3 // 4}:
            saved = run.saved()
            assert saved is not None
            run = _run(after, seed)
            run.restore(saved._replace(state=_shuffled(_plain(saved.state), Random(seed))))
    step = run.on_end()
    found += step.results if step is not None else ()
    return [each for each in found if isinstance(each, Result)]


def test_left_to_choose_the_same_stands_too() -> None:
    sent = events(7, 120)
    told = _told(_topology("auto"), sent)
    assert _standing(told) == _standing(_told(_topology("final"), sent))
    assert _all(_told(_topology("auto"), sent, restarts=0.2)) == _all(told)
    assert _all(_told(_topology("auto"), sent, each_alone=True)) == _all(told)
