"""Oracle: the baselines of the pattern benchmark find the same matches as the engine."""

from __future__ import annotations

from collections import deque
from random import Random

import pytest

from benchmarks.baselines import sequence
from benchmarks.baselines.buffered_nfa import BufferedNFA
from benchmarks.baselines.eager import Eager
from benchmarks.baselines.sequence import Exploded, Members, Sequence
from benchmarks.pattern_runs import Feed, compile_query, find_engine_matches
from benchmarks.workloads.letters import SLACK, letters

QUERIES = ("abc", "ab+c", "a+b+c", "ab+cd")
STREAMS = 25


def by_baselines(asked: Sequence, feed: Feed) -> tuple[set[Members], set[Members]]:
    nfa, eager = BufferedNFA(asked, SLACK), Eager(asked, SLACK)
    buffered: set[Members] = set()
    for time, type_ in feed:
        buffered.update(nfa.accept(time, type_))
        eager.accept(time, type_)
    buffered.update(nfa.end())
    return buffered, set().union(*eager.current.values())


@pytest.mark.parametrize("any_", [False, True], ids=["one", "maximal"])
@pytest.mark.parametrize("text", QUERIES)
def test_oracle_baselines_match_engine(text: str, any_: bool) -> None:
    matches = 0
    for seed in range(STREAMS):
        rng = Random(seed)
        feed = letters(60, types=4, disorder=rng.choice((0.0, 0.3, 0.7)), seed=seed)
        within = rng.choice((4, 8, 10))
        truth = find_engine_matches(compile_query(text, within, any_=any_), feed)
        asked = Sequence.of(text, within, any_=any_)
        assert by_baselines(asked, feed) == (truth, truth)
        matches += len(truth)
    assert matches > STREAMS


def test_baselines_stop_at_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.baselines.buffered_nfa.MAX_RUNS", 100)
    monkeypatch.setattr("benchmarks.baselines.eager.MAX_RUNS", 100)
    assert sequence.MAX_RUNS > 100
    asked = Sequence.of("a+b+c", 40, any_=True)
    feed = letters(200, types=2)
    for baseline in (BufferedNFA(asked, SLACK), Eager(asked, SLACK)):
        with pytest.raises(Exploded):
            deque((baseline.accept(time, type_) for time, type_ in feed), maxlen=0)


def test_letters_have_given_disorder() -> None:
    feed = letters(5_000, types=3, disorder=0.7, seed=1)
    assert sorted(time for time, _ in feed) == list(range(5_000))
    newest, late, worst = 0, 0, 0
    for time, _ in feed:
        late += time < newest
        worst = max(worst, newest - time)
        newest = max(newest, time)
    assert 0.5 < late / 5_000 <= 0.75
    assert worst <= SLACK
